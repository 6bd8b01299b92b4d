//! Folding one event.

use std::collections::BTreeMap;

use super::agent::{Agent, Place, policy_of};
use super::check::{Checked, must};
use super::decided::Order;
use super::route::{LEAVES_OPEN, UNKNOWN_OUTCOME};
use super::{CallState, GATE_RETRIES, GateRun, Next, OpenAct, RunState, Step, Violation, invocation_id};
use crate::act::{ActEnd, Change, CommandFact, ExitFact, Intent, Recovery, Touch};
use crate::agents::AgentEnd;
use crate::brief::MOST_IMAGES;
use crate::budget::{Bound, Ledger, Price};
use crate::containment::Guarantee;
use crate::event::{
    ActApproved, ActDecided, ActFinished, ActSettled, ActStarted, Body, CallInvalid, CallRef, DriverAttached,
    DriverDetached, Event, GateJudged, GateVerdict, InvalidCall, MOST_CALLS, MOST_RULES, MOST_TOUCHES,
    ModelAnswered, ModelFailed, Note, NoteWhy, RateLimitFact, RunCreated, RunFinished, RunQueued, Settlement,
    Submitted, Verdict,
};
use crate::id::{ActId, AgentId, StepId};
use crate::lifecycle::Move;
use crate::outcome::{Outcome, Pause};
use crate::policy::{Effect, Ordered};
use crate::price::MOST_TIERS;
use crate::rate_limits::MOST_WINDOWS;
use crate::route::{RouteId, Routing};
use crate::server::{self, started_by};
use crate::transcript::Stop;

/// Whether a driver had the run when something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driven {
    Yes,
    No,
}

impl RunState {
    /// Folds the next event, or says why it cannot be one. A refused event leaves the state as it was.
    pub fn apply(&mut self, event: &Event) -> Result<(), Violation> {
        if event.seq != self.next_seq {
            return Err(Violation::Sequence { expected: self.next_seq, found: event.seq });
        }
        if event.stream != self.stream {
            return Err(Violation::Stream { seq: event.seq, stream: event.stream.to_string() });
        }
        let agent = self.agent_of(&event.body);
        if event.agent != agent {
            let why = format!("it is agent {agent}'s, and says agent {}", event.agent);
            return Err(Violation::Transition { seq: event.seq, kind: event.body.kind(), why });
        }
        if let Body::ActDecided(body) = &event.body {
            self.check_decision(event.seq, agent, body)?;
        }
        if let Body::NetDecided(body) = &event.body
            && let Some(decided) = self.decide_dial(body).filter(|decided| *decided != body.decision)
        {
            let recorded = Box::new(body.decision.clone());
            return Err(Violation::Decision { seq: event.seq, recorded, decided: Box::new(decided) });
        }
        let driven = if self.attached { Driven::Yes } else { Driven::No };
        let folded = must(event.at_ms >= self.last_at_ms, "it is dated before the event before it")
            .and_then(|()| self.fold_body(event));
        folded.map_err(|why| Violation::Transition { seq: event.seq, kind: event.body.kind(), why })?;
        if let Body::ModelAnswered(body) = &event.body {
            self.look_at_cache(agent, event.at_ms, body);
        }
        self.count_time(event, driven);
        if let Some(told) = told_limits(&event.body) {
            self.limits = Some((event.at_ms, told.clone()));
        }
        self.next_seq += 1;
        Ok(())
    }

    fn check_decision(&mut self, seq: u64, agent: AgentId, body: &ActDecided) -> Result<(), Violation> {
        if body.touches.len() > MOST_TOUCHES {
            return Err(Violation::Transition {
                seq,
                kind: "act.decided",
                why: "it touches more than can be decided on in time".to_owned(),
            });
        }
        let Some(created) = &self.created else {
            return Ok(()); // refused as a transition below
        };
        let order = if body.call.is_some() { Order::Call } else { Order::Contract(Ordered::by(&body.tool)) };
        let Agent { place, decided, .. } = &mut self.agents[agent.0 as usize];
        let policy = place.as_ref().map_or(&created.policy, Place::policy);
        let decided = decided.decide(policy, &body.touches, self.rung, order);
        if *decided == body.decision {
            Ok(())
        } else {
            Err(Violation::Decision {
                seq,
                recorded: Box::new(body.decision.clone()),
                decided: Box::new(decided.clone()),
            })
        }
    }

