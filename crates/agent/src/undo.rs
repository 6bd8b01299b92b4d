//! Looking back and going back: what needs a run's journal and its workspace, and neither a model nor a sandbox.

use std::sync::Arc;

use provost_core::event::{Event, RunCreated};
use provost_core::id::RunId;
use provost_core::state::RunState;
use provost_evidence::content::Salt;
use provost_journal::Store;

use crate::error::RunError;
use crate::observe::{Observer, Unobserved};
use crate::runtime::{Clock, Runtime, system_clock};

/// What undoing needs of the outside world.
#[derive(Clone)]
pub struct Undo {
    /// Where runs are kept.
    pub store: Arc<dyn Store>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// The clock.
    pub clock: Clock,
}

impl Undo {
    /// Over a store, with the system's clock and nobody who watches.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, observer: Arc::new(Unobserved), clock: system_clock() }
    }

    pub(crate) async fn salt(&self, run: &RunId) -> Result<Salt, RunError> {
        let salt = self.store.salt(run).await?;
        salt.ok_or_else(|| RunError::Gone(format!("the words of `{run}`, which was archived")))
    }
}

/// The contract of a run, and what its journal amounts to.
pub(crate) fn fold(run: &RunId, events: &[Event]) -> Result<(RunCreated, RunState), RunError> {
    let state = RunState::fold(run.clone(), events)
        .map_err(|violation| RunError::Unsound { run: run.to_string(), violation })?;
    match state.created().cloned() {
        Some(created) => Ok((created, state)),
        None => Err(RunError::Undo(format!("`{run}` was never begun: it has changed nothing"))),
    }
}

impl Runtime {
    /// What can be undone with this runtime's store.
    pub fn undo(&self) -> Undo {
        Undo { store: self.store.clone(), observer: self.observer.clone(), clock: self.clock.clone() }
    }
}

/// At most twenty names, and how many more there are.
pub(crate) fn names<'a>(all: impl ExactSizeIterator<Item = &'a provost_core::path::RelPath>) -> String {
    const MOST: usize = 20;
    let count = all.len();
    let mut out: Vec<String> = all.take(MOST).map(|path| format!("`{path}`")).collect();
    if count > MOST {
        out.push(format!("and {} more", count - MOST));
    }
    out.join(", ")
}
