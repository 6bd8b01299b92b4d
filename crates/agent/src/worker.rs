//! A worker: takes runs from the queue, oldest first, and drives each until it is over or pauses. What a driver that died
//! left behind it takes up again, and what somebody has answered meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::event::{Event, RunQueued};
use provost_core::id::RunId;
use provost_core::lifecycle::Stage;
use provost_core::state::RunState;
use provost_journal::{BoxFuture, Owner, RunRow, Store, StoreError, Word};
use tokio::time::Instant;

use crate::driver::Ending;
use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::lease::{Held, this_process};
use crate::queue::fold;
use crate::runtime::{Clock, Runtime, Taken};
use crate::stop::{Stopping, put_under};

/// How often the queue is looked at while there is nothing to do.
const LOOK: Duration = Duration::from_millis(250);

/// Drivers in a row that may die under a run without an answer of the model in between. Then it is held: it may be what
/// kills them.
const MOST_DEATHS: u32 = 3;

/// First wait before a run whose model could not be asked is tried again; it doubles each time.
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LONGEST_RETRY: Duration = Duration::from_mins(30);

/// Failure classes that no waiting mends.
const LASTING: [&str; 5] = ["auth", "quota", "bad_request", "context_overflow", "refused"];

/// What a worker is given from outside.
pub trait Shop: Send + Sync {
    /// What the run is driven with. An error, in words for people, holds the run.
    fn runtime(&self, run: &RunId, queued: &RunQueued) -> Result<Runtime, String>;
    /// A run that the worker drove is over.
    fn over<'a>(&'a self, run: &'a RunId, ending: &'a Ending) -> BoxFuture<'a, ()> {
        let _ = (run, ending);
        Box::pin(std::future::ready(()))
    }
    /// The worker is done with a run, for now or for good.
    fn leaves(&self, run: &RunId, how: &Left) {
        let _ = (run, how);
    }
}

/// How a worker left a run.
#[derive(Debug)]
pub enum Left {
    /// It is over, or pauses.
    Ended(Ending),
    /// It was cancelled before it began.
    Dropped,
    /// It is held, for this reason.
    Held(String),
    /// Another run works in its folder, or another driver has it by now. It is not left for good.
    Waits(RunError),
    /// It could not be driven. It stays as it is, and this worker does not try again.
    Failed(RunError),
}

/// When a worker goes home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When nothing is left that it could do now.
    Empty,
    /// When it is told to.
    Interrupted,
}

/// Takes runs from the queue.
pub struct Worker<'a> {
    store: Arc<dyn Store>,
    clock: Clock,
    shop: &'a dyn Shop,
    interrupt: Interrupt,
    me: Owner,
    /// What this worker, and those beside it, have tried and must not try at once again.
    later: Arc<Mutex<HashMap<RunId, Later>>>,
}

/// When a run is tried again.
#[derive(Debug, Clone, Copy)]
enum Later {
    Never,
    At {
        when: Instant,
        waited: Duration,
    },
    /// When another run has its folder no more.
    Folder {
        when: Instant,
    },
}

