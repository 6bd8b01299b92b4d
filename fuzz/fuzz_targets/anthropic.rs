//! `cargo fuzz run --features libfuzzer anthropic`: see `provost_fuzz::anthropic`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::anthropic(data));
