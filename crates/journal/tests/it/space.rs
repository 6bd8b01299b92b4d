//! Disks that are full (case D6): an error, nothing half written, and on again when there is space.

use std::fs;
use std::path::Path;
use std::process::Command;

use provost_journal::{Blob, Head, SqliteStore, Store, StoreError};

use crate::support::{
    Place, append_notes, as_child, assert_chain, assert_ok, child, driven, note, salt, wait,
};

fn big(n: u64) -> Vec<Blob> {
    // Not compressible and never twice the same.
    let mut bytes = n.to_le_bytes().repeat(8 * 1024);
    bytes.extend(n.to_be_bytes());
    vec![Blob::new(&salt(), bytes)]
}

/// Appends until there is no space, and answers the head of what was recorded.
async fn fill(store: &SqliteStore, lease: &provost_journal::Lease, mut head: Head) -> Head {
    for n in 0..100_000 {
        match store.append(lease, &head, vec![note(n)], big(n)).await {
            Ok(appended) => head = appended.head,
            Err(StoreError::Full { .. }) => return head,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk has no end");
}

#[test]
fn d6_a_full_store_refuses_and_goes_on_when_there_is_space() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    wait(async {
        store.limit_pages(200).await.expect("limits");
        let head = fill(&store, &lease, Head::empty()).await;
        assert_eq!(store.head(&lease.run).await.expect("head"), head, "a refused append left nothing");
        // Others' small appends still pass, also in the same commit as one that is too big.
        let bound = store.append(&lease, &head, vec![note(1)], big(77));
        let other = store.head(&lease.run);
        let (too_big, _) = tokio::join!(bound, other);
        assert!(matches!(too_big, Err(StoreError::Full { .. })));
        store.limit_pages(100_000).await.expect("frees");
        store.append(&lease, &head, vec![note(1)], big(77)).await.expect("on again");
    });
    assert_chain(&store, &lease.run);
    wait(store.check()).expect("sound");
}

#[test]
fn one_that_is_too_big_does_not_fail_those_it_shared_a_commit_with() {
    let place = Place::new();
    let store = place.open();
    let (large, small) = (driven(&store, "large"), driven(&store, "small"));
    wait(store.limit_pages(60)).expect("limits");
    let lock = rusqlite::Connection::open(place.file()).expect("opens");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let empty = Head::empty();
    let blobs = (0..8).flat_map(big).collect();
    wait(async {
        let first = store.append(&small, &empty, vec![note(1)], vec![]);
        let second = store.append(&large, &empty, vec![note(1)], blobs);
        let ends = tokio::join!(first, second, async { lock.execute_batch("ROLLBACK").expect("unlocks") });
        ends.0.expect("the small one passes");
        assert!(matches!(ends.1, Err(StoreError::Full { .. })), "{:?}", ends.1);
    });
    assert_eq!(assert_chain(&store, &small.run).len(), 1);
    assert_eq!(assert_chain(&store, &large.run).len(), 0);
}

/// A real small disk, where this user may mount one.
#[test]
fn d6_a_really_full_disk_is_survived() {
    let folder = tempfile::tempdir().expect("temp");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=12m", "none"])
        .arg(folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        println!("not run: this user may not mount a tmpfs");
        return;
    }
    let _guard = Unmount(folder.path());
    // Room for the WAL to be folded into the file must come free, not only for the next append.
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![1; 6 << 20]).expect("fills");
    let path = folder.path().join("journal.db");
    let (run, head) = {
        let store = SqliteStore::open(&path).expect("opens");
        let lease = driven(&store, "run-a");
        wait(async {
            let mut head = fill(&store, &lease, Head::empty()).await;
            // It stays an error as long as it is one, and every answer keeps its word.
            for n in 0..20 {
                match store.append(&lease, &head, vec![note(n)], big(1000 + n)).await {
                    Ok(appended) => head = appended.head,
                    Err(StoreError::Full { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            fs::remove_file(&ballast).expect("frees");
            let head = append_notes(&store, &lease, 5).await.expect("on again");
            (lease.run.clone(), head)
        })
    };
    let store = SqliteStore::open(&path).expect("opens again");
    assert_eq!(assert_chain(&store, &run).len() as u64, head.next);
    wait(store.check()).expect("sound");
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// The same by a limit on file size, which any user can set: here the system's error is another (`EFBIG`).
#[test]
fn a_file_size_limit_is_an_error_and_loses_nothing() {
    if let Some((path, _)) = as_child() {
        let store = SqliteStore::open(path).expect("opens");
        let lease = driven(&store, "run-a");
        wait(async {
            let mut head = Head::empty();
            for n in 0..1000 {
                match store.append(&lease, &head, vec![note(n)], big(n)).await {
                    Ok(appended) => head = appended.head,
                    Err(StoreError::Full { .. } | StoreError::Io { .. }) => {
                        assert_eq!(store.head(&lease.run).await.expect("head"), head);
                        println!("stopped at {}", head.next);
                        return;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            panic!("no limit");
        });
        return;
    }
    let place = Place::new();
    drop(place.open());
    let inner = child("space::a_file_size_limit_is_an_error_and_loses_nothing", &place.file(), "small");
    let program = inner.get_program().to_owned();
    // The shell sets the limit (in blocks of 512 bytes) and ignores the signal that would kill the child.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""])
        .arg(program)
        .args(inner.get_args())
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .expect("runs");
    assert_ok(&output);
    let store = place.open();
    let run = "run-a".parse().expect("run id");
    assert!(assert_chain(&store, &run).len() > 3);
    wait(store.check()).expect("sound");
}
