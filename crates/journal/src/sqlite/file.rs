//! The file itself: its making, its identity, and what the system's errors mean.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::ErrorCode;
use rusqlite::ffi;
use rustix::fs::Access;

use crate::error::StoreError;

/// `Prov` in the file's header says whose file it is.
pub(super) const APPLICATION_ID: u32 = 0x5072_6f76;

/// How long another process's write lock is waited for, in milliseconds.
pub(super) const BUSY_MS: u64 = 60_000;

/// Makes the store where there is none, and refuses what is visibly something else.
///
/// Nothing here opens an existing store: closing any descriptor of a file drops all POSIX locks that the process holds
/// on it, those of SQLite in another handle too.
pub(super) fn prepare(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| explain_io(path, &error))?;
    refuse_network(path, folder)?;
    match fs::metadata(path) {
        Ok(meta) => identify(path, &meta),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path, folder),
        Err(error) => Err(explain_io(path, &error)),
    }
}

/// Makes a whole store under another name and links it into place, so that nobody ever sees half of one and two
/// processes that begin at once end with the same.
fn make(path: &Path, folder: &Path) -> Result<(), StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    // A process of the same number may have died here, in a container above all.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    name.push(format!(".{}-{}-{now}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let fresh = folder.join(name);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(|error| explain_io(path, &error))
        .and_then(|_| super::schema::open_for_writing(&fresh).map(drop).map_err(|error| error.about(path)))
        .and_then(|()| match fs::hard_link(&fresh, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(explain_io(path, &error)),
            _ => Ok(()),
        });
    let _ = fs::remove_file(&fresh);
    made?;
    // The name must survive a power cut as surely as the events will, and so must those of folders that were just made:
    // each stands in the one above it. Of those that were there before, a sync costs nothing.
    let absolute = std::path::absolute(folder).map_err(|error| explain_io(path, &error))?;
    for above in absolute.ancestors() {
        match File::open(above).and_then(|folder| folder.sync_all()) {
            Ok(()) => {}
            // One that may not be read was there before.
            Err(error) if above != absolute && error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(explain_io(path, &error)),
        }
    }
    Ok(())
}

fn identify(path: &Path, meta: &fs::Metadata) -> Result<(), StoreError> {
    /// Smallest page of SQLite: it takes anything shorter for an empty database and would write over it.
    const SMALLEST: u64 = 512;
    let detail = if meta.is_dir() {
        "a folder"
    } else if !meta.is_file() {
        "not a regular file"
    } else if (1..SMALLEST).contains(&meta.len()) {
        "too short for an SQLite database"
    } else {
        return Ok(());
    };
    Err(StoreError::NotOurs { path: path.to_owned(), detail: detail.to_owned() })
}

/// SQLite's WAL is shared memory: it takes on some network file systems and then corrupts when two machines use it.
fn refuse_network(path: &Path, folder: &Path) -> Result<(), StoreError> {
    const NETWORK: [(u32, &str); 6] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB2"),
        (0x00c3_6400, "Ceph"),
        (0x5346_414f, "AFS"),
    ];
    // A file system that cannot be asked is judged by whether WAL takes.
    let Ok(stat) = rustix::fs::statfs(folder) else {
        return Ok(());
    };
    let kind = stat.f_type as u32;
    match NETWORK.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => Err(StoreError::Unsuitable {
            path: path.to_owned(),
            detail: format!("a network file system, {name}"),
        }),
        None => Ok(()),
    }
}

/// What an error of SQLite means to a person.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let detail = error.to_string();
    let Some(raw) = error.sqlite_error() else {
        // A column that does not hold what we write there: the file was altered.
        return StoreError::Corrupt { path, detail };
    };
    match (raw.code, raw.extended_code) {
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            StoreError::Busy { path, waited_ms: BUSY_MS }
        }
        // The shared-memory file could not grow: a full disk shows itself there first.
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => StoreError::Full { path },
        (ErrorCode::ReadOnly | ErrorCode::PermissionDenied, _) => StoreError::ReadOnly { path, detail },
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _)
        | (_, ffi::SQLITE_IOERR_CORRUPTFS | ffi::SQLITE_IOERR_SHORT_READ) => {
            StoreError::Corrupt { path, detail }
        }
        (ErrorCode::CannotOpen, _) => match rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK) {
            Err(errno) if is_refusal(&errno.into()) => {
                StoreError::ReadOnly { path, detail: io::Error::from(errno).to_string() }
            }
            Err(_) => StoreError::Io { path, detail },
            // The file is ours to write, so it is the files beside it (`-wal`, `-shm`) that cannot be made.
            Ok(()) => StoreError::ReadOnly { path, detail },
        },
        _ => StoreError::Io { path, detail },
    }
}

/// What an error of the system means to a person.
pub(super) fn explain_io(path: &Path, error: &io::Error) -> StoreError {
    let path = path.to_owned();
    match error.kind() {
        _ if is_refusal(error) => StoreError::ReadOnly { path, detail: error.to_string() },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
        _ => StoreError::Io { path, detail: error.to_string() },
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
