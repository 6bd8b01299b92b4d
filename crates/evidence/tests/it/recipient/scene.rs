use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, RunCreated};
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer, Policy, Preset, WorkspaceMode};
use provost_core::session::{Authorization, Danger};
use provost_evidence::authorization::{self, Signed};
use provost_evidence::bundle::{self, BundleContent, SessionFiles};
use provost_evidence::checkpoint::{Checkpoint, Origin};
use provost_evidence::dsse::{self, IN_TOTO};
use provost_evidence::git::Repository;
use provost_evidence::log::head_of;
use provost_evidence::provenance::Provenance;
use provost_evidence::test_result::TestResult;
use provost_evidence::trust::Trust;
use provost_evidence::verify::{Base, ClaimId, Code, SessionExpectation, SessionReport, verify_session};

use crate::run::{Made, Run, SCOPE, WithGate};
use crate::session::{TASK, UNTIL, allowed, authorization, key, read_trust, trust_folder};

/// Who authorizes, who only reviews, and whose the session is.
pub(super) const AUTHORITY: u8 = 1;
pub(super) const REVIEWER: u8 = 3;
pub(super) const SESSION: u8 = 7;

/// What a session is made of, and what its run does beside the usual.
pub(super) struct Plan<'a> {
    pub(super) gate: WithGate,
    /// More files of the base: path, mode, content.
    pub(super) before: &'a [(&'a str, &'a str, &'a [u8])],
    /// More changes.
    pub(super) after: &'a [Made<'a>],
    /// Where the policy's layer `authorization` denies writing.
    pub(super) protected: &'a [&'a str],
    /// What the order says otherwise than usual.
    pub(super) order: fn(&mut Authorization),
    /// What the run does otherwise than it was ordered to.
    pub(super) run: fn(&mut Run),
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self {
            gate: WithGate::Passing,
            before: &[],
            after: &[],
            protected: &["write run.sh"],
            order: |_| (),
            run: |_| (),
        }
    }
}

pub(super) struct Scene {
    pub(super) run: Run,
    pub(super) order: Authorization,
    pub(super) signed: Signed,
    pub(super) content: BundleContent,
}

pub(super) fn created(draft: &mut Draft) -> &mut RunCreated {
    match &mut draft.body {
        Body::RunCreated(created) => created,
        other => panic!("{other:?}"),
    }
}

