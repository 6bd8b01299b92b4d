//! `cargo fuzz run --features libfuzzer sse`: see `provost_fuzz::sse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::sse(data));