    /// The time between a driver's events is driven time. The time before a driver comes is nobody's, and so is that
    /// before somebody else has a word: a driver that died may have left long ago.
    fn count_time(&mut self, event: &Event, driven: Driven) {
        if event.seq == 0 || matches!(event.body, Body::RunCreated(_)) {
            self.first_at_ms = event.at_ms;
        }
        let of_others = matches!(
            event.body,
            Body::DriverAttached(_)
                | Body::RunHeld(_)
                | Body::RunCancelled(_)
                | Body::WorkspaceRewound(_)
                | Body::WorkspaceRestored(_)
        );
        if driven == Driven::Yes && !of_others {
            let spent = event.at_ms.saturating_sub(self.last_at_ms);
            self.ledger.time_ms = self.ledger.time_ms.saturating_add(spent);
        }
        self.last_at_ms = event.at_ms;
    }

    /// Checks the event and folds it. Every check comes before the first change.
    fn fold_body(&mut self, event: &Event) -> Checked {
        if let Body::WorkspaceRewound(body) = &event.body {
            // Also where nobody drives it, and after its end.
            must(self.created.is_some(), "the run does not exist yet")?;
            return self.workspace_rewound(&body.changes);
        }
        if let Body::WorkspaceRestored(_) = &event.body {
            must(self.rewinding, "no files are being put back")?;
            self.rewinding = false;
            return Ok(());
        }
        must(!self.stage.is_over(), "the run is over")?;
        let stage = if let Some(by) = Move::of(&event.body) {
            Some(self.stage.after(by).ok_or_else(|| self.no_way(by))?)
        } else {
            must(self.created.is_some(), "the run does not exist yet")?;
            must(self.attached, "no driver has the run")?;
            let accounts = matches!(
                event.body,
                Body::ActStaged(_)
                    | Body::ActFinished(_)
                    | Body::AgentEnded(_)
                    | Body::ProcessChanged(_)
                    | Body::ProcessEnded(_)
                    | Body::WorkspaceDrifted(_)
            ) || matches!(&event.body, Body::ModelFailed(body) if self.was_lost(body));
            must(accounts || self.cancelled.is_none(), "the run is cancelled: nothing new begins")?;
            None
        };
        self.fold_kind(event)?;
        if let Some(stage) = stage {
            self.stage = stage;
        }
        Ok(())
    }

    /// Why a move is none from here, in words.
    fn no_way(&self, by: Move) -> String {
        match (by, self.created.is_some()) {
            (Move::Created | Move::Queued, true) => "the run exists already".to_owned(),
            (Move::Created | Move::Queued, false) => format!("the run is {} already", self.stage),
            (_, false) => "the run does not exist yet".to_owned(),
            (Move::Detached(_) | Move::Finished(_), true) if !self.attached => {
                "no driver has the run".to_owned()
            }
            (_, true) => format!("it does not follow while the run is {}", self.stage),
        }
    }

    fn fold_kind(&mut self, event: &Event) -> Checked {
        let agent = event.agent;
        match &event.body {
            // Folded before, wherever the run stands.
            Body::WorkspaceRewound(_) | Body::WorkspaceRestored(_) => Ok(()),
            Body::RunQueued(body) => self.run_queued(body),
            Body::RunCreated(body) => self.run_created(body),
            Body::DriverAttached(body) => self.driver_attached(body),
            Body::RunHeld(body) => {
                self.held = Some(body.clone());
                self.attached = false;
                Ok(())
            }
            Body::RunCancelled(body) => {
                self.cancelled = Some(body.clone());
                self.held = None;
                Ok(())
            }
            Body::DriverDetached(body) => self.driver_detached(body),
            Body::ModelAnswered(body) => self.model_answered(agent, body),
            Body::ModelFailed(body) => self.model_failed(agent, body),
            Body::PromptBroke(body) => self.prompt_broke(agent, *body),
            Body::CacheMissed(body) => self.cache_missed(agent, *body),
            Body::CallInvalid(body) => self.call_invalid(agent, body),
            Body::ActDecided(body) => self.act_decided(agent, body),
            Body::ActApproved(body) => self.act_approved(body),
            Body::ActStarted(body) => self.act_started(body, event.at_ms),
            Body::NetDecided(body) => self.net_decided(body),
            Body::ActSettled(body) => self.act_settled(body),
            Body::ActStaged(body) => self.act_staged(body),
            Body::ActFinished(body) => self.act_finished(body),
            Body::ProcessChanged(body) => self.process_changed(body),
            Body::ProcessEnded(body) => self.process_ended(body),
            Body::AgentEnded(body) => self.agent_ended(body, agent),
            Body::ServerListed(body) => self.server_listed(body),
            Body::ServerAccepted(body) => self.server_accepted(body),
            Body::WorkspaceDrifted(body) => self.workspace_drifted(&body.changes),
            Body::Note(body) => self.note(agent, body),
            Body::ContextFolded(body) => self.context_folded(agent, body),
            Body::Submitted(body) => self.run_submitted(body),
            Body::GateJudged(body) => self.gate_judged(body),
            Body::RunFinished(body) => self.run_finished(body),
        }
    }

