//! `cargo fuzz run --features libfuzzer ssh_sig`: see `provost_fuzz::ssh_sig`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::ssh_sig(data));
