//! `cargo fuzz run --features libfuzzer dns_query`: see `provost_fuzz::dns_query`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::dns_query(data));
