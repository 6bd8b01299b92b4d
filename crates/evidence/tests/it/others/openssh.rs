//! OpenSSH: `ssh-keygen -Y verify` over our authorization, and an authorization that only `ssh-keygen` signed.

use std::path::Path;

use provost_evidence::authorization;
use provost_evidence::ssh::public;

use super::{Evidence, authority, folder};
use crate::run::Run;
use crate::session::{NOW, allowed, read_trust};
use crate::ssh::{keygen, made, public_of};

const NAMESPACE: &str = "provost-authorization";

/// Whether `ssh-keygen` accepts this signature over these bytes.
fn verifies(dir: &Path, bytes: &[u8], namespace: &str, who: &str, more: &[&str]) -> bool {
    let args = [&["-Y", "verify", "-f", "allowed_signers", "-I", who, "-n", namespace, "-s", "it.sig"], more]
        .concat();
    let output = keygen(dir, &args, bytes);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(said.contains("Good \""), output.status.success(), "{said}");
    output.status.success()
}

#[test]
fn ssh_keygen_and_we_say_the_same_of_an_authorization() {
    let evidence = Evidence::of(&Run::new());
    let public = authority().verifying_key();
    let cases = [
        ("any use", "", "", true),
        ("its use", r#"namespaces="provost-authorization""#, "", true),
        ("its use among others", r#"namespaces="git,provost-*""#, "", true),
        ("in its time", "valid-after=\"20200101Z\",valid-before=\"20990101Z\"", "", true),
        ("another use", r#"namespaces="git""#, "", false),
        ("all uses but this", r#"namespaces="*,!provost-authorization""#, "", false),
        ("too early", "valid-after=\"20980101Z\"", "", false),
        ("too late", "valid-before=\"20200101Z\"", "", false),
        ("revoked", "", &public::line(&public), false),
    ];
    for (what, options, revoked, good) in cases {
        let line = allowed("alice", options, &public);
        let dir = folder(&[
            ("allowed_signers", line.as_bytes()),
            ("revoked_keys", revoked.as_bytes()),
            ("it.sig", &evidence.authorization.ssh[0]),
        ]);
        let revoked: &[&str] = if revoked.is_empty() { &[] } else { &["-r", "revoked_keys"] };
        assert_eq!(verifies(dir.path(), &evidence.payload, NAMESPACE, "alice", revoked), good, "{what}");
        std::fs::remove_file(dir.path().join("it.sig")).unwrap();
        let trust = read_trust(dir.path());
        let ours = authorization::verify(&evidence.payload, &evidence.authorization.ssh, &trust, NOW);
        assert_eq!(ours.is_ok(), good, "{what}");
    }
    let line = allowed("alice", "", &public);
    let dir = folder(&[("allowed_signers", line.as_bytes()), ("it.sig", &evidence.authorization.ssh[0])]);
    let dir = dir.path();
    assert!(verifies(dir, &evidence.payload, NAMESPACE, "alice", &[]), "the control");
    assert!(!verifies(dir, &evidence.payload, "provost-review", "alice", &[]), "for another use");
    assert!(!verifies(dir, &evidence.payload, NAMESPACE, "bob", &[]), "another person");
    let more = [&evidence.payload[..], b"\n"].concat();
    assert!(!verifies(dir, &more, NAMESPACE, "alice", &[]), "a line feed more");
}

#[test]
fn an_authorization_that_only_ssh_keygen_signed_counts() {
    let evidence = Evidence::of(&Run::new());
    let dir = tempfile::tempdir().unwrap();
    let path = made(dir.path(), "key", "", &[]);
    std::fs::write(dir.path().join("payload"), &evidence.payload).unwrap();
    let sign = |namespace| {
        let _ = std::fs::remove_file(dir.path().join("payload.sig"));
        let output = keygen(dir.path(), &["-Y", "sign", "-f", "key", "-n", namespace, "payload"], b"");
        assert!(output.status.success(), "{output:?}");
        vec![std::fs::read(dir.path().join("payload.sig")).unwrap()]
    };
    let line = allowed("alice", r#"namespaces="provost-authorization""#, &public_of(&path));
    let trust = read_trust(folder(&[("allowed_signers", line.as_bytes())]).path());
    let verified = authorization::verify(&evidence.payload, &sign(NAMESPACE), &trust, NOW).unwrap();
    assert_eq!(verified.signers[0].who, "alice");
    assert_eq!(verified.payload, evidence.authorization.payload);
    let error = authorization::verify(&evidence.payload, &sign("git"), &trust, NOW).unwrap_err();
    assert_eq!(error.code(), 11, "{error}");
}
