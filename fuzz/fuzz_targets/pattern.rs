//! `cargo fuzz run --features libfuzzer pattern`: see `provost_fuzz::pattern`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::pattern(data));
