//! The statements that follow from a session: what they say, and that they have one spelling.

use proptest::prelude::*;

use provost_evidence::dsse;
use provost_evidence::in_toto::{BadStatement, predicate_type};
use provost_evidence::keys::VerifyingKey;
use provost_evidence::provenance::{PROVENANCE_TYPE, Provenance};
use provost_evidence::test_result::{TEST_RESULT_TYPE, TestResult, Verdict};
use provost_evidence::trust::Distrust;
use provost_evidence::vsa::{self, Outcome, ReviewError, VSA_TYPE, Vsa};

use crate::others::Evidence;
use crate::run::{Run, WithGate};
use crate::session::{NOW, allowed, authorization, key, read_trust, trust_folder};

fn payload(envelope: &[u8], key: &VerifyingKey) -> String {
    String::from_utf8(dsse::verify(envelope, std::slice::from_ref(key)).unwrap().payload).unwrap()
}

/// The payloads of provenance, test result and VSA.
fn payloads() -> [String; 3] {
    let evidence = Evidence::of(&Run::new());
    let [_, provenance, test_result, vsa] = evidence.envelopes();
    [provenance, test_result, vsa].map(|(envelope, _, key)| payload(envelope, &key))
}

/// Reads a payload as what its type says, and writes it again.
fn again(payload: &[u8]) -> Result<Vec<u8>, BadStatement> {
    Ok(match predicate_type(payload).as_deref() {
        Some(PROVENANCE_TYPE) => Provenance::from_json(payload)?.to_json(),
        Some(TEST_RESULT_TYPE) => TestResult::from_json(payload)?.to_json(),
        Some(VSA_TYPE) => Vsa::from_json(payload)?.to_json(),
        _ => return Err(BadStatement::Shape(String::new())),
    }
    .unwrap())
}

#[test]
fn they_say_what_follows_from_the_session() {
    let pretty = payloads().map(|payload| {
        let value: serde_json::Value = serde_json::from_str(&payload).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    });
    insta::assert_snapshot!(pretty.join("\n"));
}

#[test]
fn they_are_made_the_same_each_time() {
    let run = Run::new();
    let (one, two) = (Evidence::of(&run), Evidence::of(&run));
    assert_eq!(one.envelopes(), two.envelopes());
    assert_eq!(one.checkpoint, two.checkpoint);
}

#[test]
fn they_are_read_in_one_spelling() {
    for good in payloads() {
        assert_eq!(again(good.as_bytes()).unwrap(), good.as_bytes());
        for (from, to) in [
            ("\"subject\":", "\"subject\": "),
            ("\"predicate\":{", "\"predicate\":{\"aFieldOfOurs\":1,"),
            ("\"subject\":[", "\"subject\":[{\"digest\":{},\"name\":\"a\"},"),
            ("Statement/v1", "Statement/v2"),
            ("\"gitTree\":\"", "\"gitTree\":\"0"),
        ] {
            let other = good.replacen(from, to, 1);
            assert_ne!(other, good, "{from}");
            // Another tree is a good statement about another tree.
            if from.contains("gitTree") {
                assert!(again(other.as_bytes()).is_ok());
            } else {
                assert!(again(other.as_bytes()).is_err(), "{from} as {to}");
            }
        }
    }
}

#[test]
fn parts_that_are_fixed_are_looked_at() {
    let [provenance, _, vsa] = payloads();
    let other = provenance.replacen("governed-session/v1", "governed-session/v2", 1);
    assert_eq!(Provenance::from_json(other.as_bytes()), Err(BadStatement::Predicate("buildType")));
    let other = provenance.replacen("provost.run/runner", "example.org/runner", 1);
    assert_eq!(Provenance::from_json(other.as_bytes()), Err(BadStatement::Predicate("builder.id")));
    let other = vsa.replacen("PASSED", "FAILED", 1);
    assert_eq!(Vsa::from_json(other.as_bytes()), Err(BadStatement::Predicate("verifiedLevels")));
}

#[test]
fn a_review_counts_by_a_reviewer() {
    let evidence = Evidence::of(&Run::new());
    let verified = |seed: u8, options: &str| {
        let line = allowed("carol", options, &key(seed).verifying_key());
        vsa::verify(&evidence.vsa, &read_trust(trust_folder(&[("allowed_signers", &line)]).path()), NOW)
    };
    let (vsa, who) = verified(3, "namespaces=\"provost-review\"").unwrap();
    assert_eq!((vsa.predicate.verification_result, who.as_str()), (Outcome::Passed, "carol"));
    let reasons = |error: ReviewError| match error {
        ReviewError::Untrusted { others } => others.into_iter().map(|(_, why)| why).collect::<Vec<_>>(),
        other => panic!("{other}"),
    };
    assert_eq!(
        reasons(verified(3, "namespaces=\"provost-authorization\"").unwrap_err()),
        [Distrust::OtherRole]
    );
    assert_eq!(reasons(verified(3, "valid-before=\"20200101Z\"").unwrap_err()), [Distrust::Expired]);
    assert_eq!(reasons(verified(4, "").unwrap_err()), [Distrust::Unknown]);
    // A reviewer's signature under something else is no review.
    let line = allowed("carol", "", &key(1).verifying_key());
    let trust = read_trust(trust_folder(&[("allowed_signers", &line)]).path());
    let other = vsa::verify(&evidence.authorization.envelope, &trust, NOW);
    assert!(matches!(other, Err(ReviewError::Statement(BadStatement::Type { .. }))));
}

#[test]
fn a_gate_that_said_nothing_has_no_test_result() {
    let of = |with| {
        let run = Run::with(with);
        let asked = authorization(&run, &key(7).verifying_key());
        TestResult::of(&run.content().statement.result, &asked).unwrap()
    };
    assert_eq!(of(WithGate::Passing).unwrap().predicate.result, Verdict::Passed);
    assert_eq!(of(WithGate::Failing).unwrap().predicate.result, Verdict::Failed);
    assert_eq!(of(WithGate::None), None);
}

proptest! {
    #[test]
    fn what_is_read_is_written_the_same(which in 0..3usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        use std::sync::LazyLock;
        static GOOD: LazyLock<[String; 3]> = LazyLock::new(payloads);
        let mut edited = GOOD[which].clone().into_bytes();
        let at = at.index(edited.len());
        edited[at] = byte;
        if let Ok(written) = again(&edited) {
            prop_assert_eq!(written, edited);
        }
    }
}
