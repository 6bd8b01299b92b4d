//! `cargo fuzz run --features libfuzzer client_hello`: see `provost_fuzz::client_hello`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::client_hello(data));
