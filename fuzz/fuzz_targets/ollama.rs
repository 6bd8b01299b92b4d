//! `cargo fuzz run --features libfuzzer ollama`: see `provost_fuzz::ollama`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::ollama(data));
