//! `cargo fuzz run --features libfuzzer tests_ran`: see `provost_fuzz::tests_ran`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::tests_ran(data));
