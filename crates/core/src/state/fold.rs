//! Folds of the context: what was folded, and what is being done about a context that is nearly full.

use super::check::{Checked, must};
use super::{Next, RunState};
use crate::event::ModelAnswered;
use crate::fold::{ContextFolded, FOLD_TRIES, FoldedBy};
use crate::transcript::Stop;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fold {
    /// The first step that is still said word for word.
    from: u32,
    asked: Option<Asked>,
}

/// The model is asked for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    times: u32,
    gave: Gave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gave {
    NoAnswerYet,
    Summary,
    SomethingElse,
}

impl RunState {
    /// Whether there is anything in the dialogue that a fold would take out of it.
    pub fn can_fold(&self) -> bool {
        self.fold.from < self.ledger.steps
    }

    /// Whether the model is asked for a summary: no call of its answer is an act then.
    pub fn is_folding(&self) -> bool {
        self.fold.asked.is_some()
    }

    /// The first step that is said to the model word for word.
    pub fn folded_before(&self) -> u32 {
        self.fold.from
    }

    /// What is due about a summary that was asked for, once there is an answer to that.
    pub(super) fn next_of_fold(&self) -> Option<Next> {
        let asked = self.fold.asked?;
        match asked.gave {
            Gave::NoAnswerYet => None,
            Gave::Summary => Some(Next::Fold(FoldedBy::Model)),
            Gave::SomethingElse if asked.times < FOLD_TRIES => {
                Some(Next::Note(crate::event::NoteWhy::ContextFull))
            }
            Gave::SomethingElse => Some(Next::Fold(FoldedBy::Runtime)),
        }
    }

    pub(super) fn answered_in_fold(&mut self, body: &ModelAnswered) {
        if let Some(asked) = &mut self.fold.asked {
            let whole = matches!(body.stop, Stop::End | Stop::Length);
            let summary = body.calls == 0 && body.text && whole;
            asked.gave = if summary { Gave::Summary } else { Gave::SomethingElse };
        }
    }

    /// The model is asked for a summary when it would be asked for its next step otherwise, or again.
    pub(super) fn check_full(&self) -> Checked {
        let again = Next::Note(crate::event::NoteWhy::ContextFull);
        let next = self.next();
        let first = matches!(next, Next::Ask { .. }) && !self.is_folding();
        must(next == again || first, "no such note is due")?;
        must(self.can_fold(), "there is nothing to fold")
    }

    pub(super) fn told_of_full_context(&mut self) {
        let times = self.fold.asked.map_or(0, |asked| asked.times);
        self.fold.asked = Some(Asked { times: times + 1, gave: Gave::NoAnswerYet });
    }

    pub(super) fn context_folded(&mut self, body: &ContextFolded) -> Checked {
        let next = self.next();
        let at_once = body.by == FoldedBy::Runtime && matches!(next, Next::Ask { .. });
        must(next == Next::Fold(body.by) || at_once, "no such fold is due")?;
        must(self.model_of(body.route).is_some(), "the contract names no such model")?;
        must(self.fold.from < body.from.0, "it takes nothing out of the dialogue")?;
        must(body.from.0 <= self.ledger.steps, "it takes out steps that are still to come")?;
        self.fold = Fold { from: body.from.0, asked: None };
        // What it had seen of files may be among what it no longer sees.
        self.seen.clear();
        // The next prompt is a new one: no cache has it.
        self.cache.forget();
        Ok(())
    }
}
