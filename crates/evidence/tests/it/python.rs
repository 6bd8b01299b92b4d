//! Keys and the signed statement, read by programs that are not ours: securesystemslib, and OpenSSL within the Python
//! package cryptography.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_evidence::keys::{SigningKey, VerifyingKey};

use crate::run::Run;

/// The interpreter with securesystemslib that `./test` prepares.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("PROVOST_TEST_PYTHON").map(PathBuf::from).expect(
        "PROVOST_TEST_PYTHON names no interpreter: run the tests by `./test`, which prepares one with securesystemslib",
    )
}

fn ask(bundle: &Path, key: &VerifyingKey) -> (Option<i32>, String, String) {
    let pem = bundle.with_extension("pem");
    std::fs::write(&pem, key.to_pem().unwrap()).unwrap();
    let output = Command::new(python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/verify_dsse.py"))
        .args([bundle, &pem])
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn securesystemslib_verifies_what_we_sign() {
    let run = Run::new();
    let key = run.key.verifying_key();
    let (code, id, words) = ask(&run.bundle(), &key);
    assert_eq!(code, Some(0), "{words}");
    assert_eq!(id, key.key_id().to_string(), "both compute the same key id");
}

#[test]
fn securesystemslib_refuses_another_key_and_a_changed_payload() {
    let run = Run::new();
    let other = SigningKey::from_seed([9; 32]);
    let (code, _, words) = ask(&run.bundle(), &other.verifying_key());
    assert_eq!(code, Some(1), "{words}");
    assert!(words.starts_with("refused:"), "{words}");

    let dir = run.bundle();
    let path = dir.join("result.dsse.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.find(r#""payload":""#).unwrap() + 20;
    let mut bytes = text.into_bytes();
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    std::fs::write(&path, bytes).unwrap();
    let (code, _, words) = ask(&dir, &run.key.verifying_key());
    assert_eq!(code, Some(1), "{words}");
}

#[test]
fn openssl_reads_our_keys_and_we_read_its() {
    let dir = tempfile::tempdir().unwrap();
    let ours = SigningKey::generate().unwrap();
    ours.write_private(&dir.path().join("ours.key")).unwrap();
    let script = "
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
def public(key):
    return key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
theirs = Ed25519PrivateKey.generate()
open('theirs.key', 'wb').write(theirs.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
open('theirs.pem', 'wb').write(public(theirs))
open('ours.pem', 'wb').write(public(s.load_pem_private_key(open('ours.key', 'rb').read(), None)))
";
    let output = Command::new(python()).args(["-c", script]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("ours.pem"), ours.verifying_key().to_pem().unwrap());
    let theirs = SigningKey::read(&dir.path().join("theirs.key")).unwrap();
    assert_eq!(read("theirs.pem"), theirs.verifying_key().to_pem().unwrap());
}
