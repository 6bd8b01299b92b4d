//! `cargo fuzz run --features libfuzzer gemini`: see `provost_fuzz::gemini`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::gemini(data));