/// A policy that lets a run write anywhere but there.
fn policy(protected: &[&str]) -> Policy {
    let mut policy = Policy::preset(Preset::Workspace);
    // Without the preset's own list of files that nobody changes by way of an agent: what is looked at is the recipient's
    // side.
    policy.layers.truncate(1);
    // As each session's: what commands change comes into the workspace when they have ended.
    policy.workspace = WorkspaceMode::staged();
    let mut layer = Layer::named("authorization");
    for rule in protected {
        layer = layer.rule(Effect::Deny, rule).unwrap();
    }
    policy.with(Layer::named("command line").rule(Effect::Deny, "exec rm*").unwrap()).with(layer)
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::of(&Plan::default())
    }

    pub(super) fn of(plan: &Plan<'_>) -> Self {
        let mut run = Run::making(plan.gate, &policy(plan.protected), plan.before, plan.after);
        created(&mut run.drafts[0]).goal = run.salt.digest(TASK);
        run.key = key(SESSION);
        let mut order = authorization(&run, &run.key.verifying_key());
        // The usual run makes a file that is no text.
        order.request.allowed = BTreeSet::from([Danger::Binaries]);
        (plan.order)(&mut order);
        let signed = authorization::sign(&order, &[&key(AUTHORITY)]).unwrap();
        created(&mut run.drafts[0]).authorized = Some(Box::new(order.fact(signed.payload)));
        (plan.run)(&mut run);
        let content = run.content();
        Self { run, order, signed, content }
    }

    /// What the session's key signs of this content, honest or not.
    pub(super) fn files(&self, content: &BundleContent) -> SessionFiles {
        let key = &self.run.key;
        let origin = Origin::session(&self.order.request.session);
        let checkpoint = Checkpoint { origin, log: head_of(&content.journal) };
        let signed = checkpoint.sign(key);
        let (statement, payload) = (&content.statement, &self.signed.payload);
        let provenance = Provenance::of(statement, &self.order, payload, &checkpoint, &signed);
        let tests = TestResult::of(&content.statement.result, &self.order).unwrap();
        let sign = |json: Vec<u8>| dsse::sign(IN_TOTO, &json, &[key]).unwrap();
        SessionFiles {
            authorization: self.signed.envelope.clone(),
            signatures: self.signed.ssh.clone(),
            task: TASK.to_vec(),
            checkpoint: signed,
            provenance: sign(provenance.to_json().unwrap()),
            test_result: tests.map(|tests| sign(tests.to_json().unwrap())),
        }
    }

    /// Writes this content as the session's, all of it signed by the session's key.
    pub(super) fn write(&self, content: &BundleContent) -> PathBuf {
        let files = self.files(content);
        self.write_with(content, files)
    }

    pub(super) fn write_with(&self, content: &BundleContent, files: SessionFiles) -> PathBuf {
        let dir = tempfile::tempdir_in(self.run.home.path()).unwrap().keep();
        let content = BundleContent { session: Some(files), ..content.clone() };
        bundle::write(&dir, &content, &self.run.key).unwrap();
        dir
    }

    pub(super) fn bundle(&self) -> PathBuf {
        self.write(&self.content)
    }

    /// What a dishonest runner makes of the history: chained and signed anew.
    pub(super) fn forge(&self, tamper: impl FnOnce(&mut Vec<Draft>)) -> BundleContent {
        let mut forged = self.run.forge(&self.content, tamper);
        forged.statement.result.log = Some(head_of(&forged.journal));
        forged
    }

    /// As the recipient verifies it who expects just this session.
    pub(super) fn verify(&self, dir: &Path) -> SessionReport {
        self.verify_by(dir, |_| ())
    }

    /// As one verifies it who expects something else.
    pub(super) fn verify_by(&self, dir: &Path, expect: impl FnOnce(&mut Expected)) -> SessionReport {
        let mut expected = Expected {
            trust: trust(&[]),
            repository: Some(self.order.request.repository),
            commit: self.run.commit.clone(),
            scope: RelPath::parse(SCOPE).unwrap(),
            task: Some(TASK.to_vec()),
            audience: Some(self.order.request.audience.clone()),
            allow: BTreeSet::new(),
            now_ms: UNTIL + 1_000_000,
            base: true,
        };
        expect(&mut expected);
        let repository = Repository::discover(&self.run.repo()).unwrap();
        verify_session(
            dir,
            &SessionExpectation {
                trust: &expected.trust,
                base: expected.base.then_some(&repository as &dyn Base),
                repository: expected.repository,
                commit: &expected.commit,
                scope: &expected.scope,
                task: expected.task.as_deref(),
                audience: expected.audience.as_deref(),
                allow: &expected.allow,
                now_ms: expected.now_ms,
            },
        )
    }
}

/// What the recipient expects, in their own hands.
pub(super) struct Expected {
    pub(super) trust: Trust,
    pub(super) repository: Option<Digest>,
    pub(super) commit: String,
    pub(super) scope: RelPath,
    pub(super) task: Option<Vec<u8>>,
    pub(super) audience: Option<String>,
    pub(super) allow: BTreeSet<Danger>,
    pub(super) now_ms: u64,
    pub(super) base: bool,
}

/// The recipient's trust folder: an authority, a reviewer, and these files.
pub(super) fn trust(more: &[(&str, &str)]) -> Trust {
    let keys = [
        allowed("alice", "", &key(AUTHORITY).verifying_key()),
        allowed("carol", "namespaces=\"provost-review\"", &key(REVIEWER).verifying_key()),
    ]
    .concat();
    let files = [&[("allowed_signers", keys.as_str())], more].concat();
    read_trust(trust_folder(&files).path())
}

#[track_caller]
pub(super) fn assert_taken(report: &SessionReport) {
    assert!(report.ok(), "{:?} {:?}", report.report.code, report.report.first_lack());
    assert_eq!(report.report.code, Code::Verified);
}

/// Refused with this code, by this claim, in these words; what is said has nothing in it that a terminal acts on.
#[track_caller]
pub(super) fn assert_refused(report: &SessionReport, code: Code, claim: ClaimId, words: &str) {
    assert!(!report.ok(), "{report:#?}");
    let (id, why) = report.report.first_lack().expect("a refusal names its claim");
    assert_eq!((report.report.code, id), (code, claim), "{why}");
    assert!(why.contains(words), "`{why}` does not say `{words}`");
    let told = report.notes.iter().map(String::as_str).chain([why]);
    assert!(told.flat_map(str::chars).all(|c| !c.is_control()), "{why:?}");
}
