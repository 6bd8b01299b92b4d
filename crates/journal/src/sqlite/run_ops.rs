//! Making runs, appending to them and dropping their words. Each works inside an open transaction.

use std::path::Path;

use provost_core::digest::Digest;
use provost_core::event::Draft;
use provost_core::id::RunId;
use provost_core::lifecycle::Stage;
use provost_evidence::canonical::NotCanonical;
use provost_evidence::chain::{self, Head};
use provost_evidence::content::Salt;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Failure, signed};
use crate::error::StoreError;
use crate::lease::Lease;
use crate::projection::{Holder, RunRow};
use crate::store::{Appended, Blob};

/// Events of one run: places are 32 bits of the key.
const MOST_EVENTS: u64 = 1 << 32;

/// Runs that a store ever has, deleted ones counted: their numbers are the other bits of the key.
const MOST_RUNS: i64 = 1 << 31;

/// What the store keeps of a run.
pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) head: Head,
    pub(super) generation: u64,
    pub(super) row: RunRow,
}

/// That `holder` has the run.
pub(super) fn conflict(run: &RunId, holder: Holder) -> StoreError {
    StoreError::Conflict {
        run: run.clone(),
        host: holder.owner.host,
        pid: holder.owner.pid,
        since_ms: holder.since_ms,
        until_ms: holder.until_ms,
    }
}

pub(super) const COLUMNS: &str =
    "id, name, created_ms, next, hash, generation, holder, since_ms, until_ms, state, goal, steps, tokens";

pub(super) fn key(id: i64, seq: u64) -> i64 {
    id << 32 | signed(seq)
}

pub(super) fn create(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    salt: &Salt,
    generation: u64,
    now_ms: u64,
) -> Result<(), Failure> {
    let row = RunRow::new(run.clone(), now_ms);
    let made = conn
        .prepare_cached(
            "INSERT INTO run (name, created_ms, next, hash, generation, state, steps, tokens)
             VALUES (?1, ?2, 0, ?3, ?5, ?4, 0, 0) ON CONFLICT (name) DO NOTHING",
        )?
        .execute(params![
            run.as_str(),
            signed(now_ms),
            Digest::ZERO.bytes(),
            row.stage.key(),
            signed(generation)
        ])?;
    if made == 0 {
        return Err(StoreError::Exists { run: run.clone() }.into());
    }
    let id = conn.last_insert_rowid();
    if id >= MOST_RUNS {
        return Err(StoreError::Full { path: path.to_owned() }.into());
    }
    conn.prepare_cached("INSERT INTO salt (run, bytes) VALUES (?1, ?2)")?
        .execute(params![id, salt.bytes()])?;
    Ok(())
}

pub(super) fn stored(conn: &Connection, path: &Path, run: &RunId) -> Result<Stored, Failure> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM run WHERE name = ?1"))?
        .query_row([run.as_str()], from_row)
        .optional()?
        .ok_or_else(|| StoreError::NoSuchRun { path: path.to_owned(), run: run.to_string() }.into())
}

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let bad = |column: usize, kind, detail: String| {
        rusqlite::Error::FromSqlConversionFailure(column, kind, detail.into())
    };
    let digest = |column: usize, bytes: Vec<u8>| {
        <[u8; 32]>::try_from(bytes)
            .map(Digest::new)
            .map_err(|_| bad(column, rusqlite::types::Type::Blob, "a digest has 32 bytes".into()))
    };
    let next = count(row, "next")?;
    let name: String = row.get("name")?;
    let run = name.parse().map_err(|error: provost_core::id::BadRunId| {
        bad(1, rusqlite::types::Type::Text, error.to_string())
    })?;
    let holder = match row.get::<_, Option<String>>("holder")? {
        None => None,
        Some(json) => Some(Holder {
            owner: serde_json::from_str(&json)
                .map_err(|error| bad(6, rusqlite::types::Type::Text, error.to_string()))?,
            since_ms: count(row, "since_ms")?,
            until_ms: count(row, "until_ms")?,
        }),
    };
    Ok(Stored {
        id: row.get("id")?,
        head: Head { next, hash: digest(4, row.get("hash")?)? },
        generation: count(row, "generation")?,
        row: RunRow {
            run,
            created_ms: count(row, "created_ms")?,
            stage: stage(row)?,
            goal: row.get::<_, Option<Vec<u8>>>("goal")?.map(|bytes| digest(10, bytes)).transpose()?,
            steps: count(row, "steps")?,
            tokens: count(row, "tokens")?,
            last_seq: next.checked_sub(1),
            holder,
        },
    })
}

