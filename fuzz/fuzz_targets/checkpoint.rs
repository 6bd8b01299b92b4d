//! `cargo fuzz run --features libfuzzer checkpoint`: see `provost_fuzz::checkpoint`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::checkpoint(data));
