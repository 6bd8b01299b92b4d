//! A lease that is kept alive while it is held, and given back. What keeps it alive also fetches the letters, and asks whether
//! the run was revoked.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use provost_core::id::RunId;
use provost_journal::{Lease, Owner, Store, StoreError, Word};
use tokio::sync::oneshot;

use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::mail::Mail;
use crate::mandate::{Mandate, Standing};
use crate::runtime::Clock;

/// How long a lease lasts without a heartbeat.
const TTL: Duration = Duration::from_mins(1);

/// How often it is renewed: two heartbeats may be lost.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// How often the letters are looked at. A cancelled command's tree is to be gone within a second.
const LOOK: Duration = Duration::from_millis(100);

/// How often it is asked whether the run was revoked, which may take reading a folder and checking signatures. What is under
/// way then is to be gone within a second too.
const ASK: Duration = Duration::from_millis(500);

/// A run's lease. Its heartbeat has a thread of its own: no step is so long, and no executor so busy, that it stops.
pub(crate) struct Held {
    pub(crate) lease: Lease,
    /// What others say to this driver.
    pub(crate) mail: Mail,
    store: Arc<dyn Store>,
    lost: oneshot::Receiver<RunError>,
    gone: oneshot::Receiver<()>,
    /// A word ends the heartbeat. Dropped without one, it gives the lease back itself.
    stop: Sender<()>,
}

impl Held {
    /// Takes the lease of `run` for this process. What comes for the run by letter stops it by `interrupt`, and so does it
    /// that `mandate` is gone.
    pub(crate) async fn acquire(
        store: Arc<dyn Store>,
        run: &RunId,
        clock: Clock,
        interrupt: &Interrupt,
        mandate: Arc<dyn Mandate>,
    ) -> Result<Self, RunError> {
        let owner = this_process()?;
        let interrupt =
            interrupt.child().map_err(|error| RunError::Internal(format!("a handle: {error}")))?;
        let mail = Mail::new(interrupt);
        let lease = store.acquire(run, owner, clock(), TTL).await?;
        let waiting = store.letters(run).await?;
        if waiting.iter().any(|letter| letter.says == Word::Hold) {
            // It was for the driver before this one. Whoever resumes a run wants it driven.
            store.discard(&lease, vec![Word::Hold]).await?;
        }
        mail.deliver(waiting.into_iter().filter(|letter| letter.says != Word::Hold).collect());
        let (stop, stopped) = channel();
        let (say_lost, lost) = oneshot::channel();
        let (say_gone, gone) = oneshot::channel();
        let heart = Heart { store: store.clone(), lease: lease.clone(), clock, mail: mail.clone(), mandate };
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
        Ok(Self { lease, mail, store, lost, gone, stop })
    }

    /// The same for whoever writes a word into the journal and drives nothing.
    pub(crate) async fn briefly(store: Arc<dyn Store>, run: &RunId, clock: Clock) -> Result<Self, RunError> {
        let interrupt = Interrupt::new().map_err(|error| RunError::Internal(format!("a handle: {error}")))?;
        Self::acquire(store, run, clock, &interrupt, Arc::new(Standing)).await
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

/// This process, as a lease names it. It does not change, so the host is asked once.
pub(crate) fn this_process() -> Result<Owner, RunError> {
    static THIS: OnceLock<Owner> = OnceLock::new();
    if let Some(owner) = THIS.get() {
        return Ok(owner.clone());
    }
    let owner =
        Owner::this_process().map_err(|error| RunError::Internal(format!("who this process is: {error}")))?;
    Ok(THIS.get_or_init(|| owner).clone())
}

/// What the heartbeat's thread has.
struct Heart {
    store: Arc<dyn Store>,
    lease: Lease,
    clock: Clock,
    mail: Mail,
    mandate: Arc<dyn Mandate>,
}

impl Heart {
    /// Renews the lease and fetches letters until it is stopped. The error says who has the run instead.
    fn beat(mut self, stopped: &Receiver<()>) -> Option<RunError> {
        let mut executor = None;
        let mut renewed = Instant::now();
        let mut asked = Instant::now();
        loop {
            match stopped.recv_timeout(LOOK) {
                Ok(()) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    wait_for(&mut executor, self.store.release(&self.lease));
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            // A store that cannot be read now can be in a moment; the appends themselves say so if it lasts.
            if let Some(Ok(letters)) = wait_for(&mut executor, self.store.letters(&self.lease.run)) {
                self.mail.deliver(letters);
            }
            if asked.elapsed() >= ASK {
                if self.mandate.revoked().is_some() {
                    // The driver asks for itself, and puts on record why.
                    self.mail.interrupt().request();
                }
                asked = Instant::now();
            }
            if renewed.elapsed() < HEARTBEAT {
                continue;
            }
            match wait_for(&mut executor, self.store.renew(&self.lease, (self.clock)(), TTL)) {
                Some(Ok(lease)) => self.lease = lease,
                Some(Err(error @ (StoreError::Fenced { .. } | StoreError::Conflict { .. }))) => {
                    return Some(error.into());
                }
                Some(Err(_)) | None => {}
            }
            renewed = Instant::now();
        }
    }
}

/// Waits on the heartbeat's own thread; `None` where the system gives it nothing to wait with.
fn wait_for<T>(executor: &mut Option<tokio::runtime::Runtime>, future: impl Future<Output = T>) -> Option<T> {
    if executor.is_none() {
        *executor = tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
    }
    Some(executor.as_ref()?.block_on(future))
}
