//! Whom a recipient or a runner trusts: a folder of their own, never a part of what is checked.
//!
//! | name | what it is |
//! | --- | --- |
//! | `allowed_signers` | Ed25519 keys with their uses and times, as `ssh-keygen -Y verify -f` reads them |
//! | `NAME.pem` | the public key of an authority (SubjectPublicKeyInfo) |
//! | `revoked_keys` | keys that count no longer: an OpenSSH public key or its `SHA256:` fingerprint a line; or an OpenSSH key revocation list (`ssh-keygen -k`) |
//! | `revoked` | authorizations that count no longer: a session's name or the SHA-256 of its signed bytes a line |
//! | `trust.toml` | `threshold = 2`: how many authorities have to sign; `clock_skew = "30s"` |
//!
//! Each may be missing. Anything else is refused, so that a revocation under a wrong name is not overlooked; only names
//! that begin with a dot are left alone. Lines that begin with `#` are comments.

mod allowed;
mod folder;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use provost_core::digest::Digest;
use provost_core::id::RunId;
use provost_core::text::{Lines, visible};

use crate::keys::{KeyError, VerifyingKey};
use crate::ssh::public::{self, Fingerprint};
use crate::ssh::revoked::{BadKrl, RevokedKeys};

/// Name of the file of keys with their uses and times.
pub const ALLOWED_SIGNERS: &str = "allowed_signers";
/// Name of the file of keys that count no longer.
pub const REVOKED_KEYS: &str = "revoked_keys";
/// Name of the file of authorizations that count no longer.
pub const REVOKED: &str = "revoked";
/// Name of the file of settings.
pub const SETTINGS: &str = "trust.toml";

/// Most keys that are trusted or revoked.
const KEYS_LIMIT: usize = 1000;
/// Longest `clock_skew`.
const SKEW_LIMIT: Duration = Duration::from_hours(24);

/// A folder that cannot be read, or does not say clearly whom it trusts.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// Something that does not belong there.
    #[error(
        "{}: not a file of a trust folder; these are `{ALLOWED_SIGNERS}`, `NAME.pem`, `{REVOKED_KEYS}`, `{REVOKED}` and \
         `{SETTINGS}`",
        path.display()
    )]
    Unexpected {
        /// What is there.
        path: PathBuf,
    },
    /// A link, a folder or a special file in the place of a file.
    #[error("{}: not a regular file; links are not followed", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// More than is read.
    #[error("{}: {what}", path.display())]
    TooLarge {
        /// File or folder.
        path: PathBuf,
        /// What there is too much of, and the limit.
        what: String,
    },
    /// A line that cannot be understood, or asks for something that is not done.
    #[error("{}: line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A file of PEM that is no key.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyError,
    },
    /// A key revocation list that cannot be heeded whole.
    #[error("{}: {source}", path.display())]
    Krl {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadKrl,
    },
    /// The settings say something else than settings can.
    #[error("{}: {what}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// To authorize a session.
    Authority,
    /// To say that a session's result was verified.
    Reviewer,
}

impl Role {
    /// The namespace of this use, in `allowed_signers` and in SSH signatures.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Authority => "provost-authorization",
            Self::Reviewer => "provost-review",
        }
    }
}

/// Why a key does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Distrust {
    /// It is not in the folder.
    #[error("it is not among the trusted keys")]
    Unknown,
    /// It is there for another use.
    #[error("it is trusted for another use only (`namespaces`)")]
    OtherRole,
    /// It counts from a later time on.
    #[error("it is not valid yet at the time in question (`valid-after`)")]
    NotYet,
    /// It counted until an earlier time.
    #[error("it was no longer valid at the time in question (`valid-before`)")]
    Expired,
    /// It is revoked.
    #[error("it is revoked (`{REVOKED_KEYS}`)")]
    Revoked,
}

/// Keys that signed and do not count, and why, for the end of a message.
pub(crate) fn reasons(others: &[(String, Distrust)]) -> String {
    let mut text = String::new();
    for (key, why) in others {
        text.push_str(&format!("; {key}: {why}"));
    }
    text
}

/// A key that is trusted, for what and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    /// The key.
    pub key: VerifyingKey,
    /// Whose it is: the principals of its line, or the name of its file.
    pub who: String,
    uses: Uses,
    /// In seconds since the Unix epoch; the first second that counts.
    after: Option<u64>,
    /// The last second that counts.
    before: Option<u64>,
}

/// What a key is trusted for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Uses {
    Only(Role),
    Namespaces(allowed::Patterns),
    Any,
}

impl TrustedKey {
    fn counts(&self, role: Role, at_ms: u64) -> Result<&Self, Distrust> {
        let is_for = match &self.uses {
            Uses::Only(only) => *only == role,
            Uses::Namespaces(patterns) => patterns.matches(role.namespace()),
            Uses::Any => true,
        };
        let second = at_ms / 1000;
        if !is_for {
            Err(Distrust::OtherRole)
        } else if self.after.is_some_and(|after| second < after) {
            Err(Distrust::NotYet)
        } else if self.before.is_some_and(|before| second > before) {
            Err(Distrust::Expired)
        } else {
            Ok(self)
        }
    }
}

/// Whom to trust. See the [module](self) for the folder that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    keys: Vec<TrustedKey>,
    revoked_keys: RevokedKeys,
    /// Names of sessions and digests of signed bytes.
    revoked: BTreeSet<String>,
    threshold: NonZeroU32,
    clock_skew: Duration,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    threshold: Option<NonZeroU32>,
    clock_skew: Option<String>,
}

