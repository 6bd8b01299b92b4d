//! `cargo fuzz run --features libfuzzer patch`: see `provost_fuzz::patch`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::patch(data));
