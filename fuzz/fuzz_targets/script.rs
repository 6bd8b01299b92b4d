//! `cargo fuzz run --features libfuzzer script`: see `provost_fuzz::script`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::script(data));