fn stage(row: &Row<'_>) -> rusqlite::Result<Stage> {
    let word: String = row.get("state")?;
    Stage::of_key(&word).ok_or_else(|| {
        let detail = format!("`{word}` is no stage of a run");
        rusqlite::Error::FromSqlConversionFailure(9, rusqlite::types::Type::Text, detail.into())
    })
}

fn count(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    let at = row.as_ref().column_index(column)?;
    let found: i64 = row.get(at)?;
    u64::try_from(found).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, found))
}

/// The run, if `lease` is the one in force.
pub(super) fn fenced(conn: &Connection, path: &Path, lease: &Lease) -> Result<Stored, Failure> {
    let run = stored(conn, path, &lease.run)?;
    if run.generation == lease.generation && run.row.holder.is_some() {
        return Ok(run);
    }
    Err(StoreError::Fenced { run: lease.run.clone(), held: lease.generation, current: run.generation }.into())
}

pub(super) fn append(
    conn: &Connection,
    path: &Path,
    lease: &Lease,
    expected: &Head,
    drafts: &[Draft],
    blobs: &[Blob],
) -> Result<Appended, Failure> {
    let Stored { id, mut head, mut row, .. } = fenced(conn, path, lease)?;
    if head != *expected {
        return Err(StoreError::StaleHead {
            run: lease.run.clone(),
            expected: expected.next,
            actual: head.next,
        }
        .into());
    }
    let unwritable =
        |error: NotCanonical| StoreError::Io { path: path.to_owned(), detail: error.to_string() };
    let mut events = Vec::with_capacity(drafts.len());
    let mut insert = conn.prepare_cached("INSERT INTO event (key, json) VALUES (?1, ?2)")?;
    for draft in drafts {
        if head.next >= MOST_EVENTS {
            return Err(StoreError::Full { path: path.to_owned() }.into());
        }
        let (event, json) = chain::seal_to_json(&lease.run, &mut head, draft.clone()).map_err(unwritable)?;
        // Canonical JSON is UTF-8; as text it can be read with `sqlite3`.
        insert.execute(params![key(id, event.seq), String::from_utf8_lossy(&json)])?;
        row.apply(&event);
        events.push(event);
    }
    let mut insert = conn
        .prepare_cached("INSERT INTO blob (run, digest, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?;
    for blob in blobs {
        insert.execute(params![id, blob.digest().bytes(), blob.bytes()])?;
    }
    if !events.is_empty() {
        conn.prepare_cached(
            "UPDATE run SET next = ?2, hash = ?3, state = ?4, goal = ?5, steps = ?6, tokens = ?7 WHERE id = ?1",
        )?
        .execute(params![
            id,
            signed(head.next),
            head.hash.bytes(),
            row.stage.key(),
            row.goal.as_ref().map(Digest::bytes),
            signed(row.steps),
            signed(row.tokens),
        ])?;
    }
    Ok(Appended { events, head })
}

pub(super) fn forget(conn: &Connection, path: &Path, run: &RunId) -> Result<(), Failure> {
    let id = stored(conn, path, run)?.id;
    conn.execute("DELETE FROM blob WHERE run = ?1", [id])?;
    conn.execute("DELETE FROM salt WHERE run = ?1", [id])?;
    Ok(())
}
