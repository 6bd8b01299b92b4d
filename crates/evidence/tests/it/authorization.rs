use proptest::prelude::*;

use provost_core::digest::Digest;
use provost_core::session::Authorization;
use provost_evidence::authorization::{
    AuthorizationError, Signed, VerifiedAuthorization, payload, read, sign, verify,
};
use provost_evidence::canonical::sha256;
use provost_evidence::dsse::{self, IN_TOTO};
use provost_evidence::in_toto::BadStatement;
use provost_evidence::keys::SigningKey;
use provost_evidence::ssh::sig;
use provost_evidence::trust::Trust;

use crate::run::Run;
use crate::session::{FROM, NOW, UNTIL, allowed, authorization, key, read_trust, trust_folder};

/// Authorities are the keys 1 and 2, a reviewer is 3.
fn trust(more: &[(&str, &str)]) -> Trust {
    let keys = [
        allowed("alice", r#"namespaces="provost-authorization""#, &key(1).verifying_key()),
        allowed("bob", "", &key(2).verifying_key()),
        allowed("carol", "namespaces=\"provost-review\"", &key(3).verifying_key()),
    ]
    .concat();
    let files = [&[("allowed_signers", keys.as_str())], more].concat();
    read_trust(trust_folder(&files).path())
}

fn asked() -> Authorization {
    authorization(&Run::new(), &key(7).verifying_key())
}

fn by(authorization: &Authorization, seeds: &[u8]) -> Signed {
    let keys: Vec<SigningKey> = seeds.iter().map(|seed| key(*seed)).collect();
    let signers: Vec<_> = keys.iter().map(|key| key as _).collect();
    sign(authorization, &signers).unwrap()
}

fn code(result: Result<VerifiedAuthorization, AuthorizationError>) -> u16 {
    result.map_or_else(|error| error.code(), |_| 0)
}

#[test]
fn what_an_authority_signs_counts_in_each_form() {
    let asked = asked();
    let signed = by(&asked, &[1]);
    let bytes = payload(&asked).unwrap();
    assert_eq!(read(&bytes).unwrap(), asked);
    for (file, ssh) in
        [(&signed.envelope, vec![]), (&signed.envelope, signed.ssh.clone()), (&bytes, signed.ssh.clone())]
    {
        let verified = verify(file, &ssh, &trust(&[]), NOW).unwrap();
        assert_eq!(verified.authorization, asked);
        assert_eq!(verified.payload, sha256(&bytes));
        assert_eq!(verified.payload, signed.payload);
        assert_eq!(verified.session_key, key(7).verifying_key());
        assert_eq!(verified.signers.len(), 1);
        assert_eq!(verified.signers[0].who, "alice");
    }
    assert_eq!(by(&asked, &[1]), signed, "the same key, the same bytes");
    assert_eq!(code(verify(&bytes, &[], &trust(&[]), NOW)), 11, "nobody signed it");
}

#[test]
fn others_do_not_count() {
    let asked = asked();
    let trust = trust(&[]);
    for seed in [3, 9] {
        let signed = by(&asked, &[seed]);
        assert_eq!(code(verify(&signed.envelope, &[], &trust, NOW)), 11);
        assert_eq!(code(verify(&signed.envelope, &signed.ssh, &trust, NOW)), 11);
        assert_eq!(code(verify(&payload(&asked).unwrap(), &signed.ssh, &trust, NOW)), 11);
    }
    // A stranger beside an authority does no harm.
    let signed = by(&asked, &[9, 2]);
    assert_eq!(verify(&signed.envelope, &signed.ssh, &trust, NOW).unwrap().signers[0].who, "bob");
    // A key of an authority, for another use.
    let other = sig::sign("provost-review", &payload(&asked).unwrap(), &key(2)).unwrap();
    assert_eq!(code(verify(&payload(&asked).unwrap(), &[other.into_bytes()], &trust, NOW)), 11);
}

#[test]
fn as_many_keys_as_are_needed() {
    let asked = asked();
    let trust = trust(&[("trust.toml", "threshold = 2\n")]);
    let (one, two) = (by(&asked, &[1]), by(&asked, &[2, 1]));
    assert_eq!(verify(&two.envelope, &two.ssh, &trust, NOW).unwrap().signers.len(), 2);
    assert_eq!(verify(&one.envelope, &two.ssh[..1], &trust, NOW).unwrap().signers.len(), 2);
    let twice = [one.ssh.clone(), one.ssh.clone()].concat();
    let error = verify(&one.envelope, &twice, &trust, NOW).unwrap_err();
    assert_eq!(error.code(), 11);
    assert_eq!(error.to_string(), "1 of 2 needed authorities signed");
    assert!(sign(&asked, &[&key(1), &key(1)]).is_err());
    assert!(sign(&asked, &[]).is_err());
}

#[test]
fn it_holds_in_its_time_and_until_it_is_revoked() {
    let asked = asked();
    let signed = by(&asked, &[1]);
    let at = |trust: &Trust, ms| code(verify(&signed.envelope, &[], trust, ms));
    let exact = trust(&[]);
    assert_eq!([FROM - 1, FROM, UNTIL - 1, UNTIL].map(|ms| at(&exact, ms)), [12, 0, 0, 12]);
    let lenient = trust(&[("trust.toml", "clock_skew = \"30s\"\n")]);
    let edges = [FROM - 30_001, FROM - 30_000, UNTIL + 29_999, UNTIL + 30_000];
    assert_eq!(edges.map(|ms| at(&lenient, ms)), [12, 0, 0, 12]);

    let session = trust(&[("revoked", asked.request.session.as_str())]);
    assert_eq!(at(&session, NOW), 12);
    let bytes = trust(&[("revoked", &signed.payload.to_string())]);
    assert_eq!(at(&bytes, NOW), 12);
    let other = trust(&[("revoked", &sha256(b"another").to_string())]);
    assert_eq!(at(&other, NOW), 0);
}

#[test]
fn a_key_that_lapsed_or_was_revoked_is_told_from_a_stranger() {
    let asked = asked();
    let signed = by(&asked, &[1]);
    let public = key(1).verifying_key();
    let with = |options: &str, revoked: &str| {
        let line = allowed("alice", options, &public);
        let dir = trust_folder(&[("allowed_signers", &line), ("revoked_keys", revoked)]);
        verify(&signed.envelope, &[], &read_trust(dir.path()), NOW)
    };
    assert_eq!(code(with("", "")), 0);
    assert_eq!(code(with("valid-before=\"20260101Z\"", "")), 12);
    assert_eq!(code(with("valid-after=\"20990101Z\"", "")), 12);
    let revoked = provost_evidence::ssh::public::line(&public);
    assert_eq!(code(with("", &revoked)), 12);
    assert!(with("", &revoked).unwrap_err().to_string().contains("revoked"));
}

#[test]
fn other_bytes_are_refused() {
    let asked = asked();
    let trust = trust(&[]);
    let bytes = payload(&asked).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    // Signed as they are: none of these is an authorization.
    let statements = [
        text.replacen("urn:provost:authorization:v1", "urn:provost:run-result:v1", 1),
        text.replacen("runner-1\"", "runner-1\",\"more\":1", 1),
        text.replacen("\"predicate\":", "\"predicate\" :", 1),
        // A subject that is not what the predicate says.
        text.replacen(&asked.request.task.to_string(), &sha256(b"other").to_string(), 1),
    ];
    for statement in statements {
        assert_ne!(statement, text);
        let envelope = dsse::sign(IN_TOTO, statement.as_bytes(), &[&key(1)]).unwrap();
        assert_eq!(code(verify(&envelope, &[], &trust, NOW)), 10, "{statement}");
    }
    let mut never = asked.clone();
    never.expires_ms = never.not_before_ms;
    assert_eq!(read(&payload(&never).unwrap()), Err(BadStatement::Predicate("expires_ms")));
    let mut weak = asked.clone();
    weak.request.key = Digest::new([0; 32]);
    let error = verify(&by(&weak, &[1]).envelope, &[], &trust, NOW).unwrap_err();
    assert!(matches!(error, AuthorizationError::SessionKey(_)), "{error}");

    // Signed otherwise.
    let other_type = dsse::sign("application/json", &bytes, &[&key(1)]).unwrap();
    assert_eq!(code(verify(&other_type, &[], &trust, NOW)), 10);
    assert_eq!(code(verify(b"{}", &[], &trust, NOW)), 10);
    let signed = by(&asked, &[1]);
    assert_eq!(code(verify(&signed.envelope, &[b"nothing".to_vec()], &trust, NOW)), 10);
    assert_eq!(code(verify(&signed.envelope, &vec![signed.ssh[0].clone(); 17], &trust, NOW)), 10);
    let other = by(&Authorization { expires_ms: UNTIL + 1, ..asked }, &[1]);
    assert_eq!(code(verify(&signed.envelope, &other.ssh, &trust, NOW)), 11, "over other bytes");
}

proptest! {
    #[test]
    fn no_edit_counts(at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>(), bare in any::<bool>()) {
        use std::sync::LazyLock;
        static SIGNED: LazyLock<(Vec<u8>, Signed, Trust)> = LazyLock::new(|| {
            let asked = asked();
            (payload(&asked).unwrap(), by(&asked, &[1]), trust(&[]))
        });
        let (bytes, signed, trust) = &*SIGNED;
        let (good, ssh) = if bare { (bytes, &signed.ssh[..]) } else { (&signed.envelope, &[][..]) };
        let mut edited = good.clone();
        let at = at.index(good.len());
        if insert { edited.insert(at, byte) } else { edited[at] = byte }
        prop_assume!(edited != *good);
        prop_assert!(verify(&edited, ssh, trust, NOW).is_err());
    }
}
