//! `cargo fuzz run --features libfuzzer arguments`: see `provost_fuzz::arguments`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::arguments(data));
