//! Who authorized what, for whom and for how long.

use provost_core::digest::Digest;
use provost_core::event::Body;
use provost_core::path::RelPath;
use provost_evidence::authorization;
use provost_evidence::bundle;
use provost_evidence::dsse::{self, IN_TOTO};
use provost_evidence::keys::SigningKey;
use provost_evidence::verify::{ClaimId, Code, lies_within};

use super::scene::{AUTHORITY, Plan, REVIEWER, SESSION, Scene, assert_refused, assert_taken, created, trust};
use crate::session::{FROM, TASK, UNTIL, allowed, key, read_trust, trust_folder};

/// Attack 22: an authorization that was used for another session.
#[test]
fn an_authorization_of_another_session_is_refused() {
    let scene = Scene::new();
    let other = Scene::of(&Plan { order: |order| order.request.nonce = Digest::ZERO, ..Plan::default() });
    // All the runner has: their own session's key signs the run that the other's authorization was for.
    let mut files = scene.files(&scene.content);
    files.authorization = other.signed.envelope.clone();
    files.signatures = other.signed.ssh.clone();
    let report = scene.verify(&scene.write_with(&scene.content, files));
    assert_refused(&report, Code::Other, ClaimId::Contract, "under the authorization");
    // And a run of another name under it.
    let renamed = Scene::of(&Plan {
        order: |order| order.request.session = "r9999-other".parse().unwrap(),
        ..Plan::default()
    });
    let report = renamed.verify(&renamed.bundle());
    assert_refused(&report, Code::Other, ClaimId::Contract, "the run's `session`");
}

/// Attack 23: before and after the time.
#[test]
fn what_begins_out_of_time_is_refused() {
    let scene = Scene::new();
    let last = |drafts: &[provost_core::event::Draft]| {
        drafts.iter().rposition(|draft| matches!(draft.body, Body::ActStarted(_))).unwrap()
    };
    // At the edges.
    for (shift, taken) in [(0_i64, true), (-1, false)] {
        let forged = scene.forge(|drafts| {
            for draft in drafts {
                draft.at_ms = draft.at_ms.saturating_add_signed(shift);
            }
        });
        let mut forged = forged;
        forged.statement.result.started_ms = FROM.saturating_add_signed(shift);
        forged.statement.result.finished_ms =
            scene.content.statement.result.finished_ms.saturating_add_signed(shift);
        let report = scene.verify(&scene.write(&forged));
        if taken {
            assert_taken(&report);
        } else {
            assert_refused(&report, Code::OutOfTime, ClaimId::Window, "event 0 (run.created)");
        }
    }
    for (at_ms, taken) in [(UNTIL - 1, true), (UNTIL, false)] {
        let mut forged = scene.forge(|drafts| {
            let from = last(drafts);
            for draft in &mut drafts[from..] {
                draft.at_ms = at_ms;
            }
        });
        forged.statement.result.finished_ms = at_ms;
        let report = scene.verify(&scene.write(&forged));
        if taken {
            assert_taken(&report);
        } else {
            assert_refused(&report, Code::OutOfTime, ClaimId::Window, "(act.started) begins something");
        }
    }
    // What was under way may end later.
    let mut late = scene.forge(|drafts| {
        let from = last(drafts) + 1;
        for draft in &mut drafts[from..] {
            draft.at_ms = UNTIL + 60_000;
        }
    });
    late.statement.result.finished_ms = UNTIL + 60_000;
    assert_taken(&scene.verify(&scene.write(&late)));
    // One that is to hold later holds not yet, whatever its run says.
    let report = scene.verify_by(&scene.bundle(), |expected| expected.now_ms = FROM - 1);
    assert_refused(&report, Code::OutOfTime, ClaimId::Request, "is to come");
}

/// Attack 32, as far as a journal shows it.
#[test]
fn a_clock_that_goes_backwards_is_refused() {
    let scene = Scene::new();
    let forged = scene.forge(|drafts| drafts[3].at_ms -= 400);
    let report = scene.verify(&scene.write(&forged));
    assert_refused(&report, Code::Log, ClaimId::State, "dated before the event before it");
}

