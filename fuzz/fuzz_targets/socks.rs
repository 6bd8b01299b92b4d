//! `cargo fuzz run --features libfuzzer socks`: see `provost_fuzz::socks`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::socks(data));
