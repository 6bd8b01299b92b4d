//! The list of runs: a fold over each run's events, kept beside them.

use provost_core::digest::Digest;
use provost_core::event::{Body, Event};
use provost_core::id::RunId;
use provost_core::lifecycle::{Move, Stage};

use crate::owner::{Fate, Owner};

/// One run as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// When the store made it, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Where it stands, as its journal says. Whether a driver that it names still lives, `holder` tells.
    pub stage: Stage,
    /// Salted digest of the goal; `None` before the run's first event.
    pub goal: Option<Digest>,
    /// Answers of the model.
    pub steps: u64,
    /// Tokens, as the ledger counts them.
    pub tokens: u64,
    /// Place of the newest event; `None` while there is none.
    pub last_seq: Option<u64>,
    /// Who took it and has not given it back.
    pub holder: Option<Holder>,
}

/// Who took a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub owner: Owner,
    /// When it took the run, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// When its lease lapses, in milliseconds since the Unix epoch.
    pub until_ms: u64,
}

impl Holder {
    /// Whether it may be at work, as far as `asker` can tell at `now_ms` (milliseconds since the Unix epoch).
    pub fn drives(&self, asker: &Owner, now_ms: u64) -> bool {
        self.until_ms > now_ms && self.owner.fate(asker) == Fate::MayRun
    }
}

/// Whether a driver could still go on with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has no event: it was never started.
    Empty,
    /// It is not over.
    Resumable,
    /// It is over: nothing is left to do, and nothing will be added but what a person has put back in its workspace.
    Over,
}

impl RunRow {
    /// A run without events.
    pub fn new(run: RunId, created_ms: u64) -> Self {
        let (goal, last_seq, holder) = (None, None, None);
        Self { run, created_ms, stage: Stage::New, goal, steps: 0, tokens: 0, last_seq, holder }
    }

    /// Folds one event in. Pure: the same events give the same row.
    pub fn apply(&mut self, event: &Event) {
        self.last_seq = Some(event.seq);
        if let Some(by) = Move::of(&event.body) {
            self.stage = self.stage.following(by);
        }
        match &event.body {
            Body::RunQueued(queued) => self.goal = Some(queued.goal),
            Body::RunCreated(created) => self.goal = Some(created.goal),
            Body::ModelAnswered(answered) => {
                self.steps += 1;
                self.tokens = self.tokens.saturating_add(answered.usage.total());
            }
            Body::ModelFailed(failed) => {
                let charged = failed.usage.map_or(0, |usage| usage.total());
                self.tokens = self.tokens.saturating_add(charged);
            }
            _ => {}
        }
    }

    /// Whether a driver could still go on with it.
    pub fn standing(&self) -> Standing {
        match self.stage {
            Stage::New if self.last_seq.is_none() => Standing::Empty,
            stage if stage.is_over() => Standing::Over,
            _ => Standing::Resumable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_over_where_its_stage_is() {
        let row = |stage| RunRow { stage, ..RunRow::new("run-a".parse().expect("run id"), 1) };
        assert_eq!(row(Stage::New).standing(), Standing::Empty);
        assert_eq!(RunRow { last_seq: Some(0), ..row(Stage::New) }.standing(), Standing::Resumable);
        for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::New) {
            let over = if stage.is_over() { Standing::Over } else { Standing::Resumable };
            assert_eq!(row(stage).standing(), over, "{stage}");
        }
    }
}