    fn run_queued(&mut self, body: &RunQueued) -> Checked {
        must(body.policy.rules() <= MOST_RULES, "its policy has more rules than can be decided on in time")?;
        body.limits.agents.check()?;
        check_models(body.price.as_ref(), body.routing.as_deref())?;
        self.queued = Some(Box::new(body.clone()));
        Ok(())
    }

    fn run_created(&mut self, body: &RunCreated) -> Checked {
        must(body.policy.rules() <= MOST_RULES, "its policy has more rules than can be decided on in time")?;
        must(
            self.queued.as_ref().is_none_or(|queued| queued.orders(body)),
            "it is another run than the one that was queued",
        )?;
        let shown = body.brief.as_ref().map_or(0, |brief| brief.images.len());
        must(shown <= MOST_IMAGES, "it shows more images than a contract can")?;
        let routing = body.routing.as_deref();
        server::check(&body.servers)?;
        must(
            body.servers.is_empty() || !body.policy.workspace.is_staged(),
            "the contract has changes staged, and nobody sees those of a server",
        )?;
        check_models(body.price.as_ref(), routing)?;
        let priced = |routing: &Routing| routing.others.iter().all(|route| route.price.is_some());
        must(
            body.budget.cost_micros.is_none() || (body.price.is_some() && routing.is_none_or(priced)),
            "it bounds the cost of a model whose price is not known",
        )?;
        body.limits.agents.check()?;
        self.held = None;
        if let Some(forked) = &body.forked {
            forked.check(&self.stream)?;
        }
        self.ledger = Ledger::new(body.budget, body.price.clone());
        self.created = Some(Box::new(body.clone()));
        Ok(())
    }

    fn driver_attached(&mut self, body: &DriverAttached) -> Checked {
        must(body.generation > self.generation, "its generation is not newer than the driver's before it")?;
        self.check_containment(&body.containment)?;
        self.check_staging(&body.containment)?;
        self.check_required(&body.containment, &[])?;
        self.deaths = if self.attached { self.deaths + 1 } else { 0 };
        if !self.attached {
            // One that died may have been asking whoever was next: its request is made again there.
            self.given_up.clear();
        }
        self.held = None;
        // Whoever takes a run up carries a rewind to its end first.
        self.rewinding = false;
        // What the driver before it ran is gone with it.
        self.running.clear();
        self.servers_left();
        self.generation = body.generation;
        self.rung = body.containment.rung;
        self.containment = Some(body.containment.clone());
        self.attached = true;
        self.pause = None;
        self.counts.drivers += 1;
        self.first_of_driver = self.next_seq + 1;
        self.decide_again();
        Ok(())
    }

    /// What was allowed because it would be contained, and has not started, is not allowed under a driver that
    /// contains less. The gate is the contract's order and stays one.
    fn decide_again(&mut self) {
        let Some(created) = &self.created else {
            return;
        };
        let rung = self.rung;
        for act in self.open.values_mut().filter(|act| act.started.is_none()) {
            act.rung = rung;
            if act.call.is_some() {
                let policy = policy_of(created, &self.agents[act.agent.0 as usize]);
                let decision = policy.decide(&act.touches, rung);
                if decision.effect > act.decision.effect {
                    act.decision = decision;
                }
            }
        }
    }

