//! The encoding of all of OpenSSH's binary formats (RFC 4251, 5): numbers of four bytes, the largest first, and strings
//! with their length before them.

use crate::keys::VerifyingKey;

use super::ED25519;

/// What is left to read of some bytes. `None` of any method: they are not of the format.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.bytes(usize::try_from(length).ok()?)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.string()?).ok()
    }

    /// Exactly this string.
    pub(super) fn expect(&mut self, string: &str) -> Option<()> {
        (self.string()? == string.as_bytes()).then_some(())
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// All that is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Appends a string. The ones written here are far shorter than four gigabytes.
pub(super) fn put(out: &mut Vec<u8>, string: &[u8]) {
    out.extend(u32::try_from(string.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(string);
}

/// A public key as it stands in other formats (RFC 8709, 4).
pub(super) fn key_blob(key: &VerifyingKey) -> Vec<u8> {
    let mut blob = Vec::new();
    put(&mut blob, ED25519.as_bytes());
    put(&mut blob, &key.to_bytes());
    blob
}

/// A signature as it stands in other formats (RFC 8709, 6).
pub(super) fn signature_blob(signature: &[u8; 64]) -> Vec<u8> {
    let mut blob = Vec::new();
    put(&mut blob, ED25519.as_bytes());
    put(&mut blob, signature);
    blob
}

pub(super) fn read_signature(blob: &[u8]) -> Option<[u8; 64]> {
    let mut reader = Reader::new(blob);
    reader.expect(ED25519)?;
    let signature = reader.string()?.try_into().ok()?;
    reader.end()?;
    Some(signature)
}
