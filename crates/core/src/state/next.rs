//! What to do next.

use super::{CallState, GATE_RETRIES, RunState, STALL_LIMIT, invocation_id};
use crate::act::Intent;
use crate::brief::SCHEMA_ATTEMPTS;
use crate::event::{CallRef, GateVerdict, NoteWhy, RunFinished, SubmitVia};
use crate::fold::FoldedBy;
use crate::id::{ActId, StepId};
use crate::outcome::{Outcome, StopWhy};
use crate::route::RouteId;
use crate::transcript::Stop;

/// What the driver does next. Each leads to at least one event, so a driver that does what it is told moves on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Make the run that is queued: `run.created`.
    Create,
    /// Take the run under a lease: `driver.attached`.
    Attach,
    /// Ask the model.
    Ask {
        /// The step its answer begins.
        step: StepId,
        /// The id to ask under.
        invocation: String,
        /// Who is asked.
        route: RouteId,
    },
    /// Read a call as an act and decide on it, or answer that it is none.
    Call(CallRef),
    /// Ask a person about an act.
    Approve(ActId),
    /// Carry out an act that may be carried out.
    Perform(ActId),
    /// End an act that was refused.
    Refuse(ActId),
    /// Settle an act that started and has no end: its driver died.
    Recover(ActId),
    /// End a background command, or account for one that is gone with its driver.
    EndProcess(ActId),
    /// Record the submission.
    Submit(SubmitVia),
    /// Run the gate.
    RunGate,
    /// Judge the gate that was run.
    JudgeGate(ActId),
    /// Say something to the model.
    Note(NoteWhy),
    /// Fold the context.
    Fold(FoldedBy),
    /// Leave the run for later: nobody is left who may be asked.
    Leave,
    /// End the run.
    Finish(Outcome),
    /// Nothing: the run is over.
    Over(RunFinished),
    /// Nothing: it was cancelled before it began.
    Dropped,
}

impl RunState {
    /// What to do next. Pure: the same state gives the same answer.
    pub fn next(&self) -> Next {
        let due = self.due();
        match (&due, self.open_processes().first()) {
            // Neither the gate nor the end of the run sees a command that still runs.
            (Next::RunGate | Next::Finish(_), Some(process)) => Next::EndProcess(*process),
            _ => due,
        }
    }

    /// The same, but for background commands that have to end first.
    pub(super) fn due(&self) -> Next {
        if let Some(finished) = &self.finished {
            return Next::Over(finished.clone());
        }
        if self.created.is_none() {
            return if self.cancelled.is_some() { Next::Dropped } else { Next::Create };
        }
        if !self.attached {
            return Next::Attach;
        }
        if let Some(lost) = self.lost_processes().first() {
            // A write is accounted for by its own digests. What differs then is what commands did.
            let write = self.open.iter().find(|(_, act)| matches!(act.started, Some(Intent::Write { .. })));
            return write.map_or(Next::EndProcess(*lost), |(act, _)| Next::Recover(*act));
        }
        if self.cancelled.is_some() {
            // What started is accounted for; nothing else begins.
            let started = self.open.iter().find(|(_, act)| act.started.is_some());
            return match started {
                Some((id, _)) => Next::Recover(*id),
                None => Next::Finish(Outcome::Stopped { why: StopWhy::Cancelled }),
            };
        }
        if let Some((id, act)) = self.open.first_key_value() {
            return if act.started.is_some() {
                Next::Recover(*id)
            } else if act.is_refused() {
                Next::Refuse(*id)
            } else if act.may_start() {
                Next::Perform(*id)
            } else {
                Next::Approve(*id)
            };
        }
        if let Some(call) = self.pending_call() {
            return Next::Call(call);
        }
        if let Some(due) = self.next_of_fold() {
            return due;
        }
        if let Some(run) = &self.gate.run {
            return Next::JudgeGate(run.act);
        }
        if !self.put_back.is_empty() {
            return Next::Note(NoteWhy::Rewound);
        }
        if self.submitted.is_some() {
            return self.next_of_submission();
        }
        if self.submit_call {
            return Next::Submit(SubmitVia::Tool);
        }
        if self.final_answer() {
            return Next::Submit(SubmitVia::FinalAnswer);
        }
        if self.repeats >= STALL_LIMIT || self.empties >= STALL_LIMIT {
            return Next::Finish(Outcome::Stopped { why: StopWhy::Stalled });
        }
        if let Some(why) = self.note_due() {
            return Next::Note(why);
        }
        if let Some(bound) = self.ledger.spent() {
            return Next::Finish(Outcome::BudgetSpent { bound });
        }
        if self.untold_processes().next().is_some() {
            return Next::Note(NoteWhy::ProcessEnded);
        }
        let Some(route) = self.route() else {
            return Next::Leave;
        };
        let step = StepId(self.ledger.steps);
        Next::Ask { step, invocation: invocation_id(&self.stream, step), route }
    }

    fn pending_call(&self) -> Option<CallRef> {
        let step = self.step.as_ref()?;
        let index = step.calls.iter().position(|call| *call == CallState::Pending)?;
        Some(CallRef { step: step.id, index: index as u32 })
    }

    fn next_of_submission(&self) -> Next {
        // Before the gate: it is the cheaper of the two.
        if self.submitted.as_ref().is_some_and(|submitted| submitted.wrong.is_some()) {
            return if self.wrong_answers < SCHEMA_ATTEMPTS {
                Next::Note(NoteWhy::WrongAnswer)
            } else {
                Next::Finish(Outcome::Stopped { why: StopWhy::Schema })
            };
        }
        let Some(gate) = self.created.as_ref().and_then(|created| created.gate.as_ref()) else {
            return Next::Finish(Outcome::Done);
        };
        match self.gate.verdict {
            None => Next::RunGate,
            Some(GateVerdict::Passed) if self.gate.debt => Next::RunGate,
            Some(GateVerdict::Passed) => Next::Finish(Outcome::Done),
            Some(GateVerdict::Failed) if self.gate.rejections < gate.attempts => {
                Next::Note(NoteWhy::GateFailed)
            }
            Some(GateVerdict::Errored) if self.gate.refused => Next::Finish(Outcome::Refused),
            Some(GateVerdict::Errored) if self.gate.errors < GATE_RETRIES => Next::RunGate,
            Some(GateVerdict::Failed | GateVerdict::Errored) => Next::Finish(Outcome::GateFailed),
        }
    }

    fn note_due(&self) -> Option<NoteWhy> {
        let step = self.step.as_ref()?;
        if step.followed_up {
            return None;
        }
        if step.stop == Stop::Length {
            return Some(NoteWhy::CutOff);
        }
        if step.calls.is_empty() {
            return Some(NoteWhy::Empty);
        }
        // Steer once, two repetitions before the limit.
        (self.repeats + 2 == STALL_LIMIT && self.steered != self.repeats).then_some(NoteWhy::Repeating)
    }
}
