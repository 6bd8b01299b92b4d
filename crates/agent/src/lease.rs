//! A lease that is kept alive while it is held, and given back.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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
    store: Arc<dyn Store>,
    lost: oneshot::Receiver<RunError>,
    gone: oneshot::Receiver<()>,
    /// A word ends the heartbeat. Dropped without one, it gives the lease back itself.
    stop: Sender<()>,
}

impl Held {
    /// Takes the lease of `run` for this process.
    pub(crate) async fn acquire(store: Arc<dyn Store>, run: &RunId, clock: Clock) -> Result<Self, RunError> {
        let owner = Owner::this_process()
            .map_err(|error| RunError::Internal(format!("who this process is: {error}")))?;
        let lease = store.acquire(run, owner, clock(), TTL).await?;
        let (stop, stopped) = channel();
        let (say_lost, lost) = oneshot::channel();
        let (say_gone, gone) = oneshot::channel();
        let heart = Heart { store: store.clone(), lease: lease.clone(), clock };
        let beat = move || {
            if let Some(error) = heart.beat(&stopped) {
                let _ = say_lost.send(error);
            }
            // Whoever waits for this may want the store closed, which the heart held open.
            let _ = say_gone.send(());
        };
        std::thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(beat)
            .map_err(|error| RunError::Internal(format!("a heartbeat: {error}")))?;
        Ok(Self { lease, store, lost, gone, stop })
    }

    /// Waits until somebody else has the run.
    pub(crate) async fn lost(&mut self) -> RunError {
        match (&mut self.lost).await {
            Ok(error) => error,
            // The heartbeat ends only when the lease is lost or given back.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives the lease back, and waits until that is done.
    pub(crate) async fn give_back(self) {
        let _ = self.stop.send(());
        // A lease that cannot be given back lapses by itself.
        let _ = self.store.release(&self.lease).await;
        let _ = self.gone.await;
    }
}

/// What the heartbeat's thread has.
struct Heart {
    store: Arc<dyn Store>,
    lease: Lease,
    clock: Clock,
}

impl Heart {
    /// Renews the lease until it is stopped. The error says who has the run instead.
    fn beat(mut self, stopped: &Receiver<()>) -> Option<RunError> {
        loop {
            match stopped.recv_timeout(HEARTBEAT) {
                Ok(()) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    wait_for(self.store.release(&self.lease));
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            match wait_for(self.store.renew(&self.lease, (self.clock)(), TTL)) {
                Some(Ok(renewed)) => self.lease = renewed,
                Some(Err(error @ (StoreError::Fenced { .. } | StoreError::Conflict { .. }))) => {
                    return Some(error.into());
                }
                // The store may be busy or full for a moment; the appends themselves say so if it lasts.
                Some(Err(_)) | None => {}
            }
        }
    }
}

/// Waits on the heartbeat's own thread; `None` where the system gives it nothing to wait with.
fn wait_for<T>(future: impl Future<Output = T>) -> Option<T> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    Some(executor.block_on(future))
}
