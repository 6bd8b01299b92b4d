//! Folding one event.

use std::collections::BTreeMap;

use super::{CallState, GateRun, OpenAct, RunState, Step, Violation, invocation_id};
use crate::act::{ActEnd, Change, Intent, Touch};
use crate::budget::Ledger;
use crate::containment::Rung;
use crate::event::{
    ActApproved, ActDecided, ActFinished, ActStarted, Body, CallInvalid, CallRef, DriverAttached, Event,
    GateJudged, GateVerdict, InvalidCall, ModelAnswered, Note, NoteWhy, RunCreated, RunFinished, Submitted,
    Verdict,
};
use crate::id::ActId;
use crate::outcome::Outcome;
use crate::path::RelPath;
use crate::policy::Effect;
use crate::transcript::Stop;

type Checked = Result<(), String>;

fn must(holds: bool, why: &str) -> Checked {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

impl RunState {
    /// Folds the next event, or says why it cannot be one. A refused event leaves the state as it was, except that
    /// the state is then of no further use to a verifier.
    pub fn apply(&mut self, event: &Event) -> Result<(), Violation> {
        if event.seq != self.next_seq {
            return Err(Violation::Sequence { expected: self.next_seq, found: event.seq });
        }
        if event.stream != self.stream {
            return Err(Violation::Stream { seq: event.seq, stream: event.stream.to_string() });
        }
        if let Body::ActDecided(body) = &event.body {
            self.check_decision(event.seq, body)?;
        }
        self.fold_body(event).map_err(|why| Violation::Transition {
            seq: event.seq,
            kind: event.body.kind(),
            why,
        })?;
        self.count_time(event);
        self.next_seq += 1;
        Ok(())
    }

    fn check_decision(&self, seq: u64, body: &ActDecided) -> Result<(), Violation> {
        let Some(created) = &self.created else {
            return Ok(()); // refused as a transition below
        };
        let decided = match body.call {
            Some(_) => created.policy.decide(&body.touches, self.rung),
            None => created.policy.decide_ordered(&body.touches, self.rung),
        };
        if decided == body.decision {
            Ok(())
        } else {
            Err(Violation::Decision {
                seq,
                recorded: Box::new(body.decision.clone()),
                decided: Box::new(decided),
            })
        }
    }

    /// The time between a driver's events is driven time; the time before a driver comes is nobody's.
    fn count_time(&mut self, event: &Event) {
        if event.seq == 0 {
            self.first_at_ms = event.at_ms;
        } else if !matches!(event.body, Body::DriverAttached(_)) {
            let spent = event.at_ms.saturating_sub(self.last_at_ms);
            self.ledger.time_ms = self.ledger.time_ms.saturating_add(spent);
        }
        self.last_at_ms = event.at_ms;
    }

    fn fold_body(&mut self, event: &Event) -> Checked {
        if let Body::RunCreated(body) = &event.body {
            return self.run_created(body);
        }
        must(self.created.is_some(), "the run does not exist yet")?;
        must(self.finished.is_none(), "the run is over")?;
        if let Body::DriverAttached(body) = &event.body {
            return self.driver_attached(body);
        }
        must(self.attached, "no driver has the run")?;
        match &event.body {
            Body::RunCreated(_) | Body::DriverAttached(_) => Ok(()),
            Body::DriverDetached(body) => {
                self.attached = false;
                self.pause = Some(body.clone());
                Ok(())
            }
            Body::ModelAnswered(body) => self.model_answered(body),
            Body::ModelFailed(body) => {
                must(body.step.0 == self.ledger.steps, "it is not of the step that is due")?;
                self.counts.failed_requests += 1;
                Ok(())
            }
            Body::CallInvalid(body) => self.call_invalid(body),
            Body::ActDecided(body) => self.act_decided(body),
            Body::ActApproved(body) => self.act_approved(body),
            Body::ActStarted(body) => self.act_started(body),
            Body::ActFinished(body) => self.act_finished(body),
            Body::WorkspaceDrifted(body) => self.changed(&body.changes),
            Body::Note(body) => self.note(body),
            Body::Submitted(body) => self.run_submitted(body),
            Body::GateJudged(body) => self.gate_judged(body),
            Body::RunFinished(body) => self.run_finished(body),
        }
    }

    fn run_created(&mut self, body: &RunCreated) -> Checked {
        must(self.created.is_none(), "the run exists already")?;
        self.ledger = Ledger::new(body.budget, body.price);
        self.created = Some(Box::new(body.clone()));
        Ok(())
    }

    fn driver_attached(&mut self, body: &DriverAttached) -> Checked {
        must(body.generation > self.generation, "its generation is not newer than the driver's before it")?;
        let at_least = self.created.as_ref().map_or(Rung::R0, |created| created.policy.at_least);
        must(body.containment.rung >= at_least, "its containment is weaker than the policy takes")?;
        self.generation = body.generation;
        self.rung = body.containment.rung;
        self.attached = true;
        self.pause = None;
        self.counts.drivers += 1;
        Ok(())
    }

    fn model_answered(&mut self, body: &ModelAnswered) -> Checked {
        must(self.step_is_closed(), "the step before it is not over")?;
        must(self.submitted.is_none(), "the run is submitted")?;
        must(body.step.0 == self.ledger.steps, "it is not the step that is due")?;
        must(
            body.invocation == invocation_id(&self.stream, body.step),
            "its invocation id is not that of the step",
        )?;
        self.ledger.steps += 1;
        self.ledger.settle(&body.usage);
        if body.estimated {
            self.ledger.estimated_calls += 1;
        }
        let empty = body.calls == 0 && !(body.text && body.stop == Stop::End);
        self.empties = if empty { self.empties + 1 } else { 0 };
        self.step = Some(Step {
            id: body.step,
            calls: vec![CallState::Pending; body.calls as usize],
            text: body.text,
            stop: body.stop,
            followed_up: false,
        });
        Ok(())
    }

    pub(super) fn step_is_closed(&self) -> bool {
        self.open.is_empty()
            && self.step.as_ref().is_none_or(|step| step.calls.iter().all(|call| *call == CallState::Settled))
    }

    fn call_slot(&mut self, call: CallRef) -> Result<&mut CallState, String> {
        self.step
            .as_mut()
            .filter(|step| step.id == call.step)
            .and_then(|step| step.calls.get_mut(call.index as usize))
            .ok_or_else(|| "it answers a call that the step does not have".to_owned())
    }

    fn call_invalid(&mut self, body: &CallInvalid) -> Checked {
        let cut_off = self.step.as_ref().is_some_and(|step| step.stop == Stop::Length);
        must(cut_off == (body.why == InvalidCall::CutOff), "a call is cut off exactly when its answer is")?;
        let slot = self.call_slot(body.call)?;
        must(*slot == CallState::Pending, "the call is answered already")?;
        *slot = CallState::Settled;
        self.counts.invalid_calls += 1;
        self.failed_like("invalid", body.result);
        Ok(())
    }

    fn act_decided(&mut self, body: &ActDecided) -> Checked {
        must(body.act.0 == self.counts.acts, "its act is not the next one")?;
        match body.call {
            Some(call) => {
                let cut_off = self.step.as_ref().is_some_and(|step| step.stop == Stop::Length);
                must(!cut_off, "the calls of an answer that was cut off are not acts")?;
                let slot = self.call_slot(call)?;
                must(*slot == CallState::Pending, "the call is answered already")?;
                *slot = CallState::Open;
            }
            None => self.check_gate_act(body)?,
        }
        self.counts.acts += 1;
        self.open.insert(
            body.act,
            OpenAct {
                call: body.call,
                tool: body.tool.clone(),
                args: body.args,
                touches: body.touches.clone(),
                recovery: body.recovery,
                decision: body.decision.clone(),
                verdict: None,
                started: None,
            },
        );
        Ok(())
    }

    /// The only act that no call asks for is the contract's own gate.
    fn check_gate_act(&self, body: &ActDecided) -> Checked {
        let gate = self.created.as_ref().and_then(|created| created.gate.as_ref());
        let is_gate = match (gate, body.touches.as_slice()) {
            (Some(gate), [Touch::Exec { argv, .. }]) => *argv == gate.argv,
            _ => false,
        };
        must(is_gate, "no call asks for it and it is not the contract's gate")?;
        must(
            self.submitted.is_some() && self.gate.run.is_none() && self.open.is_empty(),
            "the gate is not due",
        )
    }

    fn act_approved(&mut self, body: &ActApproved) -> Checked {
        let act = open(&mut self.open, body.act)?;
        must(act.decision.effect == Effect::Ask, "the policy does not ask about it")?;
        must(act.verdict.is_none(), "it is answered already")?;
        act.verdict = Some(body.verdict);
        Ok(())
    }

    fn act_started(&mut self, body: &ActStarted) -> Checked {
        let act = open(&mut self.open, body.act)?;
        must(act.may_start(), "neither the policy nor a person allows it")?;
        must(act.started.is_none(), "it started already")?;
        must(act.covers(&body.intent), "it sets out to do what was not put before the policy")?;
        act.started = Some(body.intent.clone());
        Ok(())
    }

    fn act_finished(&mut self, body: &ActFinished) -> Checked {
        let act = open(&mut self.open, body.act)?;
        let refused = body.end == ActEnd::Refused;
        must(refused == act.is_refused(), "an act ends refused exactly when it was refused")?;
        let started = act.started.is_some();
        must(started || body.changes.is_empty(), "it changed files without having started")?;
        must(started || body.command.is_none(), "it ran a command without having started")?;
        let needs_start = act.touches.iter().any(|touch| !matches!(touch, Touch::Read { .. }));
        must(started || !needs_start || body.end != ActEnd::Done, "it has effects and never started")?;
        if let Some(Intent::Write { changes }) = &act.started {
            must(
                body.end != ActEnd::Done || *changes == body.changes,
                "it did not change what it set out to change",
            )?;
        }
        self.check_no_denied_change(&body.changes)?;
        let Some(act) = self.open.remove(&body.act) else {
            return Err("no such act is open".to_owned());
        };
        self.changed(&body.changes)?;
        for seen in &body.seen {
            self.seen.insert(seen.path.clone(), seen.content);
        }
        if refused {
            self.counts.refused += 1;
        }
        match act.call {
            Some(call) => {
                *self.call_slot(call)? = CallState::Settled;
                if act.tool == "submit" && body.end == ActEnd::Done {
                    self.submit_call = true;
                }
                if matches!(body.end, ActEnd::Done) {
                    self.last_failure = None;
                    self.repeats = 0;
                } else {
                    self.failed_like(&act.tool, act.args);
                }
            }
            None => {
                self.gate.run = Some(GateRun {
                    act: body.act,
                    command: body.command.clone(),
                    changed: !body.changes.is_empty(),
                    refused,
                });
            }
        }
        Ok(())
    }

    /// Nothing recorded as changed lies where the policy denies writing: what a command changed there was undone.
    fn check_no_denied_change(&self, changes: &[Change]) -> Checked {
        let Some(created) = &self.created else {
            return Ok(());
        };
        for change in changes {
            let touch = [Touch::Write { path: change.path.clone() }];
            must(
                created.policy.decide(&touch, self.rung).effect != Effect::Deny,
                "it changed a file that the policy protects",
            )?;
        }
        Ok(())
    }

    fn failed_like(&mut self, tool: &str, what: crate::digest::Digest) {
        let failure = (tool.to_owned(), what);
        if self.last_failure.as_ref() == Some(&failure) {
            self.repeats += 1;
        } else {
            self.repeats = 1;
            self.last_failure = Some(failure);
        }
    }

    fn changed(&mut self, changes: &[Change]) -> Checked {
        if !changes.is_empty() {
            self.gate.debt = true;
        }
        for change in changes {
            must(change.before != change.after, "it records a change that changes nothing")?;
            merge(&mut self.net, change)?;
        }
        Ok(())
    }

    fn note(&mut self, body: &Note) -> Checked {
        must(self.step_is_closed(), "the step is not over")?;
        if let Some(step) = &mut self.step {
            step.followed_up = true;
        }
        match body.why {
            NoteWhy::GateFailed => {
                must(self.submitted.is_some() && self.gate.verdict.is_some(), "no gate was judged")?;
                self.submitted = None;
                self.gate.verdict = None;
            }
            NoteWhy::Repeating => self.steered = self.repeats,
            NoteWhy::CutOff | NoteWhy::Empty => {}
        }
        Ok(())
    }

    fn run_submitted(&mut self, body: &Submitted) -> Checked {
        must(self.step_is_closed(), "the step is not over")?;
        must(self.submitted.is_none(), "it is submitted already")?;
        let due = self.submit_call || self.final_answer();
        must(due, "the agent did not say that it is done")?;
        if let Some(step) = &mut self.step {
            step.followed_up = true;
        }
        self.submit_call = false;
        self.submitted = Some(body.clone());
        self.gate.verdict = None;
        Ok(())
    }

    /// The last answer has text, no calls, and was not cut off.
    pub(super) fn final_answer(&self) -> bool {
        self.step.as_ref().is_some_and(|step| {
            step.calls.is_empty() && step.text && step.stop == Stop::End && !step.followed_up
        })
    }

    fn gate_judged(&mut self, body: &GateJudged) -> Checked {
        let Some(run) = self.gate.run.take() else {
            return Err("the gate did not run".to_owned());
        };
        must(run.act == body.act, "it judges another act")?;
        let exited_well = run
            .command
            .as_ref()
            .is_some_and(|command| command.exit == crate::act::ExitFact::Exited { code: 0 });
        match body.verdict {
            GateVerdict::Passed => {
                must(exited_well, "the gate's command did not exit with 0")?;
                must(!run.changed, "the gate changed the tree that it judged")?;
                self.gate.debt = false;
            }
            GateVerdict::Failed => self.gate.rejections += 1,
            GateVerdict::Errored => {
                self.gate.errors += 1;
                self.gate.refused = run.refused;
            }
        }
        self.gate.verdict = Some(body.verdict);
        self.gate.last = Some(body.clone());
        Ok(())
    }

    fn run_finished(&mut self, body: &RunFinished) -> Checked {
        must(self.open.is_empty(), "an act is not over")?;
        let gated = self.created.as_ref().is_some_and(|created| created.gate.is_some());
        let passed_here =
            self.gate_holds() && self.gate.last.as_ref().is_some_and(|judged| judged.tree == body.tree);
        must(
            body.verified == passed_here,
            "it is verified exactly when the gate passed on the tree it ends with",
        )?;
        if body.outcome == Outcome::Done {
            must(self.submitted.is_some(), "the agent did not submit")?;
            must(!gated || body.verified, "the gate did not pass")?;
        }
        self.attached = false;
        self.finished = Some(body.clone());
        Ok(())
    }
}

fn open(acts: &mut BTreeMap<ActId, OpenAct>, act: ActId) -> Result<&mut OpenAct, String> {
    acts.get_mut(&act).ok_or_else(|| "no such act is open".to_owned())
}

/// Adds a change to the net of all changes. Each change begins where the one before it ended.
fn merge(net: &mut BTreeMap<RelPath, Change>, change: &Change) -> Checked {
    match net.get_mut(&change.path) {
        None => {
            net.insert(change.path.clone(), change.clone());
        }
        Some(held) => {
            must(held.after == change.before, "it begins with content that the file did not have")?;
            held.after.clone_from(&change.after);
            if held.before == held.after {
                // Back to where it started. The path stays known only through its base.
                net.remove(&change.path);
            }
        }
    }
    Ok(())
}

impl OpenAct {
    /// Whether policy, or a person where policy asks, lets it start.
    pub fn may_start(&self) -> bool {
        match self.decision.effect {
            Effect::Allow => true,
            Effect::Ask => self.verdict == Some(Verdict::Approved),
            Effect::Deny => false,
        }
    }

    /// Whether policy or a person refused it.
    pub fn is_refused(&self) -> bool {
        self.decision.effect == Effect::Deny
            || (self.decision.effect == Effect::Ask && self.verdict == Some(Verdict::Denied))
    }

    /// Whether all that `intent` does was among the touches that policy decided on.
    fn covers(&self, intent: &Intent) -> bool {
        match intent {
            Intent::Write { changes } => changes.iter().all(|change| {
                self.touches
                    .iter()
                    .any(|touch| matches!(touch, Touch::Write { path } if *path == change.path))
            }),
            Intent::Command { argv, .. } => self
                .touches
                .iter()
                .any(|touch| matches!(touch, Touch::Exec { argv: decided, .. } if decided == argv)),
        }
    }
}
