//! Digests as they stand in events.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A SHA-256, written as 64 lower-case hex digits.
///
/// Content is committed to by a salted digest, SHA-256(salt ‖ content), the salt being the stream's own; events are
/// chained by an unsalted one. The field that holds a digest says which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 in 64 lower-case hex digits")]
pub struct BadDigest(String);

impl Digest {
    /// What the first event of a stream names as its predecessor.
    pub const ZERO: Self = Self([0; 32]);

    /// Wraps the 32 bytes of a SHA-256.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hex digits, for people. Never compare these.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = BadDigest;
    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let bad = || BadDigest(text.chars().take(80).collect());
        let raw = text.as_bytes();
        if raw.len() != 64 {
            return Err(bad());
        }
        let nibble = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (slot, pair) in bytes.iter_mut().zip(raw.chunks_exact(2)) {
            let (Some(high), Some(low)) = (nibble(pair[0]), nibble(pair[1])) else {
                return Err(bad());
            };
            *slot = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = BadDigest;
    fn try_from(text: String) -> Result<Self, BadDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// A tree of files, named as git names it: the id of the tree object, in both of git's object formats.
///
/// Recompute the first with `git write-tree` or `git rev-parse REV:SCOPE` in an ordinary repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeDigest {
    /// Tree id in git's SHA-1 object format, 40 hex digits.
    pub sha1: String,
    /// Tree id in git's SHA-256 object format.
    pub sha256: Digest,
}

impl fmt::Display for TreeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sha1)
    }
}
