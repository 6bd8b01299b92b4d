//! `cargo fuzz run --features libfuzzer exit_record`: see `provost_fuzz::exit_record`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::exit_record(data));
