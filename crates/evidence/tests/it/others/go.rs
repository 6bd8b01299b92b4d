//! Go's own transparency log, from Debian's package: it opens our checkpoint, makes the root again from the journal's
//! lines and checks our proofs.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_core::digest::Digest;
use provost_evidence::checkpoint::{Checkpoint, verifier_key};
use provost_evidence::log::{Log, head_of, leaves};

use super::{Evidence, accepts, folder, script, session};
use crate::run::Run;

/// The verifier, built into this folder.
fn built(dir: &Path) -> PathBuf {
    let program = dir.join("tlog");
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(script("go/tlog.go"))
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOFLAGS", "")
        .env("GOCACHE", dir.join("cache"))
        .output()
        .unwrap_or_else(|error| panic!("go: {error}: install it or run `./test`"));
    assert!(
        output.status.success(),
        "{output:?}: Debian's golang-golang-x-mod-dev is needed; `./test` installs it"
    );
    program
}

/// Proofs in the form that the verifier reads.
fn proofs(log: &Log) -> String {
    let size = log.size();
    let root = |size| log.head_at(size).unwrap().root.to_string();
    let texts = |proof: Vec<Digest>| proof.iter().map(Digest::to_string).collect::<Vec<_>>();
    let inclusion: Vec<_> = (1..=size)
        .flat_map(|size| (0..size).map(move |index| (index, size)))
        .map(|(index, size)| {
            serde_json::json!({
                "Index": index, "Size": size, "Root": root(size),
                "Hashes": texts(log.inclusion(index, size).unwrap()),
            })
        })
        .collect();
    let consistency: Vec<_> = (1..=size)
        .map(|old| {
            serde_json::json!({
                "Old": old, "OldRoot": root(old), "Size": size, "Root": root(size),
                "Hashes": texts(log.consistency(old, size).unwrap()),
            })
        })
        .collect();
    serde_json::json!({ "Inclusion": inclusion, "Consistency": consistency }).to_string()
}

#[test]
fn the_log_of_go_agrees_on_the_head_and_on_each_proof() {
    let evidence = Evidence::of(&Run::new());
    let home = tempfile::tempdir().unwrap();
    let program = built(home.path());
    let key = verifier_key(&evidence.origin, &session().verifying_key());
    let log: Log = leaves(&evidence.journal).collect();
    let good = proofs(&log);
    assert!(log.size() > 8, "a log with something in it");
    let ask = |checkpoint: &[u8], key: &str, journal: &[u8], proofs: &str| {
        let dir = folder(&[("checkpoint", checkpoint), ("journal", journal), ("proofs", proofs.as_bytes())]);
        let at = |name| dir.path().join(name);
        accepts(Command::new(&program).arg(at("checkpoint")).arg(key).arg(at("journal")).arg(at("proofs")))
    };
    assert!(ask(&evidence.checkpoint, &key, &evidence.journal, &good));

    let other_key = verifier_key(&evidence.origin, &crate::session::key(9).verifying_key());
    assert!(!ask(&evidence.checkpoint, &other_key, &evidence.journal, &good), "another key");
    let lines: Vec<&[u8]> = leaves(&evidence.journal).collect();
    let joined = |lines: &[&[u8]]| [lines.join(&b'\n'), b"\n".to_vec()].concat();
    assert!(ask(&evidence.checkpoint, &key, &joined(&lines), &good), "the control of what follows");
    let cut = joined(&lines[..lines.len() - 1]);
    assert!(!ask(&evidence.checkpoint, &key, &cut, "{}"), "the tail is missing");
    let mut changed = lines.clone();
    changed[3] = b"{}";
    assert!(!ask(&evidence.checkpoint, &key, &joined(&changed), "{}"), "another leaf");
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    assert!(!ask(&evidence.checkpoint, &key, &joined(&swapped), "{}"), "another order");
    let resized = String::from_utf8(evidence.checkpoint.clone()).unwrap();
    let resized = resized.replacen(&format!("\n{}\n", lines.len()), "\n1\n", 1);
    assert!(!ask(resized.as_bytes(), &key, &evidence.journal, &good), "another size");

    // A second history of the same log, signed by the same key: no proof leads from one to the other.
    let fork = joined(&changed);
    let forked = Checkpoint { origin: evidence.origin.clone(), log: head_of(&fork) }.sign(&session());
    assert!(ask(&forked, &key, &fork, "{}"), "a head of its own");
    assert!(!ask(&forked, &key, &fork, &good), "not the head that the proofs are of");
    let flipped =
        good.replacen(&log.head_at(5).unwrap().root.to_string(), &head_of(b"x\n").root.to_string(), 1);
    assert_ne!(flipped, good);
    assert!(!ask(&evidence.checkpoint, &key, &evidence.journal, &flipped), "another root in a proof");
}
