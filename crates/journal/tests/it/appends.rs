//! Appends: atomic, in order, durable, shared.

use std::thread;

use provost_core::event::Body;
use provost_journal::{Blob, Head, SqliteStore, Store, StoreError};

use crate::support::{
    Place, TTL, append_notes, as_child, assert_chain, assert_ok, child, driven, me, note, run, salt, step,
    wait,
};

#[test]
fn what_was_appended_is_read_back_by_another_handle() {
    let place = Place::new();
    let lease = driven(&place.open(), "run-a");
    let blob = Blob::new(&salt(), b"words".to_vec());
    let digest = blob.digest();
    let appended = wait(async {
        let store = place.open();
        store.append(&lease, &Head::empty(), vec![note(5), note(6)], vec![blob.clone(), blob]).await
    })
    .expect("appends");
    assert_eq!(appended.head.next, 2);
    let store = place.open();
    assert_eq!(assert_chain(&store, &lease.run), appended.events);
    wait(async {
        assert_eq!(store.events(&lease.run, 1).await.expect("reads"), appended.events[1..]);
        assert_eq!(store.blob(&lease.run, digest).await.expect("reads").as_deref(), Some(&b"words"[..]));
        assert_eq!(store.blob(&lease.run, salt().digest(b"others")).await.expect("reads"), None);
        assert_eq!(store.salt(&lease.run).await.expect("reads"), Some(salt()));
    });
}

#[test]
fn a_wrong_head_is_refused_and_writes_nothing() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    wait(async {
        let head = append_notes(&store, &lease, 2).await.expect("appends");
        let forked = Head { hash: Head::empty().hash, ..head.clone() };
        for wrong in [Head::empty(), forked, Head { next: 3, ..head.clone() }] {
            let blob = Blob::new(&salt(), b"lost".to_vec());
            let digest = blob.digest();
            let refused = store.append(&lease, &wrong, vec![note(9)], vec![blob]).await;
            assert!(matches!(refused, Err(StoreError::StaleHead { actual: 2, .. })), "{refused:?}");
            assert_eq!(store.blob(&lease.run, digest).await.expect("reads"), None);
        }
        assert_eq!(store.head(&lease.run).await.expect("head"), head);
    });
    assert_chain(&store, &lease.run);
}

/// The events of some kinds are those that all events have of them, wherever a word of theirs stands in others.
#[test]
fn events_of_kinds_are_found_without_the_others() {
    const KINDS: [&str; 2] = ["model.answered", "run.queued"];
    let place = Place::new();
    let store = place.open();
    let (lease, other) = (driven(&store, "run-a"), driven(&store, "run-b"));
    wait(async {
        let mut head = Head::empty();
        for n in 0..400 {
            let (mut drafts, blobs) = step(n);
            if let Body::ActDecided(decided) = &mut drafts[1].body {
                decided.tool = "\"kind\":\"model.answered\"".to_owned();
            }
            head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
        }
        append_notes(&store, &other, 2).await.expect("appends");
        let mut all = store.events(&lease.run, 0).await.expect("reads");
        all.retain(|event| KINDS.contains(&event.body.kind()));
        assert_eq!(all.len(), 400);
        assert_eq!(store.events_of(&lease.run, &KINDS).await.expect("reads"), all);
        assert_eq!(store.events_of(&other.run, &KINDS).await.expect("reads"), []);
        assert_eq!(store.events_of(&other.run, &["note"]).await.expect("reads").len(), 2);
    });
    // One that is not what was written is no event.
    drop(store);
    rusqlite::Connection::open(place.file())
        .expect("opens")
        .execute("UPDATE event SET json = replace(json, '\"input\":1200', '\"input\":1201') WHERE json LIKE '%\"seq\":9,%'", [])
        .expect("alters");
    let store = place.open();
    let altered = wait(store.events_of(&lease.run, &KINDS));
    assert!(matches!(altered, Err(StoreError::Corrupt { .. })), "{altered:?}");
}

#[test]
fn the_list_of_runs_follows_the_events() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    wait(async {
        let mut head = Head::empty();
        for n in 0..3 {
            let (drafts, blobs) = step(n);
            head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
        }
        let rows = store.runs().await.expect("lists");
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].steps, rows[0].tokens, rows[0].last_seq), (3, 3780, Some(8)));
        // The row in the table and a fold from nothing are the same.
        let mut folded = provost_journal::RunRow::new(lease.run.clone(), 1);
        store.events(&lease.run, 0).await.expect("reads").iter().for_each(|event| folded.apply(event));
        folded.holder.clone_from(&rows[0].holder);
        assert_eq!(rows[0], folded);
        assert_eq!(store.row(&lease.run).await.expect("reads"), folded);
    });
}

