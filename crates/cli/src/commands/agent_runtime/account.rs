//! What a task's journal amounts to, in the terms of rust-agent-runtime.

use std::collections::BTreeSet;

use provost::core::act::{Intent, Touch};
use provost::core::digest::Digest;
use provost::core::event::{ActStarted, Body, Event};
use provost::core::id::RunId;
use provost::core::lifecycle::Stage;
use provost::core::state::RunState;
use provost::journal::{Owner, RunRow, Store};
use provost::model::agent_runtime::events_log::State;

use super::super::setup::Place;
use crate::failure::Failure;
use provost::agent::system_clock;

/// Whether a file that the agent edited differs from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Differs {
    Yes,
    No,
}

/// Whether a driver has the run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driven {
    Yes,
    No,
}

/// The account of one run.
pub(super) struct Account {
    pub(super) state: RunState,
    /// Files that the agent edited and that differ from the start. What commands left there (a `target` that nothing ignores)
    /// does not count as its work.
    pub(super) edited: u64,
    /// Milliseconds that the planner took for its decisions.
    pub(super) planner_ms: u64,
    /// The command that ended last: its program, and its milliseconds.
    pub(super) last: Option<(String, u64)>,
    /// The newest request that failed: its class, and what was said.
    pub(super) failed: Option<(String, Digest)>,
}

impl Account {
    pub(super) async fn of(place: &Place, run: &RunId) -> Result<Self, Failure> {
        let events = place.store.events(run, 0).await?;
        let state = RunState::fold(run.clone(), &events).map_err(|violation| {
            Failure::evidence(format!("the journal of `{run}` is not sound: {violation}"))
        })?;
        let (mut planner_ms, mut failed) = (0u64, None);
        let mut edited = BTreeSet::new();
        for event in &events {
            match &event.body {
                Body::ModelAnswered(answered) => planner_ms = planner_ms.saturating_add(answered.latency_ms),
                Body::ModelFailed(body) => failed = Some((body.class.clone(), body.message)),
                Body::ActStarted(ActStarted { intent: Intent::Write { changes }, .. }) => {
                    edited.extend(changes.iter().map(|change| &change.path));
                }
                _ => {}
            }
        }
        let edited = edited.into_iter().filter(|path| state.net_changes().contains_key(*path)).count() as u64;
        Ok(Self { state, edited, planner_ms, last: last_command(&events), failed })
    }

    pub(super) fn differs(&self) -> Differs {
        if self.edited == 0 { Differs::No } else { Differs::Yes }
    }
}

fn last_command(events: &[Event]) -> Option<(String, u64)> {
    let (act, ms) = events.iter().rev().find_map(|event| match &event.body {
        Body::ActFinished(body) => Some((body.act, body.command.as_ref()?.duration_ms)),
        _ => None,
    })?;
    events.iter().rev().find_map(|event| match &event.body {
        Body::ActDecided(body) if body.act == act => body.touches.iter().find_map(|touch| match touch {
            Touch::Exec { argv, .. } => Some((argv.first()?.clone(), ms)),
            _ => None,
        }),
        _ => None,
    })
}

pub(super) fn driven(row: &RunRow, asker: &Owner) -> Driven {
    match &row.holder {
        Some(holder) if holder.drives(asker, system_clock()()) => Driven::Yes,
        _ => Driven::No,
    }
}

/// The state of a task, of which there are fewer there than stages here.
pub(super) fn standing(stage: Stage, driven: Driven, differs: Differs) -> State {
    match stage {
        Stage::New | Stage::Queued | Stage::Withdrawn => State::Queued,
        Stage::Done if differs == Differs::Yes => State::Succeeded,
        Stage::Done
        | Stage::GateFailed
        | Stage::Refused
        | Stage::BudgetSpent
        | Stage::Stalled
        | Stage::SchemaFailed
        | Stage::RolledBack
        | Stage::Unauthorized => State::Failed,
        Stage::Cancelled | Stage::Cancelling => State::Cancelled,
        _ if driven == Driven::Yes => State::Running,
        // As `run` said when it left.
        Stage::ProviderFailed | Stage::WaitingForApproval | Stage::WaitingForDecision => State::Failed,
        // Nobody is at it, and it can be run again: there, opening the log made it so.
        Stage::Created | Stage::Running | Stage::Interrupted | Stage::Held => State::Queued,
    }
}
