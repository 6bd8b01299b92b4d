//! A small legal run in a real repository, and its bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_core::act::{ActEnd, Change, CommandFact, ExitFact, FileFact, Intent, Recovery, Touch};
use provost_core::budget::{Budget, Price};
use provost_core::containment::{Guarantee, Receipt, Rung, StagedBy, Strength};
use provost_core::contract::{Gate, Limits, Source};
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::{
    ActDecided, ActFinished, ActStarted, Body, CallRef, Draft, DriverAttached, GateJudged, GateVerdict,
    ModelAnswered, ModelFact, RunCreated, RunFinished, SubmitVia, Submitted,
};
use provost_core::id::{ActId, AgentId, RunId, StepId};
use provost_core::outcome::Outcome;
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer, Ordered, Policy, Preset};
use provost_core::state::invocation_id;
use provost_core::transcript::{Stop, Usage};
use provost_evidence::bundle::{self, BundleContent};
use provost_evidence::canonical::{sha256, to_canonical};
use provost_evidence::chain::{Head, seal};
use provost_evidence::content::Salt;
use provost_evidence::export::assemble;
use provost_evidence::git::Repository;
use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::tree::{BlobOid, TreeEntry, tree_digest};
use provost_evidence::verify::{Base, Report, Require, verify};

/// The subtree that the run works in.
pub(crate) const SCOPE: &str = "pkg";

/// Files of the scope in the base commit: path, mode, content.
const BEFORE: &[(&str, &str, &[u8])] = &[
    ("README.md", "100644", b"# Sum\n\nAdds.\n"),
    ("old.txt", "100644", b"gone soon\n"),
    ("run.sh", "100755", b"#!/bin/sh\nexit 0\n"),
    ("src/lib.rs", "100644", b"pub fn sum(a: u32, b: u32) -> u32 {\n    a - b\n}\n"),
];

/// What a run makes of one file: its mode and content afterwards, `None` where it is deleted.
pub(crate) type Made<'a> = (&'a str, Option<(&'a str, &'a [u8])>);

/// What the run makes of them.
const AFTER: &[Made<'_>] = &[
    ("data/new.bin", Some(("100755", b"\x00\x01\xff binary\n"))),
    ("old.txt", None),
    ("src/lib.rs", Some(("100644", b"pub fn sum(a: u32, b: u32) -> u32 {\n    a + b\n}\n"))),
];

/// A run, its repository and the key that signs it.
pub(crate) struct Run {
    pub(crate) home: tempfile::TempDir,
    pub(crate) commit: String,
    pub(crate) id: RunId,
    pub(crate) salt: Salt,
    pub(crate) key: SigningKey,
    pub(crate) drafts: Vec<Draft>,
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
}

/// Whether the run was ordered with a gate, and what it says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithGate {
    Passing,
    Failing,
    None,
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "t")
        .env("GIT_AUTHOR_EMAIL", "t@example.org")
        .env("GIT_COMMITTER_NAME", "t")
        .env("GIT_COMMITTER_EMAIL", "t@example.org")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn tree_of(files: &BTreeMap<String, (String, Vec<u8>)>) -> TreeDigest {
    let entries: Vec<TreeEntry> = files
        .iter()
        .map(|(name, (mode, bytes))| TreeEntry {
            path: path(name),
            mode: mode.parse().unwrap(),
            oid: BlobOid::of(bytes),
        })
        .collect();
    tree_digest(&entries).unwrap()
}

impl Run {
    pub(crate) fn new() -> Self {
        Self::with(WithGate::Passing)
    }

    pub(crate) fn with(gate: WithGate) -> Self {
        let policy = Policy::preset(Preset::Workspace)
            .with(Layer::named("command line").rule(Effect::Deny, "exec rm*").unwrap());
        Self::making(gate, &policy, &[], &[])
    }