/// Attack 24: taken back.
#[test]
fn what_was_revoked_is_refused() {
    let scene = Scene::new();
    let dir = scene.bundle();
    let with = |file: &str, text: &str| {
        let trust = trust(&[(file, text)]);
        scene.verify_by(&dir, |expected| expected.trust = trust)
    };
    assert_taken(&with("revoked", "r0000-another\n"));
    for id in [scene.run.id.to_string(), scene.signed.payload.to_string()] {
        assert_refused(&with("revoked", &id), Code::OutOfTime, ClaimId::Revocation, "revoked");
    }
    let line = provost_evidence::ssh::public::line(&key(AUTHORITY).verifying_key());
    assert_refused(&with("revoked_keys", &line), Code::OutOfTime, ClaimId::Authorization, "revoked");
}

/// Attack 25: for somebody else.
#[test]
fn an_authorization_for_others_is_refused() {
    let scene = Scene::new();
    let dir = scene.bundle();
    let report = scene.verify_by(&dir, |expected| expected.audience = Some("runner-2".into()));
    assert_refused(&report, Code::Other, ClaimId::Request, "`runner-1`; you expect `runner-2`");
    let report = scene.verify_by(&dir, |expected| expected.repository = Some(Digest::ZERO));
    assert_refused(&report, Code::Other, ClaimId::Request, "the repository");
    let report = scene.verify_by(&dir, |expected| expected.commit = "1".repeat(40));
    assert_refused(&report, Code::Other, ClaimId::Request, "the commit");
    for scope in [".", "pkg/src", "other"] {
        let report = scene.verify_by(&dir, |expected| expected.scope = RelPath::parse(scope).unwrap());
        assert_refused(&report, Code::Other, ClaimId::Request, "the scope `pkg`");
    }
    // Who does not ask takes it.
    assert_taken(&scene.verify_by(&dir, |expected| {
        (expected.audience, expected.repository, expected.task) = (None, None, None);
    }));
}

/// How a runner tells of a run that is not the one that was authorized.
type Tell = fn(&mut provost_core::event::RunCreated);

/// Attack 26: another task, other limits.
#[test]
fn another_task_or_limit_is_refused() {
    let scene = Scene::new();
    let other = b"Make the sum a product.\n".to_vec();
    let report = scene.verify_by(&scene.bundle(), |expected| expected.task = Some(other.clone()));
    assert_refused(&report, Code::Other, ClaimId::Request, "yours is");
    // One byte of it, in the bundle.
    let dir = scene.bundle();
    std::fs::write(dir.join("session/task.md"), &TASK[1..]).unwrap();
    assert_refused(&scene.verify(&dir), Code::Other, ClaimId::Request, "`session/task.md`");

    let told_otherwise: [(Tell, &str); 6] = [
        (|it| it.goal = Digest::ZERO, "the run's goal"),
        (|it| it.budget.steps = Some(10_000), "`budget`"),
        (|it| it.price = None, "`price`"),
        (|it| it.limits.output_bytes += 1, "`limits`"),
        (|it| it.model.name = "cheap".into(), "`model`"),
        (|it| it.authorized.as_mut().unwrap().rollbacks += 1, "under the authorization"),
    ];
    for (tell, words) in told_otherwise {
        let forged = scene.forge(|drafts| tell(created(&mut drafts[0])));
        assert_refused(&scene.verify(&scene.write(&forged)), Code::Other, ClaimId::Contract, words);
    }
    let forged = scene.forge(|drafts| created(&mut drafts[0]).authorized = None);
    assert_refused(
        &scene.verify(&scene.write(&forged)),
        Code::Other,
        ClaimId::Contract,
        "not made under an authorization",
    );
}

