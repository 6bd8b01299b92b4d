//! `cargo fuzz run --features libfuzzer statement`: see `provost_fuzz::statement`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::statement(data));
