//! Sizes, deleting, dropping words, compacting: what is meant to go goes, and nothing else.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use provost_journal::{
    Blob, Content, FileSize, Head, Lease, Owner, Retention, SqliteStore, Standing, Store, StoreError,
};

use crate::support::{
    Place, TTL, append_notes, as_child, assert_chain, child, driven, me, note, run, salt, step, wait,
};

/// What all words of a run end in.
fn mark(run: usize) -> String {
    format!("do-not-keep-me-{run:02}")
}

/// Words that are found again wherever they lie.
fn secret(run: usize, n: usize) -> String {
    format!("XYZZY-{n:04}-{}", mark(run))
}

/// Appends `count` events with a secret each, of lengths that fill pages unevenly.
fn whisper(store: &SqliteStore, lease: &Lease, run: usize, count: usize) {
    wait(async {
        let mut head = store.head(&lease.run).await.expect("head");
        for n in 0..count {
            let blob = Blob::new(&salt(), secret(run, n).repeat(1 + n * 7 % 200).into_bytes());
            head = store.append(lease, &head, vec![note(n as u64)], vec![blob]).await.expect("appends").head;
        }
    });
}

/// How often `word` lies in the file, where no page ends within it.
fn traces(place: &Place, word: &str) -> usize {
    let raw = std::fs::read(place.file()).expect("reads");
    raw.windows(word.len()).filter(|window| *window == word.as_bytes()).count()
}

fn size(store: &SqliteStore) -> FileSize {
    wait(store.size()).expect("sizes")
}

fn number_of(place: &Place, name: &str) -> i64 {
    let conn = rusqlite::Connection::open(place.file()).expect("opens");
    conn.query_row("SELECT id FROM run WHERE name = ?1", [name], |row| row.get(0)).expect("there")
}

#[test]
fn what_a_run_takes_up_is_told_in_events_and_content() {
    let place = Place::new();
    let store = place.open();
    let (one, two) = (driven(&store, "run-one"), driven(&store, "run-two"));
    wait(async {
        let (drafts, blobs) = step(1);
        let content: u64 = blobs.iter().map(|blob| blob.bytes().len() as u64).sum();
        store.append(&one, &Head::empty(), drafts, blobs).await.expect("appends");
        let json: usize = store.events_json(&one.run).await.expect("reads").iter().map(Vec::len).sum();
        let usage = store.usage(&one.run).await.expect("tells");
        assert_eq!((usage.events, usage.event_bytes), (3, json as u64));
        assert_eq!((usage.blobs, usage.blob_bytes), (3, content));
        assert_eq!((usage.last_ms, usage.content), (Some(1_796_000_000_001), Content::Kept));
        store.forget(&one.run).await.expect("forgets");
        let usage = store.usage(&one.run).await.expect("tells");
        assert_eq!((usage.events, usage.blobs, usage.content), (3, 0, Content::Dropped));

        // One without events is as old as its making.
        let usage = store.usage(&two.run).await.expect("tells");
        assert_eq!((usage.events, usage.blobs, usage.last_ms), (0, 0, Some(1)));
        assert_eq!(usage.row.standing(), Standing::Empty);
        assert!(matches!(store.usage(&run("no-such-run")).await, Err(StoreError::NoSuchRun { .. })));
    });
    let size = size(&store);
    assert_eq!(size.format, SqliteStore::FORMAT);
    assert_eq!(size.file_bytes, std::fs::metadata(place.file()).expect("file").len());
    assert!(size.wal_bytes > 0 && size.bytes() > size.file_bytes);
}

/// An age that is a guess must not decide what is deleted.
#[test]
fn a_run_whose_newest_event_is_damaged_has_no_age() {
    let place = Place::new();
    let lease = driven(&place.open(), "run-a");
    wait(append_notes(&place.open(), &lease, 3)).expect("appends");
    let age = || wait(place.open().usage(&lease.run)).expect("tells").last_ms;
    assert_eq!(age(), Some(2), "the control");
    rusqlite::Connection::open(place.file())
        .expect("opens")
        .execute_batch("UPDATE event SET json = replace(json, '\"at_ms\":2', '\"at_ms\":1')")
        .expect("alters");
    assert_eq!(age(), None);
}

#[test]
fn a_deleted_run_is_gone_from_the_file_and_the_others_are_whole() {
    let place = Place::new();
    let before: Vec<_> = {
        let store = place.open();
        let leases: Vec<_> = (0..4).map(|n| driven(&store, &format!("run-{n}"))).collect();
        for round in 0..5 {
            for (n, lease) in leases.iter().enumerate() {
                whisper(&store, lease, n, 40 + round);
            }
        }
        let before = leases.iter().map(|lease| assert_chain(&store, &lease.run)).collect();
        wait(store.delete(&leases[1])).expect("deletes");
        wait(async {
            for refused in [
                store.events(&leases[1].run, 0).await.err(),
                store.append(&leases[1], &Head::empty(), vec![note(1)], vec![]).await.err(),
                store.delete(&leases[1]).await.err(),
            ] {
                assert!(matches!(refused, Some(StoreError::NoSuchRun { .. })), "{refused:?}");
            }
            assert_eq!(store.runs().await.expect("lists").len(), 3);
        });
        before
    };
    let store = place.open();
    for n in [0, 2, 3] {
        assert_eq!(assert_chain(&store, &run(&format!("run-{n}"))), before[n]);
        assert!(traces(&place, &mark(n)) > 0, "the control");
    }
    assert_eq!(traces(&place, &mark(1)), 0);
    assert_eq!(traces(&place, "\"run-1\""), 0);
    wait(store.check()).expect("sound");
}

