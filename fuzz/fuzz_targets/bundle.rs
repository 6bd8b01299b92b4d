//! `cargo fuzz run --features libfuzzer bundle`: see `provost_fuzz::bundle`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::bundle(data));