    fn driver_detached(&mut self, body: &DriverDetached) -> Checked {
        must(self.attached, "no driver has the run")?;
        let act = body.act.map(|act| open(&self.open, act)).transpose()?;
        must(
            body.why != Pause::Approval || act.is_some_and(OpenAct::waits),
            "it names no act that waits for approval",
        )?;
        must(
            body.why != Pause::Indeterminate
                || act.is_some_and(|act| {
                    let known = matches!(act.started, Some(Intent::Background { .. } | Intent::Spawn(_)));
                    act.started.is_some() && act.settled.is_none() && act.staged.is_none() && !known
                }),
            "it names no act that may have happened and that nobody has settled",
        )?;
        must(self.open_processes().is_empty(), "a background command still runs")?;
        if body.why == Pause::Indeterminate {
            self.indeterminate = body.act;
        }
        self.attached = false;
        self.running.clear();
        self.pause = Some(body.clone());
        Ok(())
    }

    /// The model is asked only when that is due. Time that ran out while a request was under way is not held against
    /// its answer.
    fn must_be_asked(&self, agent: AgentId, step: StepId, route: RouteId) -> Checked {
        must(self.step_is_closed(agent), "the step before it is not over")?;
        must(step.0 == self.ledger.steps, "it is not of the step that is due")?;
        must(self.route().is_none_or(|due| due == route), "another model is to be asked")?;
        match self.due() {
            Next::Ask { .. }
            | Next::Finish(Outcome::BudgetSpent { bound: Bound::Time })
            | Next::EndAgent(AgentEnd::BudgetSpent { bound: Bound::Time }) => Ok(()),
            Next::Leave => Err("nobody is left who may be asked".to_owned()),
            Next::Finish(Outcome::BudgetSpent { bound })
            | Next::EndAgent(AgentEnd::BudgetSpent { bound }) => {
                Err(format!("the budget of {bound} is spent"))
            }
            _ => Err("the model is not to be asked now".to_owned()),
        }
    }

    /// Whether it accounts for a request that was lost with the driver before: the next says so first thing.
    fn was_lost(&self, body: &ModelFailed) -> bool {
        body.class == UNKNOWN_OUTCOME && self.counts.drivers > 1 && self.next_seq == self.first_of_driver
    }

    /// A request that was lost with its driver was due then; since, the run may have been cancelled, or files put back.
    fn must_have_been_asked(&self, agent: AgentId, step: StepId, route: RouteId) -> Checked {
        must(self.step_is_closed(agent), "the step before it is not over")?;
        must(step.0 == self.ledger.steps, "it is not of the step that is due")?;
        must(self.model_of(route).is_some(), "it asks a model that the contract does not name")
    }

    fn model_failed(&mut self, agent: AgentId, body: &ModelFailed) -> Checked {
        if self.was_lost(body) {
            self.must_have_been_asked(agent, body.step, body.route)?;
        } else {
            self.must_be_asked(agent, body.step, body.route)?;
        }
        must(!body.estimated || body.usage.is_some(), "it is charged by estimate and says no tokens")?;
        must(few_windows(body.rate_limits.as_ref()), "it tells of more limits than a response can")?;
        self.counts.failed_requests += 1;
        self.unanswered = Some(body.class.clone());
        if let Some(usage) = &body.usage {
            let price = self.price_of(body.route).cloned();
            self.ledger.settle(usage, price.as_ref());
        }
        if LEAVES_OPEN.contains(&body.class.as_str()) {
            self.of_mut(agent).unresolved = Some(body.route);
        }
        if body.retry_in_ms.is_none() {
            self.given_up.insert(body.route);
        }
        if body.estimated {
            self.ledger.estimated_calls += 1;
        }
        Ok(())
    }

