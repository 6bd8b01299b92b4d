//! `cargo fuzz run --features libfuzzer responses`: see `provost_fuzz::responses`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::responses(data));
