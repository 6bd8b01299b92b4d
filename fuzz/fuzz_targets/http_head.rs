//! `cargo fuzz run --features libfuzzer http_head`: see `provost_fuzz::http_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::http_head(data));
