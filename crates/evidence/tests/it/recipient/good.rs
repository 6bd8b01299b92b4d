//! The good session, and what it is made from.

use provost_evidence::bundle;
use provost_evidence::export::{Ordered, seal};
use provost_evidence::keys::SigningKey;
use provost_evidence::verify::{ClaimId, Code, Finding};

use super::scene::{Plan, SESSION, Scene, assert_refused, assert_taken};
use crate::run::{Run, WithGate};
use crate::session::{FROM, TASK};

#[test]
fn a_good_session_is_taken_claim_by_claim() {
    let scene = Scene::new();
    let report = scene.verify(&scene.bundle());
    assert_taken(&report);
    for claim in &report.report.claims {
        assert_eq!(claim.finding, Finding::Held, "{}", claim.id);
    }
    let order: Vec<ClaimId> = report.report.claims.iter().map(|claim| claim.id).collect();
    assert_eq!(order, ClaimId::SESSION);
    assert_eq!(report.authorized_by, ["alice"]);
    assert_eq!(
        report.notes,
        [
            "`data/new.bin` is new, with mode 100755",
            "`data/new.bin` is no text: nobody can read in a patch what it holds; the authorization allows it",
        ]
    );
    assert_eq!(FROM, report.report.result.unwrap().started_ms);
}

#[test]
fn the_same_session_gives_the_same_bytes() {
    let scene = Scene::new();
    let ordered = || Ordered {
        authorization: scene.signed.envelope.clone(),
        signatures: scene.signed.ssh.clone(),
        task: TASK.to_vec(),
    };
    let key = SigningKey::from_seed([SESSION; 32]);
    let sealed = || seal(scene.run.content(), ordered(), &key).unwrap();
    assert_eq!(sealed(), sealed());
    assert_eq!(sealed(), bundle::read(&scene.bundle()).unwrap());
    // What would not verify is not sealed.
    let refused =
        |ordered, key: &SigningKey| seal(scene.run.content(), ordered, key).unwrap_err().to_string();
    let other = Ordered { task: b"another".to_vec(), ..ordered() };
    assert!(refused(other, &key).contains("the task at hand"));
    assert!(refused(ordered(), &SigningKey::from_seed([8; 32])).contains("the key at hand"));
    let unauthorized = Run::new().content();
    let error = seal(unauthorized, ordered(), &key).unwrap_err();
    assert!(error.to_string().contains("no authorization"), "{error}");
}

#[test]
fn a_session_without_a_gate_is_taken_and_one_whose_gate_fails_is_not() {
    let scene = Scene::of(&Plan { gate: WithGate::None, ..Plan::default() });
    assert_taken(&scene.verify(&scene.bundle()));
    let scene = Scene::of(&Plan { gate: WithGate::Failing, ..Plan::default() });
    assert_refused(&scene.verify(&scene.bundle()), Code::Acceptance, ClaimId::Gate, "gate_failed");
}

#[test]
fn without_a_repository_nothing_is_proven_of_the_start() {
    let scene = Scene::new();
    let report = scene.verify_by(&scene.bundle(), |expected| expected.base = false);
    assert_refused(&report, Code::CannotCheck, ClaimId::Base, "no repository was given");
}
