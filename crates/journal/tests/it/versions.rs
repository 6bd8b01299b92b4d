//! Formats: stores of every earlier one open with the same events, and a store that cannot be brought on stays as it is.
//!
//! `tests/fixtures/format-N.db` is a store as a program of that format left it: `examples/fixture.rs` wrote it.

use std::fs;
use std::path::Path;
use std::thread;

use provost_journal::{Content, Retention, SqliteStore, Standing, Store, StoreError};
use rusqlite::Connection;

use crate::support::{Place, TTL, append_notes, assert_chain, driven, fixture, me, note, run, step, wait};

/// A migration that fails half way for each format that is not the newest: what stands in its way.
const IN_THE_WAY: [&str; SqliteStore::FORMAT as usize - 1] = ["run_1", "letter"];

#[test]
fn stores_of_every_format_open_with_the_same_events() {
    for format in 1..=SqliteStore::FORMAT {
        let place = Place::with_fixture(format);
        let store = place.open();
        let mut journal = Vec::new();
        for row in wait(store.runs()).expect("lists") {
            assert_eq!(assert_chain(&store, &row.run).len() as u64, row.last_seq.expect("events") + 1);
            for line in wait(store.events_json(&row.run)).expect("reads") {
                journal.extend(line);
                journal.push(b'\n');
            }
        }
        let written = fs::read(fixture(&format!("format-{format}.ndjson"))).expect("reads");
        assert_eq!(String::from_utf8_lossy(&journal), String::from_utf8_lossy(&written), "format {format}");
        assert_eq!(wait(store.size()).expect("sizes").format, SqliteStore::FORMAT);

        let usage = |name: &str| wait(store.usage(&run(name))).expect("tells");
        let over = usage("run-over");
        assert_eq!((over.row.standing(), over.row.steps, over.row.tokens), (Standing::Over, 2, 2520));
        assert_eq!((over.blobs, over.content), (6, Content::Kept));
        assert_eq!((usage("run-forgotten").blobs, usage("run-forgotten").content), (0, Content::Dropped));
        wait(async {
            for blob in step(1).1 {
                let found = store.blob(&run("run-over"), blob.digest()).await.expect("reads");
                assert_eq!(found.as_deref(), Some(blob.bytes()));
            }
            // Who held a run holds it still; then it goes on.
            let until = 1_796_000_060_000;
            let held = store.acquire(&run("run-held"), me(), until - 1, TTL).await;
            assert!(matches!(held, Err(StoreError::Conflict { host, pid: 77, .. }) if host == "elsewhere"));
            let lease = store.acquire(&run("run-held"), me(), until, TTL).await.expect("lapsed");
            assert_eq!(lease.generation, 2);
            append_notes(&store, &lease, 3).await.expect("appends");
            store.check().await.expect("sound");
        });
        assert_eq!(assert_chain(&store, &run("run-held")).len(), 9);
        driven(&store, "run-new");
    }
}

#[test]
fn a_store_that_was_brought_on_has_the_tables_of_a_new_one() {
    let fresh = Place::new();
    drop(fresh.open());
    for format in 1..SqliteStore::FORMAT {
        let place = Place::with_fixture(format);
        drop(place.open());
        assert_eq!(tables(&place.file()), tables(&fresh.file()), "format {format}");
    }
}

fn tables(path: &Path) -> Vec<(String, Option<String>)> {
    let conn = Connection::open(path).expect("opens");
    let mut select = conn.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").expect("prepares");
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("reads");
    rows.collect::<Result<_, _>>().expect("reads")
}

