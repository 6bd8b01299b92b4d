//! OpenSSH's public keys: a line of a `.pub` file, and the fingerprint by which people know a key.
//!
//! Formats: sshd(8), "AUTHORIZED_KEYS FILE FORMAT"; RFC 8709, 4.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use provost_core::digest::Digest;
use provost_core::text::{Lines, visible};

use super::ED25519;
use super::wire::{Reader, key_blob};
use crate::canonical::sha256;
use crate::keys::{KeyError, VerifyingKey};

/// Why a text is no public key that can be used.
#[derive(Debug, thiserror::Error)]
pub enum PublicKeyError {
    /// Not `KIND BASE64`.
    #[error("not an OpenSSH public key (`ssh-ed25519 AAAA… comment`)")]
    Shape,
    /// A key of another kind.
    #[error("the key is of the kind `{0}`; only `{ED25519}` is used")]
    Kind(String),
    /// The key itself is bad.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Reads a public key from its line: kind, key, and a comment that may be left out.
pub fn read(line: &str) -> Result<VerifyingKey, PublicKeyError> {
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(blob)) = (words.next(), words.next()) else { return Err(PublicKeyError::Shape) };
    from_words(kind, blob)
}

/// A kind of key as it begins a line's key. What begins an option or a name looks otherwise.
pub(crate) fn is_kind(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-", "rsa-"].iter().any(|start| word.starts_with(start))
        && !word.contains(['=', ',', '"'])
}

/// Reads a public key from its kind and its base64.
pub(crate) fn from_words(kind: &str, blob: &str) -> Result<VerifyingKey, PublicKeyError> {
    if kind != ED25519 {
        return Err(if is_kind(kind) {
            PublicKeyError::Kind(visible(kind, Lines::Escape).chars().take(80).collect())
        } else {
            PublicKeyError::Shape
        });
    }
    let blob = STANDARD.decode(blob).map_err(|_| PublicKeyError::Shape)?;
    from_blob(&blob)
}

pub(super) fn from_blob(blob: &[u8]) -> Result<VerifyingKey, PublicKeyError> {
    let mut reader = Reader::new(blob);
    let key = reader.expect(ED25519).and_then(|()| reader.string()).and_then(|key| key.try_into().ok());
    match (key, reader.end()) {
        (Some(key), Some(())) => Ok(VerifyingKey::from_bytes(key)?),
        _ => Err(PublicKeyError::Shape),
    }
}

/// The key as `ssh-keygen` writes it to a `.pub` file, without a comment and without a line feed.
pub fn line(key: &VerifyingKey) -> String {
    format!("{ED25519} {}", STANDARD.encode(key_blob(key)))
}

/// The name of a public key among people who use OpenSSH: `SHA256:` and 43 characters of base64, as `ssh-keygen -l` shows
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(Digest);

/// The text is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint (`SHA256:` and 43 characters of base64)")]
pub struct BadFingerprint;

impl Fingerprint {
    /// That of `key`.
    pub fn of(key: &VerifyingKey) -> Self {
        Self::of_blob(&key_blob(key))
    }

    /// That of a key of whatever kind, as it stands in other formats.
    pub(super) fn of_blob(blob: &[u8]) -> Self {
        Self(sha256(blob))
    }

    /// The one that is this SHA-256; `None` where the bytes are none.
    pub(super) fn of_sha256(bytes: &[u8]) -> Option<Self> {
        Some(Self(Digest::new(bytes.try_into().ok()?)))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", STANDARD_NO_PAD.encode(self.0.bytes()))
    }
}

impl FromStr for Fingerprint {
    type Err = BadFingerprint;
    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        text.strip_prefix("SHA256:")
            .and_then(|base64| STANDARD_NO_PAD.decode(base64).ok()?.try_into().ok())
            .map(|bytes| Self(Digest::new(bytes)))
            .ok_or(BadFingerprint)
    }
}
