//! A world that drives [`RunState::next`] and makes valid journals of it: a model, a person, a workspace and drivers
//! that crash, all of them decided by a list of choices.
//!
//! One call of [`World::step`] appends one event, so every crash point lies between two steps. Where the choices run
//! out the world does the simplest thing, which leads to the end of the run; a shorter list is thus a simpler world,
//! and proptest shrinks it. Nothing here looks into the state beyond its public surface.

mod acts;
mod agents;
mod answers;
mod choices;
mod orders;
mod servers;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use provost_core::act::{ActEnd, Change, CommandFact, ExitFact, FileFact, Intent, Recovery, Touch};
use provost_core::agents::AgentEnd;
use provost_core::budget::{Bound, Budget, Price};
use provost_core::changes::Changes;
use provost_core::containment::{Guarantee, Receipt, Rung, Strength};
use provost_core::contract::{BASE_GATE, Counted, Gate, Limits, Source};
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::{
    ActApproved, ActDecided, ActFinished, ActSettled, ActStaged, ActStarted, Body, CallInvalid, CallRef,
    ContextFolded, DriverAttached, DriverDetached, Event, FoldedBy, GateJudged, InvalidCall, ModelAnswered,
    ModelFact, ModelFailed, NetDecided, Note, NoteWhy, ProcessChanged, ProcessEnded, PromptBroke, Questions,
    RateLimitFact, RunCancelled, RunCreated, RunFinished, RunHeld, RunQueued, Seen, Settlement, Submitted,
    Told, Unapplied, Verdict, WhyUnapplied, WindowFact, WorkspaceDrifted, WorkspaceRestored,
    WorkspaceRewound,
};
use provost_core::id::{ActId, AgentId, RunId, StepId};
use provost_core::outcome::{Outcome, Pause};
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer, Ordered, Policy, Preset, WorkspaceMode};
use provost_core::price::{PriceFrom, Rates, Tier};
use provost_core::prompt::Break;
use provost_core::route::{Begin, Downshift, Escalate, Route, RouteId, Routing, Unresolved};
use provost_core::session::Authorized;
use provost_core::staged::Unclean;
use provost_core::state::{
    Next, OpenAct, Process, RunState, SameTree, UNKNOWN_OUTCOME, invocation_id, leaves_open,
};
use provost_core::tests_ran::TestsRan;
use provost_core::transcript::{Stop, Usage};

pub(crate) use self::choices::{Choices, choices};
pub(crate) use self::orders::*;

/// More steps than any world takes: a run that needs them does not end.
pub(crate) const TOO_MANY_STEPS: usize = 3000;

/// Crashes, interruptions and drifts that a world can hold, so that it ends.
const TROUBLES: u32 = 12;

/// A run with all that surrounds it.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) state: RunState,
    pub(crate) events: Vec<Event>,
    /// The workspace as it is on disk.
    pub(crate) files: Files,
    choices: Choices,
    clock: u64,
    content: u64,
    troubles: u32,
    mood: Mood,
    /// What contained each act when it started.
    started_as: BTreeMap<ActId, Rung>,
}

/// What a world's model is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Lively,
    /// Its answers hold nothing.
    Silent,
    /// It makes the same call that cannot work again and again.
    Stubborn,
}

const MOODS: [Mood; 5] = [Mood::Lively, Mood::Lively, Mood::Lively, Mood::Silent, Mood::Stubborn];

impl World {
    /// A world whose run exists and has no driver.
    pub(crate) fn new(mut choices: Choices) -> Self {
        let stream: RunId = "r-world".parse().unwrap();
        let created = contract(&mut choices);
        let mood = choices.of(&MOODS);
        let mut world = Self {
            state: RunState::new(stream),
            events: Vec::new(),
            files: start(),
            choices,
            clock: 1_000,
            content: 100,
            troubles: TROUBLES,
            mood,
            started_as: BTreeMap::new(),
        };
        // One in four runs waits in a queue first, and one in four of those is held there for a while.
        if world.choices.once_in(4) {
            world.append(Body::RunQueued(Box::new(queued(&created))));
            if world.choices.once_in(4) {
                world.append(held());
            }
        }
        world.append(Body::RunCreated(Box::new(created)));
        world
    }

    /// The world as a new driver finds it behind `events`: all that was not in the journal is lost. What an act had
    /// done to the disk without a result is drift, or is settled by its recovery.
    pub(crate) fn resume(events: &[Event], choices: Choices) -> Self {
        let stream = events.first().map_or_else(|| "r-world".parse().unwrap(), |event| event.stream.clone());
        let mut files = start();
        let mut changes = Changes::default();
        for change in events.iter().flat_map(|event| changes.by(event)) {
            write(&mut files, &change);
        }
        let mut world = Self {
            state: RunState::fold(stream, events).unwrap(),
            events: events.to_vec(),
            files,
            choices,
            clock: events.last().map_or(1_000, |event| event.at_ms),
            content: 100 + 100 * events.len() as u64,
            troubles: TROUBLES,
            mood: Mood::Lively,
            started_as: rungs(events),
        };
        if world.state.created().is_none() {
            let mut created = contract(&mut world.choices);
            if let Some(queued) = world.state.queued() {
                as_queued(&mut created, queued);
            }
            world.append(Body::RunCreated(Box::new(created)));
        }
        if !world.state.stage().is_over() {
            world.attach();
        }
        world
    }

