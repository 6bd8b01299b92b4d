//! Tests of the providers: pure parts, then both wires over loopback against the rehearsal server.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod agent_runtime;
mod bodies;
mod catalogue;
mod contract;
mod decoding;
mod loopback;
mod peers;
mod planner;
mod planner_processes;
mod raw_server;
mod rehearsal;
mod retrying;
mod scripted;
mod sigv4;
mod sse;
mod support;
