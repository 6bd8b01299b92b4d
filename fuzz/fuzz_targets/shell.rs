//! `cargo fuzz run --features libfuzzer shell`: see `provost_fuzz::shell`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::shell(data));
