//! Evidence: canonical JSON, hash chain, keys, signatures, the bundle format and its verification.
//!
//! No network, nothing async, nothing of the agent: a verifier needs this crate and the recipient's own repository.

pub mod authorization;
pub mod bundle;
pub mod canonical;
pub mod chain;
pub mod checkpoint;
pub mod content;
pub mod dsse;
pub mod export;
pub mod git;
pub mod in_toto;
pub mod keys;
pub mod log;
mod net;
pub mod patch;
mod patch_lines;
pub mod provenance;
pub mod recorded;
pub mod replay;
pub mod signer;
pub mod ssh;
pub mod statement;
pub mod test_result;
pub mod tree;
pub mod trust;
pub mod verify;
pub mod vsa;
