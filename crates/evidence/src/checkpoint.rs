//! A checkpoint: the signed head of a log, which other people's tools for transparency logs read.
//!
//! Formats: <https://c2sp.org/tlog-checkpoint> within <https://c2sp.org/signed-note>. The text is three lines (the log's
//! origin, its size in decimal, its root in base64), an empty line, and one line with the signature:
//! `— ORIGIN base64(key hash ‖ signature)`. The key is named by the origin; its hash is the first four bytes of
//! SHA-256(name ‖ 0x0A ‖ 0x01 ‖ public key), 0x01 being Ed25519. Both formats allow more (extension lines, further
//! signatures); what this program writes has none, and nothing else is read.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use provost_core::id::RunId;

use crate::canonical::sha256_of;
use crate::keys::{SigningKey, VerifyingKey};
use crate::log::LogHead;

/// Largest checkpoint that is read, in bytes. A real one has about 250.
pub const CHECKPOINT_LIMIT: usize = 4096;

/// The kind of a signature in a signed note that is plain Ed25519.
const ED25519: u8 = 1;

/// Which log it is: a name that is also that of the log's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin(String);

/// The text does not name a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a log's origin is 1 to 200 visible ASCII characters without `+`")]
pub struct BadOrigin;

impl Origin {
    /// The log of a session: `provost/session/<id>`.
    pub fn session(id: &RunId) -> Self {
        Self(format!("provost/session/{id}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Origin {
    type Err = BadOrigin;
    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let fits = (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && b != b'+');
        if fits { Ok(Self(text.to_owned())) } else { Err(BadOrigin) }
    }
}

impl TryFrom<String> for Origin {
    type Error = BadOrigin;
    fn try_from(text: String) -> Result<Self, BadOrigin> {
        text.parse()
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why bytes are not the checkpoint of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Too large to be read.
    #[error("the checkpoint has {size} bytes; at most {CHECKPOINT_LIMIT} are read")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// Not a checkpoint, or not in the one spelling that this program writes.
    #[error(
        "not a checkpoint as this program writes it (origin, size, root, an empty line, one signature): {0}"
    )]
    Shape(&'static str),
    /// The head of another log.
    #[error("the checkpoint is of the log `{got}`; expected `{expected}`")]
    Origin {
        /// The log that is asked for.
        expected: Origin,
        /// The log that it names.
        got: Origin,
    },
    /// It names another key.
    #[error("the checkpoint is signed by another key")]
    WrongKey,
    /// The signature is not the key's over this text.
    #[error("the checkpoint's signature does not verify")]
    BadSignature,
}

/// The head of a log, and which log it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log.
    pub origin: Origin,
    /// Its size and root.
    pub log: LogHead,
}

/// What stands before the name of a signature's key: an em dash and a space.
const SIGNED_BY: &str = "\u{2014} ";

impl Checkpoint {
    /// What is signed: the three lines with their ends.
    fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.log.size, STANDARD.encode(self.log.root.bytes()))
    }

    /// The checkpoint, signed. The same key gives the same bytes.
    pub fn sign(&self, key: &SigningKey) -> Vec<u8> {
        let text = self.text();
        let signature = key.sign(text.as_bytes());
        self.noted(&text, key_hash(&self.origin, &key.verifying_key()), &signature)
    }

    fn noted(&self, text: &str, key: [u8; 4], signature: &[u8; 64]) -> Vec<u8> {
        let signature = STANDARD.encode([&key[..], signature].concat());
        format!("{text}\n{SIGNED_BY}{} {signature}\n", self.origin).into_bytes()
    }

    /// Reads the checkpoint of the log `origin`, signed by `key`.
    pub fn verify(bytes: &[u8], origin: &Origin, key: &VerifyingKey) -> Result<Self, CheckpointError> {
        let shape = CheckpointError::Shape;
        if bytes.len() > CHECKPOINT_LIMIT {
            return Err(CheckpointError::TooLarge { size: bytes.len() });
        }
        let whole = std::str::from_utf8(bytes).map_err(|_| shape("it is not UTF-8"))?;
        let mut lines = whole.split('\n');
        let mut line = || lines.next().ok_or_else(|| shape("a line is missing"));
        let got: Origin = line()?.parse().map_err(|_| shape("the first line names no log"))?;
        let size = line()?.parse().map_err(|_| shape("the second line is not a size"))?;
        let root = base64::<32>(line()?).ok_or_else(|| shape("the third line is not a root"))?;
        if !line()?.is_empty() {
            return Err(shape("the fourth line is not empty"));
        }
        let (_, signature) =
            line()?.rsplit_once(' ').ok_or_else(|| shape("the fifth line is no signature"))?;
        let signed = base64::<68>(signature)
            .and_then(|signed| {
                let (hash, signature) = signed.split_first_chunk::<4>()?;
                Some((*hash, <[u8; 64]>::try_from(signature).ok()?))
            })
            .ok_or_else(|| shape("the fifth line is no Ed25519 signature"))?;
        let checkpoint =
            Self { origin: got, log: LogHead { size, root: provost_core::digest::Digest::new(root) } };
        let text = checkpoint.text();
        // Another spelling of the same (a sign or zeros before the size, a further line) shows here.
        if checkpoint.noted(&text, signed.0, &signed.1) != bytes {
            return Err(shape("it is spelled otherwise, or holds more"));
        }
        if checkpoint.origin != *origin {
            return Err(CheckpointError::Origin { expected: origin.clone(), got: checkpoint.origin });
        }
        if signed.0 != key_hash(origin, key) {
            return Err(CheckpointError::WrongKey);
        }
        if !key.verifies(text.as_bytes(), &signed.1) {
            return Err(CheckpointError::BadSignature);
        }
        Ok(checkpoint)
    }
}

/// The key as other people's verifiers of signed notes take it (`vkey`): `NAME+HASH+base64(0x01 ‖ public key)`.
pub fn verifier_key(origin: &Origin, key: &VerifyingKey) -> String {
    let hash = key_hash(origin, key).map(|byte| format!("{byte:02x}")).concat();
    format!("{origin}+{hash}+{}", STANDARD.encode([&[ED25519], &key.to_bytes()[..]].concat()))
}

fn key_hash(origin: &Origin, key: &VerifyingKey) -> [u8; 4] {
    let hash = sha256_of(&[origin.0.as_bytes(), b"\n", &[ED25519], &key.to_bytes()]);
    let [a, b, c, d, ..] = *hash.bytes();
    [a, b, c, d]
}

fn base64<const N: usize>(text: &str) -> Option<[u8; N]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}
