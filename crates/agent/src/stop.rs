//! Ending or holding a run from outside. Where a driver has it, the driver is told by letter and does it; where nobody
//! does, it is done here, under the run's lease.

use std::sync::Arc;
use std::time::Duration;

use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, Event, RunCancelled, RunHeld};
use provost_core::id::{AgentId, RunId};
use provost_core::lifecycle::Stage;
use provost_journal::{Blob, Head, Letter, RunRow, Store, StoreError, Word};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::error::RunError;
use crate::lease::{Held, this_process};
use crate::queue::fold;
use crate::runtime::Clock;

/// How often the journal is looked at while a driver is to act on a letter.
const LOOK: Duration = Duration::from_millis(25);

/// What somebody wants of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// That it ends without its work.
    Cancel,
    /// That its driver leaves it and no worker takes it. It can be resumed.
    Hold,
}

impl Stopping {
    /// Whether a run in `stage` is where it leads.
    fn is_done(self, row: &RunRow, driven: Driven) -> bool {
        match self {
            Self::Cancel => row.stage.is_over() || (row.stage == Stage::Cancelling && driven == Driven::No),
            Self::Hold => {
                row.stage.is_over()
                    || row.stage == Stage::Cancelling
                    || (matches!(row.stage, Stage::Held | Stage::Withdrawn) && driven == Driven::No)
            }
        }
    }

    fn letter(self, by: &str, at_ms: u64) -> Letter {
        let says = match self {
            Self::Cancel => Word::Cancel,
            Self::Hold => Word::Hold,
        };
        Letter { by: by.to_owned(), at_ms, says }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driven {
    Yes,
    No,
}

/// Cancels or holds a run in the name of `by`, and answers the stage that the run is then in. It is what the journal
/// says: one that ended otherwise in the meantime has that end, and nothing overwrites it.
///
/// A cancelled run that nobody drives is left in [`Stage::Cancelling`] where it had begun:
/// [`Runtime::resume`](crate::Runtime::resume) closes it. A driver that does not act on the letter within `patience` is an
/// error ([`RunError::Unheard`]); the letter waits for it all the same.
pub async fn stop(
    store: &Arc<dyn Store>,
    clock: &Clock,
    run: &RunId,
    what: Stopping,
    by: &str,
    patience: Duration,
) -> Result<Stage, RunError> {
    let asker = this_process()?;
    let deadline = Instant::now() + patience;
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let row = store.row(run).await?;
        let holder = row.holder.as_ref().filter(|holder| holder.drives(&asker, clock()));
        let driven = if holder.is_some() { Driven::Yes } else { Driven::No };
        if what.is_done(&row, driven) {
            return Ok(row.stage);
        }
        // There is nothing to hold. Cancelled, the name is taken for good.
        if row.stage == Stage::New && what == Stopping::Hold {
            return Err(RunError::Contract(format!("`{run}` was never started: its journal is empty")));
        }
        let Some(holder) = holder else {
            match put(store, clock, run, what, by).await {
                // Somebody took it in this moment: then they are told.
                Err(RunError::Store(StoreError::Conflict { .. })) => continue,
                other => return other,
            }
        };
        if Instant::now() >= deadline {
            let (host, pid) = (holder.owner.host.clone(), holder.owner.pid);
            return Err(RunError::Unheard { run: run.to_string(), host, pid });
        }
        // Again each time: a driver that comes anew throws away what was said to the one before it.
        store.post(run, what.letter(by, clock())).await?;
    }
}

/// Writes it into the journal of a run that nobody drives.
async fn put(
    store: &Arc<dyn Store>,
    clock: &Clock,
    run: &RunId,
    what: Stopping,
    by: &str,
) -> Result<Stage, RunError> {
    let held = Held::briefly(store.clone(), run, clock.clone()).await?;
    let put = put_under(store, clock, &held, what, by, "Somebody holds it.").await;
    held.give_back().await;
    put
}

/// Writes it under a lease that is held.
pub(crate) async fn put_under(
    store: &Arc<dyn Store>,
    clock: &Clock,
    held: &Held,
    what: Stopping,
    by: &str,
    why: &str,
) -> Result<Stage, RunError> {
    let run = &held.lease.run;
    let events = store.events(run, 0).await?;
    let mut state = fold(run, &events)?;
    if state.stage().is_over() {
        return Ok(state.stage());
    }
    let by = by.to_owned();
    let (body, blobs) = match what {
        Stopping::Cancel => (Body::RunCancelled(RunCancelled::by(by)), Vec::new()),
        Stopping::Hold => {
            let salt =
                store.salt(run).await?.ok_or_else(|| RunError::Gone(format!("the salt of `{run}`")))?;
            let why = Blob::new(&salt, why.as_bytes().to_vec());
            (Body::RunHeld(RunHeld { by, why: why.digest() }), vec![why])
        }
    };
    let at_ms = events.last().map_or(0, |event| event.at_ms).max(clock());
    let head = events.last().map_or(Head::empty(), |event| Head { next: event.seq + 1, hash: event.hash });
    let draft = Draft { at_ms, agent: AgentId(0), body };
    // The state machine says whether it can be, as it does of every event.
    let event = Event {
        v: draft.body.version(),
        stream: run.clone(),
        seq: head.next,
        at_ms,
        agent: draft.agent,
        body: draft.body.clone(),
        prev: Digest::ZERO,
        hash: Digest::ZERO,
    };
    state.apply(&event).map_err(|violation| RunError::Contract(violation.to_string()))?;
    store.append(&held.lease, &head, vec![draft], blobs).await?;
    Ok(state.stage())
}
