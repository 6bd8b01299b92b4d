//! A lease that is kept alive while it is held, and given back.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use provost_core::id::RunId;
use provost_journal::{Lease, Owner, Store, StoreError};
use tokio::sync::oneshot;

use crate::error::RunError;
use crate::runtime::Clock;

/// How long a lease lasts without a heartbeat.
const TTL: Duration = Duration::from_mins(1);

/// How often it is renewed: two heartbeats may be lost.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// A run's lease. Its heartbeat has a thread of its own: no step is so long, and no executor so busy, that it stops.
pub(crate) struct Held {
    pub(crate) lease: Lease,
    lost: oneshot::Receiver<RunError>,
    given_back: oneshot::Receiver<()>,
    /// Dropping it ends the heartbeat, which gives the lease back.
    holding: Sender<()>,
}

impl Held {
    /// Takes the lease of `run` for this process.
    pub(crate) async fn acquire(store: Arc<dyn Store>, run: &RunId, clock: Clock) -> Result<Self, RunError> {
        let owner = Owner::this_process()
            .map_err(|error| RunError::Internal(format!("who this process is: {error}")))?;
        let lease = store.acquire(run, owner, clock(), TTL).await?;
        let (holding, dropped) = channel::<()>();
        let (say_lost, lost) = oneshot::channel();
        let (say_given_back, given_back) = oneshot::channel();
        let mut newest = lease.clone();
        let no_thread = |error: std::io::Error| RunError::Internal(format!("a heartbeat: {error}"));
        let executor =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let beat = move || {
            while dropped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                match executor.block_on(store.renew(&newest, clock(), TTL)) {
                    Ok(renewed) => newest = renewed,
                    Err(error @ (StoreError::Fenced { .. } | StoreError::Conflict { .. })) => {
                        let _ = say_lost.send(error.into());
                        return;
                    }
                    // The store may be busy or full for a moment; the appends themselves say so if it lasts.
                    Err(_) => {}
                }
            }
            // A lease that cannot be given back lapses by itself.
            let _ = executor.block_on(store.release(&newest));
            // Whoever waits for this may want the store closed.
            drop(store);
            let _ = say_given_back.send(());
        };
        std::thread::Builder::new().name("heartbeat".to_owned()).spawn(beat).map_err(no_thread)?;
        Ok(Self { lease, lost, given_back, holding })
    }

    /// Waits until somebody else has the run.
    pub(crate) async fn lost(&mut self) -> RunError {
        match (&mut self.lost).await {
            Ok(error) => error,
            // The thread ends only when the lease is lost or given back.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives the lease back, and waits until that is done.
    pub(crate) async fn give_back(self) {
        let Self { given_back, holding, .. } = self;
        drop(holding);
        let _ = given_back.await;
    }
}
