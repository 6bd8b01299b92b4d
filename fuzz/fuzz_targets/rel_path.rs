//! `cargo fuzz run --features libfuzzer rel_path`: see `provost_fuzz::rel_path`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::rel_path(data));
