//! Where the time of each step goes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One step: from the question to the model to the next question.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Step {
    pub(crate) total: Duration,
    /// Waiting for the model's answer.
    pub(crate) model: Duration,
    /// Giving messages to the provider, which encodes them.
    pub(crate) push: Duration,
    /// Waiting for appends.
    pub(crate) store: Duration,
    /// Appends made.
    pub(crate) appends: u64,
    /// Commits that the store made.
    pub(crate) commits: u64,
}

impl Step {
    /// The agent's own work: all but the model, the provider's encoding and the store.
    pub(crate) fn own(&self) -> Duration {
        self.total.saturating_sub(self.model + self.push + self.store)
    }
}

#[derive(Default)]
struct Inner {
    steps: Vec<Step>,
    open: Option<(Instant, Step)>,
}

/// Shared by the wrapped provider and the wrapped store.
#[derive(Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<Inner>>);

impl Meter {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The step is over. `commits`: of the store, so far.
    pub(crate) fn close(&self, commits: u64) {
        let now = Instant::now();
        let mut inner = self.inner();
        if let Some((begun, mut step)) = inner.open.take() {
            step.total = now - begun;
            step.commits = commits - step.commits;
            inner.steps.push(step);
        }
    }

    /// The next step begins.
    pub(crate) fn open(&self, commits: u64) {
        self.inner().open = Some((Instant::now(), Step { commits, ..Step::default() }));
    }

    pub(crate) fn add(&self, add: impl FnOnce(&mut Step)) {
        if let Some((_, step)) = &mut self.inner().open {
            add(step);
        }
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        self.inner().steps.clone()
    }
}
