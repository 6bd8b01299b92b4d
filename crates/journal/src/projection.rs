//! The list of runs: a fold over each run's events, kept beside them.

use provost_core::digest::Digest;
use provost_core::event::{Body, Event};
use provost_core::id::RunId;

/// One run as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// When the store made it, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// One word: `new` (no event yet), `created`, `running`, or the word of its [pause](provost_core::outcome::Pause)
    /// or [outcome](provost_core::outcome::Outcome). `running` is what the journal says: whether the driver still
    /// lives, the lease tells.
    pub state: String,
    /// Salted digest of the goal; `None` before the run's first event.
    pub goal: Option<Digest>,
    /// Answers of the model.
    pub steps: u64,
    /// Tokens, as the ledger counts them.
    pub tokens: u64,
    /// Place of the newest event; `None` while there is none.
    pub last_seq: Option<u64>,
}

impl RunRow {
    /// A run without events.
    pub fn new(run: RunId, created_ms: u64) -> Self {
        Self { run, created_ms, state: "new".to_owned(), goal: None, steps: 0, tokens: 0, last_seq: None }
    }

    /// Folds one event in. Pure: the same events give the same row.
    pub fn apply(&mut self, event: &Event) {
        self.last_seq = Some(event.seq);
        match &event.body {
            Body::RunCreated(created) => {
                "created".clone_into(&mut self.state);
                self.goal = Some(created.goal);
            }
            Body::DriverAttached(_) => "running".clone_into(&mut self.state),
            Body::DriverDetached(detached) => detached.why.word().clone_into(&mut self.state),
            Body::RunFinished(finished) => finished.outcome.word().clone_into(&mut self.state),
            Body::ModelAnswered(answered) => {
                self.steps += 1;
                self.tokens = self.tokens.saturating_add(answered.usage.total());
            }
            _ => {}
        }
    }
}
