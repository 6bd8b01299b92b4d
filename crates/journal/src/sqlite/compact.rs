//! The file's size, and giving space back. These run on a connection of their own: they cannot be part of a transaction.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::file::{BUSY_MS, explain, explain_io};
use super::run_ops::{COLUMNS, conflict, from_row};
use super::{Failure, schema};
use crate::error::StoreError;
use crate::owner::Owner;

/// What a store's file takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSize {
    /// Format of the file.
    pub format: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the write-ahead log beside it (`-wal`); 0 where there is none.
    pub wal_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages, the free ones included.
    pub pages: u64,
    /// Pages that hold nothing: new content goes there first, [`compact`](super::SqliteStore::compact) gives them back.
    pub free_pages: u64,
}

impl FileSize {
    /// Bytes on the disk.
    pub fn bytes(&self) -> u64 {
        self.file_bytes + self.wal_bytes
    }
}

pub(super) fn size(conn: &Connection, path: &Path) -> Result<FileSize, Failure> {
    let number = |name: &str| {
        conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map(|found| found as u64)
    };
    Ok(FileSize {
        format: number("user_version")? as u32,
        file_bytes: length(path)?,
        wal_bytes: length(&wal(path))?,
        page_bytes: number("page_size")?,
        pages: number("page_count")?,
        free_pages: number("freelist_count")?,
    })
}

fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Asked by name: a descriptor that is closed would drop the locks of the process.
fn length(path: &Path) -> Result<u64, StoreError> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(meta.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(explain_io(path, &error)),
    }
}

/// Folds the write-ahead log into the file and empties it.
pub(super) fn checkpoint(path: &Path) -> Result<(), StoreError> {
    empty_wal(&schema::open_for_writing(path)?, path)
}

fn empty_wal(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let busy: i64 = conn
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(|error| explain(path, &error))?;
    if busy == 0 {
        return Ok(());
    }
    Err(StoreError::Busy { path: path.to_owned(), waited_ms: BUSY_MS })
}

pub(super) fn compact(path: &Path, asker: &Owner, now_ms: u64) -> Result<(), StoreError> {
    let conn = schema::open_for_writing(path)?;
    let sql = |error: rusqlite::Error| explain(path, &error);
    refuse_driven(&conn, asker, now_ms).map_err(|failure| failure.into_error(path))?;
    // The new file is built aside: on the disk, a store need not fit into memory.
    conn.execute_batch("PRAGMA temp_store = FILE; VACUUM").map_err(sql)?;
    empty_wal(&conn, path)
}

fn refuse_driven(conn: &Connection, asker: &Owner, now_ms: u64) -> Result<(), Failure> {
    let mut select =
        conn.prepare(&format!("SELECT {COLUMNS} FROM run WHERE holder IS NOT NULL ORDER BY id"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let found = from_row(row)?;
        if let Some(holder) = found.row.holder.filter(|holder| holder.drives(asker, now_ms)) {
            return Err(conflict(&found.row.run, holder).into());
        }
    }
    Ok(())
}