#[test]
fn runs_are_found_by_the_beginning_of_their_name() {
    let place = Place::new();
    let store = place.open();
    wait(async {
        for name in ["aaaa-1", "aaaa-2", "aaaa-22", "bbbb"] {
            store.create(&run(name), salt(), 1).await.expect("creates");
        }
        assert_eq!(store.find("b").await.expect("finds"), run("bbbb"));
        assert_eq!(store.find("aaaa-2").await.expect("finds the whole name"), run("aaaa-2"));
        assert!(
            matches!(store.find("aaaa").await, Err(StoreError::Ambiguous { runs, .. }) if runs.len() == 3)
        );
        assert!(matches!(store.find("c").await, Err(StoreError::NoSuchRun { .. })));
        assert!(matches!(store.create(&run("bbbb"), salt(), 1).await, Err(StoreError::Exists { .. })));
        assert!(matches!(store.head(&run("cccc")).await, Err(StoreError::NoSuchRun { .. })));
    });
}

#[test]
fn a_forgotten_run_keeps_its_chain_and_loses_its_words() {
    let place = Place::new();
    let word = b"XYZZY-do-not-keep-me".repeat(20);
    let lease = {
        let store = place.open();
        let lease = driven(&store, "run-a");
        wait(async {
            let blob = Blob::new(&salt(), word.clone());
            let digest = blob.digest();
            store.append(&lease, &Head::empty(), vec![note(1)], vec![blob]).await.expect("appends");
            store.forget(&lease.run).await.expect("forgets");
            assert_eq!(store.blob(&lease.run, digest).await.expect("reads"), None);
            assert_eq!(store.salt(&lease.run).await.expect("reads"), None);
        });
        assert_chain(&store, &lease.run);
        lease
    };
    // The last handle is closed: what was deleted is gone from the file too, not only from its tables.
    let raw = std::fs::read(place.file()).expect("reads");
    assert!(!raw.windows(20).any(|window| window == &word[..20]));
    assert_eq!(assert_chain(&place.open(), &lease.run).len(), 1);
}

#[test]
fn waiting_appends_share_a_commit_and_a_refused_one_fails_alone() {
    let place = Place::new();
    let store = place.open();
    let leases: Vec<_> = (0..20).map(|n| driven(&store, &format!("run-{n}"))).collect();
    let before = store.commits();
    // Another process writes: what comes meanwhile has to wait, and then goes in one commit.
    let other = rusqlite_lock(&place);
    thread::scope(|scope| {
        let waiting: Vec<_> = leases
            .iter()
            .enumerate()
            .map(|(n, lease)| {
                let store = &store;
                scope.spawn(move || {
                    let expected = if n == 7 { Head { next: 99, ..Head::empty() } } else { Head::empty() };
                    wait(store.append(lease, &expected, vec![note(1)], vec![]))
                })
            })
            .collect();
        thread::sleep(std::time::Duration::from_millis(200));
        drop(other);
        for (n, thread) in waiting.into_iter().enumerate() {
            let end = thread.join().expect("thread");
            assert_eq!(end.is_ok(), n != 7, "{end:?}");
        }
    });
    assert_eq!(store.commits() - before, 1);
    for (n, lease) in leases.iter().enumerate() {
        assert_eq!(assert_chain(&store, &lease.run).len(), usize::from(n != 7));
    }
}

#[test]
fn two_appends_to_one_run_in_one_commit_follow_each_other() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    // What the first will leave is computed here, so that both can be handed over at once.
    let mut second = Head::empty();
    provost_evidence::chain::seal(&lease.run, &mut second, note(1)).expect("seals");
    let before = store.commits();
    let other = rusqlite_lock(&place);
    let empty = Head::empty();
    wait(async {
        let first = store.append(&lease, &empty, vec![note(1)], vec![]);
        let next = store.append(&lease, &second, vec![note(2)], vec![]);
        let both = tokio::join!(first, next, async { drop(other) });
        both.0.expect("first");
        assert_eq!(both.1.expect("second").head.next, 2);
    });
    assert_eq!(store.commits() - before, 1);
    assert_chain(&store, &lease.run);
}

