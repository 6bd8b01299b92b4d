//! What kind of failure a verification ended with, for programs.

use serde::{Serialize, Serializer};

use super::ClaimId;
use crate::dsse::DsseError;

/// The kind of what is wrong first. Its number is what `provost verify --json` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Nothing is wrong.
    Verified,
    /// Something is not in its format.
    Malformed,
    /// A key that is not trusted, or another one than has to sign.
    Untrusted,
    /// Expired, not yet valid, or revoked.
    OutOfTime,
    /// Another audience, task, commit, scope or contract.
    Other,
    /// The log is not whole, or says different things.
    Log,
    /// A change out of scope, or of something protected.
    Scope,
    /// The patch, the content and the trees do not fit together.
    Patch,
    /// The work is not accepted.
    Acceptance,
    /// A command did something else when it ran again.
    Replay,
    /// A dangerous change that nobody allowed.
    Danger,
    /// Something that is needed is not there.
    CannotCheck,
}

impl Code {
    /// All of them, by number.
    pub const ALL: [Self; 12] = [
        Self::Verified,
        Self::Malformed,
        Self::Untrusted,
        Self::OutOfTime,
        Self::Other,
        Self::Log,
        Self::Scope,
        Self::Patch,
        Self::Acceptance,
        Self::Replay,
        Self::Danger,
        Self::CannotCheck,
    ];

    /// Its number.
    pub fn number(self) -> u16 {
        match self {
            Self::Verified => 0,
            Self::Malformed => 10,
            Self::Untrusted => 11,
            Self::OutOfTime => 12,
            Self::Other => 13,
            Self::Log => 14,
            Self::Scope => 15,
            Self::Patch => 16,
            Self::Acceptance => 17,
            Self::Replay => 18,
            Self::Danger => 20,
            Self::CannotCheck => 30,
        }
    }

    /// What it stands for, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Malformed => "malformed",
            Self::Untrusted => "untrusted or wrong key",
            Self::OutOfTime => "expired, not yet valid or revoked",
            Self::Other => "wrong audience, task, commit, scope or contract",
            Self::Log => "inconsistent log",
            Self::Scope => "out of scope or protected",
            Self::Patch => "patch and tree do not fit",
            Self::Acceptance => "not accepted",
            Self::Replay => "replay came out otherwise",
            Self::Danger => "dangerous change",
            Self::CannotCheck => "cannot be checked",
        }
    }

    /// The code with this number.
    pub fn of_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The kind of failure that a claim stands for, as long as nothing more is known of it.
    pub(super) fn of(claim: ClaimId) -> Self {
        match claim {
            ClaimId::Statement | ClaimId::Files | ClaimId::Authorization => Self::Malformed,
            ClaimId::Signature => Self::Untrusted,
            ClaimId::Revocation | ClaimId::Window => Self::OutOfTime,
            ClaimId::Request | ClaimId::Contract | ClaimId::Base => Self::Other,
            ClaimId::Chain
            | ClaimId::Head
            | ClaimId::Log
            | ClaimId::Policy
            | ClaimId::State
            | ClaimId::Acts
            | ClaimId::Provenance
            | ClaimId::TestResult => Self::Log,
            ClaimId::Scope | ClaimId::Names | ClaimId::Judges => Self::Scope,
            ClaimId::Blobs | ClaimId::Patch | ClaimId::Tree => Self::Patch,
            ClaimId::Gate => Self::Acceptance,
            ClaimId::Danger => Self::Danger,
        }
    }

    /// Why an envelope does not count.
    pub(super) fn of_envelope(error: &DsseError) -> Self {
        match error {
            DsseError::WrongKey { .. } | DsseError::BadSignature { .. } | DsseError::NoSignature => {
                Self::Untrusted
            }
            _ => Self::Malformed,
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.number())
    }
}
