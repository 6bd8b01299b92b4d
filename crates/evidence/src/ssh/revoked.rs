//! Keys that are revoked: one by one, or as OpenSSH's key revocation lists name them.
//!
//! Format: OpenSSH's `PROTOCOL.krl`, as `ssh-keygen -k` writes it.

use std::collections::BTreeSet;

use sha1::{Digest as _, Sha1};

use super::public::Fingerprint;
use super::wire::{Reader, key_blob};
use crate::keys::VerifyingKey;

/// What a list begins with.
const MAGIC: &[u8] = b"SSHKRL\n\0";
/// The only version of the format.
const VERSION: u32 = 1;
/// Version of the list, time of its making and flags, eight bytes each.
const NUMBERS: usize = 24;

const CERTIFICATES: u8 = 1;
const KEYS: u8 = 2;
const SHA1: u8 = 3;
const SHA256: u8 = 5;

/// Why a list is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKrl {
    /// Not of the format.
    #[error("not an OpenSSH key revocation list that is whole (`ssh-keygen -k` makes one)")]
    Shape,
    /// A newer format.
    #[error("an OpenSSH key revocation list of the version {0}; the version {VERSION} is read")]
    Version(u32),
    /// It holds what cannot be heeded here, and what is not heeded must not look so.
    #[error(
        "an OpenSSH key revocation list with a section of the kind {0}, which is not read; keys, SHA-1 and SHA-256 are"
    )]
    Section(u8),
}

/// Public keys that count no longer, by what they are known by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevokedKeys {
    sha256: BTreeSet<Fingerprint>,
    sha1: BTreeSet<[u8; 20]>,
}

impl RevokedKeys {
    /// Whether these bytes are meant to be a list of OpenSSH's.
    pub fn is_krl(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads a list of OpenSSH's. What it says of certificates is left out: a key here is never one.
    pub fn of_krl(bytes: &[u8]) -> Result<Self, BadKrl> {
        let mut reader = Reader::new(bytes);
        if reader.bytes(MAGIC.len()) != Some(MAGIC) {
            return Err(BadKrl::Shape);
        }
        match reader.number() {
            Some(VERSION) => {}
            Some(other) => return Err(BadKrl::Version(other)),
            None => return Err(BadKrl::Shape),
        }
        let _ = reader.bytes(NUMBERS).ok_or(BadKrl::Shape)?;
        let (_reserved, _comment) =
            (reader.string().ok_or(BadKrl::Shape)?, reader.string().ok_or(BadKrl::Shape)?);
        let mut keys = Self::default();
        while let Some(kind) = reader.bytes(1) {
            let section = reader.string().ok_or(BadKrl::Shape)?;
            keys.section(kind[0], Reader::new(section))?;
        }
        Ok(keys)
    }

    fn section(&mut self, kind: u8, mut section: Reader<'_>) -> Result<(), BadKrl> {
        match kind {
            CERTIFICATES => return Ok(()),
            KEYS | SHA1 | SHA256 => {}
            other => return Err(BadKrl::Section(other)),
        }
        while !section.is_at_end() {
            let name = section.string().ok_or(BadKrl::Shape)?;
            match kind {
                KEYS => drop(self.sha256.insert(Fingerprint::of_blob(name))),
                SHA1 => drop(self.sha1.insert(name.try_into().map_err(|_| BadKrl::Shape)?)),
                _ => drop(self.sha256.insert(Fingerprint::of_sha256(name).ok_or(BadKrl::Shape)?)),
            }
        }
        Ok(())
    }

    /// Revokes one more.
    pub fn insert(&mut self, key: Fingerprint) {
        self.sha256.insert(key);
    }

    /// Whether `key` is revoked.
    pub fn contains(&self, key: &VerifyingKey) -> bool {
        let sha1 = || -> [u8; 20] { Sha1::digest(key_blob(key)).into() };
        self.sha256.contains(&Fingerprint::of(key)) || (!self.sha1.is_empty() && self.sha1.contains(&sha1()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sha256.len() + self.sha1.len()
    }
}
