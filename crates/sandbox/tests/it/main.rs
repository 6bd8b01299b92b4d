//! Containment with real parts: real kernels, real processes, real programs. Every refusal has a control under R0,
//! where the same attempt works.
#![allow(clippy::unwrap_used, reason = "a test's failure is a panic")]

mod basics;
mod caps;
mod files;
mod kernel;
mod lifecycle;
mod network;
mod ordinary;
mod output;
mod processes;
mod protected;
mod staged;
mod support;
mod tended;
mod toolchains;
