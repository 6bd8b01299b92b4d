//! Salted digests of content.

use std::fmt;

use sha2::{Digest as _, Sha256};

use provost_core::digest::Digest;

/// A stream's random salt. With it a digest commits to content; without it nothing can be guessed from the digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt([u8; 32]);

impl Salt {
    /// Wraps 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// SHA-256(salt ‖ content).
    pub fn digest(&self, content: &[u8]) -> Digest {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(content);
        Digest::new(hasher.finalize().into())
    }

    /// The same of content that comes in pieces, and of each of its beginnings.
    pub fn running(&self) -> RunningDigest {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        RunningDigest { hasher, bytes: 0 }
    }
}

/// A salted digest of content that grows.
///
/// ```
/// use provost_evidence::content::Salt;
/// let salt = Salt::new([7; 32]);
/// let mut running = salt.running();
/// running.update(b"a lot");
/// assert_eq!(running.digest(), salt.digest(b"a lot"));
/// running.update(b" more");
/// assert_eq!((running.digest(), running.bytes()), (salt.digest(b"a lot more"), 10));
/// ```
#[derive(Clone)]
pub struct RunningDigest {
    hasher: Sha256,
    bytes: u64,
}

impl RunningDigest {
    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of what came so far.
    pub fn digest(&self) -> Digest {
        Digest::new(self.hasher.clone().finalize().into())
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(..)")
    }
}
