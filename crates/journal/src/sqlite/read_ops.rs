//! Reads. Each sees one state of the file.

use std::path::Path;

use provost_core::digest::Digest;
use provost_core::event::Event;
use provost_core::id::RunId;
use provost_evidence::canonical::{sha256, to_canonical};
use provost_evidence::content::Salt;
use rusqlite::{Connection, OptionalExtension, params};

use super::run_ops::{COLUMNS, Stored, from_row, key, stored};
use super::{Failure, signed};
use crate::error::StoreError;
use crate::projection::RunRow;

fn corrupt(path: &Path, detail: String) -> Failure {
    StoreError::Corrupt { path: path.to_owned(), detail }.into()
}

/// Hands each stored line from `from_seq` on to `take`, and checks that none is missing.
fn lines(
    conn: &Connection,
    path: &Path,
    run: &Stored,
    from_seq: u64,
    mut take: impl FnMut(u64, Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut select = conn.prepare_cached(
        "SELECT key, CAST(json AS BLOB) FROM event WHERE key >= ?1 AND key < ?2 ORDER BY key",
    )?;
    let mut rows = select.query([key(run.id, from_seq), key(run.id, run.head.next)])?;
    let mut place = from_seq;
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(0)? != key(run.id, place) {
            break;
        }
        take(place, row.get(1)?)?;
        place += 1;
    }
    if place < run.head.next {
        return Err(corrupt(path, format!("event {place} of run `{}` is missing", run.row.run)));
    }
    Ok(())
}

pub(super) fn events(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    from_seq: u64,
) -> Result<Vec<Event>, Failure> {
    let found = stored(conn, path, run)?;
    let mut events: Vec<Event> = Vec::new();
    lines(conn, path, &found, from_seq, |place, json| {
        let event =
            Event::from_json(&json).map_err(|error| corrupt(path, format!("run `{run}`: {error}")))?;
        let linked = match events.last() {
            Some(before) => event.prev == before.hash,
            None => place > 0 || event.prev == Digest::ZERO,
        };
        if !linked || event.seq != place || event.stream != *run || unsealed_hash(&json) != Some(event.hash) {
            return Err(corrupt(
                path,
                format!("event {place} of run `{run}` is not the one that was written"),
            ));
        }
        events.push(event);
        Ok(())
    })?;
    match events.last() {
        Some(last) if last.hash != found.head.hash => {
            Err(corrupt(path, format!("run `{run}` ends in another event than its head names")))
        }
        _ => Ok(events),
    }
}

/// The hash that an event's stored JSON ought to carry.
fn unsealed_hash(json: &[u8]) -> Option<Digest> {
    let mut value: serde_json::Value = serde_json::from_slice(json).ok()?;
    value.as_object_mut()?.remove("hash");
    Some(sha256(&to_canonical(&value).ok()?))
}

pub(super) fn events_json(conn: &Connection, path: &Path, run: &RunId) -> Result<Vec<Vec<u8>>, Failure> {
    let found = stored(conn, path, run)?;
    let mut all = Vec::new();
    lines(conn, path, &found, 0, |_, json| {
        all.push(json);
        Ok(())
    })?;
    Ok(all)
}

pub(super) fn blob(
    conn: &Connection,
    path: &Path,
    run: &RunId,
    digest: &Digest,
) -> Result<Option<Vec<u8>>, Failure> {
    let id = stored(conn, path, run)?.id;
    let bytes: Option<Vec<u8>> = conn
        .prepare_cached("SELECT bytes FROM blob WHERE run = ?1 AND digest = ?2")?
        .query_row(params![id, digest.bytes()], |row| row.get(0))
        .optional()?;
    let (Some(bytes), Some(salt)) = (bytes, salt_of(conn, id)?) else {
        return Ok(None);
    };
    if salt.digest(&bytes) != *digest {
        // SQLite has no checksum over content: this is where a flipped bit shows.
        return Err(corrupt(path, format!("content {digest} of run `{run}` is not what was written")));
    }
    Ok(Some(bytes))
}

fn salt_of(conn: &Connection, id: i64) -> Result<Option<Salt>, Failure> {
    Ok(conn
        .prepare_cached("SELECT bytes FROM salt WHERE run = ?1")?
        .query_row([id], |row| row.get::<_, [u8; 32]>(0))
        .optional()?
        .map(Salt::new))
}

pub(super) fn salt(conn: &Connection, path: &Path, run: &RunId) -> Result<Option<Salt>, Failure> {
    let id = stored(conn, path, run)?.id;
    salt_of(conn, id)
}

pub(super) fn runs(conn: &Connection, _path: &Path) -> Result<Vec<RunRow>, Failure> {
    let mut select = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM run ORDER BY created_ms, name"))?;
    let rows = select.query_map([], |row| Ok(from_row(row)?.row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn find(conn: &Connection, path: &Path, prefix: &str) -> Result<RunId, Failure> {
    /// How many candidates are worth naming.
    const SHOWN: u64 = 5;
    // Names are of a-z, 0-9 and `-`, all of which sort before `~`.
    let names: Vec<RunId> = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM run WHERE name >= ?1 AND name < ?1 || '~' ORDER BY name LIMIT ?2"
        ))?
        .query_map(params![prefix, signed(SHOWN)], |row| Ok(from_row(row)?.row.run))?
        .collect::<Result<_, _>>()?;
    match names.as_slice() {
        [] => Err(StoreError::NoSuchRun { path: path.to_owned(), run: prefix.to_owned() }.into()),
        [only] => Ok(only.clone()),
        [first, ..] if first.as_str() == prefix => Ok(first.clone()),
        _ => Err(StoreError::Ambiguous { prefix: prefix.to_owned(), runs: names }.into()),
    }
}

pub(super) fn check(conn: &Connection, path: &Path) -> Result<(), Failure> {
    let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(corrupt(path, found))
}
