//! What a store refuses, in words for people: what, where, and what to do next.

use std::path::{Path, PathBuf};

use provost_core::id::RunId;
use provost_core::text::moment;

/// Why a store did not do what was asked. Nothing of the refused operation was written.
///
/// It can be cloned because one failed commit fails every append that shared it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another process held the write lock for longer than the wait.
    #[error("the store `{path}` stayed locked for {waited_ms} ms; try again, or look for a stuck process that has it open", path = .path.display())]
    Busy {
        /// The store.
        path: PathBuf,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// Another driver holds the run.
    #[error(
        "run `{run}` is held by process {pid} on host `{host}` since {} UTC; stop that process, or wait: its lease lapses at \
         {} UTC unless it is renewed",
        moment(*since_ms), moment(*until_ms)
    )]
    Conflict {
        /// The run.
        run: RunId,
        /// The holder's host.
        host: String,
        /// The holder's process id on that host.
        pid: u32,
        /// When it took the run, in milliseconds since the Unix epoch.
        since_ms: u64,
        /// When its lease lapses, in milliseconds since the Unix epoch.
        until_ms: u64,
    },
    /// The lease is not the current one: the run was taken over or released.
    #[error(
        "run `{run}` was taken over (lease generation {held}, now {current}); this driver can no longer write"
    )]
    Fenced {
        /// The run.
        run: RunId,
        /// Generation of the lease that was shown.
        held: u64,
        /// Generation in force.
        current: u64,
    },
    /// The stream's head is not where the caller thinks it is.
    #[error(
        "run `{run}` has {actual} events or another history than the {expected} this append builds on; read it again"
    )]
    StaleHead {
        /// The run.
        run: RunId,
        /// Place of the next event as the caller has it.
        expected: u64,
        /// Place of the next event as it is.
        actual: u64,
    },
    /// No space is left.
    #[error("no space is left for the store `{path}`; nothing was recorded and nothing is lost: free some space and try again", path = .path.display())]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// The store or its folder cannot be written.
    #[error("the store `{path}` cannot be written ({detail}); check the owner and mode of the file and its folder", path = .path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// The file is damaged.
    #[error("the store `{path}` is damaged ({detail}); move it aside and keep it: `sqlite3 FILE .recover` may save most of it", path = .path.display())]
    Corrupt {
        /// The store.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The file was written by a newer Provost.
    #[error("the store `{path}` has format {found}, this program knows up to {known}; use the newer Provost that wrote it", path = .path.display())]
    TooNew {
        /// The store.
        path: PathBuf,
        /// Format of the file.
        found: u32,
        /// Newest format that this program knows.
        known: u32,
    },
    /// An event is whole, and of a kind that this program does not know.
    #[error("run `{run}` in the store `{path}` holds what this program cannot read ({detail}); use the newer Provost that wrote it", path = .path.display())]
    Unreadable {
        /// The store.
        path: PathBuf,
        /// The run.
        run: RunId,
        /// What cannot be read.
        detail: String,
    },
    /// The file is something else.
    #[error("`{path}` is not a Provost store ({detail}); it was left as it is: name another file", path = .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        detail: String,
    },
    /// The file system cannot keep a store safely.
    #[error("`{path}` lies where a store is not safe ({detail}); put it on a local disk", path = .path.display())]
    Unsuitable {
        /// The store.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// There is no such run.
    #[error("no run `{run}` in the store `{path}`; `provost runs` lists them", path = .path.display())]
    NoSuchRun {
        /// The store.
        path: PathBuf,
        /// The name or the beginning of one that was asked for.
        run: String,
    },
    /// Several runs begin with the given text.
    #[error("`{prefix}` is the beginning of several runs: {runs}; give more of the name", runs = show(.runs))]
    Ambiguous {
        /// The text.
        prefix: String,
        /// Some of the runs that it begins.
        runs: Vec<RunId>,
    },
    /// The run exists already.
    #[error("run `{run}` exists already; pick another name")]
    Exists {
        /// The run.
        run: RunId,
    },
    /// Anything else that the system or SQLite reports.
    #[error("the store `{path}` failed: {detail}", path = .path.display())]
    Io {
        /// The store.
        path: PathBuf,
        /// What was reported.
        detail: String,
    },
}

impl StoreError {
    /// The same about another file: a store is made under a name that nobody asked for.
    pub(crate) fn about(mut self, other: &Path) -> Self {
        match &mut self {
            Self::Busy { path, .. }
            | Self::Full { path }
            | Self::ReadOnly { path, .. }
            | Self::Corrupt { path, .. }
            | Self::TooNew { path, .. }
            | Self::Unreadable { path, .. }
            | Self::NotOurs { path, .. }
            | Self::Unsuitable { path, .. }
            | Self::NoSuchRun { path, .. }
            | Self::Io { path, .. } => other.clone_into(path),
            Self::Conflict { .. }
            | Self::Fenced { .. }
            | Self::StaleHead { .. }
            | Self::Ambiguous { .. }
            | Self::Exists { .. } => {}
        }
        self
    }
}

fn show(runs: &[RunId]) -> String {
    runs.iter().map(|run| format!("`{run}`")).collect::<Vec<_>>().join(", ")
}
