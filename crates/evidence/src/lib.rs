//! Evidence: canonical JSON, hash chain, keys, signatures, the bundle format and its verification.
//!
//! No network, nothing async, nothing of the agent: a verifier needs this crate and the recipient's own repository.

pub mod canonical;
pub mod chain;
pub mod content;
pub mod dsse;
pub mod keys;
