//! Canonical JSON (RFC 8785, JCS): one byte sequence for one value, whoever writes it.

mod write;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use provost_core::digest::Digest;

/// A value that has no canonical JSON (a map key that is not a string, a number that JSON cannot hold).
#[derive(Debug, thiserror::Error)]
#[error("no canonical JSON: {0}")]
pub struct NotCanonical(#[from] serde_json::Error);

/// Largest integer that every reader of JSON holds exactly (RFC 7493, 2.2).
const LARGEST: u64 = (1 << 53) - 1;

/// The canonical JSON of `value`.
///
/// Numbers are written as doubles are. An integer beyond 2^53 - 1 is an error: rounded to the next double it would
/// share its bytes, and so its hash, with other numbers.
pub fn to_canonical(value: &impl Serialize) -> Result<Vec<u8>, NotCanonical> {
    let mut writer = write::Writer::new();
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

/// SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}

/// SHA-256 of `parts`, one behind the other.
pub(crate) fn sha256_of(parts: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    Digest::new(hasher.finalize().into())
}

/// The first integer of a canonical JSON text that may be a rounded one.
fn inexact(json: &[u8]) -> Option<String> {
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at += string_len(&json[at..]),
            b'0'..=b'9' => {
                let part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-');
                let len = json[at..].iter().take_while(part).count();
                let digits = String::from_utf8_lossy(&json[at..at + len]);
                let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
                if is_integer && !digits.parse().is_ok_and(|number: u64| number <= LARGEST) {
                    return Some(digits.into_owned());
                }
                at += len;
            }
            _ => at += 1,
        }
    }
    None
}

/// Length of the string that `json` begins with, quotes included.
fn string_len(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

/// Where two byte strings first differ; `None` where they are equal.
pub(crate) fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    let common = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    Some(common)
}
