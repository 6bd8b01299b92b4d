//! `cargo fuzz run --features libfuzzer events_log`: see `provost_fuzz::events_log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::events_log(data));
