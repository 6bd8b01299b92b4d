//! Ed25519 keys (RFC 8032), in the files that other people's tools read and write.
//!
//! A private key is PKCS#8 in PEM (RFC 5958, RFC 8410), as `openssl genpkey -algorithm ed25519` writes it; a public key
//! is SubjectPublicKeyInfo in PEM (RFC 8410), as `openssl pkey -pubout` writes it.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::KeypairBytes;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
};
use ed25519_dalek::{Signature, Signer as _};
use serde::Serialize;

use provost_core::digest::{BadDigest, Digest};

use crate::canonical::{sha256, to_canonical};

/// Largest key file that is read. A real one has less than 200 bytes.
const KEY_FILE_LIMIT: u64 = 16 * 1024;

/// A key that cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not an Ed25519 private key.
    #[error("not an Ed25519 private key in PKCS#8 PEM (`-----BEGIN PRIVATE KEY-----`)")]
    NotPrivate,
    /// The text is not an Ed25519 public key.
    #[error("not an Ed25519 public key in PEM (`-----BEGIN PUBLIC KEY-----`)")]
    NotPublic,
    /// The public key is one of the few for which a signature can be made without the private key.
    #[error("the public key is of small order: anyone can sign for it")]
    Weak,
    /// The key has no encoding. It cannot happen with keys that this module made.
    #[error("the key cannot be written as PEM")]
    Encode,
    /// The system gave no randomness.
    #[error("no randomness from the system: {0}")]
    Randomness(String),
    /// A key file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A key file holds something else.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KeyError>,
    },
}

/// Names a public key: SHA-256 of the canonical JSON of its type, scheme and value.
///
/// The same formula as securesystemslib and in-toto use (`SSlibKey.from_crypto(key).keyid`), so that their verifiers
/// find the key for a signature of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Digest);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for KeyId {
    type Err = BadDigest;
    fn from_str(text: &str) -> Result<Self, BadDigest> {
        Ok(Self(text.parse()?))
    }
}

#[derive(Serialize)]
struct Named<'a> {
    keytype: &'a str,
    scheme: &'a str,
    keyval: Value,
}

#[derive(Serialize)]
struct Value {
    public: String,
}

/// A private key. It never appears in `Debug` output, and is wiped from memory when dropped.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(private half of {})", self.verifying_key().key_id())
    }
}

impl SigningKey {
    /// A fresh key from the system's randomness.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| KeyError::Randomness(error.to_string()))?;
        Ok(Self::from_seed(seed))
    }

    /// The key of 32 random bytes (RFC 8032, 5.1.5).
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// Reads a private key from PKCS#8 PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        ed25519_dalek::SigningKey::from_pkcs8_pem(text.trim_ascii())
            .map(Self)
            .map_err(|_| KeyError::NotPrivate)
    }

    /// Reads a private key from a file of PKCS#8 PEM.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        read_key(path, Self::from_pem)
    }

    /// Writes this key to a new file that only its owner may read (mode 0600). An existing file is never replaced.
    pub fn write_private(&self, path: &Path) -> Result<(), KeyError> {
        // Version 1 of PKCS#8, without the public half: OpenSSL 3 does not read version 2.
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = pair.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Encode)?;
        let write = || {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(pem.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| KeyError::File { path: path.to_owned(), source })
    }

    /// The public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    /// Signs `message` (pure Ed25519).
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({})", self.key_id())
    }
}

impl VerifyingKey {
    /// Reads a public key from its 32 bytes (RFC 8032, 5.1.2). Keys of small order are refused.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        Self::strong(ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::NotPublic)?)
    }

    /// Reads a public key from SubjectPublicKeyInfo PEM. Keys of small order are refused.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        Self::strong(
            ed25519_dalek::VerifyingKey::from_public_key_pem(text.trim_ascii())
                .map_err(|_| KeyError::NotPublic)?,
        )
    }

    /// Reads a public key from a file of SubjectPublicKeyInfo PEM.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        read_key(path, Self::from_pem)
    }

    fn strong(key: ed25519_dalek::VerifyingKey) -> Result<Self, KeyError> {
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(Self(key)) }
    }

    /// This key as SubjectPublicKeyInfo PEM.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        self.0.to_public_key_pem(LineEnding::LF).map_err(|_| KeyError::Encode)
    }

    /// The 32 bytes of this key (RFC 8032, 5.1.2).
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The name of this key.
    pub fn key_id(&self) -> KeyId {
        let public = self.0.as_bytes().iter().fold(String::new(), |mut text, byte| {
            use fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        });
        let named = Named { keytype: "ed25519", scheme: "ed25519", keyval: Value { public } };
        // Three constant keys and strings of ASCII always have canonical JSON.
        KeyId(sha256(&to_canonical(&named).unwrap_or_default()))
    }

    /// Whether `signature` is this key's over `message`.
    ///
    /// Strict: a signature whose scalar is not reduced, or whose point is of small order, is refused, so that every
    /// verifier agrees on it (RFC 8032 leaves room here).
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

fn read_key<K>(path: &Path, parse: impl Fn(&str) -> Result<K, KeyError>) -> Result<K, KeyError> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(KEY_FILE_LIMIT).read_to_string(&mut text))
        .map_err(|source| KeyError::File { path: path.to_owned(), source })?;
    parse(&text).map_err(|source| KeyError::Content { path: path.to_owned(), source: Box::new(source) })
}
