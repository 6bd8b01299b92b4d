//! `run DIR ID WORKSPACE`.

use std::path::{Path, PathBuf};

use provost::agent::{Answer, Ending, Interrupt, RunError, Runtime, Says, enqueue, system_clock};
use provost::core::event::Settlement;
use provost::core::id::RunId;
use provost::core::outcome::Pause;
use provost::journal::Store;
use provost::model::RetryPolicy;
use provost::model::agent_runtime::environment;
use provost::model::agent_runtime::events_log::State;

use super::planner::Chosen;
use super::tasks::{self, Tasks};
use super::{name, order, report};
use crate::commands::setup::{host, interrupt, keep_outside, probe};
use crate::failure::{AtPath, Failure};
use crate::world::World;

/// Attempts at one decision: each may take as long as AGENT_TIMEOUT_SECS says.
const ATTEMPTS: u32 = 3;

/// The variable that says what became of a command of which nobody can tell.
pub(super) const SETTLE: &str = "PROVOST_SETTLE";

pub(super) async fn run(world: &World, dir: &Path, id: &str, workspace: &Path) -> Result<u8, Failure> {
    let run = name::of(id)?;
    let settings = environment::read(world.variables()).map_err(Failure::usage)?;
    for name in &settings.unknown {
        eprintln!("warning: {name} means nothing here");
    }
    let settle = settlement(world)?;
    let workspace = folder(workspace)?;
    keep_outside("the folder of the tasks", dir, &workspace)?;
    let chosen = Chosen::find(world, &settings, &workspace)?;
    let order = order::queued(&settings, &workspace, chosen.fact())?;
    if order.repository.is_none() && !workspace.join(".gitignore").exists() {
        eprintln!(
            "note: no git repository and no .gitignore: what builds leave in the workspace (`target`) is taken for a part of it"
        );
    }
    let tasks = Tasks::existing(dir)?;
    if !tasks.has(&run).await? {
        check_log(&tasks, dir, id).map_err(report::refused)?;
    }
    let tasks = Tasks::open(dir)?;
    let Some(place) = tasks.place() else { return Err(Failure::internal("no store was opened")) };
    // The same order is the same task; what it has come to is printed again.
    enqueue(&place.shared(), &system_clock(), Some(run.clone()), &order)
        .await
        .map_err(|error| report::refused(of_task(id, error)))?;
    if !place.store.row(&run).await?.stage.is_over() {
        let (provider, folder) = chosen.provider(world, place, &run)?;
        let mut runtime =
            Runtime::on(probe(world), place.store.clone(), place.spool.clone(), provider, chosen.fact());
        runtime.host = host(world);
        runtime.retry = RetryPolicy { attempts: ATTEMPTS, ..RetryPolicy::default() };
        let driven = drive(&runtime, &run, settle, interrupt()?).await;
        drop(folder);
        let over = place.store.row(&run).await?.stage.is_over();
        if let Err(failure) = driven
            && !over
        {
            return Err(report::refused(failure));
        }
    }
    report::say(place, &run).await
}

/// The error in terms of tasks.
fn of_task(id: &str, error: RunError) -> Failure {
    let code = error.exit_code();
    match error {
        RunError::Taken { differs, .. } => {
            Failure::coded(code, format!("task `{id}` is there with another order ({differs})"))
                .hint("give the variables that it had, or take a new task id")
        }
        RunError::Dropped { by, .. } => Failure::coded(code, format!("task `{id}` is cancelled (by {by})")),
        other => other.into(),
    }
}

fn folder(workspace: &Path) -> Result<PathBuf, Failure> {
    let found = workspace.canonicalize().at(workspace)?;
    if found.is_dir() {
        return Ok(found);
    }
    Err(Failure::usage(format!("`{}` is a file; the workspace is a folder", workspace.display())))
}

/// Whether the old log lets the task begin here.
fn check_log(tasks: &Tasks, dir: &Path, id: &str) -> Result<(), Failure> {
    let over = |code: u8, state: State| {
        let where_ = dir.join("events.log");
        Err(Failure::coded(code, format!("task `{id}` is over ({state}), says `{}`", where_.display()))
            .hint("take a new task id"))
    };
    match tasks.logged(id).map(|task| task.state) {
        None | Some(State::Queued) => Ok(()),
        Some(State::Running) => Err(tasks::runs_elsewhere(id, dir)),
        Some(State::Cancelled) => over(10, State::Cancelled),
        Some(state) => over(2, state),
    }
}

/// Drives it until it is over or pauses. What became of a command whose end nobody saw (the machine went down under it) a
/// person says, by [`SETTLE`].
async fn drive(
    runtime: &Runtime,
    run: &RunId,
    settle: Option<Settlement>,
    interrupt: Interrupt,
) -> Result<(), Failure> {
    let left = runtime.resume(run, &[], interrupt.clone()).await?;
    let Ending::Paused(left) = left else { return Ok(()) };
    if let (Pause::Indeterminate, Some(act), Some(how)) = (left.why, left.act, settle) {
        runtime.resume(run, &[Answer { act, says: Says::Settled(how) }], interrupt).await?;
    }
    Ok(())
}

fn settlement(world: &World) -> Result<Option<Settlement>, Failure> {
    let Some(word) = world.var(SETTLE) else { return Ok(None) };
    match word.as_str() {
        "happened" => Ok(Some(Settlement::Happened)),
        "did-not" => Ok(Some(Settlement::DidNot)),
        "again" => Ok(Some(Settlement::Again)),
        _ => Err(Failure::usage(format!("{SETTLE} is `{word}`; write happened, did-not or again"))),
    }
}
