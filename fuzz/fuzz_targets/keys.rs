//! `cargo fuzz run --features libfuzzer keys`: see `provost_fuzz::keys`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::keys(data));