#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    for (format, obstacle) in (1..).zip(IN_THE_WAY) {
        let place = Place::with_fixture(format);
        let change =
            |sql: &str| Connection::open(place.file()).expect("opens").execute_batch(sql).expect("changes");
        change(&format!("CREATE TABLE {obstacle} (x)"));
        let before = fs::read(place.file()).expect("reads");
        let error = SqliteStore::open(place.file()).expect_err("refused").to_string();
        assert!(error.contains("journal.db"), "{error}");
        let in_the_way =
            [format!("has format {format} and could not be brought to"), "already exists".to_owned()];
        assert!(in_the_way.iter().any(|words| error.contains(words)), "{error}");
        assert_eq!(fs::read(place.file()).expect("reads"), before);
        assert!(fs::read_dir(place.folder.path()).expect("lists").count() == 1, "nothing is left beside it");
        // The control: out of the way with it.
        change(&format!("DROP TABLE {obstacle}"));
        assert_eq!(wait(place.open().runs()).expect("lists").len(), 3);
    }
}

#[test]
fn many_who_open_an_old_store_at_once_all_get_it() {
    for format in 1..SqliteStore::FORMAT {
        let place = Place::with_fixture(format);
        thread::scope(|scope| {
            for n in 0..8 {
                let place = &place;
                scope.spawn(move || {
                    let store = place.open();
                    let lease = driven(&store, &format!("new-{n}"));
                    wait(append_notes(&store, &lease, 3)).expect("appends");
                });
            }
        });
        let store = place.open();
        let rows = wait(store.runs()).expect("lists");
        assert_eq!(rows.len(), 11);
        for row in rows {
            assert_chain(&store, &row.run);
        }
        wait(store.check()).expect("sound");
    }
}

/// The driver of an older program has the file open while a newer one brings it on: it goes on.
#[test]
fn an_older_driver_at_work_is_not_cut_off() {
    let place = Place::with_fixture(1);
    let older = Connection::open(place.file()).expect("opens");
    let mut append = older.prepare("INSERT INTO event (key, json) VALUES (?1, ?2)").expect("prepares");
    let mut advance = older.prepare("UPDATE run SET next = next + 1 WHERE id = ?1").expect("prepares");
    let id: i64 =
        older.query_row("SELECT id FROM run WHERE name = 'run-held'", [], |row| row.get(0)).expect("reads");
    drop(place.open());
    append.execute(rusqlite::params![id << 32 | 6, "{}"]).expect("appends");
    assert_eq!(advance.execute([id]).expect("advances"), 1);
    let found = wait(place.open().events(&run("run-held"), 0)).expect_err("it is no event");
    assert!(matches!(&found, StoreError::Corrupt { detail, .. } if detail.contains("event 6")), "{found}");
}

/// A newer program may know more kinds of events in the same format of file: that is no damage, and is said.
#[test]
fn an_event_of_a_kind_that_is_not_known_is_not_called_damage() {
    let place = Place::new();
    let lease = driven(&place.open(), "run-a");
    wait(append_notes(&place.open(), &lease, 1)).expect("appends");
    let conn = Connection::open(place.file()).expect("opens");
    let json: String = conn.query_row("SELECT json FROM event", [], |row| row.get(0)).expect("reads");
    let mut event: serde_json::Value = serde_json::from_str(&json).expect("parses");
    event["kind"] = "of.tomorrow".into();
    event.as_object_mut().expect("object").remove("hash");
    let hash = provost_evidence::canonical::sha256(
        &provost_evidence::canonical::to_canonical(&event).expect("canonical"),
    );
    event["hash"] = hash.to_string().into();
    let line = provost_evidence::canonical::to_canonical(&event).expect("canonical");
    conn.execute("UPDATE event SET json = CAST(?1 AS TEXT)", [&line]).expect("alters");
    conn.execute("UPDATE run SET hash = ?1", [hash.bytes()]).expect("alters");

    let store = place.open();
    let error = wait(store.events(&lease.run, 0)).expect_err("refused");
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("journal.db") && error.to_string().contains("of.tomorrow"), "{error}");
    // As it is stored it can be had, and the run goes on where it is known.
    assert_eq!(wait(store.events_json(&lease.run)).expect("reads"), [line]);
    wait(async {
        let head = store.head(&lease.run).await.expect("head");
        store.append(&lease, &head, vec![note(9)], vec![]).await.expect("appends");
        assert_eq!(store.events(&lease.run, 1).await.expect("reads").len(), 1);
    });
}