    fn model_answered(&mut self, agent: AgentId, body: &ModelAnswered) -> Checked {
        self.must_be_asked(agent, body.step, body.route)?;
        must(
            body.invocation == invocation_id(self.asked_as(), body.step),
            "its invocation id is not that of the step",
        )?;
        must(body.calls <= MOST_CALLS, "it holds more calls than an answer can")?;
        must(few_windows(body.rate_limits.as_ref()), "it tells of more limits than a response can")?;
        self.unanswered = None;
        self.deaths = 0;
        self.ledger.steps += 1;
        self.count_step(agent);
        let price = self.price_of(body.route).cloned();
        self.ledger.settle(&body.usage, price.as_ref());
        if body.estimated {
            self.ledger.estimated_calls += 1;
        }
        let empty = body.calls == 0 && !(body.text && body.stop == Stop::End);
        let followed_up = self.is_folding();
        let of = self.of_mut(agent);
        of.unresolved = None;
        of.answered = Some(body.step);
        of.empties = if empty { of.empties + 1 } else { 0 };
        of.step = Some(Step {
            id: body.step,
            calls: vec![CallState::Pending; body.calls as usize],
            text: body.text,
            stop: body.stop,
            // A summary is followed up by the fold, and by nothing else.
            followed_up,
        });
        self.answered_in_fold(agent, body);
        Ok(())
    }

    pub(super) fn step_is_closed(&self, agent: AgentId) -> bool {
        self.open.values().all(|act| act.agent != agent)
            && self
                .of(agent)
                .step
                .as_ref()
                .is_none_or(|step| step.calls.iter().all(|call| *call == CallState::Settled))
    }

    fn must_be_pending(&self, agent: AgentId, call: CallRef) -> Checked {
        let step = self.of(agent).step.as_ref().filter(|step| step.id == call.step);
        let state = step.and_then(|step| step.calls.get(call.index as usize));
        match state {
            Some(CallState::Pending) => Ok(()),
            Some(_) => Err("the call is answered already".to_owned()),
            None => Err("it answers a call that the step does not have".to_owned()),
        }
    }

    fn set_call(&mut self, agent: AgentId, call: CallRef, state: CallState) {
        let step = self.of_mut(agent).step.as_mut().filter(|step| step.id == call.step);
        if let Some(slot) = step.and_then(|step| step.calls.get_mut(call.index as usize)) {
            *slot = state;
        }
    }

    fn is_cut_off(&self, agent: AgentId) -> bool {
        let step = self.of(agent).step.as_ref();
        step.is_some_and(|step| matches!(step.stop, Stop::Length | Stop::Refused))
    }

    fn call_invalid(&mut self, agent: AgentId, body: &CallInvalid) -> Checked {
        must(
            self.is_cut_off(agent) == (body.why == InvalidCall::CutOff),
            "a call is cut off exactly when its answer is",
        )?;
        let instead_of_summary = self.is_folding() && !self.is_cut_off(agent);
        must(
            instead_of_summary == (body.why == InvalidCall::InsteadOfSummary),
            "a call stands in the place of a summary exactly when one was asked for",
        )?;
        self.must_be_pending(agent, body.call)?;
        self.set_call(agent, body.call, CallState::Settled);
        self.counts.invalid_calls += 1;
        self.of_mut(agent).failed_like("invalid", body.result);
        Ok(())
    }

    fn act_decided(&mut self, agent: AgentId, body: &ActDecided) -> Checked {
        must(body.act.0 == self.counts.acts, "its act is not the next one")?;
        let repeatable =
            |touch: &Touch| matches!(touch, Touch::Read { .. } | Touch::Write { .. } | Touch::Spawn { .. });
        must(
            body.touches.iter().all(repeatable)
                || self.only_reads(&body.touches)
                || body.recovery != Recovery::Replayable,
            "only reads, writes and what the journal itself holds can be settled by looking; it is declared replayable and \
             does more",
        )?;
        if let Some(Touch::Shell { .. }) = body.touches.first() {
            let runs = |touch: &Touch| matches!(touch, Touch::Exec { .. } | Touch::Expanded { .. });
            must(
                body.touches.iter().any(runs),
                "it is a shell whose commands are decided by themselves, and no command was put before the policy",
            )?;
        }
        match body.call {
            Some(call) => {
                must(!self.is_cut_off(agent), "the calls of an answer that was cut off are not acts")?;
                must(!self.is_folding(), "the model was asked for a summary: its calls are not acts")?;
                self.must_be_pending(agent, call)?;
                self.set_call(agent, call, CallState::Open);
            }
            None => match started_by(&body.tool) {
                Some(server) => self.check_server_act(server, body)?,
                None => self.check_gate_act(body)?,
            },
        }
        self.counts.acts += 1;
        self.open.insert(
            body.act,
            OpenAct {
                agent,
                call: body.call,
                tool: body.tool.clone(),
                args: body.args,
                touches: body.touches.clone(),
                recovery: body.recovery,
                decision: body.decision.clone(),
                verdict: None,
                started: None,
                staged: None,
                settled: None,
                rung: self.rung,
            },
        );
        Ok(())
    }