    /// Runs to the end. The events of the whole run.
    pub(crate) fn run(mut self) -> Vec<Event> {
        for _ in 0..TOO_MANY_STEPS {
            if !self.step() {
                return self.events;
            }
        }
        panic!("the run does not end: {:?}", self.state.next());
    }

    /// Appends one event. False once the run is over.
    pub(crate) fn step(&mut self) -> bool {
        let next = self.state.next();
        if matches!(next, Next::Over(_)) {
            return false;
        }
        if next != Next::Attach && self.troubles > 0 && self.choices.once_in(12) {
            self.troubles -= 1;
            self.trouble();
            return true;
        }
        if next != Next::Attach && self.puts_back_for_the_base(&next) {
            return true;
        }
        if next != Next::Attach && (self.server_speaks() || self.accept()) {
            return true;
        }
        let settled = matches!(next, Next::Ask { .. } | Next::Call(_));
        if settled && !self.state.open_processes().is_empty() && self.choices.once_in(6) {
            self.in_the_background();
            return true;
        }
        match next {
            Next::Over(_) => return false,
            Next::EndProcess(act) => self.end_process(act),
            Next::StartServer(name) => self.start_server(&name),
            Next::Create | Next::Dropped => unreachable!("a world begins with its run"),
            Next::Attach => self.attach(),
            Next::Ask { step, invocation, route } => self.ask(step, invocation, route),
            Next::Leave => self.detach(Pause::Provider, None),
            Next::Call(call) => self.call(call),
            Next::Approve(_) | Next::Perform(_) | Next::Refuse(_) | Next::Recover(_) => self.act(),
            Next::Submit(via) => {
                let step = self.state.agent(AgentId::ROOT).unwrap().step().unwrap();
                self.append(Body::Submitted(Submitted { step, via, summary: digest(5), wrong: None }));
            }
            Next::CountBase => {
                let argv = self.created().gate.as_ref().unwrap().argv.clone();
                let touches = vec![Touch::Exec { argv, program: Some("/bin/check".to_owned()) }];
                self.decide(None, BASE_GATE, digest(6), touches, Recovery::Supervised);
            }
            Next::RunGate => {
                let argv = self.created().gate.as_ref().unwrap().argv.clone();
                let touches = vec![Touch::Exec { argv, program: Some("/bin/check".to_owned()) }];
                self.decide(None, "gate", digest(6), touches, Recovery::Supervised);
            }
            Next::JudgeGate(act) => self.judge(act),
            Next::Note(why) => self.append(Body::Note(Note { why, text: digest(7) })),
            Next::EndAgent(end) => self.end_agent(end),
            Next::Fold(by) => self.fold(by),
            Next::Finish(outcome) => self.finish(outcome),
        }
        true
    }

    /// The gate's tests are counted on the files at the start, so whoever changed them puts them back.
    fn puts_back_for_the_base(&mut self, next: &Next) -> bool {
        let waits = match next {
            Next::CountBase => true,
            Next::Perform(act) => self.state.open_acts()[act].tool == BASE_GATE,
            _ => false,
        };
        let back = |change: &Change| Change {
            path: change.path.clone(),
            before: change.after.clone(),
            after: change.before.clone(),
        };
        let changes: Vec<Change> = self.state.net_changes().values().map(back).collect();
        if !waits || changes.is_empty() {
            return false;
        }
        for change in &changes {
            write(&mut self.files, change);
        }
        self.append(Body::WorkspaceDrifted(WorkspaceDrifted { changes }));
        true
    }

    /// Seals a body and folds it: the journal and the driver at once.
    pub(crate) fn append(&mut self, body: Body) {
        self.clock += [10, 1, 500, 0][self.choices.pick(4)];
        let event = Event {
            v: body.version(),
            stream: self.state.stream().clone(),
            seq: self.state.next_seq(),
            at_ms: self.clock,
            agent: self.state.agent_of(&body),
            body,
            prev: Digest::ZERO,
            hash: Digest::ZERO,
        };
        self.state.apply(&event).unwrap_or_else(|violation| panic!("{violation}\n{event:#?}"));
        self.events.push(event);
    }

    fn created(&self) -> &RunCreated {
        self.state.created().unwrap()
    }

