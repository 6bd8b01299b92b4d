//! Verification: everything in a bundle is checked again, from the signature down to the recipient's own commit.
//!
//! Nothing is believed because the bundle says it. Keys come from the caller. Until the signature holds only the
//! envelope is parsed; until the digests hold, only the statement; a claim that does not hold leaves those that stand
//! on it unchecked, and the report says so.

mod claim;
mod repository;

use std::collections::BTreeMap;
use std::path::Path;

use provost_core::contract::Source;
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::Event;
use provost_core::path::RelPath;
use provost_core::state::{RunState, Violation};
use provost_core::text::{Lines, visible};

pub use claim::{Claim, ClaimId, Finding, Report, Require};

use crate::bundle::Folder;
use crate::canonical::sha256;
use crate::chain::Head;
use crate::dsse;
use crate::keys::VerifyingKey;
use crate::net::Net;
use crate::replay::read_journal;
use crate::statement::{JOURNAL, PATCH, RunResult, Statement};
use crate::tree::{TreeEntry, tree_digest};

/// The recipient's own repository.
pub trait Base {
    /// The files of the subtree `scope` of `commit`, paths relative to `scope`. Read from the commit, never from the
    /// working tree. The error is a sentence for a person.
    fn entries(&self, commit: &str, scope: &RelPath) -> Result<Vec<TreeEntry>, String>;
}

/// Verifies the bundle in `dir`.
///
/// `trusted` are keys that the recipient obtained elsewhere: never take them from the bundle. With `base` the run is
/// also held against the recipient's own repository.
pub fn verify(dir: &Path, trusted: &[VerifyingKey], base: Option<&dyn Base>, require: Require) -> Report {
    let mut check = Check {
        dir,
        trusted,
        base,
        findings: BTreeMap::new(),
        signed_by: None,
        result: None,
        by_word: Vec::new(),
    };
    // `None` is a claim that did not hold: what stands on it stays unchecked.
    let _ = check.run();
    check.report(require)
}

struct Check<'a> {
    dir: &'a Path,
    trusted: &'a [VerifyingKey],
    base: Option<&'a dyn Base>,
    findings: BTreeMap<ClaimId, Finding>,
    signed_by: Option<String>,
    result: Option<RunResult>,
    by_word: Vec<&'static str>,
}

