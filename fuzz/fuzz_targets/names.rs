//! `cargo fuzz run --features libfuzzer names`: see `provost_fuzz::names`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::names(data));
