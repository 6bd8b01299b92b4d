//! One thread for each connection, and the commit that waiting writes share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Failure, Work, file};
use crate::error::StoreError;
use crate::store::BoxFuture;

/// Most writes that share one commit: it bounds how long the first of them waits for the last.
const GROUP: usize = 256;

/// A thread that owns a connection, and the way to hand it work.
#[derive(Debug)]
pub(super) struct Worker {
    path: Arc<Path>,
    jobs: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

/// One piece of work that somebody waits for.
trait Job: Send {
    /// Does it, inside a transaction, and keeps the result. May be called again when that transaction came to nothing.
    fn run(&mut self, conn: &Connection) -> Result<(), Failure>;
    /// Tells who waits. `Ok` means that the result of `run` is durable.
    fn settle(self: Box<Self>, end: Result<(), StoreError>);
}

struct Pending<T, F> {
    work: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: Work<T>> Job for Pending<T, F> {
    fn run(&mut self, conn: &Connection) -> Result<(), Failure> {
        self.result = Some((self.work)(conn)?);
        Ok(())
    }

    fn settle(self: Box<Self>, end: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        let answer = match (end, result) {
            (Ok(()), Some(result)) => Ok(result),
            (Err(error), _) => Err(error),
            // Not reachable: `Ok` follows a `run` that kept its result. Dropping `reply` reports a stopped worker.
            (Ok(()), None) => return,
        };
        // Nobody waits any more when the future was dropped.
        let _ = reply.send(answer);
    }
}

impl Worker {
    /// Starts the thread that writes.
    pub(super) fn writer(path: Arc<Path>, conn: Connection) -> Result<Self, StoreError> {
        Self::start(path, "journal-write", move |path, jobs, commits| {
            Writer { path, conn, commits }.run(&jobs);
        })
    }

    /// Starts the thread that reads.
    pub(super) fn reader(path: Arc<Path>, conn: Connection) -> Result<Self, StoreError> {
        Self::start(path, "journal-read", move |path, jobs, _| {
            for job in jobs {
                read(&path, &conn, job);
            }
        })
    }

    fn start(
        path: Arc<Path>,
        name: &str,
        body: impl FnOnce(Arc<Path>, Receiver<Box<dyn Job>>, Arc<AtomicU64>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel();
        let commits = Arc::new(AtomicU64::new(0));
        let theirs = (Arc::clone(&path), Arc::clone(&commits));
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(theirs.0, inbox, theirs.1))
            .map_err(|error| file::explain_io(&path, &error))?;
        Ok(Self { path, jobs: Some(jobs), thread: Some(thread), commits })
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Hands work over once the future is polled.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl Work<T>,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let stopped = || StoreError::Io {
                path: self.path.to_path_buf(),
                detail: "its thread has stopped: this is a bug".to_owned(),
            };
            let (reply, answer) = oneshot::channel();
            let job = Box::new(Pending { work, result: None, reply });
            let Some(jobs) = &self.jobs else {
                return Err(stopped());
            };
            jobs.send(job).map_err(|_| stopped())?;
            answer.await.unwrap_or_else(|_| Err(stopped()))
        })
    }
}

impl Drop for Worker {
    /// Lets the thread finish what it was handed, so that nothing is lost and the last handle tidies the WAL.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A read sees one state of the file from its first statement to its last.
fn read(path: &Path, conn: &Connection, mut job: Box<dyn Job>) {
    let end = conn.execute_batch("BEGIN").map_err(Failure::from).and_then(|()| job.run(conn));
    let _ = conn.execute_batch("ROLLBACK");
    job.settle(end.map_err(|failure| failure.into_error(path)));
}

struct Writer {
    path: Arc<Path>,
    conn: Connection,
    commits: Arc<AtomicU64>,
}

impl Writer {
    fn run(&self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            // The lock first, then the rest of the queue: while we waited for it, more came.
            let begun = self.begin();
            let mut group = vec![first];
            group.extend(jobs.try_iter().take(GROUP - 1));
            match begun.and_then(|()| self.attempt(&mut group)) {
                Ok(ends) => {
                    for (job, end) in group.into_iter().zip(ends) {
                        job.settle(end);
                    }
                }
                Err(StoreError::Busy { path, waited_ms }) => {
                    // All of them waited; one after the other they would wait a multiple of the bound.
                    for job in group {
                        job.settle(Err(StoreError::Busy { path: path.clone(), waited_ms }));
                    }
                }
                Err(error) if group.len() == 1 => {
                    for job in group {
                        job.settle(Err(error.clone()));
                    }
                }
                // One of them cost the others the transaction (it was too big for the disk, say): each on its own.
                Err(_) => {
                    for job in group {
                        self.alone(job);
                    }
                }
            }
        }
    }

    fn alone(&self, job: Box<dyn Job>) {
        let mut group = [job];
        let end = self.begin().and_then(|()| self.attempt(&mut group));
        let end = end.and_then(|ends| ends.into_iter().collect());
        for job in group {
            job.settle(end.clone());
        }
    }

    /// Writers never read first and then ask for the lock: that is what makes `database is locked` unavoidable.
    fn begin(&self) -> Result<(), StoreError> {
        self.sql("BEGIN IMMEDIATE")
    }

    /// Does all of the group in the open transaction and commits. A refusal undoes only its own work; an `Err` means
    /// that nothing of the group was written.
    fn attempt(&self, group: &mut [Box<dyn Job>]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let before = self.conn.total_changes();
        let mut ends = Vec::with_capacity(group.len());
        for job in group {
            self.sql("SAVEPOINT one").map_err(|error| self.abandon(error))?;
            match job.run(&self.conn) {
                Ok(()) => {
                    self.sql("RELEASE one").map_err(|error| self.abandon(error))?;
                    ends.push(Ok(()));
                }
                Err(Failure::Refused(error)) => {
                    self.sql("ROLLBACK TO one; RELEASE one").map_err(|error| self.abandon(error))?;
                    ends.push(Err(error));
                }
                Err(failure @ Failure::Sqlite(_)) => return Err(self.abandon(failure.into_error(&self.path))),
            }
        }
        self.sql("COMMIT").map_err(|error| self.abandon(error))?;
        if self.conn.total_changes() > before {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ends)
    }

    /// Leaves no transaction open: some failures end it, some do not.
    fn abandon(&self, error: StoreError) -> StoreError {
        if !self.conn.is_autocommit() {
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        error
    }

    fn sql(&self, text: &str) -> Result<(), StoreError> {
        self.conn.execute_batch(text).map_err(|error| file::explain(&self.path, &error))
    }
}