    fn attach(&mut self) {
        // Strongest first; a driver that contains less than the policy takes does not start.
        let at_least = self.created().policy.at_least;
        let mut rung = self.choices.of(&[Rung::R3, Rung::R3, Rung::R2, Rung::R1]).max(at_least);
        let staged = self.created().policy.workspace.is_staged();
        if staged {
            rung = Rung::R3;
        }
        let body = DriverAttached {
            generation: self.state.generation() + 1 + self.choices.pick(2) as u64,
            host: "h".to_owned(),
            pid: 1,
            containment: if staged { staging(rung) } else { receipt(rung) },
        };
        let before = self.state.counts().drivers;
        self.append(Body::DriverAttached(body));
        if before > 0 && self.state.cancelled().is_none() && self.choices.once_in(4) {
            let step = StepId(self.state.ledger().steps);
            let at = self.choices.of(&[Break::Prelude, Break::Message { step: StepId(1) }]);
            let route = self.state.route().unwrap_or_default();
            self.append(Body::PromptBroke(PromptBroke { step, route, same_bytes: 10, at }));
        }
    }

    /// What a run has to live with: a driver that dies, one that is interrupted, people who hold and cancel it, files
    /// that change by themselves.
    fn trouble(&mut self) {
        let closes = self.state.cancelled().is_some();
        match self.choices.pick(7) {
            0 => self.attach(),
            3 if !closes => self.append(held()),
            4 if !closes && self.choices.once_in(4) => self.append(cancelled()),
            1 | 4 => self.detach(Pause::Interrupted, None),
            5 if !closes && self.rewind() => {}
            _ => {
                let name = self.choices.of(&[FREE[0], FREE[1]]);
                let change = self.change(name);
                write(&mut self.files, &change);
                self.append(Body::WorkspaceDrifted(WorkspaceDrifted { changes: vec![change] }));
            }
        }
    }

    /// A driver leaves, and with it all that it started.
    fn detach(&mut self, why: Pause, act: Option<ActId>) {
        for process in self.state.open_processes() {
            self.end_process(process);
        }
        self.append(Body::DriverDetached(DriverDetached { why, act }));
    }

    /// What background commands do while nobody looks.
    fn in_the_background(&mut self) {
        let Some(act) = self.state.open_processes().first().copied() else { return };
        if self.choices.once_in(3) {
            return self.end_process(act);
        }
        let mut changes = vec![self.change("a")];
        let mut reverted = if self.choices.once_in(4) { vec![path(PROTECTED)] } else { vec![] };
        reverted.extend(self.take_back(act, &mut changes));
        for change in &changes {
            write(&mut self.files, change);
        }
        self.append(Body::ProcessChanged(ProcessChanged { changes, reverted }));
    }

    fn end_process(&mut self, act: ActId) {
        let lost = self.state.lost_processes().contains(&act);
        let exit = if lost { ExitFact::DriverLost } else { self.exit() };
        let open = self.started_as[&act];
        let command = CommandFact {
            exit,
            duration_ms: 1,
            output_bytes: self.state.process(act).unwrap().shown + 5,
            survivors: 0,
            caps: Vec::new(),
            traffic: None,
            tests: None,
            containment: (open != self.state.rung()).then(|| receipt(open)),
        };
        let command = (!lost || self.choices.once_in(2)).then_some(command);
        let mut changes = if self.choices.once_in(3) { vec![self.change("new/file")] } else { vec![] };
        let reverted = self.take_back(act, &mut changes);
        for change in &changes {
            write(&mut self.files, change);
        }
        let report = digest(12);
        self.append(Body::ProcessEnded(Box::new(ProcessEnded {
            act,
            command,
            published: None,
            report,
            changes,
            reverted,
        })));
    }

    /// A person has some files put back. False where none can be.
    fn rewind(&mut self) -> bool {
        let runs = !self.state.open_processes().is_empty();
        let started = |id: &ActId| self.state.open_acts()[id].started.is_some();
        if runs || self.acts_at_hand().iter().any(started) {
            return false;
        }
        let mut changes = Vec::new();
        for (path, facts) in past(&self.events) {
            let before = self.files.get(&path).cloned();
            let others: Vec<_> = facts.into_iter().filter(|fact| *fact != before).collect();
            if !others.is_empty() && (changes.is_empty() || self.choices.once_in(2)) {
                changes.push(Change { path, before, after: self.choices.of(&others) });
            }
        }
        if changes.is_empty() {
            return false;
        }
        for change in &changes {
            write(&mut self.files, change);
        }
        self.append(Body::WorkspaceRewound(WorkspaceRewound { changes, by: "world".to_owned() }));
        if self.choices.once_in(2) {
            self.append(Body::WorkspaceRestored(WorkspaceRestored {}));
        }
        true
    }

