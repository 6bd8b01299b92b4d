//! The tables, with their history.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::file::{APPLICATION_ID, explain};
use crate::error::StoreError;

/// One script for each format, from 1 on. Append to it; never change what has shipped. A new one needs a new fixture
/// (`examples/fixture.rs`), and must leave a driver of the older program that has the file open able to go on.
///
/// An event's key is its run's number times 2^32 plus its place: one tree, no second index, so an append writes one page
/// for its events. The head, the lease and the row of the list share a table for the same reason.
const MIGRATIONS: [&str; 3] = [
    "
    CREATE TABLE run (
        id         INTEGER PRIMARY KEY,
        name       TEXT    NOT NULL UNIQUE,
        created_ms INTEGER NOT NULL,
        next       INTEGER NOT NULL,
        hash       BLOB    NOT NULL,
        generation INTEGER NOT NULL,
        holder     TEXT,
        since_ms   INTEGER,
        until_ms   INTEGER,
        state      TEXT    NOT NULL,
        goal       BLOB,
        steps      INTEGER NOT NULL,
        tokens     INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE event (
        key  INTEGER PRIMARY KEY,
        json TEXT NOT NULL
    ) STRICT;
    CREATE TABLE blob (
        key    INTEGER PRIMARY KEY,
        run    INTEGER NOT NULL,
        digest BLOB    NOT NULL,
        bytes  BLOB    NOT NULL,
        UNIQUE (run, digest)
    ) STRICT;
    CREATE TABLE salt (
        run   INTEGER PRIMARY KEY,
        bytes BLOB NOT NULL
    ) STRICT;
    -- For people with `sqlite3`; the program does not read it.
    CREATE VIEW journal AS
        SELECT run.name AS run, event.key & 4294967295 AS seq, event.json ->> '$.kind' AS kind, event.json AS json
        FROM event JOIN run ON run.id = event.key >> 32;
",
    // Runs can be deleted: without AUTOINCREMENT the next run would get the number, and so the event keys, of the last.
    "
    DROP VIEW journal;
    ALTER TABLE run RENAME TO run_1;
    CREATE TABLE run (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT    NOT NULL UNIQUE,
        created_ms INTEGER NOT NULL,
        next       INTEGER NOT NULL,
        hash       BLOB    NOT NULL,
        generation INTEGER NOT NULL,
        holder     TEXT,
        since_ms   INTEGER,
        until_ms   INTEGER,
        state      TEXT    NOT NULL,
        goal       BLOB,
        steps      INTEGER NOT NULL,
        tokens     INTEGER NOT NULL
    ) STRICT;
    INSERT INTO run SELECT id, name, created_ms, next, hash, generation, holder, since_ms, until_ms, state, goal, steps,
        tokens FROM run_1;
    DROP TABLE run_1;
    CREATE VIEW journal AS
        SELECT run.name AS run, event.key & 4294967295 AS seq, event.json ->> '$.kind' AS kind, event.json AS json
        FROM event JOIN run ON run.id = event.key >> 32;
",
    // What somebody says to a run's driver from elsewhere, one letter of each subject; and a quick way to what is not over.
    "
    CREATE INDEX run_state ON run (state);
    CREATE TABLE letter (
        run     INTEGER NOT NULL,
        subject TEXT    NOT NULL,
        at_ms   INTEGER NOT NULL,
        author  TEXT    NOT NULL,
        says    TEXT    NOT NULL,
        PRIMARY KEY (run, subject)
    ) STRICT, WITHOUT ROWID;
",
];

/// The newest format that this program knows.
pub(super) const FORMAT: u32 = MIGRATIONS.len() as u32;

/// Brings the file from format `from` to the newest, all or nothing.
pub(super) fn migrate(conn: &mut Connection, path: &Path, from: u32) -> Result<(), StoreError> {
    let found = run_scripts(conn).map_err(|error| match explain(path, &error) {
        StoreError::Io { path, detail } => StoreError::Io {
            path,
            detail: format!(
                "it has format {from} and could not be brought to {FORMAT} ({detail}); it was left as it is"
            ),
        },
        other => other,
    })?;
    if found > FORMAT {
        return Err(StoreError::TooNew { path: path.to_owned(), found, known: FORMAT });
    }
    Ok(())
}

/// Answers the format that it found: another process may have been first, and a newer program at that.
fn run_scripts(conn: &mut Connection) -> rusqlite::Result<u32> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = tx.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found < FORMAT {
        for script in MIGRATIONS.iter().skip(found as usize) {
            tx.execute_batch(script)?;
        }
        tx.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
        ))?;
        tx.commit()?;
    }
    Ok(found)
}
