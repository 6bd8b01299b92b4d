//! `cargo fuzz run --features libfuzzer policy`: see `provost_fuzz::policy`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::policy(data));
