//! OpenSSL over the bytes that a DSSE signature is over.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use provost_evidence::dsse::{IN_TOTO, pae};

use super::{Evidence, folder};
use crate::run::Run;

#[test]
fn openssl_verifies_a_dsse_signature_and_refuses_one_byte_more() {
    let evidence = Evidence::of(&Run::new());
    for (envelope, predicate_type, key) in evidence.envelopes() {
        let envelope: serde_json::Value = serde_json::from_slice(envelope).unwrap();
        let decoded = |text: &serde_json::Value| STANDARD.decode(text.as_str().unwrap()).unwrap();
        let signed = pae(IN_TOTO, &decoded(&envelope["payload"]));
        let signature = decoded(&envelope["signatures"][0]["sig"]);
        let pem = key.to_pem().unwrap();
        let verifies = |message: &[u8]| {
            let dir = folder(&[("message", message), ("sig", &signature), ("key.pem", pem.as_bytes())]);
            let output = Command::new("openssl")
                .args(["pkeyutl", "-verify", "-rawin", "-pubin"])
                .args(["-inkey", "key.pem", "-in", "message", "-sigfile", "sig"])
                .current_dir(dir.path())
                .output()
                .unwrap_or_else(|error| panic!("openssl: {error}: install OpenSSL or run `./test`"));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("Signature Verif"), "{output:?}");
            output.status.success()
        };
        assert!(verifies(&signed), "{predicate_type}");
        assert!(!verifies(&[signed.as_slice(), b"\n"].concat()), "{predicate_type}");
    }
}
