//! Containment with real parts: real kernels, real processes, real programs. Every refusal has a control under R0,
//! where the same attempt works.
#![allow(clippy::unwrap_used, reason = "a test's failure is a panic")]

mod basics;
mod cache;
mod caps;
mod egress;
mod engines;
mod files;
mod git;
mod groups;
mod hosts;
mod images;
mod kernel;
mod languages;
mod leaks;
mod lifecycle;
mod network;
mod ordinary;
mod output;
mod processes;
mod programs;
mod protected;
mod reported;
mod require;
mod running;
mod rust_image;
mod selftest;
mod staged;
mod support;
mod tended;
mod toolchains;
mod unix;
