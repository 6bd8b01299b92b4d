//! The store in one SQLite file.

mod compact;
mod file;
mod keep_ops;
mod lease_ops;
mod letter_ops;
mod migrations;
mod read_ops;
mod run_ops;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_core::digest::Digest;
use provost_core::event::{Draft, Event};
use provost_core::id::RunId;
use provost_evidence::chain::Head;
use provost_evidence::content::Salt;
use rusqlite::Connection;

use crate::error::StoreError;
use crate::lease::Lease;
use crate::letter::{Letter, Posted, Word};
use crate::owner::Owner;
use crate::projection::RunRow;
use crate::retention::{Retention, RunUsage};
use crate::store::{Appended, Blob, BoxFuture, Store};
pub use compact::FileSize;
use writer::Worker;

/// Any number of runs in one SQLite file, shared by any number of processes of one machine.
///
/// Each handle has two threads and two connections: one writes, one reads. Dropping the handle waits until what was
/// handed over is written.
#[derive(Debug)]
pub struct SqliteStore {
    path: Arc<Path>,
    writer: Worker,
    reader: Worker,
}

impl SqliteStore {
    /// The newest format that this program knows. An older file is brought to it when it is opened, a newer one refused.
    pub const FORMAT: u32 = migrations::FORMAT;

    /// Opens the store at `path`, and makes it (mode 0600, missing folders 0700) where there is nothing.
    ///
    /// It reads and writes a little: call it where blocking for some milliseconds is no harm. A file that is not a
    /// Provost store, or one of a newer format, is refused and left as it is.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.into().into();
        file::prepare(&path)?;
        let writing = schema::open_for_writing(&path)?;
        let reading = schema::open_for_reading(&path)?;
        Ok(Self {
            writer: Worker::writer(Arc::clone(&path), writing)?,
            reader: Worker::reader(Arc::clone(&path), reading)?,
            path,
        })
    }

    /// Where the store lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many commits this handle made. Fewer than appends when several shared one.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Reads the whole file and reports what is damaged in it. Takes time in proportion to its size.
    pub fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let path = Arc::clone(&self.path);
        self.reader.submit(move |conn| read_ops::check(conn, &path))
    }

    /// Bounds the file to `pages` pages of 4096 bytes; past it appends are refused with [`StoreError::Full`]. `0` asks
    /// for the bound without changing it. Answers the bound in force, which lasts as long as this handle.
    pub fn limit_pages(&self, pages: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.writer.submit(move |conn| schema::limit_pages(conn, pages))
    }

    /// What the file takes up.
    pub fn size(&self) -> BoxFuture<'_, Result<FileSize, StoreError>> {
        let path = Arc::clone(&self.path);
        self.reader.submit(move |conn| compact::size(conn, &path))
    }

    /// Folds the write-ahead log into the file and empties it, so that what was dropped is not left in there. By itself
    /// that happens when the last handle on the file closes. Blocks, at most about a minute: [`StoreError::Busy`] when
    /// somebody reads all that time.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        compact::checkpoint(&self.path)
    }

    /// Rebuilds the file without its free pages and empties the write-ahead log. Nothing that was deleted is left in it.
    ///
    /// Refused with [`StoreError::Conflict`] while somebody other than `asker` could see drives a run at `now_ms`
    /// (milliseconds since the Unix epoch): it would wait. Blocks, in proportion to the size of the store, and needs as
    /// much space again in the folder for temporary files and beside the store.
    pub fn compact(&self, asker: &Owner, now_ms: u64) -> Result<(), StoreError> {
        compact::compact(&self.path, asker, now_ms)
    }
}

