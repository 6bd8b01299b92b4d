//! `cargo fuzz run --features libfuzzer chat`: see `provost_fuzz::chat`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::chat(data));
