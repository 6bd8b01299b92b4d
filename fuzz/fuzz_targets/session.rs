//! `cargo fuzz run --features libfuzzer session`: see `provost_fuzz::session`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::session(data));
