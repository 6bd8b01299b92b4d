//! The folder `session/` of a bundle whose run was authorized.
//!
//! | name | what it is |
//! | --- | --- |
//! | `authorization.json` | what an authority signed, in its envelope or bare |
//! | `authorization.json.sig`, `authorization.json.2.sig`, … | SSH signatures over the signed bytes |
//! | `task.md` | the task, verbatim |
//! | `checkpoint` | the signed head of the journal's Merkle log |
//! | `provenance.dsse.json` | how the result came about, for other people's tools |
//! | `test-result.dsse.json` | what the gate said, for other people's tools; only where it said something |

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use super::{BundleError, Folder, shown};
use crate::authorization::SIGNATURES_LIMIT;
use crate::checkpoint::CHECKPOINT_LIMIT;
use crate::dsse::ENVELOPE_LIMIT;

/// Name of the folder.
pub const SESSION: &str = "session";
/// Name of what an authority signed.
pub const AUTHORIZATION: &str = "authorization.json";
/// Name of the task.
pub const TASK: &str = "task.md";
/// Name of the log's signed head, and of the subject that it is of the provenance.
pub const CHECKPOINT: &str = "checkpoint";
/// Name of the signed provenance.
pub const PROVENANCE: &str = "provenance.dsse.json";
/// Name of the signed test result.
pub const TEST_RESULT: &str = "test-result.dsse.json";

/// Largest task that is read, in bytes.
pub const TASK_LIMIT: usize = 1024 * 1024;
/// Largest SSH signature that is read, in bytes. A real one has less than 400.
const SIGNATURE_LIMIT: usize = 16 * 1024;

/// What lies in the folder, as it was read or is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFiles {
    /// `authorization.json`.
    pub authorization: Vec<u8>,
    /// SSH signatures, in the order of their names.
    pub signatures: Vec<Vec<u8>>,
    /// `task.md`.
    pub task: Vec<u8>,
    /// `checkpoint`.
    pub checkpoint: Vec<u8>,
    /// `provenance.dsse.json`.
    pub provenance: Vec<u8>,
    /// `test-result.dsse.json`.
    pub test_result: Option<Vec<u8>>,
}

/// Name of the SSH signature that is number `index`, from 0.
pub fn signature_name(index: usize) -> String {
    match index {
        0 => format!("{AUTHORIZATION}.sig"),
        more => format!("{AUTHORIZATION}.{}.sig", more + 1),
    }
}

impl SessionFiles {
    /// Each file by its name in the folder.
    pub fn named(&self) -> Vec<(String, &[u8])> {
        let mut files: Vec<(String, &[u8])> = vec![
            (AUTHORIZATION.to_owned(), &self.authorization),
            (TASK.to_owned(), &self.task),
            (CHECKPOINT.to_owned(), &self.checkpoint),
            (PROVENANCE.to_owned(), &self.provenance),
        ];
        let signatures = self.signatures.iter().enumerate();
        files.extend(signatures.map(|(index, bytes)| (signature_name(index), bytes.as_slice())));
        files.extend(self.test_result.as_deref().map(|bytes| (TEST_RESULT.to_owned(), bytes)));
        files
    }
}

impl Folder {
    /// The files of `session/`, and no others.
    pub(crate) fn session(&self) -> Result<SessionFiles, BundleError> {
        let folder = self.folder(SESSION)?;
        let names = self.names(&folder, SESSION)?;
        let mut signatures = Vec::new();
        while signatures.len() < SIGNATURES_LIMIT
            && names.contains(OsStr::new(&signature_name(signatures.len())))
        {
            let name = signature_name(signatures.len());
            signatures.push(self.in_session(&folder, &name, SIGNATURE_LIMIT)?);
        }
        let known = [AUTHORIZATION, TASK, CHECKPOINT, PROVENANCE, TEST_RESULT];
        for name in &names {
            let is_signature = (0..signatures.len()).any(|index| name == OsStr::new(&signature_name(index)));
            if !is_signature && !known.iter().any(|known| *known == name) {
                return Err(BundleError::Unexpected { name: format!("{SESSION}/{}", shown(name)) });
            }
        }
        let read = |name: &str, limit| self.in_session(&folder, name, limit);
        Ok(SessionFiles {
            authorization: read(AUTHORIZATION, ENVELOPE_LIMIT)?,
            signatures,
            task: read(TASK, TASK_LIMIT)?,
            checkpoint: read(CHECKPOINT, CHECKPOINT_LIMIT)?,
            provenance: read(PROVENANCE, ENVELOPE_LIMIT)?,
            test_result: if names.contains(OsStr::new(TEST_RESULT)) {
                Some(read(TEST_RESULT, ENVELOPE_LIMIT)?)
            } else {
                None
            },
        })
    }

    fn in_session(&self, folder: &OwnedFd, name: &str, limit: usize) -> Result<Vec<u8>, BundleError> {
        self.read(folder, name, &format!("{SESSION}/{name}"), limit as u64)
    }
}
