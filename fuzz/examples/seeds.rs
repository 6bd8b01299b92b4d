//! Makes the seeds that hold hashes and signatures anew, after a change of a format:
//! `provost demo --out /tmp/demo`, then `cargo run --example seeds -- /tmp/demo/bundle /tmp/demo/keys/…`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use provost_evidence::bundle::{self, BundleContent};
use provost_evidence::dsse;
use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::statement::Statement;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, public] = args.as_slice() else { panic!("usage: seeds BUNDLE PUBLIC-KEY") };
    let read = bundle::read(Path::new(from)).expect("a bundle");
    let trusted = [VerifyingKey::read(Path::new(public)).expect("a key")];
    let payload = dsse::verify(&read.envelope, &trusted).expect("it is signed by that key").payload;
    let statement = Statement::from_json(&payload).expect("a statement");
    let key = SigningKey::from_seed([7; 32]);

    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixture = home.join("fixtures/bundle");
    let _ = fs::remove_dir_all(&fixture);
    let content = BundleContent {
        patch: read.patch.clone(),
        journal: read.journal.clone(),
        blobs: read.blobs.clone(),
        statement: statement.clone(),
    };
    bundle::write(&fixture, &content, &key).expect("a bundle");
    let envelope = bundle::read(&fixture).expect("the bundle just written").envelope;

    let seed = |target: &str, name: &str, bytes: &[u8]| {
        let folder = home.join("corpus").join(target);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), bytes).expect("a file");
    };
    let named = |name: &str, bytes: &[u8]| [name.as_bytes(), b"\n", bytes].concat();
    let lines: Vec<&[u8]> = read.journal.split_inclusive(|byte| *byte == b'\n').collect();
    for (at, kind) in [(0, "created"), (2, "answered"), (3, "decided"), (lines.len() - 1, "finished")] {
        seed("event", kind, lines[at].trim_ascii_end());
    }
    seed("journal", "whole", &read.journal);
    seed("journal", "begun", &lines[..5].concat());
    seed("dsse", "signed", &envelope);
    seed("dsse", "small", &dsse::sign(dsse::IN_TOTO, b"{}", &[&key]).expect("an envelope"));
    seed("statement", "run", &payload);
    let mut bare = statement;
    (bare.result.gate, bare.result.cost_micros, bare.result.blobs) = (None, Some(12), BTreeSet::new());
    seed("statement", "no-gate", &bare.to_json().expect("a statement"));
    seed("bundle", "journal", &named("journal.jsonl", &read.journal));
    seed("bundle", "sealed", &named("sealed", &read.journal));
    seed("bundle", "patch", &named("changes.patch", &read.patch));
    seed("bundle", "envelope", &named("result.dsse.json", &envelope));
    if let Some((digest, bytes)) = read.blobs.iter().next() {
        seed("bundle", "blob", &named(&format!("blobs/{digest}"), bytes));
    }
    seed("keys", "public", key.verifying_key().to_pem().expect("a PEM").as_bytes());
    let private = tempfile::tempdir().expect("a folder");
    let path = private.path().join("key");
    key.write_private(&path).expect("a file");
    seed("keys", "private", &fs::read(path).expect("a file"));
}