#[test]
fn i12_only_the_newest_lease_deletes() {
    let place = Place::new();
    let store = place.open();
    let old = driven(&store, "run-a");
    wait(async {
        append_notes(&store, &old, 2).await.expect("appends");
        let new = store.acquire(&old.run, me(), old.expires_ms, TTL).await.expect("takes over");
        let refused = store.delete(&old).await.expect_err("fenced");
        assert!(matches!(refused, StoreError::Fenced { held: 1, current: 2, .. }), "{refused}");
        assert_eq!(store.head(&old.run).await.expect("head").next, 2);
        // The control.
        store.delete(&new).await.expect("deletes");
        assert!(store.runs().await.expect("lists").is_empty());
    });
}

#[test]
fn no_later_run_gets_a_deleted_runs_number() {
    let place = Place::new();
    let store = place.open();
    let first = driven(&store, "run-a");
    let taken = number_of(&place, "run-a");
    wait(store.delete(&first)).expect("deletes");
    // The same name is another run.
    let second = driven(&store, "run-a");
    assert!(number_of(&place, "run-a") > taken);
    wait(append_notes(&store, &second, 2)).expect("appends");
    assert_chain(&store, &second.run);
    wait(store.delete(&second)).expect("deletes");
    store.compact(&me(), 2).expect("compacts");
    drop(store);
    driven(&place.open(), "run-b");
    assert_eq!(number_of(&place, "run-b"), taken + 2, "not after compacting and opening anew either");

    // The control: format 1 gave the number again.
    let old = Place::with_fixture(1);
    let conn = rusqlite::Connection::open(old.file()).expect("opens");
    let twice: [i64; 2] = [0, 1].map(|_| {
        conn.execute_batch("DELETE FROM run WHERE id = (SELECT max(id) FROM run)").expect("deletes");
        conn.query_row(
            "INSERT INTO run (name, created_ms, next, hash, generation, state, steps, tokens)
             VALUES ('again', 0, 0, x'', 0, 'new', 0, 0) RETURNING id",
            [],
            |row| row.get(0),
        )
        .expect("inserts")
    });
    assert_eq!(twice[0], twice[1]);
}

/// What is dropped may not linger where other content was moved about.
#[test]
fn forgotten_words_are_gone_from_the_file_also_after_much_was_moved() {
    let place = Place::new();
    {
        let store = place.open();
        let leases: Vec<_> = (0..6).map(|n| driven(&store, &format!("run-{n}"))).collect();
        for round in 0..6 {
            for (n, lease) in leases.iter().enumerate() {
                whisper(&store, lease, n, 20 + 13 * round);
            }
        }
        for lease in &leases[..5] {
            wait(store.forget(&lease.run)).expect("forgets");
        }
    }
    for run in 0..5 {
        assert_eq!(traces(&place, &mark(run)), 0, "{run}");
    }
    assert!(traces(&place, &mark(5)) > 0, "the control");
}

#[test]
fn the_log_is_emptied_on_demand_so_that_words_leave_it_too() {
    let place = Place::new();
    let store = place.open();
    let lease = driven(&store, "run-a");
    whisper(&store, &lease, 7, 3);
    wait(store.forget(&lease.run)).expect("forgets");
    let log = || std::fs::read(format!("{}-wal", place.file().display())).expect("reads");
    let word = secret(7, 1).into_bytes();
    assert!(log().windows(word.len()).any(|window| window == word), "the control");
    store.checkpoint().expect("empties");
    assert_eq!(log().len(), 0);
    assert_chain(&store, &lease.run);
}

#[test]
fn compacting_gives_space_back_and_keeps_everything() {
    let place = Place::new();
    let store = place.open();
    let leases: Vec<_> = (0..3).map(|n| driven(&store, &format!("run-{n}"))).collect();
    for (n, lease) in leases.iter().enumerate() {
        whisper(&store, lease, n, 60);
    }
    let kept = [0, 2].map(|n: usize| assert_chain(&store, &leases[n].run));
    wait(store.delete(&leases[1])).expect("deletes");
    let before = size(&store);
    assert!(before.free_pages > 0);

    let refused = store.compact(&me(), 2).expect_err("refused");
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused}");
    wait(store.release(&leases[0])).expect("releases");
    wait(store.release(&leases[2])).expect("releases");
    store.compact(&me(), 2).expect("the control");

    let after = size(&store);
    assert_eq!((after.free_pages, after.wal_bytes), (0, 0));
    assert!(after.bytes() < before.bytes(), "{} {}", after.bytes(), before.bytes());
    assert_eq!([0, 2].map(|n: usize| assert_chain(&store, &leases[n].run)), kept);
    wait(async {
        let blob = Blob::new(&salt(), secret(2, 0).into_bytes());
        assert_eq!(
            store.blob(&leases[2].run, blob.digest()).await.expect("reads").as_deref(),
            Some(blob.bytes())
        );
        store.check().await.expect("sound");
    });
}

