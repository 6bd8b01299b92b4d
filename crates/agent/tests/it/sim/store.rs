//! A store in memory with the promises of the real one. Each write is a point before and a point after it.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use provost_core::digest::Digest;
use provost_core::event::{Draft, Event};
use provost_core::id::RunId;
use provost_evidence::chain::seal;
use provost_journal::{
    Appended, Blob, BoxFuture, Head, Lease, Letter, Owner, Posted, RunRow, Salt, Store, StoreError, Word,
};

use super::world::World;

pub(crate) struct SimStore(pub(crate) Arc<World>);

fn done<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(ready(Ok(value)))
}

impl Store for SimStore {
    fn create_after<'a>(
        &'a self,
        run: &'a RunId,
        salt: Salt,
        generation: u64,
        _: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        if self.0.with(|state| state.run.as_ref() == Some(run)) {
            return Box::pin(ready(Err(StoreError::Exists { run: run.clone() })));
        }
        self.0.pass("before the run is made");
        self.0.with(|state| {
            state.run = Some(run.clone());
            state.salt = salt;
            state.generation = generation;
        });
        self.0.pass("after the run is made");
        done(())
    }

    fn acquire<'a>(
        &'a self,
        run: &'a RunId,
        owner: Owner,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        let generation = self.0.with(|state| {
            state.generation += 1;
            state.generation
        });
        self.0.pass("after the lease is taken");
        done(Lease { run: run.clone(), generation, owner, expires_ms: now_ms + ttl.as_millis() as u64 })
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        _: u64,
        _: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        done(lease.clone())
    }

    fn release<'a>(&'a self, _: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        done(())
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        expected: &'a Head,
        drafts: Vec<Draft>,
        blobs: Vec<Blob>,
    ) -> BoxFuture<'a, Result<Appended, StoreError>> {
        self.0.pass("before an append");
        let appended = self.0.with(|state| {
            assert_eq!(lease.generation, state.generation, "only the newest driver writes");
            assert_eq!(*expected, state.head, "and it knows where it stands");
            let mut head = state.head.clone();
            let events: Vec<Event> =
                drafts.into_iter().map(|draft| seal(&lease.run, &mut head, draft).unwrap()).collect();
            state.events.extend(events.iter().cloned().map(Arc::new));
            for blob in blobs {
                state.blobs.insert(blob.digest(), Arc::new(blob.bytes().to_vec()));
            }
            state.head = head.clone();
            Appended { events, head }
        });
        self.0.pass_within_write();
        self.0.pass("after an append");
        done(appended)
    }

    fn events<'a>(&'a self, _: &'a RunId, from_seq: u64) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        done(self.0.with(|state| {
            state.events.iter().skip(from_seq as usize).map(|event| event.as_ref().clone()).collect()
        }))
    }

    fn events_json<'a>(&'a self, _: &'a RunId) -> BoxFuture<'a, Result<Vec<Vec<u8>>, StoreError>> {
        done(Vec::new())
    }

    fn blob<'a>(
        &'a self,
        _: &'a RunId,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        done(self.0.with(|state| state.blobs.get(&digest).map(|bytes| bytes.as_ref().clone())))
    }

    fn salt<'a>(&'a self, _: &'a RunId) -> BoxFuture<'a, Result<Option<Salt>, StoreError>> {
        done(Some(self.0.with(|state| state.salt.clone())))
    }

    fn head<'a>(&'a self, _: &'a RunId) -> BoxFuture<'a, Result<Head, StoreError>> {
        done(self.0.with(|state| state.head.clone()))
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        done(Vec::new())
    }

    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<RunId, StoreError>> {
        done(prefix.parse().unwrap())
    }

    fn forget<'a>(&'a self, _: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>> {
        done(())
    }

    fn post<'a>(&'a self, _: &'a RunId, _: Letter) -> BoxFuture<'a, Result<Posted, StoreError>> {
        done(Posted::Waits)
    }

    fn letters<'a>(&'a self, _: &'a RunId) -> BoxFuture<'a, Result<Vec<Letter>, StoreError>> {
        done(self.0.with(|state| state.letters.clone()))
    }

    fn discard<'a>(&'a self, _: &'a Lease, read: Vec<Word>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.pass("before a letter is thrown away");
        self.0.with(|state| state.letters.retain(|letter| !read.contains(&letter.says)));
        self.0.pass("after a letter was thrown away");
        done(())
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        done(Vec::new())
    }

    fn row<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunRow, StoreError>> {
        done(RunRow::new(run.clone(), 0))
    }
}
