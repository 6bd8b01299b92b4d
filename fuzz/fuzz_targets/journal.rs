//! `cargo fuzz run --features libfuzzer journal`: see `provost_fuzz::journal`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::journal(data));
