//! What a runner signs: an in-toto Statement about one run.
//!
//! How statements are written is told in [`in_toto`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use provost_core::containment::Rung;
use provost_core::contract::Source;
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::{GateVerdict, ModelFact};
use provost_core::fork::Forked;
use provost_core::id::RunId;
use provost_core::outcome::Outcome;
use provost_core::path::RelPath;
use provost_core::state::RunState;
use provost_core::tests_ran::Compared;
use provost_core::transcript::Usage;

use crate::canonical::NotCanonical;
use crate::chain::Head;
use crate::content::Salt;
use crate::in_toto::{self, BadStatement, Subject, file_digest, tree_digest};
use crate::log::LogHead;

/// The type of the predicate [`RunResult`].
pub const PREDICATE_TYPE: &str = "urn:provost:run-result:v1";

/// Name of the subject that is the patch, and of its file in a bundle.
pub const PATCH: &str = "changes.patch";
/// Name of the subject that is the journal, and of its file in a bundle.
pub const JOURNAL: &str = "journal.jsonl";
/// Name of the subject that is the journal's newest event.
pub const JOURNAL_HEAD: &str = "journal-head";
/// Name of the subject that is the workspace's files at the end.
pub const TREE: &str = "tree";

/// A statement about one run: four subjects and what the runner says of them.
///
/// | subject | digests |
/// | --- | --- |
/// | `changes.patch` | `sha256` of the file |
/// | `journal.jsonl` | `sha256` of the file |
/// | `journal-head` | `sha256`: the hash of the newest event |
/// | `tree` | `gitTree`: git's SHA-1 tree id; `sha256`: the tree id in git's SHA-256 object format |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// SHA-256 of `changes.patch`.
    pub patch: Digest,
    /// SHA-256 of `journal.jsonl`.
    pub journal: Digest,
    /// The workspace's files at the end.
    pub tree: TreeDigest,
    /// The predicate. Its `head` is also the subject `journal-head`.
    pub result: RunResult,
}

/// What the runner says of a run. All of it but `salt` and `blobs` follows from the journal, and is recomputed from it
/// by whoever verifies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Version of Provost that made the run.
    pub provost: String,
    /// The run.
    pub run: RunId,
    /// How many events the journal has.
    pub events: u64,
    /// Hash of the newest event.
    pub head: Digest,
    /// The stream's salt: with it the blobs are matched to the digests in events. Whoever holds it can also test a
    /// guess of other content of the run (the goal, an answer) against its digest.
    #[serde(with = "salt_hex")]
    pub salt: Salt,
    /// Where the files came from.
    pub base: BaseFact,
    /// The run that this one was forked from: what the first events tell, that one did, in its own workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Forked>,
    /// How the run ended.
    pub outcome: Outcome,
    /// Whether the gate passed on exactly the files at the end.
    pub verified: bool,
    /// The verification gate; `None` where the run was ordered without one.
    pub gate: Option<GateFact>,
    /// The model that was asked for.
    pub model: ModelFact,
    /// Tokens, summed over answers.
    pub usage: Usage,
    /// Answers whose usage is an estimate because the vendor reported none.
    pub estimated_calls: u32,
    /// Money in millionths of a US dollar; `None` where no price was known.
    pub cost_micros: Option<u64>,
    /// Acts that policy or a person refused.
    pub refusals: u32,
    /// How many acts that policy asked about were approved, by whose word: `terminal`, `resume`, `--yes`.
    pub approvals: BTreeMap<String, u32>,
    /// Commands that ran, the gate's included.
    pub commands: u32,
    /// Acts that set out to write files.
    pub writes: u32,
    /// Paths of the patch that also changed by no act of the run: somebody else worked there meanwhile.
    pub drifted: BTreeSet<RelPath>,
    /// Names of the policy's layers. The policy itself is in the journal's first event.
    pub policy: Vec<String>,
    /// The weakest containment that any command had; `None` where none ran.
    pub contained: Option<Rung>,
    /// Time of the first event, in milliseconds since the Unix epoch, by the runner's clock.
    pub started_ms: u64,
    /// Time of the newest event.
    pub finished_ms: u64,
    /// Salted digests of the content in the bundle: of each changed file, before and after.
    pub blobs: BTreeSet<Digest>,
    /// The journal as a Merkle log, where the run was authorized: what the checkpoint of its session signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogHead>,
}

/// Where the files came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFact {
    /// Commit and scope.
    pub source: Source,
    /// The workspace's files at the start.
    pub tree: TreeDigest,
}

