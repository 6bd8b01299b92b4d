//! A governed session's bundle before its recipient.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use provost_core::containment::{Guarantee, Strength};
use provost_core::digest::Digest;
use provost_core::event::{Body, Draft};
use provost_core::policy::WorkspaceMode;
use provost_core::session::{Authorization, Danger};
use provost_core::staged::ActStaged;
use provost_evidence::authorization;
use provost_evidence::bundle::{Bundle, read};
use provost_evidence::canonical::{sha256, to_canonical};
use provost_evidence::chain::{Head, seal};
use provost_evidence::cosign::unverified;
use provost_evidence::dsse;
use provost_evidence::export::{self, Ordered, assemble};
use provost_evidence::replay::read_journal;
use provost_evidence::statement::Statement;
use provost_evidence::trust::Trust;
use provost_evidence::verify::{SessionExpectation, SessionReport, verify_session};

use crate::session::{NOW, asked};
use crate::world::{key, world};

const TASK: &[u8] = b"Repair it.\n";

/// The run of `fixtures/bundle` as a session: its order, its bundle, and who authorized it.
struct Session {
    order: Authorization,
    bundle: Bundle,
    trust: Trust,
}

static SESSION: LazyLock<Session> = LazyLock::new(|| {
    let mut order = asked();
    order.request.task = sha256(TASK);
    order.request.policy.workspace = WorkspaceMode::staged();
    (order.not_before_ms, order.expires_ms) = (1, 1 << 52);
    let signed = authorization::sign(&order, &[&key()]).expect("signed");

    let fixture = read(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle")).expect("the fixture");
    let verified = dsse::verify(&fixture.envelope, &[key().verifying_key()]).expect("the fixture");
    let salt = Statement::from_json(&verified.payload).expect("the fixture").result.salt;
    let (mut head, mut journal) = (Head::empty(), Vec::new());
    let mut gate = false;
    for event in read_journal(&fixture.journal).expect("the fixture").0 {
        let mut draft = Draft { at_ms: event.at_ms, agent: event.agent, body: event.body };
        let mut before = None;
        match &mut draft.body {
            Body::RunCreated(created) => {
                created.goal = salt.digest(TASK);
                created.policy.workspace = WorkspaceMode::staged();
                created.authorized = Some(Box::new(order.fact(signed.payload)));
            }
            // A session's changes are staged. The run's own commands, all but the gate's, changed nothing.
            Body::DriverAttached(attached) => {
                attached.containment.guarantees.insert(Guarantee::Staged, Strength::Enforced);
            }
            Body::Submitted(_) => gate = true,
            Body::ActFinished(finished) if finished.command.is_some() && !gate => {
                let staged = ActStaged { act: finished.act, changes: vec![], unapplied: vec![], beside: 0 };
                before = Some(Draft { body: Body::ActStaged(Box::new(staged)), ..draft.clone() });
            }
            _ => {}
        }
        for draft in before.into_iter().chain([draft]) {
            let event = seal(&event.stream, &mut head, draft).expect("sealed");
            journal.extend(to_canonical(&event).expect("canonical"));
            journal.push(b'\n');
        }
    }
    let blobs: BTreeMap<Digest, Vec<u8>> = fixture.blobs;
    let content = assemble(journal, &salt, |digest| blobs.get(digest).cloned()).expect("a session that is over");
    let ordered =
        Ordered { authorization: signed.envelope, signatures: signed.ssh, task: TASK.to_vec() };
    let bundle = export::seal(content, ordered, &key()).expect("sealed");

    let folder = tempfile::tempdir().expect("a folder");
    let pem = key().verifying_key().to_pem().expect("PEM");
    fs::write(folder.path().join("a.pem"), pem).expect("a file");
    Session { order, bundle, trust: Trust::read(folder.path()).expect("a trust folder") }
});

fn check(dir: &Path) -> SessionReport {
    let request = &SESSION.order.request;
    verify_session(
        dir,
        &SessionExpectation {
            trust: &SESSION.trust,
            base: None,
            repository: Some(request.repository),
            commit: request.source.commit().unwrap_or_default(),
            scope: request.source.scope(),
            task: Some(TASK),
            audience: Some(&request.audience),
            allow: &BTreeSet::from(Danger::ALL),
            now_ms: NOW,
        },
    )
}

/// A session's bundle that was good, with one file replaced: its name in the first line, its content behind it. Something
/// fails exactly when something changed. An SSH signature has other spellings, and need only be survived; an order that is signed
/// in both ways may lose one of them or be signed by more people, and is the same order.
pub fn session(data: &[u8]) {
    let cut = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (name, content) = (&data[..cut], data.get(cut + 1..).unwrap_or_default());
    world(|world| {
        let dir = world.path().join("session-bundle");
        if !dir.exists() {
            SESSION.bundle.write(&dir).expect("a bundle");
        }
        let known = [
            "session/authorization.json",
            "session/authorization.json.sig",
            "session/task.md",
            "session/checkpoint",
            "session/provenance.dsse.json",
            "session/test-result.dsse.json",
            "result.dsse.json",
            "journal.jsonl",
        ];
        let path = match known.into_iter().find(|known| known.as_bytes() == name) {
            Some(known) if dir.join(known).is_file() => dir.join(known),
            // As good a place as any: nothing is changed then.
            _ => return assert_eq!(check(&dir).report.first_failure(), None),
        };
        let honest = fs::read(&path).expect("the session's");
        // A seed cannot hold what is signed anew each time: a mark stands for what was there.
        let content = match content.strip_prefix(b"@") {
            Some(at) => changed(&honest, at),
            None => content.to_vec(),
        };
        fs::write(&path, &content).expect("a file");
        let report = check(&dir);
        fs::write(&path, &honest).expect("a file");
        let holds = report.report.first_failure().is_none();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("authorization.json.sig") => {}
            Some("authorization.json") => {
                assert!(holds || content != honest);
                assert!(!holds || unverified(&content).is_ok_and(|order| order == SESSION.order));
            }
            _ => assert_eq!(holds, content == honest),
        }
    });
}

/// The honest content with some of its bytes changed: each pair says where, and to what.
fn changed(honest: &[u8], pairs: &[u8]) -> Vec<u8> {
    let mut content = honest.to_vec();
    for pair in pairs.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([pair[0], pair[1]])) % content.len().max(1);
        if let Some(byte) = content.get_mut(at) {
            *byte = pair[2];
        }
    }
    content
}
