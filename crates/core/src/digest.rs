//! Digests as they stand in events.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A SHA-256, written as 64 lower-case hex digits.
///
/// Content is committed to by a salted digest, SHA-256(salt ‖ content), the salt being the stream's own; events are
/// chained by an unsalted one. The field that holds a digest says which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The 64 digits, made without allocating: a journal holds several digests an event.
struct Hex([u8; 64]);

impl Hex {
    fn of(bytes: &[u8; 32]) -> Self {
        let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 15);
        }
        Self(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Hex::of(&self.0).as_str())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Hex::of(&self.0).as_str())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Digest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a SHA-256 in 64 lower-case hex digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// What each byte is as a hex digit; more than 15 where it is none.
const NIBBLES: [u8; 256] = {
    let mut table = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit as usize] as usize] = digit;
        digit += 1;
    }
    table
};

impl FromStr for Digest {
    type Err = BadDigest;
    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let bad = || BadDigest(text.chars().take(80).collect());
        let raw = text.as_bytes();
        if raw.len() != 64 {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        let mut all = 0;
        for (slot, pair) in bytes.iter_mut().zip(raw.chunks_exact(2)) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            all |= high | low;
            *slot = high << 4 | low & 15;
        }
        if all > 15 {
            return Err(bad());
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