    fn fold(&mut self, by: FoldedBy) {
        let steps = self.state.ledger().steps;
        let newest = (steps - self.state.folded_before()) as usize;
        let from = StepId(steps - self.choices.pick(newest) as u32);
        let route = self.state.route().unwrap_or_default();
        let folded = ContextFolded { from, by, text: digest(6), route, tokens: 90, window: Some(100) };
        self.append(Body::ContextFolded(folded));
    }

    fn judge(&mut self, act: ActId) {
        let verdict = match self.state.gate_run().unwrap() {
            (said, SameTree::Yes) => said,
            (said, SameTree::No) => said.on_another_tree(),
        };
        self.append(Body::GateJudged(GateJudged { act, tree: tree(&self.files), verdict }));
    }

    fn finish(&mut self, outcome: Outcome) {
        let tree = tree(&self.files);
        let verified =
            self.state.gate_holds() && self.state.last_gate().is_some_and(|judged| judged.tree == tree);
        self.append(Body::RunFinished(RunFinished { outcome, verified, tree, needed: None }));
    }

    /// A change of a file as it is now: to something new, or away.
    fn change(&mut self, name: &str) -> Change {
        let path = path(name);
        let before = self.files.get(&path).cloned();
        self.content += 1;
        let gone = before.is_some() && self.choices.once_in(5);
        let after = (!gone).then(|| fact(digest(self.content)));
        Change { path, before, after }
    }
}

/// What contained each act of a journal when it started.
fn rungs(events: &[Event]) -> BTreeMap<ActId, Rung> {
    let mut rung = Rung::R0;
    let mut acts = BTreeMap::new();
    for event in events {
        match &event.body {
            Body::DriverAttached(body) => rung = body.containment.rung,
            Body::ActStarted(body) => drop(acts.insert(body.act, rung)),
            _ => {}
        }
    }
    acts
}

/// All that each file that ever changed has been.
pub(crate) fn past(events: &[Event]) -> BTreeMap<RelPath, Vec<Option<FileFact>>> {
    let mut past: BTreeMap<RelPath, Vec<Option<FileFact>>> = BTreeMap::new();
    let mut changes = Changes::default();
    for change in events.iter().flat_map(|event| changes.by(event)) {
        let facts = past.entry(change.path).or_insert_with(|| vec![change.before]);
        if !facts.contains(&change.after) {
            facts.push(change.after);
        }
    }
    past
}

fn write(files: &mut Files, change: &Change) {
    match &change.after {
        Some(fact) => drop(files.insert(change.path.clone(), fact.clone())),
        None => drop(files.remove(&change.path)),
    }
}

/// A journal for tests that need one and not all.
pub(crate) fn journals() -> impl Strategy<Value = Vec<Event>> {
    choices(220).prop_map(|choices| World::new(choices).run())
}

/// A short run in which everything goes well: reads, writes, runs a command, submits, passes its gate.
pub(crate) fn good_run() -> Vec<Event> {
    let mut world = World::new(Choices::new(Vec::new()));
    world.attach();
    world.answer(3);
    let at = |index| Some(CallRef { step: StepId(0), index });
    let touches = vec![Touch::Read { path: path("a") }];
    world.decide(at(0), "read", digest(30), touches, Recovery::Replayable);
    world.end(ActId(0), ActEnd::Done, vec![], vec![], None);
    let touches = vec![Touch::Write { path: path("a") }];
    world.decide(at(1), "write", digest(31), touches, Recovery::Replayable);
    let changes = vec![world.change("a")];
    let intent = Intent::Write { changes: changes.clone() };
    world.append(Body::ActStarted(ActStarted { act: ActId(1), intent }));
    world.wrote(ActId(1), &changes);
    let touches = vec![Touch::Exec { argv: words("rm a"), program: Some("/bin/rm".to_owned()) }];
    world.decide(at(2), "exec", digest(32), touches, Recovery::Supervised);
    world.end(ActId(2), ActEnd::Refused, vec![], vec![], None);
    while world.step() {}
    world.events
}

impl World {
    fn answer(&mut self, calls: u32) {
        let step = StepId(self.state.ledger().steps);
        let invocation = invocation_id(self.state.stream(), step);
        self.append(Body::ModelAnswered(ModelAnswered {
            step,
            invocation,
            route: RouteId::FIRST,
            prompt: None,
            answer: digest(9),
            calls,
            text: false,
            stop: Stop::ToolCalls,
            usage: Usage { input: 10, output: 5, ..Usage::default() },
            estimated: false,
            raw_usage: None,
            rate_limits: None,
            model: "m".to_owned(),
            latency_ms: 1,
            ttft_ms: None,
        }));
    }
}

/// The bound that a run's outcome names.
pub(crate) fn bound_of(outcome: Outcome) -> Option<Bound> {
    match outcome {
        Outcome::BudgetSpent { bound } => Some(bound),
        _ => None,
    }
}
