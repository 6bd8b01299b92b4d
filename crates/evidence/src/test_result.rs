//! What a session's gate said, as policy engines for test results read it.
//!
//! Format: in-toto test-result v0.1 (<https://in-toto.io/attestation/test-result/v0.1>). Its one subject, `tree.judged`,
//! is the files that the gate saw as the work's; what it ran and the files that judge are its configuration.

use serde::{Deserialize, Serialize};

use provost_core::digest::TreeDigest;
use provost_core::event::GateVerdict;
use provost_core::session::Authorization;

use crate::canonical::{NotCanonical, sha256, to_canonical};
use crate::in_toto::{self, BadStatement, Resource, Subject, tree_digest};
use crate::statement::RunResult;

/// The type of the predicate.
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// Name of the subject that is the files that were judged.
pub const TREE_JUDGED: &str = "tree.judged";

/// Name of the gate's command among its configuration. Its digest is that of the argument vector's canonical JSON.
const COMMAND: &str = "gate";

/// What the gate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// The work is accepted.
    Passed,
    /// It is not.
    Failed,
}

/// A statement about the gate's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// The files that were judged.
    pub tree: TreeDigest,
    /// What is said of them.
    pub predicate: Predicate,
}

/// The predicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicate {
    /// What the gate said.
    pub result: Verdict,
    /// The gate's command, and the files that judge, in the order of their paths.
    pub configuration: Vec<Resource>,
}

impl TestResult {
    /// What there is to say of the gate's newest run; `None` where there was no gate, or it said nothing (it never ran,
    /// could not be run, or changed what it judged).
    pub fn of(result: &RunResult, authorization: &Authorization) -> Result<Option<Self>, NotCanonical> {
        let Some(gate) = &result.gate else { return Ok(None) };
        let (Some(verdict), Some(tree)) = (gate.verdict, &gate.tree) else { return Ok(None) };
        let verdict = match verdict {
            GateVerdict::Passed => Verdict::Passed,
            GateVerdict::Failed => Verdict::Failed,
            GateVerdict::Errored => return Ok(None),
        };
        let argv = to_canonical(&gate.argv)?;
        let command = Resource::file(COMMAND, &sha256(&argv)).noted("argv", &String::from_utf8_lossy(&argv));
        let judges =
            authorization.request.judges.iter().map(|(path, digest)| Resource::file(path.as_str(), digest));
        let configuration = std::iter::once(command).chain(judges).collect();
        Ok(Some(Self { tree: tree.clone(), predicate: Predicate { result: verdict, configuration } }))
    }

    /// The statement's canonical JSON: the payload that is signed.
    pub fn to_json(&self) -> Result<Vec<u8>, NotCanonical> {
        in_toto::write(vec![Subject::tree(TREE_JUDGED, &self.tree)], TEST_RESULT_TYPE, &self.predicate)
    }

    /// Reads a statement, of exactly this format and in its one spelling.
    pub fn from_json(payload: &[u8]) -> Result<Self, BadStatement> {
        let (subjects, predicate) = in_toto::read(payload, TEST_RESULT_TYPE)?;
        let result = Self { tree: tree_digest(&subjects, TREE_JUDGED)?, predicate };
        in_toto::same(payload, result.to_json())?;
        Ok(result)
    }
}
