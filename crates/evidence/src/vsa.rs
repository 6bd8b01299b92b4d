//! What a reviewer says after verifying a session: that its result was checked, against what, and how that came out.
//!
//! Format: SLSA Verification Summary Attestation v1 (<https://slsa.dev/verification_summary/v1>), signed by the reviewer's
//! key. What is verified is a governed session and no level of SLSA's, so that one is given as not evaluated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use provost_core::digest::{Digest, TreeDigest};
use provost_core::id::RunId;

use crate::authorization::{self, AUTHORIZATION_TYPE};
use crate::bundle::{Bundle, RESULT, SESSION};
use crate::canonical::{NotCanonical, sha256};
use crate::dsse::{self, DsseError};
use crate::in_toto::{self, BadStatement, Resource, Subject, file_digest, timestamp, tree_digest};
use crate::provenance::TREE_AFTER;
use crate::signer::{SignError, Signer};
use crate::ssh::public::Fingerprint;
use crate::statement::{JOURNAL, PATCH, Statement};
use crate::trust::{Distrust, Role, Trust, reasons};

/// The type of the predicate.
pub const VSA_TYPE: &str = "https://slsa.dev/verification_summary/v1";
/// What verifies: this program.
pub const VERIFIER: &str = "https://provost.run/verify";

/// The version of the specification that the statement follows.
const SLSA_VERSION: &str = "1.0";
const UNEVALUATED: &str = "SLSA_BUILD_LEVEL_UNEVALUATED";
const FAILED: &str = "FAILED";

/// How a verification came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// All claims hold.
    Passed,
    /// One does not.
    Failed,
}

/// What a reviewer verified. See [`Review::of`] for that of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The session.
    pub session: RunId,
    /// SHA-256 of the patch.
    pub patch: Digest,
    /// The workspace's files at the end.
    pub tree: TreeDigest,
    /// SHA-256 of the authorization's signed bytes: against what was verified.
    pub authorization: Digest,
    /// What was looked at: names of files in the bundle, and their SHA-256.
    pub inputs: BTreeMap<String, Digest>,
    /// When, in milliseconds since the Unix epoch, by the reviewer's clock.
    pub at_ms: u64,
    /// How it came out.
    pub outcome: Outcome,
}

/// A bundle of which no review can say anything.
#[derive(Debug, thiserror::Error)]
pub enum NotReviewable {
    /// It is of an ordinary run.
    #[error("the bundle is of an ordinary run: a review is of a governed session")]
    NoSession,
    /// Its envelope, or that of its authorization, is none.
    #[error("the bundle holds no result that could be reviewed: {0}")]
    Envelope(#[from] DsseError),
    /// What these hold is no statement.
    #[error("the bundle holds no result that could be reviewed: {0}")]
    Statement(String),
}

impl Review {
    /// The review of a bundle as it was read, however its verification came out.
    pub fn of(bundle: &Bundle, outcome: Outcome, at_ms: u64) -> Result<Self, NotReviewable> {
        let files = bundle.session.as_ref().ok_or(NotReviewable::NoSession)?;
        let unread = |error: &dyn std::fmt::Display| NotReviewable::Statement(error.to_string());
        let ordered = authorization::open(&files.authorization, &[])?.payload;
        let authorization = authorization::read(&ordered).map_err(|error| unread(&error))?;
        let payload = dsse::open(&bundle.envelope, &[])?.payload;
        let statement = Statement::from_json(&payload).map_err(|error| unread(&error))?;
        let mut inputs: BTreeMap<String, Digest> = files
            .named()
            .into_iter()
            .map(|(name, bytes)| (format!("{SESSION}/{name}"), sha256(bytes)))
            .collect();
        inputs.insert(RESULT.to_owned(), sha256(&bundle.envelope));
        inputs.insert(JOURNAL.to_owned(), sha256(&bundle.journal));
        Ok(Self {
            session: authorization.request.session,
            patch: sha256(&bundle.patch),
            tree: statement.tree,
            authorization: sha256(&ordered),
            inputs,
            at_ms,
            outcome,
        })
    }

    /// Signs it: an envelope of the statement.
    pub fn sign(self, signers: &[&dyn Signer]) -> Result<Vec<u8>, SignError> {
        dsse::sign(dsse::IN_TOTO, &Vsa::from(self).to_json()?, signers)
    }

    /// What a review says otherwise than this one: the first thing of which it is that is another, or that it did not
    /// pass. Who verified it and when, and which further files they looked at, may differ.
    pub fn differs(&self, other: &Vsa) -> Option<&'static str> {
        let this = Vsa::from(self.clone());
        let (mine, theirs) = (&this.predicate, &other.predicate);
        [
            ("it is of another session", mine.resource_uri == theirs.resource_uri),
            ("it is of another patch", this.patch == other.patch),
            ("it is of another tree", this.tree == other.tree),
            ("it was held to another authorization", mine.policy == theirs.policy),
            ("it says that the result did not verify", theirs.verification_result == Outcome::Passed),
        ]
        .into_iter()
        .find_map(|(what, same)| (!same).then_some(what))
    }
}

