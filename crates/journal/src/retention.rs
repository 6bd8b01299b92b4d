//! What is done to runs beside driving them: what they take up, and their removal.

use provost_core::id::RunId;

use crate::error::StoreError;
use crate::lease::Lease;
use crate::projection::RunRow;
use crate::store::{BoxFuture, Store};

/// What a run takes up in its store. Sizes are of what was recorded, without the database's own structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunUsage {
    /// The run as a list shows it.
    pub row: RunRow,
    /// When its newest event happened, or when it was made if it has none, in milliseconds since the Unix epoch; `None`
    /// where that event cannot be read.
    pub last_ms: Option<u64>,
    /// Events.
    pub events: u64,
    /// Bytes of their JSON.
    pub event_bytes: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of their content.
    pub blob_bytes: u64,
    /// Whether its words are there.
    pub content: Content,
}

/// Whether a run's words are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// They are.
    Kept,
    /// Blobs and salt were dropped by [`Store::forget`].
    Dropped,
}

/// The upkeep of a store. Apart from [`Store`], so that nothing that drives a run can remove one.
pub trait Retention: Store {
    /// What a run takes up.
    fn usage<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunUsage, StoreError>>;

    /// Removes the run that `lease` holds: events, blobs, salt and name, all or nothing, durable when it returns.
    ///
    /// The lease is what keeps it from being removed under a driver: refused with [`StoreError::Fenced`] when it is not
    /// the current one. No later run gets the number or the event keys that the run had.
    fn delete<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>>;
}
