//! What a run takes up, and its removal. Each works inside an open transaction.

use std::path::Path;

use provost_core::id::RunId;
use rusqlite::Connection;

use super::run_ops::{fenced, key, stored};
use super::{Failure, read_ops};
use crate::error::StoreError;
use crate::lease::Lease;
use crate::retention::{Content, RunUsage};

pub(super) fn usage(conn: &Connection, path: &Path, run: &RunId) -> Result<RunUsage, Failure> {
    let found = stored(conn, path, run)?;
    let sum = |query: &str, from: i64, to: i64| {
        conn.prepare_cached(query)?
            .query_row([from, to], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)))
    };
    let (events, event_bytes) = sum(
        "SELECT count(*), coalesce(sum(octet_length(json)), 0) FROM event WHERE key >= ?1 AND key < ?2",
        key(found.id, 0),
        key(found.id + 1, 0),
    )?;
    let (blobs, blob_bytes) = sum(
        "SELECT count(*), coalesce(sum(octet_length(bytes)), 0) FROM blob WHERE run >= ?1 AND run < ?2",
        found.id,
        found.id + 1,
    )?;
    let salts: i64 = conn
        .prepare_cached("SELECT count(*) FROM salt WHERE run = ?1")?
        .query_row([found.id], |row| row.get(0))?;
    let last_ms = match found.row.last_seq {
        None => Some(found.row.created_ms),
        // Read as any reader would: an age that is a guess must not decide what is deleted.
        Some(last) => match read_ops::events(conn, path, run, last) {
            Ok(events) => events.last().map(|event| event.at_ms),
            Err(Failure::Refused(StoreError::Corrupt { .. } | StoreError::Unreadable { .. })) => None,
            Err(other) => return Err(other),
        },
    };
    let content = if salts == 0 { Content::Dropped } else { Content::Kept };
    Ok(RunUsage { row: found.row, last_ms, events, event_bytes, blobs, blob_bytes, content })
}

pub(super) fn delete(conn: &Connection, path: &Path, lease: &Lease) -> Result<(), Failure> {
    let id = fenced(conn, path, lease)?.id;
    // All keys that are the run's, also such as its head does not know of.
    conn.execute("DELETE FROM event WHERE key >= ?1 AND key < ?2", [key(id, 0), key(id + 1, 0)])?;
    conn.execute("DELETE FROM blob WHERE run = ?1", [id])?;
    conn.execute("DELETE FROM salt WHERE run = ?1", [id])?;
    conn.execute("DELETE FROM letter WHERE run = ?1", [id])?;
    conn.execute("DELETE FROM run WHERE id = ?1", [id])?;
    Ok(())
}
