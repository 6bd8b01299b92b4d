//! Names of contents as git gives them.

use std::fmt;

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

/// The name of a content as a git blob, in both of git's object formats.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobOid {
    /// In the SHA-1 format.
    pub sha1: [u8; 20],
    /// In the SHA-256 format.
    pub sha256: [u8; 32],
}

impl BlobOid {
    /// The name of `content`: what `git hash-object` prints.
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = BlobHasher::new(content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }
}

impl fmt::Debug for BlobOid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlobOid(")?;
        self.sha1.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Names a content piece by piece.
pub(crate) struct BlobHasher {
    sha1: Sha1,
    sha256: Sha256,
}

impl BlobHasher {
    /// For a content of this many bytes.
    pub(crate) fn new(size: u64) -> Self {
        let mut hasher = Self { sha1: Sha1::new(), sha256: Sha256::new() };
        hasher.update(format!("blob {size}\0").as_bytes());
        hasher
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.sha1.update(piece);
        self.sha256.update(piece);
    }

    pub(crate) fn finish(self) -> BlobOid {
        BlobOid { sha1: self.sha1.finalize().into(), sha256: self.sha256.finalize().into() }
    }
}
