//! `cargo fuzz run --features libfuzzer authorization`: see `provost_fuzz::authorization`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::authorization(data));
