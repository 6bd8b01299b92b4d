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
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(..)")
    }
}
