//! Control groups of version 2, on a kernel that has them: Debian's own in an emulator, so that it does not matter what the
//! machine below has. The program in there is this one.

mod driver;
mod guest;
mod machine;

use std::path::PathBuf;

#[test]
fn control_groups_bound_what_commands_take() {
    let kernel = std::env::var_os("PROVOST_TEST_KERNEL").map(PathBuf::from).expect(
        "PROVOST_TEST_KERNEL names no kernel: run the tests by `./test`, which fetches Debian's and an emulator",
    );
    let said = machine::boot(&kernel, guest::TEST);
    println!("{said}");
    for word in [guest::ROOT, guest::ORDINARY] {
        assert!(said.contains(word), "the console does not say: {word}");
    }
}