impl Check<'_> {
    fn run(&mut self) -> Option<()> {
        let opened = self.envelope();
        let (folder, payload) = self.settle(ClaimId::Signature, opened)?;
        let statement = Statement::from_json(&payload).map_err(|error| error.to_string());
        let statement = self.settle(ClaimId::Statement, statement)?;
        self.result = Some(statement.result.clone());
        let (patch, journal) = self.settle(ClaimId::Files, files(&folder, &statement))?;
        let read = read_journal(&journal).map_err(|error| format!("`{JOURNAL}`: {error}"));
        let (events, head) = self.settle(ClaimId::Chain, read)?;
        drop(journal);
        self.settle(ClaimId::Head, check_head(&events, &head, &statement.result))?;
        let state = self.fold(&events, &head, &statement)?;
        drop(events);
        self.by_word = by_word(&state);
        let net = Net::of(&state);
        let blobs = blobs(&folder, &statement.result, &net);
        let blobs = self.settle(ClaimId::Blobs, blobs)?;
        let rendered = check_patch(&net, &blobs, &statement.result.base.source, &patch);
        let _ = self.settle(ClaimId::Patch, rendered);
        self.check_acts(&statement.result);
        self.check_gate(&statement.result);
        let entries = self.check_base(&statement.result, &net, &blobs)?;
        let _ = self.settle(ClaimId::Tree, check_tree(entries, &statement.tree, &net, &blobs));
        Some(())
    }

    fn settle<T>(&mut self, id: ClaimId, checked: Result<T, String>) -> Option<T> {
        let (finding, value) = match checked {
            Ok(value) => (Finding::Held, Some(value)),
            Err(why) => (Finding::Failed(why), None),
        };
        self.findings.insert(id, finding);
        value
    }

    fn leave(&mut self, id: ClaimId, why: &str) {
        self.findings.insert(id, Finding::NotChecked(why.to_owned()));
    }

    fn envelope(&mut self) -> Result<(Folder, Vec<u8>), String> {
        let folder = Folder::open(self.dir).map_err(|error| error.to_string())?;
        let envelope = folder.envelope().map_err(|error| error.to_string())?;
        let verified = dsse::verify(&envelope, self.trusted)
            .map_err(|error| format!("`{}`: {error}", crate::bundle::RESULT))?;
        self.signed_by = Some(verified.by.to_string());
        Ok((folder, verified.payload))
    }

    /// Folds the events, and holds what they amount to against the statement.
    fn fold(&mut self, events: &[Event], head: &Head, statement: &Statement) -> Option<RunState> {
        let state = match RunState::fold(statement.result.run.clone(), events) {
            Ok(state) => state,
            Err(violation @ Violation::Decision { .. }) => {
                return self.settle(ClaimId::Policy, Err(in_journal(&violation)));
            }
            Err(violation) => {
                self.leave(ClaimId::Policy, "the events can be followed only to where `state` fails");
                return self.settle(ClaimId::State, Err(in_journal(&violation)));
            }
        };
        self.settle(ClaimId::Policy, Ok(()))?;
        let agrees = check_facts(&state, head, statement);
        self.settle(ClaimId::State, agrees)?;
        Some(state)
    }

    fn check_base(
        &mut self,
        result: &RunResult,
        net: &Net,
        blobs: &BTreeMap<Digest, Vec<u8>>,
    ) -> Option<Vec<TreeEntry>> {
        let Some(base) = self.base else {
            let why = "no repository was given: the start is the runner's word";
            self.leave(ClaimId::Base, why);
            self.leave(ClaimId::Tree, why);
            return None;
        };
        let Some(commit) = result.base.source.commit() else {
            self.leave(ClaimId::Base, "the run worked in a folder outside of any commit");
            return None;
        };
        let scope = result.base.source.scope();
        let checked = base.entries(commit, scope).and_then(|entries| {
            let tree = digest_of(&entries)?;
            if tree != result.base.tree {
                let hint = match result.base.source {
                    Source::Commit { .. } => "",
                    Source::Directory { .. } => "; the folder had uncommitted changes when the run began",
                };
                return Err(format!(
                    "commit {commit} holds at `{scope}` the tree {}; the run began with {}{hint}",
                    show_tree(&tree),
                    show_tree(&result.base.tree),
                ));
            }
            net.check_before(&entries, blobs)?;
            Ok(entries)
        });
        self.settle(ClaimId::Base, checked)
    }

    fn check_acts(&mut self, result: &RunResult) {
        // That `drifted` is what the events give was settled with the state.
        let Some(first) = result.drifted.first() else {
            self.settle(ClaimId::Acts, Ok(()));
            return;
        };
        let first = visible(first.as_str(), Lines::Escape);
        let more = match result.drifted.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        self.leave(ClaimId::Acts, &format!("`{first}`{more} also changed by no act of the run"));
    }

    fn check_gate(&mut self, result: &RunResult) {
        // That `verified` is what the events give was settled with the state.
        match &result.gate {
            None => self.leave(
                ClaimId::Gate,
                "the run was ordered without a verification gate: only the agent says that the work is done",
            ),
            Some(_) if result.verified => {
                self.settle(ClaimId::Gate, Ok(()));
            }
            Some(gate) => {
                let said = match gate.verdict {
                    None => "the gate never ran",
                    Some(_) => "the gate did not pass on the tree at the end",
                };
                self.leave(ClaimId::Gate, &format!("the run does not claim it: {said}"));
            }
        }
    }

    fn report(mut self, require: Require) -> Report {
        let rests_on = match self.broken() {
            Some(id) => format!("it rests on `{id}`, which does not hold"),
            None => String::new(),
        };
        let claims = ClaimId::ALL
            .into_iter()
            .map(|id| Claim {
                id,
                finding: self.findings.remove(&id).unwrap_or_else(|| Finding::NotChecked(rests_on.clone())),
                proves: id.proves(),
                does_not_prove: id.does_not_prove(),
            })
            .collect();
        Report { claims, require, signed_by: self.signed_by, result: self.result, by_word: self.by_word }
    }

    /// The claim on which those rest that were not come to. Nothing rests on the patch, the acts or the gate.
    fn broken(&self) -> Option<ClaimId> {
        let is = |id: &ClaimId, failed: bool| match self.findings.get(id) {
            Some(Finding::Failed(_)) => failed,
            Some(Finding::NotChecked(_)) => !failed,
            Some(Finding::Held) | None => false,
        };
        let spine = || {
            ClaimId::ALL
                .into_iter()
                .filter(|id| !matches!(id, ClaimId::Patch | ClaimId::Acts | ClaimId::Gate))
        };
        spine().find(|id| is(id, true)).or_else(|| spine().find(|id| is(id, false)))
    }
}

/// What a run's events say of content that no bundle holds.
fn by_word(state: &RunState) -> Vec<&'static str> {
    let schema = state.created().and_then(|created| created.brief.as_ref()?.schema);
    let schema = schema.filter(|_| state.submitted().is_some()).map(|_| {
        "The contract asked for an answer after a JSON Schema. Whether the answer satisfies it is the runner's word: neither is in the bundle."
    });
    schema.into_iter().collect()
}