    /// The only act that no call asks for, but for the starts of servers, is the contract's own gate.
    fn check_gate_act(&self, body: &ActDecided) -> Checked {
        let gate = self.created.as_ref().and_then(|created| created.gate.as_ref());
        let is_gate = match (gate, body.touches.as_slice()) {
            (Some(gate), [Touch::Exec { argv, .. }, ..]) => *argv == gate.argv,
            _ => false,
        };
        must(is_gate, "no call asks for it and it is not the contract's gate")?;
        must(self.next() == Next::RunGate, "the gate is not due")
    }

    fn act_approved(&mut self, body: &ActApproved) -> Checked {
        let act = open_mut(&mut self.open, body.act)?;
        must(act.decision.effect == Effect::Ask, "the policy does not ask about it")?;
        must(act.verdict.is_none(), "it is answered already")?;
        act.verdict = Some(body.verdict);
        if body.verdict == Verdict::Approved {
            *self.approvals.entry(body.by.clone()).or_default() += 1;
        }
        Ok(())
    }

    fn act_started(&mut self, body: &ActStarted, at_ms: u64) -> Checked {
        let act = open(&self.open, body.act)?;
        must(act.may_start(), "neither the policy nor a person allows it")?;
        must(act.started.is_none(), "it started already")?;
        must(act.covers(&body.intent), "it sets out to do what was not put before the policy")?;
        self.check_limits(act, &body.intent)?;
        self.check_process_start(act, &body.intent)?;
        self.check_server_start(act, &body.intent)?;
        self.check_call_start(&body.intent)?;
        self.check_spawn(act, &body.intent)?;
        let agent = act.agent;
        if act.call.is_none() && self.starts_server(act).is_none() {
            self.gate.disturbed = false;
        }
        open_mut(&mut self.open, body.act)?.started = Some(body.intent.clone());
        self.command_started(body);
        self.process_started(body, agent);
        self.agent_started(body, agent, at_ms);
        Ok(())
    }

    fn act_settled(&mut self, body: &ActSettled) -> Checked {
        must(self.indeterminate == Some(body.act), "no driver found that it cannot tell what became of it")?;
        let act = open_mut(&mut self.open, body.act)?;
        match body.how {
            Settlement::Again => act.started = None,
            Settlement::Happened | Settlement::DidNot => act.settled = Some(body.how),
        }
        self.indeterminate = None;
        if body.how == Settlement::Again {
            // It may have begun under a driver that contained more.
            self.decide_again();
        }
        Ok(())
    }

    fn act_finished(&mut self, body: &ActFinished) -> Checked {
        let act = open(&self.open, body.act)?;
        act.check_end(body, self.rung)?;
        self.check_staged_end(act, body)?;
        self.check_told(act, body)?;
        self.check_spawn_end(act, body)?;
        let changes = match &act.started {
            Some(Intent::Write { changes }) if body.end == ActEnd::Done => changes,
            _ => &body.changes,
        };
        self.check_no_denied_change(act.agent, changes)?;
        self.check_changes(changes)?;
        self.check_caps(body.command.as_ref())?;
        self.check_traffic(body.act, body.command.as_ref())?;
        if let Some(receipt) = body.command.as_ref().and_then(|command| command.containment.as_ref()) {
            self.check_containment(receipt)?;
            // The gate's checkout is a copy that is thrown away: nothing in it is protected.
            // The gate's runs in a copy.
            let exempt = if act.call.is_none() { &Guarantee::OF_WORKSPACE[..] } else { &[] };
            self.check_required(receipt, exempt)?;
        }
        // From here on nothing is refused.
        let changes = changes.clone();
        let act = self.open.remove(&body.act).ok_or_else(no_act)?;
        self.told_of_process(body);
        if self.process(body.act).is_none() {
            self.running.remove(&body.act);
        }
        self.indeterminate = self.indeterminate.filter(|open| *open != body.act);
        self.changed(&changes);
        self.count(&act, body);
        let agent = self.of_mut(act.agent);
        for seen in &body.seen {
            agent.seen.insert(seen.path.clone(), seen.content);
        }
        let refused = body.end == ActEnd::Refused;
        if refused {
            self.counts.refused += 1;
        }
        match act.call {
            Some(call) => {
                self.set_call(act.agent, call, CallState::Settled);
                let agent = self.of_mut(act.agent);
                if act.tool == "submit" && body.end == ActEnd::Done {
                    agent.submit_call = true;
                }
                if matches!(body.end, ActEnd::Done) {
                    agent.last_failure = None;
                    agent.repeats = 0;
                    agent.steered = 0;
                } else {
                    agent.failed_like(&act.tool, act.args);
                }
            }
            None if self.starts_server(&act).is_some() => self.server_start_ended(&act, body),
            None => {
                self.gate.run = Some(GateRun {
                    act: body.act,
                    command: body.command.clone(),
                    changed: self.gate.disturbed || !changes.is_empty(),
                    refused,
                    unrunnable: body.end == ActEnd::Failed && body.command.is_none(),
                });
            }
        }
        Ok(())
    }

