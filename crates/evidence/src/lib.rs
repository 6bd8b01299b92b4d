//! Evidence: canonical JSON, hash chain, keys, signatures, the bundle format and its verification.
//!
//! No network, nothing async, nothing of the agent: a verifier needs this crate and the recipient's own repository.

pub mod bundle;
pub mod canonical;
pub mod chain;
pub mod checkpoint;
pub mod content;
pub mod danger;
pub mod dsse;
pub mod export;
pub mod git;
pub mod keys;
pub mod links;
pub mod log;
pub mod names;
mod net;
pub mod patch;
mod patch_lines;
pub mod recorded;
pub mod replay;
#[expect(dead_code, reason = "the verification of sessions, which is to come, holds changes against it")]
mod scope;
pub mod statement;
pub mod tree;
pub mod verify;
