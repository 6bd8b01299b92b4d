//! Makes the seeds of what comes with a governed session anew: `cargo run --example session_seeds`.

use std::fs;
use std::path::Path;

use provost_evidence::authorization;
use provost_evidence::bundle;
use provost_evidence::canonical::sha256;
use provost_evidence::checkpoint::Checkpoint;
use provost_evidence::dsse;
use provost_evidence::keys::SigningKey;
use provost_evidence::log::head_of;
use provost_evidence::provenance::Provenance;
use provost_evidence::ssh::{public, sig};
use provost_evidence::statement::Statement;
use provost_evidence::test_result::TestResult;
use provost_evidence::vsa::{Outcome, Review, Vsa};
use provost_fuzz::{MESSAGE, NOW, asked, origin};

fn main() {
    let key = SigningKey::from_seed([7; 32]);
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seed = |target: &str, name: &str, bytes: &[u8]| {
        let folder = home.join("corpus").join(target);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), bytes).expect("a file");
    };
    let fixture = bundle::read(&home.join("fixtures/bundle")).expect("the fixture");
    let trusted = [key.verifying_key()];
    let payload = dsse::verify(&fixture.envelope, &trusted).expect("it is signed by that key").payload;
    let statement = Statement::from_json(&payload).expect("a statement");

    let head = Checkpoint { origin: origin(), log: head_of(&fixture.journal) };
    seed("checkpoint", "journal", &head.sign(&key));
    seed("checkpoint", "empty", &Checkpoint { origin: origin(), log: head_of(b"") }.sign(&key));

    let ssh = sig::sign("provost-authorization", MESSAGE, &key).expect("a signature");
    seed("ssh_sig", "authorization", ssh.as_bytes());
    seed("ssh_sig", "review", sig::sign("provost-review", MESSAGE, &key).expect("a signature").as_bytes());

    let line = public::line(&key.verifying_key());
    seed("ssh_key", "public", format!("{line} a comment").as_bytes());
    seed("ssh_key", "fingerprint", public::Fingerprint::of(&key.verifying_key()).to_string().as_bytes());
    let string = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let blob = string(&[string(b"ssh-ed25519"), string(&key.verifying_key().to_bytes())].concat());
    let other = string(&string(b"ssh-rsa"));
    let keys = [&2_u32.to_be_bytes()[..], &other, &string(b"other"), &blob, &string(b"mine")].concat();
    seed("ssh_agent", "two", &keys);
    seed("ssh_agent", "none", &[0; 4]);

    let file = |name: &str, text: &str| seed("trust", name, format!("{name}\n{text}").as_bytes());
    file(
        "allowed_signers",
        &format!(
            "# people\nalice@example.org {line}\nbob namespaces=\"provost-*,!git\",valid-after=20260101Z,\
             valid-before=\"20270101120000Z\" {line} laptop\n"
        ),
    );
    file("revoked_keys", &format!("{line}\n{}\n", public::Fingerprint::of(&key.verifying_key())));
    file("revoked", &format!("# lost\nr01a229f12800-0102030405\n{}\n", sha256(b"it")));
    file("trust.toml", "threshold = 2\nclock_skew = \"30s\"\n");
    file("a.pem", &key.verifying_key().to_pem().expect("a PEM"));

    let asked = asked();
    let signed = authorization::sign(&asked, &[&key]).expect("signed");
    seed("authorization", "envelope", &signed.envelope);
    seed("authorization", "bare", &authorization::payload(&asked).expect("canonical"));

    let provenance = Provenance::of(&statement, &asked, &signed.payload, &head, &head.sign(&key));
    seed("attestation", "provenance", &provenance.to_json().expect("canonical"));
    let result = TestResult::of(&statement.result, &asked).expect("canonical").expect("a gate");
    seed("attestation", "test-result", &result.to_json().expect("canonical"));
    let review = Review {
        session: asked.request.session.clone(),
        patch: statement.patch,
        tree: statement.tree,
        authorization: signed.payload,
        inputs: [("checkpoint".to_owned(), sha256(b"it"))].into(),
        at_ms: NOW,
        outcome: Outcome::Passed,
    };
    seed("attestation", "vsa", &Vsa::from(review).to_json().expect("canonical"));
}
