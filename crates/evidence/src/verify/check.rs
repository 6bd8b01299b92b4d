//! Each claim about a run, settled in order.
//!
//! In pieces, so that who holds a run against more than itself can look between them: what is read of the bundle, what
//! the events amount to, what changed, and what it changed from.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::contract::Source;
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::Event;
use provost_core::path::RelPath;
use provost_core::state::{RunState, Violation};
use provost_core::text::{Lines, visible};

use super::claim::{Claim, ClaimId, Finding, Report, Require};
use super::code::Code;
use super::{Base, BaseTree};
use crate::bundle::{BundleError, Folder, Parts};
use crate::canonical::sha256;
use crate::chain::Head;
use crate::dsse;
use crate::keys::VerifyingKey;
use crate::log::{LogHead, head_of};
use crate::net::{Blobs, Net};
use crate::replay::each_event;
use crate::statement::{JOURNAL, PATCH, RunResult, Statement};
use crate::steps::Steps;
use crate::tree::{Mode, TreeEntry, tree_digest};

/// The claims that were settled so far.
pub(super) struct Check<'a> {
    base: Option<&'a dyn Base>,
    findings: BTreeMap<ClaimId, Finding>,
    /// Where a claim can fail in several ways, the kind of the one at hand.
    codes: BTreeMap<ClaimId, Code>,
    signed_by: Option<String>,
    result: Option<RunResult>,
    by_word: Vec<&'static str>,
}

/// What stands in a bundle whose signature, files and chain hold.
pub(super) struct Read {
    pub(super) folder: Folder,
    pub(super) statement: Statement,
    pub(super) patch: Vec<u8>,
    pub(super) head: Head,
    /// The journal as a Merkle log.
    pub(super) log: LogHead,
    /// What the events amount to, as far as they can be followed.
    pub(super) state: RunState,
    /// Where they cannot.
    violation: Option<Violation>,
    /// What each step left.
    steps: Steps,
}

impl<'a> Check<'a> {
    pub(super) fn new(base: Option<&'a dyn Base>) -> Self {
        Self {
            base,
            findings: BTreeMap::new(),
            codes: BTreeMap::new(),
            signed_by: None,
            result: None,
            by_word: Vec::new(),
        }
    }

    /// All claims about a run.
    pub(super) fn whole(
        &mut self,
        folder: Result<Folder, BundleError>,
        trusted: &[VerifyingKey],
    ) -> Option<()> {
        let folder = self.settle(ClaimId::Signature, folder.map_err(|error| error.to_string()))?;
        let payload = self.signature(&folder, trusted)?;
        let read = self.read(folder, &payload, |_| ())?;
        self.fold(&read)?;
        let net = Net::of(&read.state);
        let blobs = self.change(&read, &net)?;
        self.ground(&read, &net, &blobs, &|_, _| false).map(drop)
    }

    pub(super) fn settle<T>(&mut self, id: ClaimId, checked: Result<T, String>) -> Option<T> {
        let (finding, value) = match checked {
            Ok(value) => (Finding::Held, Some(value)),
            Err(why) => (Finding::Failed(why), None),
        };
        self.findings.insert(id, finding);
        value
    }

    /// The same where a failure comes with its kind.
    pub(super) fn settle_as<T>(&mut self, id: ClaimId, checked: Result<T, (Code, String)>) -> Option<T> {
        let checked = checked.map_err(|(code, why)| {
            self.codes.insert(id, code);
            why
        });
        self.settle(id, checked)
    }

    pub(super) fn leave(&mut self, id: ClaimId, why: &str) {
        self.findings.insert(id, Finding::NotChecked(why.to_owned()));
    }

    /// The signed payload.
    pub(super) fn signature(&mut self, folder: &Folder, trusted: &[VerifyingKey]) -> Option<Vec<u8>> {
        let envelope = folder.envelope().map_err(|error| (Code::Malformed, error.to_string()));
        let verified = envelope.and_then(|envelope| {
            dsse::verify(&envelope, trusted)
                .map_err(|error| (Code::of_envelope(&error), format!("`{}`: {error}", crate::bundle::RESULT)))
        });
        let verified = self.settle_as(ClaimId::Signature, verified)?;
        self.signed_by = Some(verified.by.to_string());
        Some(verified.payload)
    }