/// Case D1: many threads of many processes, one file, and nobody sees `database is locked`.
#[test]
fn d1_processes_and_threads_share_a_file_without_locked_errors() {
    const THREADS: u64 = 4;
    const EACH: u64 = 25;
    if let Some((path, word)) = as_child() {
        // Every thread opens and closes its own handle, which is where WAL files come and go.
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (path, word) = (&path, &word);
                scope.spawn(move || {
                    let store = SqliteStore::open(path).expect("opens");
                    let lease = driven(&store, &format!("{word}-{n}"));
                    wait(append_notes(&store, &lease, EACH)).expect("appends");
                });
            }
        });
        return;
    }
    let place = Place::new();
    let test = "appends::d1_processes_and_threads_share_a_file_without_locked_errors";
    let mut children: Vec<_> = (0..3)
        .map(|n| {
            let mut command = child(test, &place.file(), &format!("proc-{n}"));
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().expect("spawns")
        })
        .collect();
    for child in children.drain(..) {
        assert_ok(&child.wait_with_output().expect("waits"));
    }
    let store = place.open();
    for row in wait(store.runs()).expect("lists") {
        assert_eq!(assert_chain(&store, &row.run).len() as u64, EACH);
    }
    assert_eq!(wait(store.runs()).expect("lists").len(), 12);
    wait(store.check()).expect("sound");
}

#[test]
fn a_step_costs_little_beyond_its_content() {
    let place = Place::new();
    let steps = 2_000;
    let (mut content, mut facts) = (0, 0);
    let sizes = |place: &Place| std::fs::metadata(place.file()).expect("file").len();
    let start = {
        driven(&place.open(), "run-a");
        sizes(&place)
    };
    {
        let store = place.open();
        let lease =
            wait(async { store.acquire(&run("run-a"), me(), u64::MAX / 4, TTL).await.expect("acquires") });
        wait(async {
            let mut head = Head::empty();
            for n in 0..steps {
                let (drafts, blobs) = step(n);
                content += blobs.iter().map(|blob| blob.bytes().len() as u64).sum::<u64>();
                head = store.append(&lease, &head, drafts, blobs).await.expect("appends").head;
            }
            for line in store.events_json(&lease.run).await.expect("reads") {
                facts += line.len() as u64;
            }
        });
    }
    let steps = u64::from(steps);
    let growth = (sizes(&place) - start) / steps;
    println!(
        "a reading step: {growth} bytes of file, {} of events, {} of content",
        facts / steps,
        content / steps
    );
    assert!(growth - content / steps < 2_048, "{growth}");
    assert!(growth < (facts + content) / steps + 600, "{growth}");
}

/// The write lock of the store, held as another process would hold it.
fn rusqlite_lock(place: &Place) -> impl Drop + use<> {
    struct Lock(rusqlite::Connection);
    impl Drop for Lock {
        fn drop(&mut self) {
            self.0.execute_batch("ROLLBACK").expect("unlocks");
        }
    }
    let conn = rusqlite::Connection::open(place.file()).expect("opens");
    conn.execute_batch("BEGIN IMMEDIATE").expect("locks");
    Lock(conn)
}

#[test]
fn many_contents_are_read_in_the_order_in_which_they_are_asked_for() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    wait(async {
        let (drafts, blobs) = step(1);
        store.append(&lease, &Head::empty(), drafts, blobs.clone()).await.expect("appends");
        let unknown = salt().digest(b"unknown");
        let mut asked: Vec<_> = blobs.iter().rev().map(Blob::digest).collect();
        asked.push(unknown);
        asked.push(blobs[0].digest());
        let found = store.blobs(&lease.run, &asked).await.expect("reads");
        let bytes = |n: usize| Some(blobs[n].bytes().to_vec());
        assert_eq!(found, [bytes(2), bytes(1), bytes(0), None, bytes(0)]);
        for (digest, bytes) in asked.iter().zip(found) {
            assert_eq!(store.blob(&lease.run, *digest).await.expect("reads"), bytes);
        }
        store.forget(&lease.run).await.expect("forgets");
        assert_eq!(store.blobs(&lease.run, &asked).await.expect("reads"), vec![None; asked.len()]);
    });
}

/// Long runs are checked by two threads: what is wrong is found in either half, and named by its place.
#[test]
fn i7_an_altered_event_of_a_long_run_is_found_wherever_it_stands() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    wait(append_notes(&store, &lease, 700)).expect("appends");
    assert_eq!(assert_chain(&store, &lease.run).len(), 700);
    drop(store);
    for at in [0_i64, 1, 349, 350, 351, 698, 699] {
        let again = Place::new();
        std::fs::copy(place.file(), again.file()).expect("copies");
        let conn = rusqlite::Connection::open(again.file()).expect("opens");
        let changed = conn
            .execute(
                "UPDATE event SET json = replace(json, '\"why\":\"empty\"', '\"why\":\"cut_off\"') WHERE key & 4294967295 = ?1",
                [at],
            )
            .expect("updates");
        assert_eq!(changed, 1);
        drop(conn);
        let refused = wait(again.open().events(&lease.run, 0)).expect_err("it was altered");
        assert!(
            matches!(&refused, StoreError::Corrupt { detail, .. } if detail.contains(&format!("event {at} of"))),
            "{refused}"
        );
    }
}
