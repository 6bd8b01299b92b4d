//! Reading content while its digest is taken.

use std::io::{self, Read};

use provost_core::digest::Digest;
use sha2::{Digest as _, Sha256};

/// Passes on what it reads and keeps the digest and the size of it.
pub(super) struct Hashing<R> {
    inner: R,
    hash: Sha256,
    pub(super) size: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }

    /// Reads to the end, for nothing but the digest.
    pub(super) fn finish(mut self) -> io::Result<(Digest, u64)> {
        let mut rest = vec![0; 64 * 1024];
        while self.read(&mut rest)? > 0 {}
        Ok((Digest::new(self.hash.finalize().into()), self.size))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.size += count as u64;
        Ok(count)
    }
}

/// The digest of bytes at hand.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}