    /// What was signed: statement, files, chain and head. Each event is handed to `watch` too.
    pub(super) fn read(
        &mut self,
        folder: Folder,
        payload: &[u8],
        mut watch: impl FnMut(&Event),
    ) -> Option<Read> {
        let statement = Statement::from_json(payload).map_err(|error| error.to_string());
        let statement = self.settle(ClaimId::Statement, statement)?;
        self.result = Some(statement.result.clone());
        let (patch, journal) = self.settle_as(ClaimId::Files, files(&folder, &statement))?;
        // One event at a time: a long journal's would fill the memory.
        let mut state = RunState::new(statement.result.run.clone());
        let mut violation = None;
        let mut steps = Steps::default();
        let head = each_event(&journal, |event| {
            watch(&event);
            steps.see(&event);
            if violation.is_none() {
                violation = state.apply(&event).err();
            }
        });
        let head = head.map_err(|error| format!("`{JOURNAL}`: {error}"));
        let head = self.settle(ClaimId::Chain, head)?;
        self.settle(ClaimId::Head, check_head(&head, &statement.result))?;
        let log = head_of(&journal);
        Some(Read { folder, statement, patch, head, log, state, violation, steps })
    }

    /// Whether the events follow from each other, and amount to what the statement says.
    pub(super) fn fold(&mut self, read: &Read) -> Option<()> {
        match &read.violation {
            None => {}
            Some(violation @ Violation::Decision { .. }) => {
                return self.settle(ClaimId::Policy, Err(in_journal(violation)));
            }
            Some(violation) => {
                self.leave(ClaimId::Policy, "the events can be followed only to where `state` fails");
                return self.settle(ClaimId::State, Err(in_journal(violation)));
            }
        }
        self.settle(ClaimId::Policy, Ok(()))?;
        self.settle(ClaimId::State, check_facts(read))?;
        self.by_word = by_word(&read.state);
        Some(())
    }

    /// What changed: its content, the patch of it, whose doing it is, and whether the gate passed on it.
    pub(super) fn change(&mut self, read: &Read, net: &Net<'_>) -> Option<Blobs> {
        let result = &read.statement.result;
        let blobs = self.settle(ClaimId::Blobs, blobs(&read.folder, result, net, &read.steps))?;
        let rendered = check_patch(net, &blobs, &result.base.source, &read.patch);
        let _ = self.settle(ClaimId::Patch, rendered);
        self.check_acts(result);
        self.check_gate(result);
        Some(blobs)
    }

    /// What it changed from, and that nothing else did.
    pub(super) fn ground(
        &mut self,
        read: &Read,
        net: &Net<'_>,
        blobs: &Blobs,
        keep: &dyn Fn(&RelPath, Mode) -> bool,
    ) -> Option<BaseTree> {
        let tree = self.check_base(&read.statement.result, net, blobs, keep)?;
        let made = check_tree(&tree.entries, &read.statement.tree, net, blobs);
        let _ = self.settle(ClaimId::Tree, made);
        Some(tree)
    }

