//! The supervisor's way in: an `.init_array` entry that runs before `main` of whatever binary holds this crate.
//!
//! So an embedder sets nothing up in its `main`, and a test binary works as well as `provost` does.

use std::ffi::{c_char, c_int};

/// The first argument that makes this process a supervisor.
pub(crate) const MARK: &str = "__provost-sandbox-init";

/// Kept by the linker because [`linked`] reads it and [`crate::Sandbox`] calls that.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTRY: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = at_start;

/// Whether the entry is part of this binary. Reading the static here is what pulls its object file out of the rlib.
pub(crate) fn linked() -> bool {
    // The volatile read keeps the optimiser from replacing the reference with a constant.
    // SAFETY: `ENTRY` is a valid, initialised static.
    let entry = unsafe { std::ptr::read_volatile(&raw const ENTRY) };
    entry as usize != 0
}

extern "C" fn at_start(argc: c_int, argv: *const *const c_char, _envp: *const *const c_char) {
    if marked(argc, argv) {
        crate::init::main();
    }
}

/// glibc passes `argc` and `argv` to init functions.
#[cfg(target_env = "gnu")]
fn marked(argc: c_int, argv: *const *const c_char) -> bool {
    if argc != 2 || argv.is_null() {
        return false;
    }
    // SAFETY: glibc passes the program's own argument vector, which holds `argc` (2) C strings.
    let first = unsafe { std::ffi::CStr::from_ptr(*argv.add(1)) };
    first.to_bytes() == MARK.as_bytes()
}

/// Other C libraries (musl) pass nothing, so the kernel is asked.
#[cfg(not(target_env = "gnu"))]
fn marked(_argc: c_int, _argv: *const *const c_char) -> bool {
    let Ok(line) = std::fs::read("/proc/self/cmdline") else { return false };
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.nth(1) == Some(MARK.as_bytes()) && arguments.next() == Some(b"") && arguments.next().is_none()
}
