//! `cargo fuzz run --features libfuzzer ssh_agent`: see `provost_fuzz::ssh_agent`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| provost_fuzz::ssh_agent(data));
