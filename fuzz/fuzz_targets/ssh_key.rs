//! `cargo fuzz run --features libfuzzer ssh_key`: see `provost_fuzz::ssh_key`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::ssh_key(data));
