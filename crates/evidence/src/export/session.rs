//! Sealing a session: all that its key signs, once its run is over.

use provost_core::digest::Digest;
use provost_core::event::{BadEvent, Body, Event};

use crate::authorization;
use crate::bundle::{Bundle, BundleContent, BundleError, SessionFiles};
use crate::canonical::{NotCanonical, sha256};
use crate::checkpoint::{Checkpoint, Origin};
use crate::dsse::{self, DsseError};
use crate::in_toto::BadStatement;
use crate::keys::SigningKey;
use crate::provenance::Provenance;
use crate::signer::SignError;
use crate::test_result::TestResult;

/// What a session was ordered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// What an authority signed, in its envelope or bare.
    pub authorization: Vec<u8>,
    /// SSH signatures over it.
    pub signatures: Vec<Vec<u8>>,
    /// The task, verbatim.
    pub task: Vec<u8>,
}

/// A session that cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The envelope is none.
    #[error("the authorization: {0}")]
    Envelope(#[from] DsseError),
    /// What it holds is no authorization.
    #[error("the authorization: {0}")]
    Authorization(#[from] BadStatement),
    /// The journal's first event cannot be read.
    #[error("the journal: {0}")]
    Journal(#[from] BadEvent),
    /// The run was made under another authorization, or under none.
    #[error("the run was made under {found}; the authorization at hand is {payload}")]
    OtherRun {
        /// What the run names.
        found: String,
        /// SHA-256 of the signed bytes at hand.
        payload: Digest,
    },
    /// The task is another one.
    #[error("the task at hand is {found}; authorized is {authorized}")]
    OtherTask {
        /// SHA-256 of the text at hand.
        found: Digest,
        /// SHA-256 of the one that was authorized.
        authorized: Digest,
    },
    /// The key is not the session's.
    #[error("the key at hand is not the one that the authorization names for the session")]
    OtherKey,
    /// Something could not be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// Something has no canonical JSON.
    #[error(transparent)]
    Content(#[from] NotCanonical),
    /// The statement could not be signed.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// Signs all that a session yields: its log's checkpoint, provenance, test result and result. The same session and key
/// give the same bytes. Afterwards the key has nothing left to sign: destroy it, and nobody can tell another end.
///
/// What would not verify for its recipient is refused. Who signed the authorization is not looked at.
pub fn seal(content: BundleContent, ordered: Ordered, key: &SigningKey) -> Result<Bundle, SealError> {
    let bytes = authorization::open(&ordered.authorization, &[])?.payload;
    let authorization = authorization::read(&bytes)?;
    let request = &authorization.request;
    let payload = sha256(&bytes);
    let found = named_by(&content.journal)?;
    let log = match content.statement.result.log {
        Some(log) if found == Some(payload) => log,
        _ => {
            let found = found.map_or_else(|| "no authorization".to_owned(), |found| found.to_string());
            return Err(SealError::OtherRun { found, payload });
        }
    };
    let task = sha256(&ordered.task);
    if task != request.task {
        return Err(SealError::OtherTask { found: task, authorized: request.task });
    }
    if key.verifying_key().to_bytes() != *request.key.bytes() {
        return Err(SealError::OtherKey);
    }

    let statement = &content.statement;
    let checkpoint = Checkpoint { origin: Origin::session(&request.session), log };
    let signed = checkpoint.sign(key);
    let provenance = Provenance::of(statement, &authorization, &payload, &checkpoint, &signed).to_json()?;
    let test_result = match TestResult::of(&statement.result, &authorization)? {
        Some(result) => Some(dsse::sign(dsse::IN_TOTO, &result.to_json()?, &[key])?),
        None => None,
    };
    let session = SessionFiles {
        authorization: ordered.authorization,
        signatures: ordered.signatures,
        task: ordered.task,
        checkpoint: signed,
        provenance: dsse::sign(dsse::IN_TOTO, &provenance, &[key])?,
        test_result,
    };
    Ok(BundleContent { session: Some(session), ..content }.sign(key)?)
}

/// The authorization that a journal's first event names.
fn named_by(journal: &[u8]) -> Result<Option<Digest>, BadEvent> {
    let first = journal.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(match Event::from_json(first)?.body {
        Body::RunCreated(created) => created.authorized.map(|authorized| authorized.payload),
        _ => None,
    })
}
