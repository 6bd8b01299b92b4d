//! `provost agent-runtime`: the command line of rust-agent-runtime over our own store.

mod account;
mod name;
mod order;
mod planner;
mod report;
mod run;
mod table;
mod tasks;

use std::path::Path;
use std::time::Duration;

use provost::agent::{Enqueued, Stopping, stop, system_clock};
use provost::core::lifecycle::Stage;
use provost::model::agent_runtime::events_log::State;
use provost::model::agent_runtime::shapes;

pub(super) use self::planner::WIRES as PLANNERS;
use self::tasks::Tasks;
use super::cancel::{PATIENCE, close};
use crate::args::{AgentRuntime, Demo, Verb};
use crate::failure::Failure;
use crate::render::{closed, put};
use crate::world::World;

pub(crate) async fn agent_runtime(world: &World, args: AgentRuntime) -> Result<u8, Failure> {
    match args.verb {
        Verb::Enqueue { dir, id } => enqueue(&dir, &id).await,
        Verb::Status { dir } => status(&dir).await,
        Verb::Watch { dir, ms } => watch(&dir, Duration::from_millis(ms)).await,
        Verb::Cancel { dir, id } => cancel(world, &dir, &id).await,
        Verb::Run { dir, id, workspace } => run::run(world, &dir, &id, &workspace).await,
        Verb::Import { dir } => import(&dir).await,
        Verb::Demo => super::demo::demo(world, Demo { out: None, json: false }).await,
    }
}

async fn enqueue(dir: &Path, id: &str) -> Result<u8, Failure> {
    let run = name::of(id)?;
    let tasks = Tasks::open(dir)?;
    let reserved = if tasks.logged(id).is_some() { Enqueued::Before } else { tasks.reserve(&run).await? };
    put(shapes::enqueued(match reserved {
        Enqueued::Now => shapes::Enqueued::New,
        Enqueued::Before => shapes::Enqueued::Known,
    }));
    Ok(0)
}

async fn status(dir: &Path) -> Result<u8, Failure> {
    let tasks = Tasks::existing(dir)?;
    if !dir.exists() {
        eprintln!("note: there is no folder `{}`", dir.display());
    }
    tasks.warn();
    put(&table::Table::default().of(&tasks).await?);
    Ok(0)
}

async fn watch(dir: &Path, every: Duration) -> Result<u8, Failure> {
    let mut table = table::Table::default();
    let mut tasks = Tasks::existing(dir)?;
    loop {
        let text = table.of(&tasks).await?;
        put(&format!("\x1b[2J\x1b[H{text}"));
        if closed() {
            return Ok(0);
        }
        tokio::time::sleep(every).await;
        tasks = tasks.again(dir)?;
    }
}

async fn cancel(world: &World, dir: &Path, id: &str) -> Result<u8, Failure> {
    let run = name::of(id)?;
    let mut tasks = Tasks::existing(dir)?;
    if !tasks.has(&run).await? {
        let Some(logged) = tasks.logged(id).map(|task| task.state) else {
            return Err(Failure::usage(format!("there is no task `{id}` in `{}`", dir.display())));
        };
        match logged {
            State::Queued => {}
            State::Cancelled => return Ok(cancelled(id)),
            State::Running => return Err(tasks::runs_elsewhere(id, dir)),
            State::Succeeded | State::Failed => return Err(over(id, logged)),
        }
        tasks = Tasks::open(dir)?;
        tasks.reserve(&run).await?;
    }
    let Some(place) = tasks.place() else {
        return Err(Failure::internal("the store of the tasks is gone"));
    };
    let store = place.shared();
    let mut stage = stop(&store, &system_clock(), &run, Stopping::Cancel, "cancel", PATIENCE).await?;
    if stage == Stage::Cancelling {
        stage = close(world, place, &run).await?;
    }
    match stage {
        // What a driver still has to close is cancelled all the same: nothing else can come of it.
        Stage::Cancelled | Stage::Cancelling => Ok(cancelled(id)),
        Stage::Done => Err(over(id, State::Succeeded)),
        _ => Err(over(id, State::Failed)),
    }
}

fn cancelled(id: &str) -> u8 {
    put(&shapes::cancelled(id));
    0
}

fn over(id: &str, state: State) -> Failure {
    Failure::usage(format!("task `{id}` is over ({state}): there is nothing to cancel"))
}

async fn import(dir: &Path) -> Result<u8, Failure> {
    let found = Tasks::existing(dir)?;
    let Some(log) = found.log() else {
        return Err(Failure::usage(format!("there is no `events.log` in `{}`", dir.display())));
    };
    let tasks = Tasks::open(dir)?;
    let (mut imported, mut known, mut history, mut refused) = (0u64, 0u64, 0u64, 0u64);
    for (id, task) in &log.tasks {
        let run = match name::of(id) {
            Ok(run) => run,
            Err(failure) => {
                eprintln!("warning: {}", failure.message());
                refused += 1;
                continue;
            }
        };
        if task.state != State::Queued {
            history += 1;
        } else if tasks.reserve(&run).await? == Enqueued::Now {
            imported += 1;
        } else {
            known += 1;
        }
    }
    found.warn();
    // What ended did so under another program: there is nothing here that could prove it, so no journal claims it.
    put(&format!(
        "imported={imported}\nknown={known}\nleft_in_log={history}\nnot_importable={refused}\ndamaged_lines={}\n",
        log.problem_count
    ));
    Ok(0)
}