    fn check_base(
        &mut self,
        result: &RunResult,
        net: &Net<'_>,
        blobs: &Blobs,
        keep: &dyn Fn(&RelPath, Mode) -> bool,
    ) -> Option<BaseTree> {
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
        let checked = base.tree(commit, scope, keep).and_then(|held| {
            let tree = digest_of(&held.entries)?;
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
            net.check_before(&held.entries, blobs)?;
            Ok(held)
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

    /// All claims that `require` asks about, in order.
    pub(super) fn report(mut self, require: Require) -> Report {
        let order: &[ClaimId] = match require {
            Require::Bundle | Require::Repository => &ClaimId::ALL,
            Require::Session => &ClaimId::SESSION,
        };
        let rests_on = match self.broken(order) {
            Some(id) => format!("it rests on `{id}`, which does not hold"),
            None => String::new(),
        };
        let claims: Vec<Claim> = order
            .iter()
            .map(|id| Claim {
                id: *id,
                finding: self.findings.remove(id).unwrap_or_else(|| Finding::NotChecked(rests_on.clone())),
                proves: id.proves(),
                does_not_prove: id.does_not_prove(),
            })
            .collect();
        let code = self.code(&claims, require);
        Report {
            claims,
            require,
            code,
            signed_by: self.signed_by,
            result: self.result,
            by_word: self.by_word,
        }
    }

    fn code(&self, claims: &[Claim], require: Require) -> Code {
        let failed = claims.iter().find(|claim| matches!(claim.finding, Finding::Failed(_)));
        let unchecked =
            |claim: &Claim| matches!(claim.finding, Finding::NotChecked(_)) && require.asks_for(claim.id);
        match failed {
            Some(claim) => self.codes.get(&claim.id).copied().unwrap_or_else(|| Code::of(claim.id)),
            None if claims.iter().any(unchecked) => Code::CannotCheck,
            None => Code::Verified,
        }
    }

    /// The claim on which those rest that were not come to.
    fn broken(&self, order: &[ClaimId]) -> Option<ClaimId> {
        let is = |id: &ClaimId, failed: bool| match self.findings.get(id) {
            Some(Finding::Failed(_)) => failed,
            Some(Finding::NotChecked(_)) => !failed,
            Some(Finding::Held) | None => false,
        };
        let spine = || order.iter().copied().filter(|id| id.bears());
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

fn files(folder: &Folder, statement: &Statement) -> Result<(Vec<u8>, Vec<u8>), (Code, String)> {
    let malformed = |error: BundleError| (Code::Malformed, error.to_string());
    let parts = if statement.result.log.is_some() { Parts::Session } else { Parts::Run };
    folder.check_names(parts).map_err(malformed)?;
    if parts == Parts::Session {
        folder.session().map_err(malformed)?;
    }
    let read = |name: &str, signed: &Digest, code| {
        let bytes = folder.file(name).map_err(malformed)?;
        let found = sha256(&bytes);
        if found == *signed {
            Ok(bytes)
        } else {
            Err((code, format!("`{name}` has the SHA-256 {found}; signed is {signed}")))
        }
    };
    let patch = read(PATCH, &statement.patch, Code::Patch)?;
    Ok((patch, read(JOURNAL, &statement.journal, Code::Log)?))
}

fn check_head(head: &Head, result: &RunResult) -> Result<(), String> {
    if head.next != result.events {
        return Err(format!("`{JOURNAL}` holds {} events; signed are {}", head.next, result.events));
    }
    if head.hash != result.head {
        let last = head.next.saturating_sub(1);
        return Err(format!(
            "`{JOURNAL}` ends with event {last} of hash {}; signed is {}",
            head.hash, result.head
        ));
    }
    Ok(())
}

fn check_facts(read: &Read) -> Result<(), String> {
    let Read { state, head, log, statement, .. } = read;
    let signed = &statement.result;
    let folded = RunResult::of(state, head, *log, &signed.salt, signed.blobs.clone())
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

fn blobs(folder: &Folder, result: &RunResult, net: &Net<'_>, steps: &Steps) -> Result<Blobs, String> {
    if let Some(path) = net.not_kept() {
        return Err(format!(
            "`{path}` was too large to be recorded: the change cannot be checked without it"
        ));
    }
    let needed: BTreeSet<Digest> = net.contents().union(steps.contents()).copied().collect();
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

fn check_patch(net: &Net<'_>, blobs: &Blobs, source: &Source, patch: &[u8]) -> Result<(), String> {
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

fn check_tree(base: &[TreeEntry], signed: &TreeDigest, net: &Net<'_>, blobs: &Blobs) -> Result<(), String> {
    let made = digest_of(&net.apply(base.to_vec(), blobs)?)?;
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