/// A statement that a session's result was verified. Its subjects are `changes.patch` and `tree.after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vsa {
    /// SHA-256 of the patch.
    pub patch: Digest,
    /// The workspace's files at the end.
    pub tree: TreeDigest,
    /// What is said of them.
    pub predicate: Predicate,
}

/// The predicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Predicate {
    /// What verified.
    pub verifier: Verifier,
    /// When.
    pub time_verified: String,
    /// The session: `urn:provost:session:<id>`.
    pub resource_uri: String,
    /// The authorization that it was held to.
    pub policy: Resource,
    /// What was looked at.
    pub input_attestations: Vec<Resource>,
    /// How it came out.
    pub verification_result: Outcome,
    /// No level of SLSA's was looked at, or the verification failed.
    pub verified_levels: Vec<String>,
    /// The version of the specification.
    pub slsa_version: String,
}

/// What verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verifier {
    /// [`VERIFIER`].
    pub id: String,
}

/// Why a review does not count.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The envelope is malformed, or a trusted key's signature does not verify.
    #[error("the review: {0}")]
    Envelope(#[from] DsseError),
    /// What is signed is no such statement.
    #[error("the review: {0}")]
    Statement(#[from] BadStatement),
    /// No key that signed it counts.
    #[error("no trusted reviewer signed it{}", reasons(others))]
    Untrusted {
        /// The keys that signed, and why they do not count.
        others: Vec<(String, Distrust)>,
    },
}

/// Checks a review's envelope at a time (milliseconds since the Unix epoch): a reviewer whose key counts then signed it.
/// Gives the statement, and who that was. What it says is not compared with anything.
pub fn verify(envelope: &[u8], trust: &Trust, at_ms: u64) -> Result<(Vsa, String), ReviewError> {
    let opened = dsse::open(envelope, &trust.all_keys())?;
    let mut others: Vec<_> = opened.others.into_iter().map(|id| (id, Distrust::Unknown)).collect();
    for key in &opened.by {
        match trust.look_up(key, Role::Reviewer, at_ms) {
            Ok(known) => return Ok((Vsa::from_json(&opened.payload)?, known.who.clone())),
            Err(why) => others.push((Fingerprint::of(key).to_string(), why)),
        }
    }
    Err(ReviewError::Untrusted { others })
}

fn levels(outcome: Outcome) -> Vec<String> {
    vec![
        match outcome {
            Outcome::Passed => UNEVALUATED,
            Outcome::Failed => FAILED,
        }
        .to_owned(),
    ]
}

impl From<Review> for Vsa {
    fn from(review: Review) -> Self {
        let sha256 = |digest: &Digest| BTreeMap::from([("sha256".to_owned(), digest.to_string())]);
        Self {
            patch: review.patch,
            tree: review.tree,
            predicate: Predicate {
                verifier: Verifier { id: VERIFIER.to_owned() },
                time_verified: timestamp(review.at_ms),
                resource_uri: format!("urn:provost:session:{}", review.session),
                policy: Resource {
                    uri: Some(AUTHORIZATION_TYPE.to_owned()),
                    digest: sha256(&review.authorization),
                    ..Resource::default()
                },
                input_attestations: review
                    .inputs
                    .iter()
                    .map(|(name, digest)| Resource {
                        uri: Some(name.clone()),
                        digest: sha256(digest),
                        ..Resource::default()
                    })
                    .collect(),
                verification_result: review.outcome,
                verified_levels: levels(review.outcome),
                slsa_version: SLSA_VERSION.to_owned(),
            },
        }
    }
}

impl Vsa {
    /// The statement's canonical JSON: the payload that is signed.
    pub fn to_json(&self) -> Result<Vec<u8>, NotCanonical> {
        let subjects = vec![Subject::file(PATCH, &self.patch), Subject::tree(TREE_AFTER, &self.tree)];
        in_toto::write(subjects, VSA_TYPE, &self.predicate)
    }

    /// Reads a statement, of exactly this format and in its one spelling.
    pub fn from_json(payload: &[u8]) -> Result<Self, BadStatement> {
        let (subjects, predicate): (_, Predicate) = in_toto::read(payload, VSA_TYPE)?;
        let known = [
            ("verifier.id", predicate.verifier.id == VERIFIER),
            ("slsaVersion", predicate.slsa_version == SLSA_VERSION),
            ("verifiedLevels", predicate.verified_levels == levels(predicate.verification_result)),
        ];
        if let Some((part, _)) = known.into_iter().find(|(_, known)| !known) {
            return Err(BadStatement::Predicate(part));
        }
        let vsa = Self {
            patch: file_digest(&subjects, PATCH)?,
            tree: tree_digest(&subjects, TREE_AFTER)?,
            predicate,
        };
        in_toto::same(payload, vsa.to_json())?;
        Ok(vsa)
    }
}
