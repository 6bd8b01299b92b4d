//! `cargo fuzz run --features libfuzzer dsse`: see `provost_fuzz::dsse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::dsse(data));