impl Trust {
    /// Reads the folder `dir`.
    pub fn read(dir: &Path) -> Result<Self, TrustError> {
        let mut trust = Self {
            keys: Vec::new(),
            revoked_keys: RevokedKeys::default(),
            revoked: BTreeSet::new(),
            threshold: NonZeroU32::MIN,
            clock_skew: Duration::ZERO,
        };
        for (path, name, bytes) in folder::read(dir)? {
            if name == REVOKED_KEYS && RevokedKeys::is_krl(&bytes) {
                trust.revoked_keys =
                    RevokedKeys::of_krl(&bytes).map_err(|source| TrustError::Krl { path, source })?;
                continue;
            }
            let text = folder::text(&path, bytes)?;
            match name.as_str() {
                ALLOWED_SIGNERS => {
                    for (line, text) in lines(&text) {
                        let key = allowed::read(text).map_err(|what| wrong(&path, line, &what))?;
                        trust.keys.push(key);
                    }
                }
                REVOKED_KEYS => {
                    for (line, text) in lines(&text) {
                        let key = revoked_key(text).map_err(|what| wrong(&path, line, &what))?;
                        trust.revoked_keys.insert(key);
                    }
                }
                REVOKED => {
                    for (line, text) in lines(&text) {
                        // A digest is spelled like a name.
                        let id: RunId = text
                            .parse()
                            .map_err(|_| wrong(&path, line, "neither a session nor a SHA-256"))?;
                        trust.revoked.insert(id.as_str().to_owned());
                    }
                }
                SETTINGS => trust.set(&text).map_err(|what| TrustError::Settings { path, what })?,
                _ => match name.strip_suffix(".pem") {
                    Some(who) => {
                        let key = VerifyingKey::from_pem(&text)
                            .map_err(|source| TrustError::Key { path, source })?;
                        let uses = Uses::Only(Role::Authority);
                        trust.keys.push(TrustedKey {
                            key,
                            who: who.to_owned(),
                            uses,
                            after: None,
                            before: None,
                        });
                    }
                    None => return Err(TrustError::Unexpected { path }),
                },
            }
            if trust.keys.len().max(trust.revoked_keys.count()) > KEYS_LIMIT {
                let what = format!("more than {KEYS_LIMIT} keys, the most that are read");
                return Err(TrustError::TooLarge { path: dir.to_owned(), what });
            }
        }
        Ok(trust)
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
        if let Some(threshold) = settings.threshold {
            self.threshold = threshold;
        }
        if let Some(skew) = settings.clock_skew {
            self.clock_skew = seconds(&skew)
                .filter(|skew| *skew <= SKEW_LIMIT)
                .ok_or("`clock_skew` is a number of seconds, minutes or hours, as in \"30s\"; at most 24h")?;
        }
        Ok(())
    }

    /// How many different authorities have to sign. At least one.
    pub fn threshold(&self) -> usize {
        self.threshold.get() as usize
    }

    /// By how much another machine's clock may differ before an authorization's times are held against it.
    pub fn clock_skew(&self) -> Duration {
        self.clock_skew
    }

    /// Whether `key` counts for this use at this time (milliseconds since the Unix epoch), or why it does not.
    pub fn look_up(&self, key: &VerifyingKey, role: Role, at_ms: u64) -> Result<&TrustedKey, Distrust> {
        let mut best = Err(Distrust::Unknown);
        for known in self.keys.iter().filter(|known| known.key == *key) {
            if self.revoked_keys.contains(key) {
                return Err(Distrust::Revoked);
            }
            // A key may have several lines, as for two periods. Of several reasons the last in the order of the type says
            // most.
            match known.counts(role, at_ms) {
                Ok(known) => return Ok(known),
                Err(why) => best = best.map_err(|so_far: Distrust| so_far.max(why)),
            }
        }
        best
    }

    /// The keys that count for this use at this time, none of them twice.
    pub fn keys(&self, role: Role, at_ms: u64) -> Vec<&TrustedKey> {
        let mut counting: Vec<&TrustedKey> = Vec::new();
        for known in &self.keys {
            let is_new = counting.iter().all(|other| other.key != known.key);
            if is_new && let Ok(known) = self.look_up(&known.key, role, at_ms) {
                counting.push(known);
            }
        }
        counting
    }

    /// Who can authorize a session at this time (milliseconds since the Unix epoch).
    pub fn authorities(&self, at_ms: u64) -> Vec<&TrustedKey> {
        self.keys(Role::Authority, at_ms)
    }

    /// Who can say at this time that a result was verified.
    pub fn reviewers(&self, at_ms: u64) -> Vec<&TrustedKey> {
        self.keys(Role::Reviewer, at_ms)
    }

    /// All keys of the folder, whether they count or not.
    pub(crate) fn all_keys(&self) -> Vec<VerifyingKey> {
        self.keys.iter().map(|known| known.key.clone()).collect()
    }

    /// Whether the session, or the authorization of these signed bytes, is revoked.
    pub fn is_revoked(&self, session: &RunId, payload: &Digest) -> bool {
        self.revoked.contains(session.as_str()) || self.revoked.contains(&payload.to_string())
    }
}

/// The lines that say something, each with its number.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim_ascii()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn wrong(path: &Path, line: usize, what: &str) -> TrustError {
    TrustError::Line { path: path.to_owned(), line, what: shown(what) }
}

fn shown(text: &str) -> String {
    visible(text, Lines::Escape).chars().take(300).collect()
}

fn revoked_key(line: &str) -> Result<Fingerprint, String> {
    if line.starts_with("SHA256:") {
        line.parse().map_err(|error: public::BadFingerprint| error.to_string())
    } else {
        Ok(Fingerprint::of(&public::read(line).map_err(|error| error.to_string())?))
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let scale = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale).map(Duration::from_secs)
}
