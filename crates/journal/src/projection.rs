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

/// Whether a driver could still go on with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has no event: it was never started.
    Empty,
    /// It is not over.
    Resumable,
    /// It is over: nothing is left to do, and nothing will be added.
    Over,
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

    /// Whether a driver could still go on with it. A word that this program does not know counts as resumable.
    pub fn standing(&self) -> Standing {
        match self.state.as_str() {
            "new" if self.last_seq.is_none() => Standing::Empty,
            "done" | "gate_failed" | "refused" | "budget_spent" | "stopped" => Standing::Over,
            _ => Standing::Resumable,
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::budget::Bound;
    use provost_core::outcome::{Outcome, Pause, StopWhy};

    use super::*;

    #[test]
    fn a_run_with_an_outcome_is_over_and_any_other_is_not() {
        let row = |state: &str| RunRow {
            state: state.to_owned(),
            ..RunRow::new("run-a".parse().expect("run id"), 1)
        };
        let outcomes = [
            Outcome::Done,
            Outcome::GateFailed,
            Outcome::Refused,
            Outcome::BudgetSpent { bound: Bound::Steps },
            Outcome::Stopped { why: StopWhy::Stalled },
        ];
        for outcome in outcomes {
            // A new outcome does not compile here: add it to the list, and to `standing`.
            match outcome {
                Outcome::Done
                | Outcome::GateFailed
                | Outcome::Refused
                | Outcome::BudgetSpent { .. }
                | Outcome::Stopped { .. } => {}
            }
            assert_eq!(row(outcome.word()).standing(), Standing::Over);
        }
        for pause in [Pause::Approval, Pause::Indeterminate, Pause::Provider, Pause::Interrupted] {
            assert_eq!(row(pause.word()).standing(), Standing::Resumable);
        }
        for word in ["created", "running", "a word of tomorrow"] {
            assert_eq!(row(word).standing(), Standing::Resumable);
        }
        assert_eq!(row("new").standing(), Standing::Empty);
        let begun = RunRow { last_seq: Some(0), ..row("new") };
        assert_eq!(begun.standing(), Standing::Resumable, "it has an event");
    }
}
