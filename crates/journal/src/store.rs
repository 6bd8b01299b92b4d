//! The store as its callers see it, whatever database is beneath.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use provost_core::digest::Digest;
use provost_core::event::{Draft, Event};
use provost_core::id::RunId;
use provost_evidence::chain::Head;
use provost_evidence::content::Salt;

use crate::error::StoreError;
use crate::lease::Lease;
use crate::letter::{Letter, Posted, Word};
use crate::owner::Owner;
use crate::projection::RunRow;

/// A boxed future, so that [`Store`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Content that events name by its salted digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    digest: Digest,
    bytes: Vec<u8>,
}

impl Blob {
    /// Names `bytes` under the stream's salt. There is no other way to make a blob, so its name is never wrong.
    pub fn new(salt: &Salt, bytes: Vec<u8>) -> Self {
        Self { digest: salt.digest(&bytes), bytes }
    }

    /// Its salted digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Blob {
    /// The name and the size: content may be secret and may be long.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.digest, self.bytes.len())
    }
}

/// What an append left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The sealed events, in order.
    pub events: Vec<Event>,
    /// Where the next append goes.
    pub head: Head,
}

/// Runs, their events and their content.
///
/// A future does nothing until it is polled. One that is dropped later may still have its effect: the write was handed
/// over. A caller that lost an answer reads [`head`](Self::head) before it goes on.
pub trait Store: Send + Sync {
    /// Makes an empty run. `salt` must be random: it is what keeps digests from being guessed.
    fn create<'a>(
        &'a self,
        run: &'a RunId,
        salt: Salt,
        now_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.create_after(run, salt, 0, now_ms)
    }

    /// Makes an empty run whose first lease has a generation above `generation`: for a run that begins with events of
    /// another, in which drivers of that one appear.
    fn create_after<'a>(
        &'a self,
        run: &'a RunId,
        salt: Salt,
        generation: u64,
        now_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Takes the right to drive a run.
    ///
    /// Refused with [`StoreError::Conflict`] while somebody else holds it. A holder on this host whose process is over
    /// is replaced at once, any other when its lease has lapsed at `now_ms` (milliseconds since the Unix epoch).
    fn acquire<'a>(
        &'a self,
        run: &'a RunId,
        owner: Owner,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>>;

    /// Moves a lease's expiry to `now_ms` plus `ttl`.
    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>>;

    /// Gives a lease back. What was held under it can no longer write.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Appends events and the blobs they name, all or nothing, durable when it returns.
    ///
    /// Refused with [`StoreError::Fenced`] when the lease is not the current one, and with [`StoreError::StaleHead`]
    /// when `expected` is not the stream's head.
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        expected: &'a Head,
        drafts: Vec<Draft>,
        blobs: Vec<Blob>,
    ) -> BoxFuture<'a, Result<Appended, StoreError>>;

    /// The events from place `from_seq` on. Each is checked against its hash and its neighbour's, the last against the
    /// head. Refused with [`StoreError::Unreadable`] where one is of a kind that this program does not know.
    fn events<'a>(&'a self, run: &'a RunId, from_seq: u64) -> BoxFuture<'a, Result<Vec<Event>, StoreError>>;

    /// The events of these kinds, in their order, without reading the others: for sums over many runs. Each is checked
    /// against its own hash, and not that none is missing.
    fn events_of<'a>(
        &'a self,
        run: &'a RunId,
        kinds: &'static [&'static str],
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        Box::pin(async move {
            let mut events = self.events(run, 0).await?;
            events.retain(|event| kinds.contains(&event.body.kind()));
            Ok(events)
        })
    }

    /// The stored canonical JSON of all events, byte for byte, one item an event, without line feeds. Checked as
    /// [`events`](Self::events) is, but of whatever kind.
    fn events_json<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Vec<u8>>, StoreError>>;

    /// The content named `digest`; `None` where the run has none or it was dropped.
    fn blob<'a>(
        &'a self,
        run: &'a RunId,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>>;

    /// The contents of these names, in their order, as [`blob`](Self::blob) gives each: in one go, where there are many.
    fn blobs<'a>(
        &'a self,
        run: &'a RunId,
        digests: &'a [Digest],
    ) -> BoxFuture<'a, Result<Vec<Option<Vec<u8>>>, StoreError>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(digests.len());
            for digest in digests {
                found.push(self.blob(run, *digest).await?);
            }
            Ok(found)
        })
    }

    /// The run's salt; `None` once its words were dropped.
    fn salt<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Option<Salt>, StoreError>>;

    /// Where the next append goes.
    fn head<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Head, StoreError>>;

    /// All runs, oldest first.
    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>>;

    /// The runs that are not over, oldest first. Does not take longer for those that are.
    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>>;

    /// One run as the list shows it.
    fn row<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunRow, StoreError>>;

    /// The one run whose name begins with `prefix`, or is it.
    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<RunId, StoreError>>;

    /// Drops a run's blobs and salt. Its events stay and its chain still verifies; its words are gone.
    fn forget<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Leaves a letter for whoever drives the run. Of each subject the first is taken and waits; a later one is told of
    /// it.
    fn post<'a>(&'a self, run: &'a RunId, letter: Letter) -> BoxFuture<'a, Result<Posted, StoreError>>;

    /// The letters that wait for the run's driver, oldest first.
    fn letters<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Letter>, StoreError>>;

    /// Throws away letters that were read and acted on, or are about nothing any more.
    fn discard<'a>(&'a self, lease: &'a Lease, read: Vec<Word>) -> BoxFuture<'a, Result<(), StoreError>>;
}
