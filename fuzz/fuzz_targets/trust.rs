//! `cargo fuzz run --features libfuzzer trust`: see `provost_fuzz::trust`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::trust(data));
