//! What comes with a governed session: authorizations and their signatures, keys, the trust folder, the log's head and the
//! statements about the result.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

use provost_core::digest::Digest;
use provost_core::event::{Body, Event};
use provost_core::session::{Authorization, Request};
use provost_evidence::authorization::{self, payload};
use provost_evidence::canonical::sha256;
use provost_evidence::checkpoint::{Checkpoint, Origin};
use provost_evidence::in_toto::predicate_type;
use provost_evidence::provenance::{PROVENANCE_TYPE, Provenance};
use provost_evidence::ssh::{agent, private, public, sig};
use provost_evidence::test_result::{TEST_RESULT_TYPE, TestResult};
use provost_evidence::trust::{Role, Trust};
use provost_evidence::vsa::{VSA_TYPE, Vsa};

use crate::world::{key, world};

/// A time at which [`asked`] holds, in milliseconds since the Unix epoch.
pub const NOW: u64 = 1_796_000_060_000;

/// What the fuzzed SSH signatures are over.
pub const MESSAGE: &[u8] = b"{\"a\":1}";

/// The log whose head is fuzzed.
pub fn origin() -> Origin {
    "provost/session/fuzzed".parse().expect("an origin")
}

/// The authorization under which the run of `fixtures/bundle` could have been made.
pub fn asked() -> Authorization {
    let journal = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bundle/journal.jsonl");
    let journal = fs::read(journal).expect("the fixture");
    let first = journal.split(|byte| *byte == b'\n').next().expect("a line");
    let event = Event::from_json(first).expect("an event");
    let Body::RunCreated(created) = event.body else { panic!("a run begins with its creation") };
    let created = *created;
    Authorization {
        request: Request {
            session: event.stream,
            nonce: sha256(b"nonce"),
            key: Digest::new(key().verifying_key().to_bytes()),
            audience: "runner-1".to_owned(),
            repository: sha256(b"roots"),
            task: sha256(b"task"),
            source: created.source,
            tree: created.tree,
            policy: created.policy,
            budget: created.budget,
            price: created.price,
            gate: created.gate,
            limits: created.limits,
            model: created.model,
            routing: created.routing,
            judges: BTreeMap::new(),
            allowed: std::collections::BTreeSet::new(),
            toolchain: None,
            rollbacks: 3,
        },
        not_before_ms: NOW - 60_000,
        expires_ms: NOW + 3_600_000,
    }
}

/// A log's head: what is accepted is what the key signs.
pub fn checkpoint(data: &[u8]) {
    let Ok(checkpoint) = Checkpoint::verify(data, &origin(), &key().verifying_key()) else { return };
    // Ed25519 signatures are deterministic (RFC 8032).
    assert_eq!(checkpoint.sign(&key()), data);
}

/// An SSH signature: what is accepted is what its key signs, in one of two hashes.
pub fn ssh_sig(data: &[u8]) {
    let Ok(by) = sig::check(data, "provost-authorization", MESSAGE) else { return };
    assert!(sig::check(data, "provost-review", MESSAGE).is_err());
    assert!(sig::check(data, "provost-authorization", b"other").is_err());
    assert_eq!(by, key().verifying_key(), "no other key signed any of the seeds");
}

/// Keys of OpenSSH: what is read is written as the same key.
pub fn ssh_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(key) = public::read(text) {
        assert_eq!(public::read(&public::line(&key)).expect("what was written is read"), key);
        let fingerprint = public::Fingerprint::of(&key);
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    }
    if let Ok(fingerprint) = text.parse::<public::Fingerprint>() {
        assert_eq!(fingerprint.to_string(), text);
    }
    // Without a passphrase: the hash of one is made slow on purpose.
    if let Ok(key) = private::read(text, None) {
        assert!(key.verifying_key().verifies(b"x", &key.sign(b"x")));
    }
}

/// An ssh-agent's list of keys.
pub fn ssh_agent(data: &[u8]) {
    let Ok(keys) = agent::read_keys(data) else { return };
    for known in keys {
        assert!(!known.comment.chars().any(char::is_control));
    }
}

/// A file of a trust folder: its name in the first line, its content behind it. Nobody counts for a use whose key is not
/// in the folder, and an error names the file.
pub fn trust(data: &[u8]) {
    let cut = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (name, content) = (&data[..cut], data.get(cut + 1..).unwrap_or_default());
    let known = ["allowed_signers", "revoked_keys", "revoked", "trust.toml", "a.pem"];
    let Some(name) = known.into_iter().find(|known| known.as_bytes() == name) else { return };
    world(|world| {
        let dir = world.path().join("trust");
        fs::create_dir_all(&dir).expect("a folder");
        fs::write(dir.join(name), content).expect("a file");
        let read = Trust::read(&dir);
        fs::remove_file(dir.join(name)).expect("the file");
        match read {
            Ok(trust) => {
                assert!(trust.threshold() >= 1);
                for role in [Role::Authority, Role::Reviewer] {
                    for known in trust.keys(role, NOW) {
                        assert!(trust.look_up(&known.key, role, NOW).is_ok());
                    }
                }
                assert!(matches!(name, "allowed_signers" | "a.pem") || trust.authorities(NOW).is_empty());
            }
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
        }
    });
}

/// The trust folder for [`authorization`]: the fuzzed key is an authority's.
static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a folder");
    let pem = key().verifying_key().to_pem().expect("a PEM");
    fs::write(dir.path().join("it.pem"), pem).expect("a file");
    Trust::read(dir.path()).expect("a trust folder")
});

/// An authorization's file, with or without a good SSH signature: what counts is what was signed.
pub fn authorization(data: &[u8]) {
    static SIGNED: LazyLock<authorization::Signed> =
        LazyLock::new(|| authorization::sign(&asked(), &[&key()]).expect("signed"));
    let signed = &*SIGNED;
    for ssh in [&[][..], &signed.ssh] {
        match authorization::verify(data, ssh, &TRUST, NOW) {
            Ok(verified) => {
                // An SSH signature is over what is in the file, not over the file.
                assert!(!ssh.is_empty() || data == signed.envelope);
                assert_eq!(verified.payload, signed.payload);
            }
            Err(error) => assert!(matches!(error.code(), 10..=12)),
        }
    }
    if let Ok(authorization) = authorization::read(data) {
        assert_eq!(payload(&authorization).expect("it came from JSON"), data);
    }
}

/// Statements about a session's result: each has one spelling.
pub fn attestation(data: &[u8]) {
    let again = match predicate_type(data).as_deref() {
        Some(PROVENANCE_TYPE) => Provenance::from_json(data).map(|statement| statement.to_json()),
        Some(TEST_RESULT_TYPE) => TestResult::from_json(data).map(|statement| statement.to_json()),
        Some(VSA_TYPE) => Vsa::from_json(data).map(|statement| statement.to_json()),
        _ => return,
    };
    if let Ok(again) = again {
        assert_eq!(again.expect("it came from JSON"), data);
    }
}
