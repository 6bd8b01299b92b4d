use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

use provost_evidence::dsse::{DsseError, IN_TOTO, pae, sign, verify};
use provost_evidence::keys::{SigningKey, VerifyingKey};

fn key() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

fn trusted() -> Vec<VerifyingKey> {
    vec![key().verifying_key()]
}

fn envelope() -> String {
    String::from_utf8(sign(IN_TOTO, br#"{"a":1}"#, &[&key()]).unwrap()).unwrap()
}

#[test]
fn what_is_signed_verifies() {
    let verified = verify(envelope().as_bytes(), &trusted()).unwrap();
    assert_eq!(verified.payload, br#"{"a":1}"#);
    assert_eq!(verified.by, key().verifying_key().key_id());
}

#[test]
fn another_key_is_refused_and_both_are_named() {
    let other = SigningKey::from_seed([2; 32]).verifying_key();
    let error = verify(envelope().as_bytes(), std::slice::from_ref(&other)).unwrap_err();
    assert_eq!(
        error,
        DsseError::WrongKey {
            expected: vec![other.key_id().to_string()],
            got: vec![key().verifying_key().key_id().to_string()],
        }
    );
    assert!(matches!(verify(envelope().as_bytes(), &[]), Err(DsseError::WrongKey { .. })));
}

#[test]
fn a_signature_that_lies_about_its_key_is_refused() {
    let mine = key().verifying_key().key_id().to_string();
    let forged = sign(IN_TOTO, b"{}", &[&SigningKey::from_seed([2; 32])]).unwrap();
    let theirs = SigningKey::from_seed([2; 32]).verifying_key().key_id().to_string();
    let forged = String::from_utf8(forged).unwrap().replace(&theirs, &mine);
    assert_eq!(verify(forged.as_bytes(), &trusted()), Err(DsseError::BadSignature { keyid: mine }));
}

#[test]
fn the_type_is_signed() {
    let other = sign("application/json", b"{}", &[&key()]).unwrap();
    assert!(
        matches!(verify(&other, &trusted()), Err(DsseError::WrongType { got }) if got == "application/json")
    );
    let relabelled = String::from_utf8(other).unwrap().replace("application/json", IN_TOTO);
    assert!(matches!(verify(relabelled.as_bytes(), &trusted()), Err(DsseError::BadSignature { .. })));
}

#[test]
fn other_spellings_are_refused() {
    let good = envelope();
    let spaced = good.replacen(':', ": ", 1);
    assert!(matches!(verify(spaced.as_bytes(), &trusted()), Err(DsseError::NotCanonical { .. })));
    let ended = format!("{good}\n");
    assert!(matches!(verify(ended.as_bytes(), &trusted()), Err(DsseError::NotCanonical { .. })));
    let further = good.replacen('{', r#"{"a":1,"#, 1);
    assert!(matches!(verify(further.as_bytes(), &trusted()), Err(DsseError::Shape(_))));
    let twice = good.replacen('{', r#"{"payload":"","#, 1);
    assert!(matches!(verify(twice.as_bytes(), &trusted()), Err(DsseError::Shape(_))));
    // eyJhIjoxfQ== with a stray bit set: the same bytes to a lax decoder.
    let stray = good.replacen("eyJhIjoxfQ==", "eyJhIjoxfR==", 1);
    assert_ne!(stray, good);
    assert_eq!(verify(stray.as_bytes(), &trusted()), Err(DsseError::Base64 { field: "payload" }));
    let unpadded = good.replacen("eyJhIjoxfQ==", "eyJhIjoxfQ", 1);
    assert_eq!(verify(unpadded.as_bytes(), &trusted()), Err(DsseError::Base64 { field: "payload" }));
}

#[test]
fn no_signature_or_the_same_one_twice_is_refused() {
    let good = envelope();
    let (start, rest) = good.split_once('[').unwrap();
    let one = rest.strip_suffix("]}").unwrap();
    assert_eq!(verify(format!("{start}[]}}").as_bytes(), &trusted()), Err(DsseError::NoSignature));
    assert!(matches!(
        verify(format!("{start}[{one},{one}]}}").as_bytes(), &trusted()),
        Err(DsseError::TwiceSigned { .. })
    ));
}

#[test]
fn a_further_signer_does_no_harm_and_a_trusted_one_must_hold() {
    let (first, second) = (key(), SigningKey::from_seed([2; 32]));
    let signature = |key: &SigningKey, good: bool| {
        let mut sig = key.sign(&pae(IN_TOTO, b"{}"));
        sig[3] ^= u8::from(!good);
        format!(r#"{{"keyid":"{}","sig":"{}"}}"#, key.verifying_key().key_id(), STANDARD.encode(sig))
    };
    let both = |second_is_good| {
        format!(
            r#"{{"payload":"e30=","payloadType":"{IN_TOTO}","signatures":[{},{}]}}"#,
            signature(&second, second_is_good),
            signature(&first, true)
        )
    };
    assert_eq!(verify(both(false).as_bytes(), &trusted()).unwrap().by, first.verifying_key().key_id());
    let all = [first.verifying_key(), second.verifying_key()];
    assert_eq!(verify(both(true).as_bytes(), &all).unwrap().by, second.verifying_key().key_id());
    assert!(matches!(verify(both(false).as_bytes(), &all), Err(DsseError::BadSignature { .. })));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(verify(&bytes, &trusted()).is_err());
    }

    #[test]
    fn no_edit_of_an_envelope_verifies(at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>()) {
        let good = envelope().into_bytes();
        let mut edited = good.clone();
        let at = at.index(good.len());
        if insert { edited.insert(at, byte) } else { edited[at] = byte }
        prop_assume!(edited != good);
        prop_assert!(verify(&edited, &trusted()).is_err());
    }
}
