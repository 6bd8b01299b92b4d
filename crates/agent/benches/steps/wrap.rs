//! A provider and a store that tell the meter what they cost.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::digest::Digest;
use provost_core::event::{Draft, Event};
use provost_core::id::RunId;
use provost_core::transcript::Message;
use provost_journal::{
    Appended, Blob, BoxFuture, Head, Lease, Letter, Owner, Posted, RunRow, Salt, SqliteStore, Store,
    StoreError, Word,
};
use provost_model::{Answer, Dialogue, Failure, Invocation, Prelude, Provider, Sink};

use crate::bare::Bare;
use crate::meter::Meter;

/// A provider whose questions mark the steps. Between two steps the bare costs are measured.
pub(crate) struct Metered {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) meter: Meter,
    pub(crate) bare: Arc<Mutex<Bare>>,
}

impl Provider for Metered {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn endpoint(&self) -> &str {
        self.inner.endpoint()
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        Box::new(MeteredDialogue {
            inner: self.inner.open(prelude),
            store: self.store.clone(),
            meter: self.meter.clone(),
            bare: self.bare.clone(),
        })
    }
}

struct MeteredDialogue {
    inner: Box<dyn Dialogue>,
    store: Arc<SqliteStore>,
    meter: Meter,
    bare: Arc<Mutex<Bare>>,
}

impl Dialogue for MeteredDialogue {
    fn push(&mut self, message: &Message) {
        let begun = Instant::now();
        self.inner.push(message);
        self.meter.add(|step| step.push += begun.elapsed());
    }

    fn prompt_bytes(&self) -> usize {
        self.inner.prompt_bytes()
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> provost_model::BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            self.meter.close(self.store.commits());
            self.bare.lock().unwrap_or_else(PoisonError::into_inner).measure();
            self.meter.open(self.store.commits());
            let begun = Instant::now();
            let answer = self.inner.ask(invocation, sink).await;
            self.meter.add(|step| step.model += begun.elapsed());
            answer
        })
    }
}

/// What went into a store.
#[derive(Default)]
pub(crate) struct Written {
    blobs: HashSet<Digest>,
    pub(crate) blob_bytes: u64,
    pub(crate) event_bytes: u64,
    pub(crate) events: u64,
    /// Count and bytes of the events of each kind.
    pub(crate) kinds: BTreeMap<&'static str, (u64, u64)>,
}

/// A store whose appends are timed and weighed.
pub(crate) struct Weighed {
    pub(crate) inner: Arc<SqliteStore>,
    pub(crate) meter: Meter,
    pub(crate) written: Arc<Mutex<Written>>,
}

impl Store for Weighed {
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        expected: &'a Head,
        drafts: Vec<Draft>,
        blobs: Vec<Blob>,
    ) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(async move {
            let sizes: Vec<(Digest, u64)> =
                blobs.iter().map(|blob| (blob.digest(), blob.bytes().len() as u64)).collect();
            let begun = Instant::now();
            let appended = self.inner.append(lease, expected, drafts, blobs).await?;
            self.meter.add(|step| {
                step.store += begun.elapsed();
                step.appends += 1;
            });
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            for (digest, size) in sizes {
                if written.blobs.insert(digest) {
                    written.blob_bytes += size;
                }
            }
            written.events += appended.events.len() as u64;
            for event in &appended.events {
                let size = serde_json::to_vec(event).map_or(0, |json| json.len() as u64);
                written.event_bytes += size;
                let (count, bytes) = written.kinds.entry(event.body.kind()).or_default();
                *count += 1;
                *bytes += size;
            }
            Ok(appended)
        })
    }

    fn create_after<'a>(
        &'a self,
        run: &'a RunId,
        salt: Salt,
        generation: u64,
        now_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.create_after(run, salt, generation, now_ms)
    }

    fn acquire<'a>(
        &'a self,
        run: &'a RunId,
        owner: Owner,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        self.inner.acquire(run, owner, now_ms, ttl)
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        self.inner.renew(lease, now_ms, ttl)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.release(lease)
    }

    fn events<'a>(&'a self, run: &'a RunId, from_seq: u64) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        self.inner.events(run, from_seq)
    }

    fn events_json<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Vec<u8>>, StoreError>> {
        self.inner.events_json(run)
    }

    fn blob<'a>(
        &'a self,
        run: &'a RunId,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        self.inner.blob(run, digest)
    }

    fn salt<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Option<Salt>, StoreError>> {
        self.inner.salt(run)
    }

    fn head<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Head, StoreError>> {
        self.inner.head(run)
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        self.inner.runs()
    }

    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<RunId, StoreError>> {
        self.inner.find(prefix)
    }

    fn forget<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.forget(run)
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        self.inner.unfinished()
    }

    fn row<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunRow, StoreError>> {
        self.inner.row(run)
    }

    fn post<'a>(&'a self, run: &'a RunId, letter: Letter) -> BoxFuture<'a, Result<Posted, StoreError>> {
        self.inner.post(run, letter)
    }

    fn letters<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Letter>, StoreError>> {
        self.inner.letters(run)
    }

    fn discard<'a>(&'a self, lease: &'a Lease, read: Vec<Word>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.discard(lease, read)
    }
}
