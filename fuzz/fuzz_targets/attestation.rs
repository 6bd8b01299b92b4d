//! `cargo fuzz run --features libfuzzer attestation`: see `provost_fuzz::attestation`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::attestation(data));
