//! `cargo fuzz run --features libfuzzer event`: see `provost_fuzz::event`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::event(data));