impl Store for SqliteStore {
    fn create_after<'a>(
        &'a self,
        run: &'a RunId,
        salt: Salt,
        generation: u64,
        now_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.writer.submit(move |conn| run_ops::create(conn, &path, &run, &salt, generation, now_ms))
    }

    fn acquire<'a>(
        &'a self,
        run: &'a RunId,
        owner: Owner,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.writer.submit(move |conn| lease_ops::acquire(conn, &path, &run, &owner, now_ms, ttl))
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        let (path, lease) = (Arc::clone(&self.path), lease.clone());
        self.writer.submit(move |conn| lease_ops::renew(conn, &path, &lease, now_ms, ttl))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        let (path, lease) = (Arc::clone(&self.path), lease.clone());
        self.writer.submit(move |conn| lease_ops::release(conn, &path, &lease))
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        expected: &'a Head,
        drafts: Vec<Draft>,
        blobs: Vec<Blob>,
    ) -> BoxFuture<'a, Result<Appended, StoreError>> {
        let (path, lease, expected) = (Arc::clone(&self.path), lease.clone(), expected.clone());
        self.writer.submit(move |conn| run_ops::append(conn, &path, &lease, &expected, &drafts, &blobs))
    }

    fn events<'a>(&'a self, run: &'a RunId, from_seq: u64) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| read_ops::events(conn, &path, &run, from_seq))
    }

    fn events_of<'a>(
        &'a self,
        run: &'a RunId,
        kinds: &'static [&'static str],
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| read_ops::events_of(conn, &path, &run, kinds))
    }

    fn events_json<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Vec<u8>>, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| read_ops::events_json(conn, &path, &run))
    }

    fn blob<'a>(
        &'a self,
        run: &'a RunId,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| read_ops::blob(conn, &path, &run, &digest))
    }

    fn blobs<'a>(
        &'a self,
        run: &'a RunId,
        digests: &'a [Digest],
    ) -> BoxFuture<'a, Result<Vec<Option<Vec<u8>>>, StoreError>> {
        let (path, run, digests) = (Arc::clone(&self.path), run.clone(), digests.to_vec());
        self.reader.submit(move |conn| read_ops::blobs(conn, &path, &run, &digests))
    }

    fn salt<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Option<Salt>, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| read_ops::salt(conn, &path, &run))
    }

    fn head<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Head, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| Ok(run_ops::stored(conn, &path, &run)?.head))
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        let path = Arc::clone(&self.path);
        self.reader.submit(move |conn| read_ops::runs(conn, &path))
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        self.reader.submit(read_ops::unfinished)
    }

    fn row<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunRow, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| Ok(run_ops::stored(conn, &path, &run)?.row))
    }

    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<RunId, StoreError>> {
        let (path, prefix) = (Arc::clone(&self.path), prefix.to_owned());
        self.reader.submit(move |conn| read_ops::find(conn, &path, &prefix))
    }

    fn forget<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.writer.submit(move |conn| run_ops::forget(conn, &path, &run))
    }

    fn post<'a>(&'a self, run: &'a RunId, letter: Letter) -> BoxFuture<'a, Result<Posted, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.writer.submit(move |conn| letter_ops::post(conn, &path, &run, &letter))
    }

    fn letters<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Letter>, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| letter_ops::letters(conn, &path, &run))
    }

    fn discard<'a>(&'a self, lease: &'a Lease, read: Vec<Word>) -> BoxFuture<'a, Result<(), StoreError>> {
        let (path, lease) = (Arc::clone(&self.path), lease.clone());
        self.writer.submit(move |conn| letter_ops::discard(conn, &path, &lease, &read))
    }
}

impl Retention for SqliteStore {
    fn usage<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunUsage, StoreError>> {
        let (path, run) = (Arc::clone(&self.path), run.clone());
        self.reader.submit(move |conn| keep_ops::usage(conn, &path, &run))
    }

    fn delete<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        let (path, lease) = (Arc::clone(&self.path), lease.clone());
        self.writer.submit(move |conn| keep_ops::delete(conn, &path, &lease))
    }
}

/// Why an operation failed inside a transaction, before it is known which store that was.
#[derive(Debug)]
enum Failure {
    /// A refusal: the transaction is sound and goes on without this operation.
    Refused(StoreError),
    /// SQLite failed: the transaction may be gone.
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => file::explain(path, &error),
        }
    }
}

/// Work on a connection. `FnMut`, because a write whose shared transaction failed is done again in one of its own.
trait Work<T>: FnMut(&Connection) -> Result<T, Failure> + Send + 'static {}
impl<T, F: FnMut(&Connection) -> Result<T, Failure> + Send + 'static> Work<T> for F {}

/// SQLite's integers are signed; times and counts never come near the end of either.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