/// The verification gate and its newest judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateFact {
    /// Its argument vector.
    pub argv: Vec<String>,
    /// Ignored files and folders that its command saw beside the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<RelPath>,
    /// What it said; `None` where it never ran.
    pub verdict: Option<GateVerdict>,
    /// The files that it judged.
    pub tree: Option<TreeDigest>,
    /// How many tests it ran, and how many there were at the start; `None` where they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Compared>,
}

mod salt_hex {
    use super::{Digest, Salt};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(salt: &Salt, to: S) -> Result<S::Ok, S::Error> {
        Digest::new(*salt.bytes()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Salt, D::Error> {
        Ok(Salt::new(*Digest::deserialize(from)?.bytes()))
    }
}

impl RunResult {
    /// What there is to say of a run that is over, from its folded events; `None` while it is not over. `log` is the head
    /// of its journal's log, which is said of authorized runs only.
    pub fn of(
        state: &RunState,
        head: &Head,
        log: LogHead,
        salt: &Salt,
        blobs: BTreeSet<Digest>,
    ) -> Option<Self> {
        let (created, finished) = (state.created()?, state.outcome()?);
        let judged = state.last_gate();
        let ledger = state.ledger();
        let (started_ms, finished_ms) = state.span_ms();
        Some(Self {
            provost: created.provost.clone(),
            run: state.stream().clone(),
            events: head.next,
            head: head.hash,
            salt: salt.clone(),
            base: BaseFact { source: created.source.clone(), tree: created.tree.clone() },
            forked: created.forked.clone(),
            outcome: finished.outcome,
            verified: finished.verified,
            gate: created.gate.as_ref().map(|gate| GateFact {
                argv: gate.argv.clone(),
                with: gate.with.clone(),
                verdict: judged.map(|judged| judged.verdict),
                tree: judged.map(|judged| judged.tree.clone()),
                tests: state.gate_tests(),
            }),
            model: created.model.clone(),
            usage: ledger.usage,
            estimated_calls: ledger.estimated_calls,
            cost_micros: ledger.cost(),
            refusals: state.counts().refused,
            approvals: state.approvals().clone(),
            commands: state.counts().commands,
            writes: state.counts().writes,
            drifted: state.drifted().cloned().collect(),
            policy: created.policy.layers.iter().map(|layer| layer.name.clone()).collect(),
            contained: state.weakest_rung(),
            started_ms,
            finished_ms,
            blobs,
            log: created.authorized.is_some().then_some(log),
        })
    }

    /// The first fact in which `self` differs from `other`: its name, and what each says. `None` where they agree.
    pub fn first_difference(&self, other: &Self) -> Option<(String, String, String)> {
        let (one, two) = (facts(self), facts(other));
        one.into_iter().find_map(|(name, value)| {
            let theirs = two.get(&name).cloned().unwrap_or_default();
            (value != theirs).then_some((name, value, theirs))
        })
    }
}

fn facts(result: &RunResult) -> BTreeMap<String, String> {
    match serde_json::to_value(result) {
        Ok(serde_json::Value::Object(map)) => {
            map.into_iter().map(|(name, value)| (name, value.to_string())).collect()
        }
        // A struct with named fields is an object.
        _ => BTreeMap::new(),
    }
}

impl Statement {
    /// The statement's canonical JSON: the payload that is signed.
    pub fn to_json(&self) -> Result<Vec<u8>, NotCanonical> {
        let subjects = vec![
            Subject::file(PATCH, &self.patch),
            Subject::file(JOURNAL, &self.journal),
            Subject::file(JOURNAL_HEAD, &self.result.head),
            Subject::tree(TREE, &self.tree),
        ];
        in_toto::write(subjects, PREDICATE_TYPE, &self.result)
    }

    /// Reads a statement, of exactly this format and in its one spelling.
    pub fn from_json(payload: &[u8]) -> Result<Self, BadStatement> {
        let (subjects, result) = in_toto::read(payload, PREDICATE_TYPE)?;
        let statement = Self {
            patch: file_digest(&subjects, PATCH)?,
            journal: file_digest(&subjects, JOURNAL)?,
            tree: tree_digest(&subjects, TREE)?,
            result,
        };
        // Whatever the typed form does not hold (a further subject or digest, a subject `journal-head` that is not
        // the predicate's, another order) shows here.
        in_toto::same(payload, statement.to_json())?;
        Ok(statement)
    }
}
