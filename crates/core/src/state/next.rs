//! What to do next.

use super::agent::Agent;
use super::{CallState, GATE_RETRIES, OpenAct, RunState, STALL_LIMIT, invocation_id};
use crate::act::Intent;
use crate::agents::AgentEnd;
use crate::brief::SCHEMA_ATTEMPTS;
use crate::contract::Counted;
use crate::event::{CallRef, GateVerdict, NoteWhy, RunFinished, SubmitVia};
use crate::fold::FoldedBy;
use crate::id::{ActId, AgentId, StepId};
use crate::outcome::{Outcome, StopWhy};
use crate::route::RouteId;
use crate::transcript::Stop;

/// What the driver does next, for the agent whose turn it is ([`RunState::acting`]). Each leads to at least one event, so a driver that does what it is told moves on.
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
    /// Settle an act that started and has no end: its driver died, or the agent that it started is over.
    Recover(ActId),
    /// Start the contract's server of that name.
    StartServer(String),
    /// End a background command, or account for one that is gone with its driver.
    EndProcess(ActId),
    /// Run the gate on the files at the start, to count its tests.
    CountBase,
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
    /// End the agent whose turn it is, which is not the root.
    EndAgent(AgentEnd),
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
        let open = match &due {
            // Neither the gate nor the end of the run sees a command that still runs.
            Next::RunGate | Next::Finish(_) => self.open_processes().first().copied(),
            // What an agent started goes with it.
            Next::EndAgent(_) => self.open_processes_of(self.acting()).first().copied(),
            _ => None,
        };
        open.map_or(due, Next::EndProcess)
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
        if let Some(cancelled) = &self.cancelled {
            // What started is accounted for; nothing else begins.
            let started = |act: &OpenAct| act.started.is_some() && !self.is_at_work(act);
            return match self.open.iter().find(|(_, act)| started(act)) {
                Some((id, _)) => Next::Recover(*id),
                None => self.ends(cancelled.outcome(), AgentEnd::Cancelled),
            };
        }
        let idle = || self.open.iter().find(|(_, act)| !self.is_at_work(act)).map(|(id, act)| (*id, act));
        if let Some((id, act)) = self.open_start().or_else(idle) {
            return if act.started.is_some() {
                Next::Recover(id)
            } else if act.is_refused() {
                Next::Refuse(id)
            } else if !act.may_start() {
                Next::Approve(id)
            } else if let Some(server) = self.server_needed(act) {
                Next::StartServer(server)
            } else {
                Next::Perform(id)
            };
        }
        if self.rolled_back_too_often() {
            return self.ends(Outcome::Stopped { why: StopWhy::RolledBack }, AgentEnd::Stalled);
        }
        let id = self.acting();
        let agent = self.of(id);
        if let Some(call) = pending_call(agent) {
            return Next::Call(call);
        }
        if let Some(due) = self.next_of_fold() {
            return due;
        }
        if let Some(run) = &self.gate.run {
            return Next::JudgeGate(run.act);
        }
        if !agent.put_back.is_empty() {
            return Next::Note(NoteWhy::Rewound);
        }
        if self.submitted.is_some() {
            return self.next_of_submission();
        }
        if let Some(via) = self.submission(id) {
            return if id == AgentId::ROOT { Next::Submit(via) } else { Next::EndAgent(AgentEnd::Done) };
        }
        if agent.repeats >= STALL_LIMIT || agent.empties >= STALL_LIMIT {
            return self.ends(Outcome::Stopped { why: StopWhy::Stalled }, AgentEnd::Stalled);
        }
        if let Some(why) = note_due(agent) {
            return Next::Note(why);
        }
        if let Some(bound) = self.ledger.spent() {
            return self.ends(Outcome::BudgetSpent { bound }, AgentEnd::BudgetSpent { bound });
        }
        if self.steps_spent(id) {
            return Next::EndAgent(AgentEnd::StepsSpent);
        }
        if self.untold_processes().next().is_some() {
            return Next::Note(NoteWhy::ProcessEnded);
        }
        if self.base_uncounted() {
            return Next::CountBase;
        }
        if let Some(server) = self.server_unlisted() {
            return Next::StartServer(server);
        }
        let Some(route) = self.route() else {
            return Next::Leave;
        };
        let step = StepId(self.ledger.steps);
        Next::Ask { step, invocation: invocation_id(&self.stream, step), route }
    }

    /// Whether the gate's tests are to be counted on the files at the start, which are there until the model has answered.
    fn base_uncounted(&self) -> bool {
        let gate = self.created.as_ref().and_then(|created| created.gate.as_ref());
        gate.is_some_and(|gate| gate.counted == Counted::AgainstBase)
            && self.gate.base.is_none()
            && self.ledger.steps == 0
    }

    /// The end of whoever's turn it is: the root's is the run's.
    fn ends(&self, root: Outcome, child: AgentEnd) -> Next {
        if self.acting() == AgentId::ROOT { Next::Finish(root) } else { Next::EndAgent(child) }
    }

    /// How the agent says that it is done, if it does.
    pub fn submission(&self, agent: AgentId) -> Option<SubmitVia> {
        if self.of(agent).submit_call {
            return Some(SubmitVia::Tool);
        }
        self.final_answer(agent).then_some(SubmitVia::FinalAnswer)
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
}

fn pending_call(agent: &Agent) -> Option<CallRef> {
    let step = agent.step.as_ref()?;
    let index = step.calls.iter().position(|call| *call == CallState::Pending)?;
    Some(CallRef { step: step.id, index: index as u32 })
}

fn note_due(agent: &Agent) -> Option<NoteWhy> {
    let step = agent.step.as_ref()?;
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
    (agent.repeats + 2 == STALL_LIMIT && agent.steered != agent.repeats).then_some(NoteWhy::Repeating)
}
