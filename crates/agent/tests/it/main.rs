//! The driver with a scripted model: real store, real workspace, real sandbox.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod approvals;
mod durability;
mod support;
mod workspace;