impl<'a> Worker<'a> {
    /// A worker that leaves its run, to be resumed, when `interrupt` is requested.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        shop: &'a dyn Shop,
        interrupt: Interrupt,
    ) -> Result<Self, RunError> {
        Ok(Self { store, clock, shop, interrupt, me: this_process()?, later: Arc::default() })
    }

    /// Another worker of the same process: what this one left for later it leaves too.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            store: self.store.clone(),
            clock: self.clock.clone(),
            shop: self.shop,
            interrupt: self.interrupt.clone(),
            me: self.me.clone(),
            later: self.later.clone(),
        }
    }

    fn later(&self) -> MutexGuard<'_, HashMap<RunId, Later>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works. Several workers, in one process or in many, share a queue: each run has one of them.
    pub async fn work(&mut self, until: Until) -> Result<(), RunError> {
        while !self.interrupt.is_requested() {
            if self.take_one().await? == Took::One {
                continue;
            }
            if until == Until::Empty && !self.waits_for_a_folder().await? {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.interrupt.requested() => {}
            }
        }
        Ok(())
    }

    /// Whether a run is left that only waits for its folder, in which another works.
    async fn waits_for_a_folder(&self) -> Result<bool, RunError> {
        let waits = |row: &RunRow| matches!(self.later().get(&row.run), Some(Later::Folder { .. }));
        Ok(self.store.unfinished().await?.iter().any(waits))
    }

    async fn take_one(&mut self) -> Result<Took, RunError> {
        for row in self.store.unfinished().await? {
            if self.interrupt.is_requested() {
                break;
            }
            let events = match self.is_due(&row).await {
                Ok(Some(events)) => events,
                Ok(None) => continue,
                // What is wrong with one run is no reason to leave the others.
                Err(error) if error.is_of_one_run() => {
                    self.later().insert(row.run.clone(), Later::Never);
                    self.shop.leaves(&row.run, &Left::Failed(error));
                    return Ok(Took::One);
                }
                Err(error) => return Err(error),
            };
            if self.drive(&row.run, &events).await? == Took::One {
                return Ok(Took::One);
            }
        }
        Ok(Took::None)
    }

    /// The journal of a run that is a worker's to take now. Whether it still is when it holds the lease, it sees then.
    async fn is_due(&mut self, row: &RunRow) -> Result<Option<Vec<Event>>, RunError> {
        let waits = match self.later().get(&row.run) {
            Some(Later::Never) => true,
            Some(Later::At { when, .. } | Later::Folder { when }) => Instant::now() < *when,
            None => false,
        };
        let driven = row.holder.as_ref().is_some_and(|holder| holder.drives(&self.me, (self.clock)()));
        if waits || driven {
            return Ok(None);
        }
        let due = match row.stage {
            Stage::Queued | Stage::Created | Stage::Running | Stage::Interrupted | Stage::ProviderFailed => {
                true
            }
            Stage::Cancelling => true,
            Stage::WaitingForApproval => self.is_answered(&row.run).await?,
            _ => false,
        };
        if !due {
            return Ok(None);
        }
        let events = self.store.events(&row.run, 0).await?;
        if fold(&row.run, &events)?.queued().is_some() {
            return Ok(Some(events));
        }
        // One that was not queued is somebody's own, now and later: its journal need not be read again.
        self.later().insert(row.run.clone(), Later::Never);
        Ok(None)
    }

    async fn is_answered(&self, run: &RunId) -> Result<bool, RunError> {
        let letters = self.store.letters(run).await?;
        Ok(letters.iter().any(|letter| matches!(letter.says, Word::Verdict { .. } | Word::Cancel)))
    }

    async fn drive(&mut self, run: &RunId, events: &[Event]) -> Result<Took, RunError> {
        let state = fold(run, events)?;
        let Some(queued) = state.queued() else { return Ok(Took::None) };
        if state.deaths() + u32::from(state.stage() == Stage::Running) >= MOST_DEATHS {
            let why = format!("{MOST_DEATHS} drivers in a row died under it without getting on");
            return self.hold(run, why).await;
        }
        let runtime = match self.shop.runtime(run, queued) {
            Ok(runtime) => runtime,
            Err(why) => return self.hold(run, why).await,
        };
        let ending = match runtime.take(run, &[], self.interrupt.clone()).await {
            Ok(Taken::Driven(ending)) => Ok(ending),
            // Another worker was quicker, and is done.
            Ok(Taken::Over(_)) => return Ok(Took::None),
            Err(error) => Err(error),
        };
        self.left(run, &state, ending).await
    }

    async fn left(
        &mut self,
        run: &RunId,
        before: &RunState,
        ending: Result<Ending, RunError>,
    ) -> Result<Took, RunError> {
        let how = match ending {
            Ok(ending) => {
                if let Ending::Paused(detached) = &ending
                    && detached.why == provost_core::outcome::Pause::Provider
                {
                    self.try_later(run).await?;
                }
                if matches!(ending, Ending::Over(_)) {
                    self.shop.over(run, &ending).await;
                }
                match self.store.row(run).await?.stage {
                    Stage::Held => Left::Held("somebody holds it".to_owned()),
                    _ => Left::Ended(ending),
                }
            }
            // Another worker was quicker.
            Err(RunError::Store(StoreError::Conflict { .. })) => return Ok(Took::None),
            // It stood still for longer than its lease lasted, and another took the run.
            Err(error @ RunError::Store(StoreError::Fenced { .. })) => Left::Waits(error),
            Err(RunError::Dropped { .. }) => Left::Dropped,
            Err(error @ RunError::Occupied(_)) => {
                let when = Instant::now() + LOOK * 4;
                if self.later().insert(run.clone(), Later::Folder { when }).is_some() {
                    return Ok(Took::None);
                }
                Left::Waits(error)
            }
            Err(error) if before.created().is_none() && error.exit_code() != 70 => {
                return self.hold(run, error.to_string()).await;
            }
            Err(error) => {
                self.later().insert(run.clone(), Later::Never);
                Left::Failed(error)
            }
        };
        self.shop.leaves(run, &how);
        Ok(Took::One)
    }

    /// A model that could not be asked may be there again later; one that refuses will refuse again.
    async fn try_later(&mut self, run: &RunId) -> Result<(), RunError> {
        let events = self.store.events(run, 0).await?;
        let state = fold(run, &events)?;
        let lasting = state.unanswered().is_some_and(|class| LASTING.contains(&class));
        let mut all = self.later();
        let later = match all.get(run) {
            _ if lasting => Later::Never,
            Some(Later::At { waited, .. }) => {
                let waited = (*waited * 2).min(LONGEST_RETRY);
                Later::At { when: Instant::now() + waited, waited }
            }
            _ => Later::At { when: Instant::now() + FIRST_RETRY, waited: FIRST_RETRY },
        };
        all.insert(run.clone(), later);
        Ok(())
    }

    /// Puts it on record that no worker should take the run, and why.
    async fn hold(&mut self, run: &RunId, why: String) -> Result<Took, RunError> {
        let held = match Held::briefly(self.store.clone(), run, self.clock.clone()).await {
            Ok(held) => held,
            Err(RunError::Store(StoreError::Conflict { .. })) => return Ok(Took::None),
            Err(error) => return Err(error),
        };
        let put = put_under(&self.store, &self.clock, &held, Stopping::Hold, "worker", &why).await;
        held.give_back().await;
        put?;
        self.shop.leaves(run, &Left::Held(why));
        Ok(Took::One)
    }
}

/// Whether there was something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Took {
    One,
    None,
}