    fn count(&mut self, act: &OpenAct, body: &ActFinished) {
        self.count_command(body.command.as_ref());
        if matches!(act.started, Some(Intent::Write { .. })) {
            self.counts.writes += 1;
        }
    }

    pub(super) fn count_command(&mut self, command: Option<&CommandFact>) {
        if let Some(command) = command.filter(|command| command.exit != ExitFact::NotStarted) {
            self.counts.commands += 1;
            let rung = command.containment.as_ref().map_or(self.rung, |receipt| receipt.rung);
            self.weakest = Some(self.weakest.map_or(rung, |weakest| weakest.min(rung)));
        }
    }

    pub(super) fn changed(&mut self, changes: &[Change]) {
        if !changes.is_empty() {
            self.gate.debt = true;
        }
        for change in changes {
            self.files.insert(change.path.clone(), change.after.clone());
            self.merge_net(change);
        }
        self.remember(changes);
    }

    /// Drift under a gate that runs, or ran and is not judged, is drift of the tree that it judges.
    fn workspace_drifted(&mut self, changes: &[Change]) -> Checked {
        self.check_changes(changes)?;
        let policy = self.created.as_ref().map(|created| &created.policy);
        let denied =
            |change: &Change| policy.is_some_and(|policy| policy.denies_writing_by_rule(&change.path));
        must(
            !changes.iter().any(denied),
            "a file changed that a rule of the policy protects from all writing",
        )?;
        self.drifted.extend(changes.iter().map(|change| change.path.clone()));
        self.changed(changes);
        if !changes.is_empty() {
            self.disturb_gate();
        }
        Ok(())
    }

    /// The tree that the gate judges is not what it was when its command started.
    pub(super) fn disturb_gate(&mut self) {
        self.gate.disturbed = true;
        if let Some(run) = &mut self.gate.run {
            run.changed = true;
        }
    }

    fn note(&mut self, agent: AgentId, body: &Note) -> Checked {
        if body.why == NoteWhy::ContextFull {
            self.check_full()?;
            self.told_of_full_context(agent);
            return Ok(());
        }
        must(self.next() == Next::Note(body.why), "no such note is due")?;
        if body.why == NoteWhy::Rewound {
            self.told_of_rewind(agent);
            return Ok(());
        }
        if body.why == NoteWhy::ProcessEnded {
            self.told_of_ends(agent);
            return Ok(());
        }
        let agent = self.of_mut(agent);
        if let Some(step) = &mut agent.step {
            step.followed_up = true;
        }
        match body.why {
            NoteWhy::GateFailed | NoteWhy::WrongAnswer => {
                self.submitted = None;
                self.gate.verdict = None;
            }
            NoteWhy::Repeating => agent.steered = agent.repeats,
            NoteWhy::CutOff
            | NoteWhy::Empty
            | NoteWhy::Rewound
            | NoteWhy::ProcessEnded
            | NoteWhy::ContextFull => {}
        }
        Ok(())
    }

