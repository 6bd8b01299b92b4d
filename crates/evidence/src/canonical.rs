//! Canonical JSON (RFC 8785, JCS): one byte sequence for one value, whoever writes it.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use provost_core::digest::Digest;

/// A value that has no canonical JSON (a map key that is not a string, a number that JSON cannot hold).
#[derive(Debug, thiserror::Error)]
#[error("no canonical JSON: {0}")]
pub struct NotCanonical(#[from] serde_json::Error);

/// The canonical JSON of `value`.
pub fn to_canonical(value: &impl Serialize) -> Result<Vec<u8>, NotCanonical> {
    Ok(serde_json_canonicalizer::to_vec(value)?)
}

/// SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}

/// Where two byte strings first differ; `None` where they are equal.
pub(crate) fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    let common = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    Some(common)
}
