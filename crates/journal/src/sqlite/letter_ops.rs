//! Letters. Each operation works inside an open transaction.

use std::path::Path;

use provost_core::id::RunId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::run_ops::{fenced, stored};
use super::{Failure, signed};
use crate::error::StoreError;
use crate::lease::Lease;
use crate::letter::{Letter, Posted, Word};

/// Takes the letter, unless another about the same is there: whoever writes second is told of the first.
pub(super) fn post(conn: &Connection, path: &Path, run: &RunId, letter: &Letter) -> Result<Posted, Failure> {
    let id = stored(conn, path, run)?.id;
    let subject = letter.says.subject();
    let says = serde_json::to_string(&letter.says)
        .map_err(|error| StoreError::Io { path: path.to_owned(), detail: error.to_string() })?;
    let taken = conn
        .prepare_cached(
            "INSERT INTO letter (run, subject, at_ms, author, says) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (run, subject) DO NOTHING",
        )?
        .execute(params![id, subject, signed(letter.at_ms), letter.by, says])?;
    if taken == 1 {
        return Ok(Posted::Waits);
    }
    let first = conn
        .prepare_cached("SELECT at_ms, author, says FROM letter WHERE run = ?1 AND subject = ?2")?
        .query_row(params![id, subject], from_row)
        .optional()?;
    first.map(Posted::TooLate).ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

/// The letters that wait, oldest first.
pub(super) fn letters(conn: &Connection, path: &Path, run: &RunId) -> Result<Vec<Letter>, Failure> {
    let id = stored(conn, path, run)?.id;
    let mut select =
        conn.prepare_cached("SELECT at_ms, author, says FROM letter WHERE run = ?1 ORDER BY at_ms, subject")?;
    let found = select.query_map([id], from_row)?.collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

/// Throws away what was read.
pub(super) fn discard(conn: &Connection, path: &Path, lease: &Lease, read: &[Word]) -> Result<(), Failure> {
    let id = fenced(conn, path, lease)?.id;
    let mut delete = conn.prepare_cached("DELETE FROM letter WHERE run = ?1 AND subject = ?2")?;
    for word in read {
        delete.execute(params![id, word.subject()])?;
    }
    Ok(())
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Letter> {
    let at_ms: i64 = row.get(0)?;
    let says: String = row.get(2)?;
    Ok(Letter {
        at_ms: u64::try_from(at_ms).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, at_ms))?,
        by: row.get(1)?,
        says: serde_json::from_str(&says).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error))
        })?,
    })
}