/// Attack 27: the wrong key, the wrong role, the wrong kind of statement.
#[test]
fn keys_and_statements_are_not_confused() {
    let scene = Scene::new();
    let resigned = |seed: u8| {
        let signed = authorization::sign(&scene.order, &[&key(seed)]).unwrap();
        let mut files = scene.files(&scene.content);
        (files.authorization, files.signatures) = (signed.envelope, signed.ssh);
        scene.verify(&scene.write_with(&scene.content, files))
    };
    assert_taken(&resigned(AUTHORITY));
    for seed in [REVIEWER, SESSION, 99] {
        assert_refused(&resigned(seed), Code::Untrusted, ClaimId::Authorization, "0 of 1 needed");
    }
    let dir = scene.bundle();
    let two = trust(&[("trust.toml", "threshold = 2\n")]);
    let report = scene.verify_by(&dir, |expected| expected.trust = two);
    assert_refused(&report, Code::Untrusted, ClaimId::Authorization, "1 of 2 needed");

    // The authority's own key is none of the session's.
    let put = |name: &str, bytes: Vec<u8>| {
        let dir = scene.bundle();
        std::fs::write(dir.join(name), bytes).unwrap();
        scene.verify(&dir)
    };
    let result = scene.content.statement.to_json().unwrap();
    let by_authority = dsse::sign(IN_TOTO, &result, &[&key(AUTHORITY)]).unwrap();
    let report = put("result.dsse.json", by_authority);
    assert_refused(&report, Code::Untrusted, ClaimId::Signature, "trusted are");
    // One statement of the session in the place of another.
    let files = scene.files(&scene.content);
    let report = put("result.dsse.json", files.provenance.clone());
    assert_refused(&report, Code::Malformed, ClaimId::Statement, "slsa.dev/provenance");
    let report = put("session/provenance.dsse.json", files.test_result.clone().unwrap());
    assert_refused(&report, Code::Log, ClaimId::Provenance, "differs at byte");
    let report = put("session/test-result.dsse.json", files.provenance.clone());
    assert_refused(&report, Code::Log, ClaimId::TestResult, "differs at byte");
    let dir = scene.bundle();
    std::fs::write(dir.join("session/authorization.json"), files.provenance).unwrap();
    std::fs::remove_file(dir.join("session/authorization.json.sig")).unwrap();
    let report = scene.verify(&dir);
    assert_refused(&report, Code::Malformed, ClaimId::Authorization, "slsa.dev/provenance");

    // A key for which anybody can sign.
    let weak = Scene::of(&Plan {
        order: |order| {
            let mut identity = [0; 32];
            identity[0] = 1;
            order.request.key = Digest::new(identity);
        },
        ..Plan::default()
    });
    let report = weak.verify(&weak.bundle());
    assert_refused(&report, Code::Malformed, ClaimId::Authorization, "small order");
}

/// Attack 28: the recipient's trust taken from the bundle.
#[test]
fn a_trust_folder_within_the_bundle_is_told_by_the_kernel() {
    let scene = Scene::new();
    let dir = scene.bundle();
    let inside = dir.join("trust");
    std::fs::create_dir(&inside).unwrap();
    let line = allowed("mallory", "", &key(99).verifying_key());
    std::fs::write(inside.join("allowed_signers"), line).unwrap();
    assert!(lies_within(&inside, &dir).unwrap() && lies_within(&dir, &dir).unwrap());
    // By whatever way it is named.
    let link = scene.run.home.path().join("link");
    std::os::unix::fs::symlink(&inside, &link).unwrap();
    assert!(lies_within(&link, &dir).unwrap());
    assert!(lies_within(&dir.join("blobs/../trust"), &dir).unwrap());
    let outside = trust_folder(&[]);
    assert!(!lies_within(outside.path(), &dir).unwrap());
    assert!(!lies_within(&dir, &inside).unwrap());
    assert!(lies_within(&dir.join("nowhere"), &dir).is_err());
    // As it does not belong to a bundle, that is no bundle anyway.
    let mallory = read_trust(&inside);
    let signed = authorization::sign(&scene.order, &[&SigningKey::from_seed([99; 32])]).unwrap();
    std::fs::write(dir.join("session").join(bundle::AUTHORIZATION), signed.envelope).unwrap();
    std::fs::write(dir.join("session").join(bundle::signature_name(0)), &signed.ssh[0]).unwrap();
    let report = scene.verify_by(&dir, |expected| expected.trust = mallory);
    assert_refused(&report, Code::Malformed, ClaimId::Files, "`trust` does not belong");
}
