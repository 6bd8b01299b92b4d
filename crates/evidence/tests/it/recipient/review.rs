//! What a reviewer signs of a session that they verified, and what it counts for whoever trusts them.

use provost_evidence::authorization;
use provost_evidence::bundle::{self, Bundle};
use provost_evidence::vsa::{self, NotReviewable, Outcome, Review};

use super::scene::{AUTHORITY, Plan, REVIEWER, Scene, trust};
use crate::run::{Run, WithGate};
use crate::session::{NOW, key};

fn read(scene: &Scene) -> Bundle {
    bundle::read(&scene.bundle()).unwrap()
}

#[test]
fn a_review_is_of_this_bundle_and_of_no_other() {
    let scene = Scene::new();
    let read_bundle = read(&scene);
    let mine = Review::of(&read_bundle, Outcome::Passed, NOW).unwrap();
    let signed = mine.clone().sign(&[&key(REVIEWER)]).unwrap();
    let (said, who) = vsa::verify(&signed, &trust(&[]), NOW).unwrap();
    assert_eq!((mine.differs(&said), who.as_str()), (None, "carol"));
    let names: Vec<&str> = mine.inputs.keys().map(String::as_str).collect();
    assert!(
        names.contains(&"result.dsse.json") && names.contains(&"session/authorization.json"),
        "{names:?}"
    );
    // When somebody looked is theirs to say.
    let later = Review::of(&read_bundle, Outcome::Passed, NOW + 5000).unwrap();
    assert_eq!(later.differs(&said), None);

    // Who is trusted for everything may review; a stranger may not.
    let other = mine.clone().sign(&[&key(AUTHORITY)]).unwrap();
    let trust_both = trust(&[("revoked", "")]);
    assert!(vsa::verify(&other, &trust_both, NOW).is_ok(), "alice may do anything");
    let stranger = mine.clone().sign(&[&key(9)]).unwrap();
    let error = vsa::verify(&stranger, &trust_both, NOW).unwrap_err().to_string();
    assert!(error.contains("no trusted reviewer"), "{error}");

    // What does not fit is named.
    let failed = Review { outcome: Outcome::Failed, ..mine.clone() };
    assert_eq!(mine.differs(&failed.into()), Some("it says that the result did not verify"));
    let mut patched = read_bundle.clone();
    patched.patch.push(b'\n');
    let patched = Review::of(&patched, Outcome::Passed, NOW).unwrap();
    assert_eq!(patched.differs(&said), Some("it is of another patch"));
    let another = Scene::of(&Plan { order: |order| order.expires_ms += 1, ..Plan::default() });
    let another = Review::of(&read(&another), Outcome::Passed, NOW).unwrap();
    assert_eq!(another.differs(&said), Some("it was held to another authorization"));
}

#[test]
fn an_ordinary_run_and_what_is_no_result_have_no_review() {
    let run = Run::with(WithGate::Passing);
    let ordinary = run.content().sign(&run.key).unwrap();
    assert!(matches!(Review::of(&ordinary, Outcome::Passed, NOW), Err(NotReviewable::NoSession)));
    let good = read(&Scene::new());
    let torn = Bundle { envelope: b"{}".to_vec(), ..good.clone() };
    assert!(matches!(Review::of(&torn, Outcome::Failed, NOW), Err(NotReviewable::Envelope(_))));
    let mut other = good.clone();
    if let Some(session) = &mut other.session {
        session.authorization.clone_from(&good.envelope);
    }
    assert!(matches!(Review::of(&other, Outcome::Failed, NOW), Err(NotReviewable::Statement(_))));
    assert!(Review::of(&good, Outcome::Failed, NOW).is_ok(), "the control");
}

#[test]
fn who_signed_both_ways_and_does_not_count_is_named_once() {
    let scene = Scene::new();
    let stranger = authorization::sign(&scene.order, &[&key(9)]).unwrap();
    let error = authorization::verify(&stranger.envelope, &stranger.ssh, &trust(&[]), NOW).unwrap_err();
    assert_eq!(error.to_string().matches("not among the trusted keys").count(), 1, "{error}");
    assert!(error.to_string().contains("SHA256:"), "{error}");
}
