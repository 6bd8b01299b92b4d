//! Connections: whose file it is, how it is written.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Failure;
use super::file::{APPLICATION_ID, BUSY_MS, explain};
use super::migrations::{FORMAT, migrate};
use crate::error::StoreError;

thread_local! {
    static WAITING_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Waits for another process's lock, a millisecond or so at a time: a commit takes less, and SQLite's own handler
/// backs off to 100 ms, which starves whoever waits longest. Here it is the other way round: who has waited longer knocks
/// more often, and so is let in before those who came later.
fn wait_for_lock(attempt: i32) -> bool {
    let now = Instant::now();
    let since = WAITING_SINCE.with(|cell| {
        if attempt == 0 {
            cell.set(Some(now));
        }
        cell.get().unwrap_or(now)
    });
    let waited = now.duration_since(since);
    if waited >= Duration::from_millis(BUSY_MS) {
        return false;
    }
    let longest: u32 = match waited.as_millis() {
        0..10 => 1000,
        10..20 => 400,
        20..40 => 150,
        _ => 50,
    };
    // Unequal steps, so that two waiters do not knock in time with each other.
    let step = longest / 3 + now.elapsed().subsec_nanos() % (longest - longest / 3);
    std::thread::sleep(Duration::from_micros(step.into()));
    true
}

/// The connection that writes. Checks whose file it is and brings it to the newest format.
pub(super) fn open_for_writing(path: &Path) -> Result<Connection, StoreError> {
    let sql = |error: rusqlite::Error| explain(path, &error);
    let mut conn = connect(path).map_err(sql)?;
    let format = identify(&mut conn, path)?;
    use_wal(&conn, path)?;
    conn.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA secure_delete = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 67108864;",
    )
    .map_err(sql)?;
    if format < FORMAT {
        migrate(&mut conn, path, format)?;
    }
    Ok(conn)
}

/// The connection that reads.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let sql = |error: rusqlite::Error| explain(path, &error);
    let conn = connect(path).map_err(sql)?;
    conn.execute_batch("PRAGMA query_only = ON;").map_err(sql)?;
    Ok(conn)
}

/// Bounds the file's size; `0` only asks.
pub(super) fn limit_pages(conn: &Connection, pages: u32) -> Result<u32, Failure> {
    Ok(conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0))?)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // No SQLITE_OPEN_CREATE: SQLite would choose the file's mode.
    let mut conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.busy_handler(Some(wait_for_lock))?;
    conn.set_prepared_statement_cache_capacity(32);
    Ok(conn)
}

/// Whose file it is, and its format. One transaction, because another process may be making it right now.
fn identify(conn: &mut Connection, path: &Path) -> Result<u32, StoreError> {
    let (application, tables, format) =
        read_identity(conn).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                StoreError::NotOurs { path: path.to_owned(), detail: "it is no SQLite database".to_owned() }
            }
            _ => explain(path, &error),
        })?;
    if application != APPLICATION_ID && (application != 0 || tables != 0) {
        return Err(StoreError::NotOurs {
            path: path.to_owned(),
            detail: "an SQLite database of another program".to_owned(),
        });
    }
    if format > FORMAT {
        return Err(StoreError::TooNew { path: path.to_owned(), found: format, known: FORMAT });
    }
    Ok(format)
}

fn read_identity(conn: &mut Connection) -> rusqlite::Result<(u32, u32, u32)> {
    let tx = conn.transaction()?;
    let number = |query: &str| tx.query_row(query, [], |row| row.get::<_, i64>(0)).map(|n| n as u32);
    Ok((
        number("PRAGMA application_id")?,
        number("SELECT count(*) FROM sqlite_schema")?,
        number("PRAGMA user_version")?,
    ))
}

/// Asks for WAL and reads back whether it took.
fn use_wal(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let deadline = Instant::now() + Duration::from_millis(BUSY_MS);
    let mode: String = loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
            // The switch needs the file for itself, and SQLite does not call the busy handler for it.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => break other.map_err(|error| explain(path, &error))?,
        }
    };
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(StoreError::Unsuitable {
        path: path.to_owned(),
        detail: format!("SQLite keeps its journal in mode `{mode}` there instead of `wal`"),
    })
}