    fn run_submitted(&mut self, body: &Submitted) -> Checked {
        must(self.next() == Next::Submit(body.via), "the agent did not say so that it is done")?;
        let brief = self.created.as_ref().and_then(|created| created.brief.as_ref());
        must(
            body.wrong.is_none() || brief.is_some_and(|brief| brief.schema.is_some()),
            "it is said to be wrong by a schema that the contract does not name",
        )?;
        let root = self.of_mut(AgentId::ROOT);
        let step = root.step.as_mut().filter(|step| step.id == body.step);
        step.ok_or("it is not of the step under way")?.followed_up = true;
        root.submit_call = false;
        self.wrong_answers += u32::from(body.wrong.is_some());
        self.submitted = Some(body.clone());
        self.gate.verdict = None;
        Ok(())
    }

    /// The agent's last answer has text, no calls, and was not cut off.
    pub(super) fn final_answer(&self, agent: AgentId) -> bool {
        self.of(agent).step.as_ref().is_some_and(|step| {
            step.calls.is_empty() && step.text && step.stop == Stop::End && !step.followed_up
        })
    }

    fn gate_judged(&mut self, body: &GateJudged) -> Checked {
        self.check_verdict(body)?;
        match body.verdict {
            GateVerdict::Passed => self.gate.debt = false,
            GateVerdict::Failed => self.gate.rejections += 1,
            GateVerdict::Errored => {
                let run = self.gate.run.as_ref();
                let unrunnable = run.is_some_and(|run| run.unrunnable);
                // Cut short with its driver it did nothing wrong: it is simply due again.
                let cut_short = run.and_then(|run| run.command.as_ref()).is_some_and(|command| {
                    matches!(command.exit, ExitFact::Cancelled | ExitFact::DriverLost)
                });
                self.gate.refused = run.is_some_and(|run| run.refused);
                self.gate.errors = match (unrunnable, cut_short) {
                    (true, _) => GATE_RETRIES,
                    (false, true) => self.gate.errors,
                    (false, false) => self.gate.errors + 1,
                };
            }
        }
        self.gate.run = None;
        self.gate.verdict = Some(body.verdict);
        self.gate.last = Some(body.clone());
        Ok(())
    }

    fn run_finished(&mut self, body: &RunFinished) -> Checked {
        must(self.attached, "no driver has the run")?;
        let under_way = |act: &OpenAct| act.started.is_some() || self.cancelled.is_none();
        must(!self.open.values().any(under_way), "an act is not over")?;
        must(self.open_processes().is_empty(), "a background command still runs")?;
        let passed_here =
            self.gate_holds() && self.gate.last.as_ref().is_some_and(|judged| judged.tree == body.tree);
        must(
            body.verified == passed_here,
            "it is verified exactly when the gate passed on the tree it ends with",
        )?;
        self.check_outcome(body)?;
        self.attached = false;
        self.finished = Some(body.clone());
        Ok(())
    }
}

/// The models of a contract can be, and so can their prices.
fn check_models(price: Option<&Price>, routing: Option<&Routing>) -> Checked {
    routing.map_or(Ok(()), Routing::check)?;
    let others = routing.iter().flat_map(|routing| &routing.others).filter_map(|it| it.price.as_ref());
    must(
        others.chain(price).all(|price| price.tiers.len() <= MOST_TIERS),
        "its price has more tiers than any vendor's",
    )
}

fn no_act() -> String {
    "no such act is open".to_owned()
}

fn open(acts: &BTreeMap<ActId, OpenAct>, act: ActId) -> Result<&OpenAct, String> {
    acts.get(&act).ok_or_else(no_act)
}

fn open_mut(acts: &mut BTreeMap<ActId, OpenAct>, act: ActId) -> Result<&mut OpenAct, String> {
    acts.get_mut(&act).ok_or_else(no_act)
}

/// A journal from elsewhere may say anything.
fn few_windows(limits: Option<&RateLimitFact>) -> bool {
    limits.is_none_or(|limits| limits.windows.len() <= MOST_WINDOWS)
}

/// What a vendor said of its limits.
fn told_limits(body: &Body) -> Option<&RateLimitFact> {
    match body {
        Body::ModelAnswered(body) => body.rate_limits.as_ref(),
        Body::ModelFailed(body) => body.rate_limits.as_ref(),
        _ => None,
    }
}