    /// A run that makes more of the files, from a commit that has more of them.
    pub(crate) fn making(
        gate: WithGate,
        policy: &Policy,
        more_before: &[(&str, &str, &[u8])],
        more_after: &[Made<'_>],
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let repo = home.path().join("repo");
        let mut files = BTreeMap::new();
        for (name, mode, bytes) in BEFORE.iter().chain(more_before) {
            let file = repo.join(SCOPE).join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            if *mode == "120000" {
                let target: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
                std::os::unix::fs::symlink(target, &file).unwrap();
            } else {
                std::fs::write(&file, bytes).unwrap();
                let bits = if *mode == "100755" { 0o755 } else { 0o644 };
                std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(bits)).unwrap();
            }
            files.insert((*name).to_owned(), ((*mode).to_owned(), bytes.to_vec()));
        }
        std::fs::write(repo.join("outside.txt"), "not in scope\n").unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-q", "-m", "base"]);
        let commit = git(&repo, &["rev-parse", "HEAD"]);

        let salt = Salt::new([7; 32]);
        let mut blobs = BTreeMap::new();
        let mut fact = |mode: &str, bytes: &[u8]| {
            let content = salt.digest(bytes);
            blobs.insert(content, bytes.to_vec());
            FileFact { mode: mode.to_owned(), size: bytes.len() as u64, content, kept: true }
        };
        let start = tree_of(&files);
        let mut changes = Vec::new();
        for (name, after) in AFTER.iter().chain(more_after) {
            let before = files.get(*name).map(|(mode, bytes)| fact(mode, bytes));
            let after_fact = after.map(|(mode, bytes)| fact(mode, bytes));
            match after {
                Some((mode, bytes)) => files.insert((*name).to_owned(), ((*mode).to_owned(), bytes.to_vec())),
                None => files.remove(*name),
            };
            changes.push(Change { path: path(name), before, after: after_fact });
        }
        let end = tree_of(&files);
        let count = (BEFORE.len() + more_before.len()) as u64;
        let mut run = Self {
            home,
            commit,
            id: "r0123-test".parse().unwrap(),
            salt,
            key: SigningKey::from_seed([1; 32]),
            drafts: Vec::new(),
            blobs,
        };
        run.tell(gate, policy, (&start, count), &end, &changes);
        run
    }

    fn word(&self, text: &str) -> Digest {
        self.salt.digest(text.as_bytes())
    }

    fn push(&mut self, body: Body) {
        self.drafts.push(Draft {
            at_ms: 1_796_000_000_000 + 250 * self.drafts.len() as u64,
            agent: AgentId(0),
            body,
        });
    }

