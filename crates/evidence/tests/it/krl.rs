//! Key revocation lists that `ssh-keygen` makes, in the trust folder; and what both say of the same key.

use std::path::Path;

use provost_evidence::keys::VerifyingKey;
use provost_evidence::ssh::public;
use provost_evidence::trust::{Distrust, Role, Trust};

use crate::session::{NOW, allowed, key, read_trust};
use crate::ssh::keygen;

/// A trust folder of two keys, the first of which is in a list, named in this way.
fn folder(form: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let [lost, kept] = [1, 2].map(|seed| key(seed).verifying_key());
    let lines = [allowed("alice", "", &lost), allowed("bob", "", &kept)].concat();
    std::fs::write(dir.path().join("allowed_signers"), lines).unwrap();
    std::fs::write(dir.path().join(".list"), format!("{form}{}\n", public::line(&lost))).unwrap();
    let made = keygen(dir.path(), &["-q", "-k", "-f", "revoked_keys", ".list"], b"");
    assert!(made.status.success(), "{made:?}");
    dir
}

/// Whether `ssh-keygen -Q` says that the key is revoked.
fn keygen_says(dir: &Path, key: &VerifyingKey) -> bool {
    std::fs::write(dir.join(".asked.pub"), public::line(key)).unwrap();
    let asked = keygen(dir, &["-Q", "-f", "revoked_keys", ".asked.pub"], b"");
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let revoked = said.contains("REVOKED");
    assert_eq!(revoked, !asked.status.success(), "{asked:?}");
    revoked
}

#[test]
fn a_list_of_openssh_counts_as_ssh_keygen_reads_it() {
    for form in ["", "sha1: ", "sha256: "] {
        let dir = folder(form);
        let trust = read_trust(dir.path());
        let found = [1, 2].map(|seed| {
            let key = key(seed).verifying_key();
            let ours = trust.look_up(&key, Role::Authority, NOW).map(|known| known.who.clone());
            assert_eq!(ours == Err(Distrust::Revoked), keygen_says(dir.path(), &key), "{form}{seed}");
            ours
        });
        assert_eq!(found, [Err(Distrust::Revoked), Ok("bob".to_owned())], "{form}");
    }
}

#[test]
fn a_list_that_cannot_be_heeded_whole_is_refused() {
    let dir = folder("");
    let path = dir.path().join("revoked_keys");
    let good = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Trust::read(dir.path()).unwrap_err().to_string().replace(&dir.path().display().to_string(), "DIR")
    };
    // Behind the magic, the version, three numbers and two strings that are empty.
    let section = 8 + 4 + 24 + 8;
    assert_eq!(good[section], 2, "keys, one by one");
    let of_kind = |kind: u8| {
        let mut other = good.clone();
        other[section] = kind;
        other
    };
    let mut newer = good.clone();
    newer[11] = 2;
    let errors = [newer, of_kind(4), of_kind(255), of_kind(5), good[..good.len() - 1].to_vec()];
    insta::assert_snapshot!(errors.map(|bytes| refused(&bytes)).join("\n"));
    // The control.
    std::fs::write(&path, &good).unwrap();
    assert_eq!(read_trust(dir.path()).authorities(NOW).len(), 1);
}

#[test]
fn no_part_of_a_list_is_taken_for_the_whole() {
    let dir = folder("");
    let path = dir.path().join("revoked_keys");
    let good = std::fs::read(&path).unwrap();
    // A list cut behind its head is a whole one that revokes nothing, and only that one is.
    let head = 8 + 4 + 24 + 8;
    for end in 0..good.len() {
        std::fs::write(&path, &good[..end]).unwrap();
        let read = Trust::read(dir.path());
        assert_eq!(read.is_ok(), end == 0 || end == head, "{end}");
    }
}