fn in_journal(violation: &Violation) -> String {
    format!("`{JOURNAL}`: {violation}")
}

fn files(folder: &Folder, statement: &Statement) -> Result<(Vec<u8>, Vec<u8>), String> {
    folder.check_names().map_err(|error| error.to_string())?;
    let read = |name: &str, signed: &Digest| {
        let bytes = folder.file(name).map_err(|error| error.to_string())?;
        let found = sha256(&bytes);
        if found == *signed {
            Ok(bytes)
        } else {
            Err(format!("`{name}` has the SHA-256 {found}; signed is {signed}"))
        }
    };
    Ok((read(PATCH, &statement.patch)?, read(JOURNAL, &statement.journal)?))
}

fn check_head(events: &[Event], head: &Head, result: &RunResult) -> Result<(), String> {
    if head.next != result.events {
        return Err(format!("`{JOURNAL}` holds {} events; signed are {}", head.next, result.events));
    }
    if head.hash != result.head {
        let last = events.len().saturating_sub(1);
        return Err(format!(
            "`{JOURNAL}` ends with event {last} of hash {}; signed is {}",
            head.hash, result.head
        ));
    }
    Ok(())
}

fn check_facts(state: &RunState, head: &Head, statement: &Statement) -> Result<(), String> {
    let signed = &statement.result;
    let folded = RunResult::of(state, head, &signed.salt, signed.blobs.clone())
        .ok_or_else(|| format!("`{JOURNAL}` ends before the run is over"))?;
    if let Some((fact, signed, folded)) = signed.first_difference(&folded) {
        return Err(format!("the statement says `{fact}` is {signed}; the events give {folded}"));
    }
    let ended_with = state.outcome().map(|finished| &finished.tree);
    if ended_with != Some(&statement.tree) {
        let found = ended_with.map_or_else(|| "none".to_owned(), show_tree);
        return Err(format!(
            "the statement's subject `tree` is {}; the run ended with {found}",
            show_tree(&statement.tree)
        ));
    }
    Ok(())
}

fn blobs(folder: &Folder, result: &RunResult, net: &Net) -> Result<BTreeMap<Digest, Vec<u8>>, String> {
    if let Some(path) = net.not_kept() {
        return Err(format!(
            "`{path}` was too large to be recorded: the change cannot be checked without it"
        ));
    }
    let needed = net.contents();
    if let Some(extra) = result.blobs.difference(&needed).next() {
        return Err(format!("the statement lists blob {extra}, which no change needs"));
    }
    if let Some(missing) = needed.difference(&result.blobs).next() {
        return Err(format!(
            "the statement does not list blob {missing}, which {} needs",
            net.user_of(missing)
        ));
    }
    let blobs = folder.blobs(&needed).map_err(|error| error.to_string())?;
    for (digest, bytes) in &blobs {
        let found = result.salt.digest(bytes);
        if found != *digest {
            return Err(format!(
                "`{}/{digest}` ({}) holds content whose salted digest is {found}",
                crate::bundle::BLOBS,
                net.user_of(digest)
            ));
        }
    }
    net.check_sizes(&blobs)?;
    Ok(blobs)
}

fn check_patch(
    net: &Net,
    blobs: &BTreeMap<Digest, Vec<u8>>,
    source: &Source,
    patch: &[u8],
) -> Result<(), String> {
    let rendered = net.patch(source.scope(), blobs)?;
    match crate::canonical::first_difference(patch, &rendered) {
        None => Ok(()),
        Some(at) => {
            let line = patch[..at].split(|byte| *byte == b'\n').count();
            Err(format!(
                "`{PATCH}` differs at line {line} (byte {at}) from the patch of the recorded changes"
            ))
        }
    }
}

fn check_tree(
    base: Vec<TreeEntry>,
    signed: &TreeDigest,
    net: &Net,
    blobs: &BTreeMap<Digest, Vec<u8>>,
) -> Result<(), String> {
    let made = digest_of(&net.apply(base, blobs)?)?;
    if made == *signed {
        Ok(())
    } else {
        Err(format!(
            "the commit with the change is the tree {}; the run says that it ended with {}",
            show_tree(&made),
            show_tree(signed)
        ))
    }
}

fn digest_of(entries: &[TreeEntry]) -> Result<TreeDigest, String> {
    tree_digest(entries).map_err(|error| error.to_string())
}

fn show_tree(tree: &TreeDigest) -> String {
    format!("{} (SHA-256 {})", tree.sha1, tree.sha256.short())
}