#[test]
fn a_driver_that_is_gone_does_not_keep_a_store_from_being_compacted() {
    let place = Place::new();
    let store = place.open();
    wait(async {
        store.create(&run("run-a"), salt(), 1).await.expect("creates");
        let elsewhere = Owner { host: "elsewhere".into(), ..me() };
        store.acquire(&run("run-a"), elsewhere, 1, TTL).await.expect("acquires");
        assert!(matches!(store.compact(&me(), 60_000), Err(StoreError::Conflict { .. })));
        store.compact(&me(), 60_001).expect("lapsed");
        let dead = Owner { pid_start: me().pid_start - 1, ..me() };
        store.acquire(&run("run-a"), dead, 60_001, TTL).await.expect("acquires");
        store.compact(&me(), 60_002).expect("its process is over");
    });
}

/// Drivers are not disturbed by runs that go, nor by a log that is emptied under them.
#[test]
fn others_write_on_while_runs_are_deleted() {
    let place = Place::new();
    let keeper = place.open();
    let doomed: Vec<_> = (0..40).map(|n| driven(&keeper, &format!("old-{n}"))).collect();
    for lease in &doomed {
        wait(append_notes(&keeper, lease, 5)).expect("appends");
    }
    thread::scope(|scope| {
        for n in 0..2 {
            let place = &place;
            scope.spawn(move || {
                let store = place.open();
                let lease = driven(&store, &format!("new-{n}"));
                wait(append_notes(&store, &lease, 100)).expect("appends");
            });
        }
        for lease in &doomed {
            wait(keeper.delete(lease)).expect("deletes");
            keeper.checkpoint().expect("empties");
        }
    });
    assert_eq!(wait(keeper.runs()).expect("lists").len(), 2);
    for n in 0..2 {
        assert_eq!(assert_chain(&keeper, &run(&format!("new-{n}"))).len(), 100);
    }
    wait(keeper.check()).expect("sound");
}

#[test]
fn killed_while_it_deletes_and_compacts_it_leaves_runs_whole_or_gone() {
    const EVENTS: usize = 12;
    if let Some((path, _)) = as_child() {
        let store = SqliteStore::open(path).expect("opens");
        for n in 0..100_000 {
            let lease = driven(&store, &format!("run-{}-{n}", std::process::id()));
            whisper(&store, &lease, n, EVENTS);
            println!("at {n}");
            wait(store.delete(&lease)).expect("deletes");
            store.compact(&me(), 2).expect("compacts");
        }
        return;
    }
    let place = Place::new();
    let test = "retention::killed_while_it_deletes_and_compacts_it_leaves_runs_whole_or_gone";
    let kept = {
        let store = place.open();
        let lease = driven(&store, "kept");
        whisper(&store, &lease, 99, EVENTS);
        wait(store.release(&lease)).expect("releases");
        assert_chain(&store, &lease.run)
    };
    for round in 0..6_u64 {
        let mut child = child(test, &place.file(), "-")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("spawns");
        let mut told = 0;
        for line in BufReader::new(child.stdout.take().expect("stdout")).lines() {
            told += u64::from(line.is_ok_and(|line| line.starts_with("at ")));
            if told == 2 + round {
                // Somewhere in what follows; no two rounds at the same place.
                thread::sleep(std::time::Duration::from_micros(700 * round));
                let _ = child.kill();
            }
        }
        child.wait().expect("reaps");
        assert!(told >= 2 + round, "it was at work");
        let store = place.open();
        wait(store.check()).expect("sound");
        assert_eq!(assert_chain(&store, &run("kept")), kept);
        for row in wait(store.runs()).expect("lists") {
            let usage = wait(store.usage(&row.run)).expect("tells");
            assert_eq!(usage.events, assert_chain(&store, &row.run).len() as u64);
            assert_eq!(usage.blobs, usage.events, "{}", row.run);
        }
        // Nothing is left of runs that are gone.
        let conn = rusqlite::Connection::open(place.file()).expect("opens");
        for strays in [
            "SELECT count(*) FROM event WHERE key >> 32 NOT IN (SELECT id FROM run)",
            "SELECT count(*) FROM blob WHERE run NOT IN (SELECT id FROM run)",
            "SELECT count(*) FROM salt WHERE run NOT IN (SELECT id FROM run)",
        ] {
            assert_eq!(conn.query_row(strays, [], |row| row.get::<_, i64>(0)).expect("counts"), 0);
        }
    }
}
