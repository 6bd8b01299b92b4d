//! Naming a content as git does, piece by piece.

pub use provost_evidence::tree::BlobOid;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

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
