//! securesystemslib for the envelopes, in-toto's own types for what is in them.

use std::process::Command;

use provost_evidence::authorization;
use provost_evidence::dsse::{self, IN_TOTO};
use provost_evidence::keys::VerifyingKey;

use super::{Evidence, accepts, changed, folder, script, session};
use crate::python::python;
use crate::run::Run;
use crate::session::{authorization, key};

fn verifies(envelope: &[u8], predicate_type: &str, threshold: usize, keys: &[VerifyingKey]) -> bool {
    let dir = folder(&[("envelope", envelope)]);
    let mut command = Command::new(python());
    command.arg(script("python/verify_statement.py")).arg(dir.path().join("envelope"));
    command.arg(predicate_type).arg(threshold.to_string());
    for (number, key) in keys.iter().enumerate() {
        let pem = dir.path().join(format!("{number}.pem"));
        std::fs::write(&pem, key.to_pem().unwrap()).unwrap();
        command.arg(pem);
    }
    accepts(&mut command)
}

#[test]
fn all_four_statements_are_accepted_and_changed_ones_refused() {
    let evidence = Evidence::of(&Run::new());
    for (envelope, predicate_type, key) in evidence.envelopes() {
        let keys = std::slice::from_ref(&key);
        assert!(verifies(envelope, predicate_type, 1, keys), "{predicate_type}");
        for (what, bytes) in changed(envelope) {
            assert!(!verifies(&bytes, predicate_type, 1, keys), "{predicate_type}: {what}");
        }
        assert!(!verifies(envelope, "urn:another:v1", 1, keys), "{predicate_type}: asked for another");
        let stranger = crate::session::key(9).verifying_key();
        assert!(!verifies(envelope, predicate_type, 1, &[stranger]), "{predicate_type}: another key");
    }
}

#[test]
fn a_threshold_of_two_needs_two_keys() {
    let asked = authorization(&Run::new(), &session().verifying_key());
    let trusted = [key(1).verifying_key(), key(2).verifying_key()];
    let two = authorization::sign(&asked, &[&key(1), &key(2)]).unwrap().envelope;
    let one = authorization::sign(&asked, &[&key(1)]).unwrap().envelope;
    let verifies = |envelope: &[u8]| verifies(envelope, authorization::AUTHORIZATION_TYPE, 2, &trusted);
    assert!(verifies(&two));
    assert!(!verifies(&one));
    // The same signature twice.
    let text = String::from_utf8(one).unwrap();
    let (start, signature) = text.split_once('[').unwrap();
    let signature = signature.strip_suffix("]}").unwrap();
    assert!(!verifies(format!("{start}[{signature},{signature}]}}").as_bytes()));
}

#[test]
fn in_toto_knows_each_field_of_the_predicates() {
    let evidence = Evidence::of(&Run::new());
    for (envelope, predicate_type, key) in &evidence.envelopes()[1..] {
        let payload = dsse::verify(envelope, std::slice::from_ref(key)).unwrap().payload;
        let text = String::from_utf8(payload).unwrap();
        let further = text.replacen(r#""predicate":{"#, r#""predicate":{"aFieldOfOurs":1,"#, 1);
        let signer = crate::session::key(9);
        let signed = dsse::sign(IN_TOTO, further.as_bytes(), &[&signer]).unwrap();
        assert!(!verifies(&signed, predicate_type, 1, &[signer.verifying_key()]), "{predicate_type}");
    }
}