    fn tell(
        &mut self,
        with: WithGate,
        policy: &Policy,
        (start, count): (&TreeDigest, u64),
        end: &TreeDigest,
        changes: &[Change],
    ) {
        let gate = Gate {
            argv: vec!["sh".into(), "run.sh".into()],
            limit_ms: 60_000,
            attempts: 1,
            ..Gate::command(Vec::new())
        };
        let gated = with != WithGate::None;
        self.push(Body::RunCreated(Box::new(RunCreated {
            provost: "0.1.0".into(),
            goal: self.word("fix sum"),
            system: self.word("system"),
            tools: self.word("[]"),
            policy: policy.clone(),
            budget: Budget::default(),
            price: Some(Price::flat(3_000_000, 15_000_000)),
            gate: gated.then(|| gate.clone()),
            limits: Limits::default(),
            model: ModelFact::new("openai-chat", "scripted", "http://127.0.0.1:1/v1"),
            routing: None,
            servers: Vec::new(),
            brief: None,
            source: Source::Commit { commit: self.commit.clone(), scope: path(SCOPE) },
            repository: None,
            root: "/srv/space".into(),
            tree: start.clone(),
            files: count,
            manifest: self.word("manifest"),
            forked: None,
            authorized: None,
        })));
        let staged = policy.workspace.is_staged().then_some(StagedBy::Copy);
        let receipt = Receipt {
            rung: Rung::R2,
            guarantees: staged.map(|_| (Guarantee::Staged, Strength::Enforced)).into_iter().collect(),
            kernel: "6.18.0".into(),
            landlock_abi: Some(7),
            image: None,
            engine: None,
            staged,
        };
        self.push(Body::DriverAttached(DriverAttached {
            generation: 1,
            host: "runner".into(),
            pid: 42,
            containment: receipt.clone(),
        }));
        self.answered(0, 2, false, Stop::ToolCalls);
        let touches: Vec<Touch> =
            changes.iter().map(|change| Touch::Write { path: change.path.clone() }).collect();
        self.decided(0, Some(0), touches, policy);
        self.push(Body::ActStarted(ActStarted {
            act: ActId(0),
            intent: Intent::Write { changes: changes.to_vec() },
        }));
        self.finished(0, ActEnd::Done, &[], None);
        let forbidden = vec![Touch::Exec {
            argv: vec!["rm".into(), "-rf".into(), "/".into()],
            program: Some("/bin/rm".into()),
        }];
        self.decided(1, Some(1), forbidden, policy);
        self.finished(1, ActEnd::Refused, &[], None);
        self.answered(1, 0, true, Stop::End);
        let summary = self.word("fixed");
        self.push(Body::Submitted(Submitted {
            step: StepId(1),
            via: SubmitVia::FinalAnswer,
            summary,
            wrong: None,
        }));
        if gated {
            self.judge(with, &gate, end, policy, receipt);
        }
        self.push(Body::RunFinished(RunFinished {
            outcome: if with == WithGate::Failing { Outcome::GateFailed } else { Outcome::Done },
            verified: with == WithGate::Passing,
            tree: end.clone(),
            needed: None,
        }));
    }

    fn judge(
        &mut self,
        with: WithGate,
        gate: &Gate,
        tree: &TreeDigest,
        policy: &Policy,
        containment: Receipt,
    ) {
        let touches = vec![Touch::Exec { argv: gate.argv.clone(), program: Some("/bin/sh".into()) }];
        self.decided(2, None, touches, policy);
        self.push(Body::ActStarted(ActStarted {
            act: ActId(2),
            intent: Intent::Command {
                argv: gate.argv.clone(),
                cwd: RelPath::root(),
                limit_ms: gate.limit_ms,
            },
        }));
        let passes = with == WithGate::Passing;
        let command = CommandFact {
            exit: ExitFact::Exited { code: i32::from(!passes) },
            duration_ms: 12,
            output_bytes: 0,
            survivors: 0,
            caps: Vec::new(),
            traffic: None,
            tests: None,
            containment: Some(containment),
        };
        let end = if passes { ActEnd::Done } else { ActEnd::Failed };
        self.finished(2, end, &[], Some(command));
        self.push(Body::GateJudged(GateJudged {
            act: ActId(2),
            tree: tree.clone(),
            verdict: if passes { GateVerdict::Passed } else { GateVerdict::Failed },
        }));
    }

    fn answered(&mut self, step: u32, calls: u32, text: bool, stop: Stop) {
        let body = ModelAnswered {
            step: StepId(step),
            invocation: invocation_id(&self.id, StepId(step)),
            route: provost_core::route::RouteId::FIRST,
            prompt: None,
            answer: self.word("answer"),
            calls,
            text,
            stop,
            usage: Usage { input: 100, output: 20, ..Usage::default() },
            estimated: false,
            raw_usage: None,
            rate_limits: None,
            model: "scripted".into(),
            latency_ms: 5,
            ttft_ms: None,
        };
        self.push(Body::ModelAnswered(body));
    }

    fn decided(&mut self, act: u32, call: Option<u32>, touches: Vec<Touch>, policy: &Policy) {
        let decision = match call {
            Some(_) => policy.decide(&touches, Rung::R2),
            None => policy.decide_ordered(&touches, Rung::R2, Ordered::Gate),
        };
        let args = self.word("args");
        self.push(Body::ActDecided(ActDecided {
            act: ActId(act),
            call: call.map(|index| CallRef { step: StepId(0), index }),
            tool: "tool".into(),
            args,
            recovery: if touches.iter().any(|touch| matches!(touch, Touch::Exec { .. })) {
                Recovery::Supervised
            } else {
                Recovery::Replayable
            },
            touches,
            decision,
        }));
    }

