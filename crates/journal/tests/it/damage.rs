//! Files that are damaged, foreign, newer or out of reach: refused by name, and left as they are.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use provost_journal::{SqliteStore, Store, StoreError};

use crate::support::{Place, append_notes, as_child, assert_chain, assert_ok, child, driven, step, wait};

fn refused(place: &Place) -> StoreError {
    let before = fs::read(place.file()).expect("reads");
    let error = SqliteStore::open(place.file()).expect_err("refused");
    assert!(error.to_string().contains("journal.db"), "{error}");
    assert_eq!(fs::read(place.file()).expect("reads"), before, "a refused file is left as it is");
    error
}

#[test]
fn files_that_are_not_stores_are_refused_by_name() {
    for content in [vec![0; 8192], b"not a database at all".repeat(100), b"SQLite format 3".to_vec()] {
        let place = Place::new();
        fs::write(place.file(), content).expect("writes");
        assert!(matches!(refused(&place), StoreError::NotOurs { .. }));
    }
    let place = Place::new();
    fs::create_dir(place.file()).expect("makes");
    assert!(matches!(SqliteStore::open(place.file()), Err(StoreError::NotOurs { .. })));
}

#[test]
fn databases_of_others_are_refused_and_not_changed() {
    for setup in ["CREATE TABLE theirs (x);", "PRAGMA application_id = 77; CREATE TABLE theirs (x);"] {
        let place = Place::new();
        rusqlite::Connection::open(place.file()).expect("opens").execute_batch(setup).expect("sets up");
        assert!(matches!(refused(&place), StoreError::NotOurs { .. }));
    }
}

/// Case D8: a file of a newer format says so.
#[test]
fn d8_a_newer_format_is_refused_by_number() {
    let place = Place::new();
    drop(place.open());
    let newer = SqliteStore::FORMAT + 1;
    rusqlite::Connection::open(place.file())
        .expect("opens")
        .execute_batch(&format!("PRAGMA user_version = {newer}"))
        .expect("sets");
    let error = refused(&place);
    let StoreError::TooNew { found, known, .. } = error else { panic!("{error}") };
    assert_eq!((found, known), (newer, SqliteStore::FORMAT));
}

#[test]
fn an_empty_file_is_a_store_that_was_never_begun() {
    let place = Place::new();
    fs::write(place.file(), b"").expect("writes");
    driven(&place.open(), "run-a");
}

/// Case D5: power loss leaves NULs behind the file's end, and behind the WAL's.
#[test]
fn d5_trailing_nuls_lose_nothing() {
    let place = Place::new();
    let lease = {
        let store = place.open();
        let lease = driven(&store, "run-a");
        wait(append_notes(&store, &lease, 10)).expect("appends");
        // A copy taken while the store is open has a WAL that was not folded in, as after a power cut.
        for end in ["", "-wal"] {
            let from = format!("{}{end}", place.file().display());
            // By another program: a descriptor closed here would drop the locks of the handle above.
            let to = format!("{}/copy.db{end}", place.folder.path().display());
            assert!(Command::new("cp").args([from, to]).status().expect("runs").success());
        }
        lease
    };
    for file in [place.file(), place.folder.path().join("copy.db"), place.folder.path().join("copy.db-wal")] {
        OpenOptions::new().append(true).open(file).expect("opens").write_all(&[0; 4096]).expect("writes");
    }
    assert_eq!(assert_chain(&place.open(), &lease.run).len(), 10);
    let copy = SqliteStore::open(place.folder.path().join("copy.db")).expect("opens");
    assert_eq!(assert_chain(&copy, &lease.run).len(), 10);
}

/// Case D9: garbage in a page is an error that names the file, never a guess and never a crash.
#[test]
fn d9_garbage_in_any_page_is_found_or_harmless() {
    let place = Place::new();
    let lease = {
        let store = place.open();
        let lease = driven(&store, "run-a");
        wait(async {
            let mut head = store.head(&lease.run).await.expect("head");
            for n in 0..60 {
                let (drafts, blobs) = step(n);
                head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
            }
        });
        lease
    };
    let sound = fs::read(place.file()).expect("reads");
    let mut found = 0;
    for page in 0..sound.len() / 4096 {
        let mut file = OpenOptions::new().write(true).open(place.file()).expect("opens");
        file.write_all(&sound).expect("restores");
        file.seek(SeekFrom::Start(page as u64 * 4096)).expect("seeks");
        file.write_all(&[0xA5; 4096]).expect("writes");
        drop(file);
        let read = SqliteStore::open(place.file()).and_then(|store| {
            wait(async {
                let events = store.events(&lease.run, 0).await?;
                store.check().await?;
                Ok(events)
            })
        });
        match read {
            Ok(events) => assert_eq!(events.len(), 180, "page {page}"),
            Err(StoreError::Corrupt { .. } | StoreError::NotOurs { .. } | StoreError::NoSuchRun { .. }) => {
                found += 1;
            }
            Err(other) => panic!("page {page}: {other}"),
        }
    }
    assert!(found > 0);
}

#[test]
fn an_altered_byte_in_an_event_or_in_content_is_found() {
    let place = Place::new();
    let (lease, digest) = {
        let store = place.open();
        let lease = driven(&store, "run-a");
        let (drafts, blobs) = step(0);
        let digest = blobs[0].digest();
        wait(async {
            let head = store.head(&lease.run).await.expect("head");
            store.append(&lease, &head, drafts, blobs).await.expect("appends");
        });
        (lease, digest)
    };
    rusqlite::Connection::open(place.file())
        .expect("opens")
        .execute_batch(
            "UPDATE event SET json = replace(json, '812', '813'); UPDATE blob SET bytes = CAST(bytes || x'20' AS BLOB);",
        )
        .expect("alters");
    let store = place.open();
    let error = wait(store.events(&lease.run, 0)).expect_err("found");
    assert!(matches!(&error, StoreError::Corrupt { detail, .. } if detail.contains("event 0")), "{error}");
    assert!(matches!(wait(store.blob(&lease.run, digest)), Err(StoreError::Corrupt { .. })));
}

#[test]
fn files_are_for_their_owner_only() {
    let folder = tempfile::tempdir().expect("temp");
    let path = folder.path().join("a/b/journal.db");
    let store = SqliteStore::open(&path).expect("opens");
    driven(&store, "run-a");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("a")), 0o700);
    assert_eq!(mode(&folder.path().join("a/b")), 0o700);
    for entry in fs::read_dir(folder.path().join("a/b")).expect("lists") {
        assert_eq!(mode(&entry.expect("entry").path()), 0o600);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    if let Some((path, word)) = as_child() {
        let refused = SqliteStore::open(&path);
        match word.as_str() {
            "fresh" | "there" => {
                let error = refused.expect_err("refused");
                assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
                assert!(error.to_string().contains(&path.display().to_string()), "{error}");
            }
            other => panic!("{other}"),
        }
        return;
    }
    let test = "damage::a_folder_that_cannot_be_written_is_named";
    for word in ["fresh", "there"] {
        let place = Place::new();
        if word == "there" {
            driven(&place.open(), "run-a");
        }
        // As root nothing is read-only by mode, so the child is somebody else: the file is readable to it, no more.
        let chmod = |path: &std::path::Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
        };
        chmod(place.folder.path(), 0o555);
        if word == "there" {
            chmod(&place.file(), 0o444);
        }
        let mut command = child(test, &place.file(), word);
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        assert_ok(&command.output().expect("runs"));
        chmod(place.folder.path(), 0o700);
    }
}
