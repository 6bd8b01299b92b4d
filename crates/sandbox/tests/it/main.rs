//! Containment with real parts: real kernels, real processes, real programs. Every refusal has a control under R0,
//! where the same attempt works.
#![allow(clippy::unwrap_used, reason = "a test's failure is a panic")]

mod basics;
mod cache;
mod caps;
mod files;
mod kernel;
mod lifecycle;
mod network;
mod ordinary;
mod output;
mod processes;
mod protected;
mod require;
mod selftest;
mod support;
mod tended;
mod toolchains;
