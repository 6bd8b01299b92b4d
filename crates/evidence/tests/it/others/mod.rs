//! What a session yields, given to verifiers that are not ours. Each good piece has its changed ones, which they refuse.

mod go;
mod node;
mod openssh;
mod openssl;
mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use provost_evidence::authorization::{self, AUTHORIZATION_TYPE, Signed};
use provost_evidence::canonical::sha256;
use provost_evidence::checkpoint::{Checkpoint, Origin};
use provost_evidence::dsse::{self, IN_TOTO};
use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::log::head_of;
use provost_evidence::provenance::{PROVENANCE_TYPE, Provenance};
use provost_evidence::test_result::{TEST_RESULT_TYPE, TestResult};
use provost_evidence::vsa::{Outcome, Review, VSA_TYPE, Vsa};

use crate::run::Run;
use crate::session::{NOW, authorization, key};

/// All that is signed of one session: by the authority (key 1), the session (key 7) and a reviewer (key 3).
pub(crate) struct Evidence {
    pub(crate) authorization: Signed,
    pub(crate) payload: Vec<u8>,
    pub(crate) origin: Origin,
    pub(crate) journal: Vec<u8>,
    pub(crate) checkpoint: Vec<u8>,
    pub(crate) provenance: Vec<u8>,
    pub(crate) test_result: Vec<u8>,
    pub(crate) vsa: Vec<u8>,
}

pub(crate) fn authority() -> SigningKey {
    key(1)
}

pub(crate) fn session() -> SigningKey {
    key(7)
}

pub(crate) fn reviewer() -> SigningKey {
    key(3)
}

impl Evidence {
    pub(crate) fn of(run: &Run) -> Self {
        let content = run.content();
        let asked = authorization(run, &session().verifying_key());
        let authorization = authorization::sign(&asked, &[&authority()]).unwrap();
        let origin = Origin::session(&run.id);
        let head = Checkpoint { origin: origin.clone(), log: head_of(&content.journal) };
        let checkpoint = head.sign(&session());
        let statement = &content.statement;
        let provenance = Provenance::of(statement, &asked, &authorization.payload, &head, &checkpoint);
        let test_result = TestResult::of(&statement.result, &asked).unwrap().unwrap();
        let review = Review {
            session: run.id.clone(),
            patch: statement.patch,
            tree: statement.tree.clone(),
            authorization: authorization.payload,
            inputs: [("checkpoint".to_owned(), sha256(&checkpoint))].into(),
            at_ms: NOW,
            outcome: Outcome::Passed,
        };
        let seal = |payload: Vec<u8>, key: &SigningKey| dsse::sign(IN_TOTO, &payload, &[key]).unwrap();
        Self {
            payload: authorization::payload(&asked).unwrap(),
            authorization,
            origin,
            provenance: seal(provenance.to_json().unwrap(), &session()),
            test_result: seal(test_result.to_json().unwrap(), &session()),
            vsa: seal(Vsa::from(review).to_json().unwrap(), &reviewer()),
            checkpoint,
            journal: content.journal,
        }
    }

    /// Each envelope, the type of its predicate, and the key that signed it.
    pub(crate) fn envelopes(&self) -> [(&[u8], &'static str, VerifyingKey); 4] {
        [
            (&self.authorization.envelope, AUTHORIZATION_TYPE, authority().verifying_key()),
            (&self.provenance, PROVENANCE_TYPE, session().verifying_key()),
            (&self.test_result, TEST_RESULT_TYPE, session().verifying_key()),
            (&self.vsa, VSA_TYPE, reviewer().verifying_key()),
        ]
    }
}

/// Changes of an envelope that each verifier of DSSE has to refuse, as JSON: what they are, and the envelope.
fn changed(envelope: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let text = std::str::from_utf8(envelope).unwrap();
    let flip = |after: &str| {
        let at = text.find(after).unwrap() + after.len() + 12;
        let mut bytes = envelope.to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        bytes
    };
    vec![
        ("a byte of the payload", flip(r#""payload":""#)),
        ("a byte of the signature", flip(r#""sig":""#)),
        ("the payload's type", text.replace(IN_TOTO, "application/json").into_bytes()),
    ]
}

/// Writes files into a new folder.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// What a verifier says: 0 accepts, 1 refuses. Anything else is no answer, and fails the test.
fn accepts(command: &mut Command) -> bool {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: run `./test`"));
    match output.status.code() {
        Some(0) => true,
        Some(1) => {
            assert!(words(&output).contains("refused:"), "{command:?}: {output:?}");
            false
        }
        _ => panic!("{command:?}: {output:?}"),
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