    fn finished(&mut self, act: u32, end: ActEnd, changes: &[Change], command: Option<CommandFact>) {
        let result = self.word("result");
        self.push(Body::ActFinished(Box::new(ActFinished {
            act: ActId(act),
            end,
            result,
            changes: changes.to_vec(),
            reverted: Vec::new(),
            unapplied: vec![],
            seen: Vec::new(),
            command,
            told: None,
            duration_ms: 3,
        })));
    }

    /// The journal of these drafts: lines, and the head.
    pub(crate) fn journal(&self) -> (Vec<u8>, Head) {
        let mut head = Head::empty();
        let mut lines = Vec::new();
        for draft in &self.drafts {
            let event = seal(&self.id, &mut head, draft.clone()).unwrap();
            lines.extend(to_canonical(&event).unwrap());
            lines.push(b'\n');
        }
        (lines, head)
    }

    pub(crate) fn content(&self) -> BundleContent {
        assemble(self.journal().0, &self.salt, |digest| self.blobs.get(digest).cloned()).unwrap()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.home.path().join("repo")
    }

    pub(crate) fn trusted(&self) -> Vec<VerifyingKey> {
        vec![self.key.verifying_key()]
    }

    /// Writes `content`, signed by the right key, to a new folder.
    pub(crate) fn write(&self, content: &BundleContent) -> PathBuf {
        self.write_signed(content, &self.key)
    }

    pub(crate) fn write_signed(&self, content: &BundleContent, key: &SigningKey) -> PathBuf {
        let dir = tempfile::tempdir_in(self.home.path()).unwrap().keep();
        bundle::write(&dir, content, key).unwrap();
        dir
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.write(&self.content())
    }

    /// Verifies with the right key and the bundle alone.
    pub(crate) fn verify(&self, dir: &Path) -> Report {
        verify(dir, &self.trusted(), None, Require::Bundle)
    }

    /// Verifies with the right key and the run's own repository.
    pub(crate) fn verify_in_repo(&self, dir: &Path) -> Report {
        let repository = Repository::discover(&self.repo()).unwrap();
        let base: &dyn Base = &repository;
        verify(dir, &self.trusted(), Some(base), Require::Repository)
    }

    /// What a dishonest holder of the right key can do: change the drafts, chain them again and sign what follows,
    /// all but what `good`, the content of the honest run, already said of the run.
    pub(crate) fn forge(&self, good: &BundleContent, tamper: impl FnOnce(&mut Vec<Draft>)) -> BundleContent {
        let mut drafts = self.drafts.clone();
        tamper(&mut drafts);
        let mut head = Head::empty();
        let mut journal = Vec::new();
        for draft in drafts {
            let event = seal(&self.id, &mut head, draft).unwrap();
            journal.extend(to_canonical(&event).unwrap());
            journal.push(b'\n');
        }
        let mut forged = good.clone();
        forged.statement.journal = sha256(&journal);
        forged.statement.result.events = head.next;
        forged.statement.result.head = head.hash;
        forged.journal = journal;
        forged
    }

    /// The same with the journal's lines as they are given.
    pub(crate) fn with_journal(good: &BundleContent, journal: Vec<u8>) -> BundleContent {
        let mut forged = good.clone();
        forged.statement.journal = sha256(&journal);
        forged.journal = journal;
        forged
    }
}

/// Every file of a bundle, relative, in order.
pub(crate) fn files_of(dir: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(
                files_of(&path).into_iter().map(|file| Path::new(path.file_name().unwrap()).join(file)),
            );
        } else {
            files.insert(PathBuf::from(path.file_name().unwrap()));
        }
    }
    files
}
