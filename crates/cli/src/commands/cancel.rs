//! `provost cancel`.

use std::sync::Arc;
use std::time::Duration;

use provost::agent::{Always, Interrupt, Runtime, Stopping, Unobserved, stop, system_clock};
use provost::core::event::ModelFact;
use provost::core::id::RunId;
use provost::core::lifecycle::Stage;
use provost::journal::Store;
use provost::model::{Provider, Scripted};
use serde_json::json;

use super::setup::{Place, host, probe};
use crate::args::Cancel;
use crate::failure::Failure;
use crate::render::{JsonLines, say};
use crate::world::World;

/// How long a driver has to do what it is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn cancel(world: &World, args: Cancel) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let run = place.store.find(&args.run).await?;
    let store: Arc<dyn Store> = place.store.clone();
    let (what, by, wanted) = if args.resumable {
        (Stopping::Hold, "cancel --resumable", "held")
    } else {
        (Stopping::Cancel, "cancel", "cancelled")
    };
    let before = store.row(&run).await?.stage;
    let mut stage = stop(&store, &system_clock(), &run, what, by, PATIENCE).await?;
    if stage == Stage::Cancelling {
        if args.resumable {
            return Err(Failure::usage(format!("`{run}` is cancelled: it cannot be resumed")));
        }
        stage = close(world, &place, &run).await?;
    }
    let done = match what {
        Stopping::Cancel => matches!(stage, Stage::Cancelled | Stage::Cancelling),
        Stopping::Hold => matches!(stage, Stage::Held | Stage::Withdrawn),
    };
    if args.json {
        JsonLines::say(&json!({ "run": run.as_str(), "state": stage.word(), "done": done }));
    }
    if !done {
        // What the journal says stands: nothing overwrites the end of a run.
        return Err(Failure::usage(format!("`{run}` was over before: {stage}")));
    }
    if !args.json {
        let named = place.named(&run);
        let again = if before == stage { " already" } else { "" };
        match stage {
            Stage::Held | Stage::Withdrawn => {
                say!("{run} is {stage}{again}; `provost resume {named}` goes on with it");
            }
            _ => say!("{run} is {wanted}{again}"),
        }
    }
    Ok(0)
}

/// Closes a run that is cancelled and that nobody drives: what was under way is accounted for, and its tree put on
/// record. Where that cannot be done it is cancelled all the same.
pub(super) async fn close(world: &World, place: &Place, run: &RunId) -> Result<Stage, Failure> {
    let nobody = ModelFact::new("", "", "");
    // No model is asked any more.
    let provider: Arc<dyn Provider> = Arc::new(Scripted::new(Vec::new()));
    let (_, state) = place.state(run.as_str()).await?;
    let routing = state.created().and_then(|created| created.routing.as_ref());
    let others = routing.map_or(0, |routing| routing.others.len());
    let mut runtime =
        Runtime::on(probe(world), place.store.clone(), place.spool.clone(), provider.clone(), nobody);
    runtime.others = vec![provider; others];
    runtime.approver = Arc::new(Always::LATER);
    runtime.observer = Arc::new(Unobserved);
    runtime.host = host(world);
    let interrupt = Interrupt::new().map_err(Failure::internal)?;
    if let Err(error) = runtime.resume(run, &[], interrupt).await {
        eprintln!("it is cancelled; what its workspace was like at the end is not on record: {error}");
    }
    Ok(place.store.row(run).await?.stage)
}
