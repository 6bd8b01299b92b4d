//! A world that drives [`RunState::next`] and makes valid journals of it: a model, a person, a workspace and drivers
//! that crash, all of them decided by a list of choices.
//!
//! One call of [`World::step`] appends one event, so every crash point lies between two steps. Where the choices run
//! out the world does the simplest thing, which leads to the end of the run; a shorter list is thus a simpler world,
//! and proptest shrinks it. Nothing here looks into the state beyond its public surface.

mod agents;
mod servers;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use provost_core::act::{ActEnd, Change, CommandFact, ExitFact, FileFact, Intent, Recovery, Touch};
use provost_core::agents::AgentEnd;
use provost_core::budget::{Bound, Budget, Price};
use provost_core::changes::Changes;
use provost_core::containment::{Guarantee, Receipt, Rung, Strength};
use provost_core::contract::{Gate, Limits, Source};
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::{
    ActApproved, ActDecided, ActFinished, ActSettled, ActStaged, ActStarted, Body, CallInvalid, CallRef,
    ContextFolded, DriverAttached, DriverDetached, Event, FoldedBy, GateJudged, GateVerdict, InvalidCall,
    ModelAnswered, ModelFact, ModelFailed, NetDecided, Note, NoteWhy, ProcessChanged, ProcessEnded,
    PromptBroke, Questions, RateLimitFact, RunCancelled, RunCreated, RunFinished, RunHeld, RunQueued, Seen,
    Settlement, Submitted, Told, Unapplied, Verdict, WhyUnapplied, WindowFact, WorkspaceDrifted,
    WorkspaceRestored, WorkspaceRewound,
};
use provost_core::id::{ActId, AgentId, RunId, StepId};
use provost_core::outcome::{Outcome, Pause};
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Layer, Ordered, Policy, Preset, WorkspaceMode};
use provost_core::price::{PriceFrom, Rates, Tier};
use provost_core::prompt::Break;
use provost_core::route::{Begin, Downshift, Escalate, Route, RouteId, Routing, Unresolved};
use provost_core::state::{Next, OpenAct, Process, RunState, UNKNOWN_OUTCOME, invocation_id};
use provost_core::transcript::{Stop, Usage};

/// More steps than any world takes: a run that needs them does not end.
pub(crate) const TOO_MANY_STEPS: usize = 3000;

/// Crashes, interruptions and drifts that a world can hold, so that it ends.
const TROUBLES: u32 = 12;

/// Decisions of everything that is not the state machine.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// One of `n`; 0, the simplest, where the list has run out.
    pub(crate) fn pick(&mut self, n: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % n
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.pick(all.len())].clone()
    }
}

/// Choices for proptest.
pub(crate) fn choices(most: usize) -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u8>(), 0..most).prop_map(Choices::new)
}

/// A digest that stands for content number `n`.
pub(crate) fn digest(n: u64) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    Digest::new(bytes)
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

pub(crate) fn receipt(rung: Rung) -> Receipt {
    Receipt {
        rung,
        guarantees: BTreeMap::new(),
        kernel: "6.18".to_owned(),
        landlock_abi: None,
        image: None,
        engine: None,
        staged: None,
    }
}

/// The same, of a containment that stages changes.
pub(crate) fn staging(rung: Rung) -> Receipt {
    Receipt { guarantees: BTreeMap::from([(Guarantee::Staged, Strength::Enforced)]), ..receipt(rung) }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The file that policy protects, and one that it asks about.
pub(crate) const PROTECTED: &str = "guarded/key";
pub(crate) const ASKED: &str = "asked/file";
const FREE: [&str; 3] = ["a", "src/lib.rs", "new/file"];

/// The policies of the worlds. Each denies writes beneath `guarded` and asks about those beneath `asked`. Compiled
/// once: globs are what takes time here.
static POLICIES: LazyLock<[Policy; 3]> = LazyLock::new(|| {
    let rules = || {
        Layer::named("world")
            .rule(Effect::Deny, "write guarded/")
            .and_then(|layer| layer.rule(Effect::Deny, "exec rm"))
            .and_then(|layer| layer.rule(Effect::Ask, "write asked/"))
            .and_then(|layer| layer.rule(Effect::Ask, "read asked/"))
            .and_then(|layer| layer.rule(Effect::Allow, "exec make*"))
            .and_then(|layer| layer.rule(Effect::Allow, "call post.mail"))
            .unwrap()
    };
    let mut contained = Policy::preset(Preset::Workspace).with(rules());
    contained.at_least = Rung::R1;
    let refuses_gate =
        Policy::preset(Preset::Workspace).with(rules().rule(Effect::Deny, "exec check").unwrap());
    [contained, Policy::preset(Preset::Strict).with(rules()), refuses_gate]
});

/// One of the policies; one in three has changes staged.
fn policy(choices: &mut Choices) -> Policy {
    let mut policy = POLICIES[[0, 0, 1, 1, 2][choices.pick(5)]].clone();
    if choices.once_in(3) {
        policy.workspace = WorkspaceMode::staged();
    }
    policy
}

/// A contract for a world.
/// What a vendor says of its limits.
fn limits() -> RateLimitFact {
    let window = WindowFact {
        counts: "requests".to_owned(),
        limit: Some(50),
        remaining: Some(49),
        resets_in_ms: Some(1_200),
    };
    RateLimitFact { windows: vec![window], extras: Some(digest(6)) }
}

fn contract(choices: &mut Choices) -> RunCreated {
    let budget = Budget {
        steps: Some([12, 6, 3, 1][choices.pick(4)]),
        tokens: [None, Some(9_000), Some(300)][choices.pick(3)],
        cost_micros: [None, Some(5_000), Some(200)][choices.pick(3)],
        time_ms: [None, Some(60_000), Some(2_000)][choices.pick(3)],
    };
    let rates = Rates { input: 300_000, output: 1_500_000, cache_read: 30_000, cache_write: 375_000 };
    let dear = Rates { input: 600_000, output: 2_250_000, cache_read: 60_000, cache_write: 750_000 };
    let mut price = Price::of_rates(rates).known_from(PriceFrom::Table { as_of: "2026-01-31".to_owned() });
    price.tiers.extend((choices.pick(2) == 0).then_some(Tier { above: 30, rates: dear }));
    let gate =
        Gate { argv: words("check all"), limit_ms: 1000, attempts: choices.pick(3) as u32, with: Vec::new() };
    let policy = policy(choices);
    RunCreated {
        servers: servers::servers(choices, &policy),
        provost: "0.0.0".to_owned(),
        goal: digest(1),
        system: digest(2),
        tools: digest(3),
        policy,
        budget,
        price: (budget.cost_micros.is_some() || choices.pick(2) == 0).then_some(price),
        gate: (!choices.once_in(3)).then_some(gate),
        limits: Limits { agents: agents::limits(choices), ..Limits::default() },
        model: model("m"),
        routing: routing(choices, &Price::of_rates(dear)).kept(),
        brief: None,
        source: Source::Directory { commit: None, scope: RelPath::root() },
        repository: None,
        root: "/w".to_owned(),
        tree: tree(&start()),
        files: 3,
        manifest: digest(4),
        forked: None,
        authorized: None,
    }
}

fn model(name: &str) -> ModelFact {
    ModelFact::new("scripted", name, "http://localhost")
}

/// One in three has other models: a fallback, a stronger one and a cheaper one.
fn routing(choices: &mut Choices, price: &Price) -> Routing {
    if !choices.once_in(3) {
        return Routing::default();
    }
    let route = |name| Route { model: model(name), price: Some(price.clone()) };
    let some = |choices: &mut Choices| choices.pick(2) == 0;
    Routing {
        others: vec![route("fallback"), route("stronger"), route("cheaper")],
        fallback: vec![RouteId(1)],
        begin: choices.of(&[Begin::Chosen, Begin::Anyone]),
        unresolved: choices.of(&[Unresolved::AskAgain, Unresolved::GoOn]),
        escalate: some(choices).then_some(Escalate { after: 1, to: RouteId(2) }),
        downshift: some(choices).then_some(Downshift { below_bytes: 2, to: RouteId(3) }),
    }
}

/// A run that was queued as `created` then is.
pub(crate) fn queued(created: &RunCreated) -> RunQueued {
    let created = created.clone();
    RunQueued {
        provost: created.provost,
        goal: created.goal,
        policy: created.policy,
        budget: created.budget,
        price: created.price.clone(),
        gate: created.gate,
        limits: created.limits,
        model: created.model,
        routing: created.routing,
        servers: created.servers,
        brief: created.brief,
        key_env: Some("KEY".to_owned()),
        root: created.root,
        repository: created.repository,
        questions: Questions::Wait,
    }
}

fn as_queued(created: &mut RunCreated, queued: &RunQueued) {
    let queued = queued.clone();
    created.policy = queued.policy;
    created.budget = queued.budget;
    created.price = queued.price.clone();
    created.routing = queued.routing;
    created.servers = queued.servers;
    created.gate = queued.gate;
    created.limits = queued.limits;
}

pub(crate) fn held() -> Body {
    Body::RunHeld(RunHeld { by: "somebody".to_owned(), why: digest(9) })
}

pub(crate) fn cancelled() -> Body {
    Body::RunCancelled(RunCancelled { by: "somebody".to_owned() })
}

type Files = BTreeMap<RelPath, FileFact>;

fn fact(content: Digest) -> FileFact {
    FileFact { mode: "100644".to_owned(), size: 1, content, kept: true }
}

/// The files at the start of every world.
pub(crate) fn start() -> Files {
    ["a", PROTECTED, ASKED].into_iter().zip(10..).map(|(name, n)| (path(name), fact(digest(n)))).collect()
}

/// Names files by what is in them; a stand-in for git's tree ids.
pub(crate) fn tree(files: &Files) -> TreeDigest {
    // FNV-1a, four times with different starts: no cryptography, but no accident either.
    let text = format!("{files:?}");
    let mut bytes = [0; 32];
    for (salt, chunk) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        chunk.copy_from_slice(&hash.to_be_bytes());
    }
    TreeDigest { sha1: "0".repeat(40), sha256: Digest::new(bytes) }
}

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

    fn ask(&mut self, step: StepId, invocation: String, route: RouteId) {
        if self.state.can_fold() && self.choices.once_in(20) {
            return self.fold(FoldedBy::Runtime);
        }
        if self.state.can_fold() && !self.state.is_folding() && self.choices.once_in(10) {
            return self.append(Body::Note(Note { why: NoteWhy::ContextFull, text: digest(7) }));
        }
        let price = self.state.price_of(route).cloned();
        if self.troubles > 0 && self.choices.once_in(9) {
            self.troubles -= 1;
            let usage = Usage { input: 7, ..Usage::default() };
            let body = ModelFailed {
                usage: (self.choices.once_in(3) && self.state.ledger().reserve(price.as_ref(), 7, 1).is_ok())
                    .then_some(usage),
                step,
                route,
                attempt: 1,
                class: self.choices.of(&["overloaded", UNKNOWN_OUTCOME]).to_owned(),
                status: Some(529),
                estimated: false,
                rate_limits: Some(limits()),
                message: digest(8),
                retry_in_ms: self.choices.of(&[Some(10), None]),
            };
            return self.append(Body::ModelFailed(body));
        }
        let estimate = 10 + self.choices.pick(50) as u64;
        let granted = match self.state.ledger().reserve(price.as_ref(), estimate, 100) {
            Ok(tokens) => tokens,
            Err(bound) => {
                let agent = self.state.acting();
                let open = match agent {
                    AgentId::ROOT => self.state.open_processes(),
                    child => self.state.open_processes_of(child),
                };
                return match open.first() {
                    Some(process) => self.end_process(*process),
                    None if agent == AgentId::ROOT => self.finish(Outcome::BudgetSpent { bound }),
                    None => self.end_agent(AgentEnd::BudgetSpent { bound }),
                };
            }
        };
        // Silence says nothing, a final answer ends the run, calls go on.
        let what = match self.mood {
            Mood::Lively => self.choices.pick(8),
            Mood::Silent => self.choices.of(&[0, 1, 1, 1, 1, 1, 2, 3]),
            Mood::Stubborn => self.choices.of(&[0, 4, 4, 4, 4, 4, 4, 4]),
        };
        let (calls, text, stop) = match what {
            0 => (0, true, Stop::End),
            1 => (0, false, Stop::End),
            2 => (self.choices.pick(3) as u32, true, Stop::Length),
            3 => (0, true, Stop::Refused),
            _ => (1 + self.choices.pick(3) as u32, false, Stop::ToolCalls),
        };
        let cached = self.choices.pick(10) as u64;
        let written = self.choices.pick(estimate as usize - 9) as u64;
        let usage = Usage {
            input: estimate - cached - written.min(estimate - cached),
            output: granted.min(self.choices.pick(200) as u64),
            cache_read: cached,
            cache_write: written.min(estimate - cached),
            reasoning: 0,
        };
        let estimated = self.choices.once_in(5);
        self.append(Body::ModelAnswered(ModelAnswered {
            step,
            invocation,
            route,
            prompt: None,
            answer: digest(9),
            calls,
            text,
            stop,
            usage,
            estimated,
            raw_usage: (!estimated).then(|| digest(7)),
            rate_limits: (!text).then(limits),
            model: "m".to_owned(),
            latency_ms: 1,
            ttft_ms: None,
        }));
        if let Some(missed) = self.state.cache_miss().filter(|_| self.choices.once_in(2)) {
            self.append(Body::CacheMissed(missed));
        }
    }

    /// Reads a call as an act. Sometimes the one behind it is read as well, before the first is carried out.
    fn call(&mut self, call: CallRef) {
        let mine = self.state.acting();
        let mut events = self.events.iter().rev().filter(|event| event.agent == mine);
        let cut_off = events.find_map(|event| match &event.body {
            Body::ModelAnswered(body) => Some(body.stop == Stop::Length),
            _ => None,
        });
        if cut_off != Some(true) && self.state.is_folding() {
            let why = InvalidCall::InsteadOfSummary;
            return self.append(Body::CallInvalid(CallInvalid { call, why, result: digest(20) }));
        }
        if cut_off == Some(true) || (self.mood == Mood::Lively && self.choices.once_in(6)) {
            let why = match cut_off {
                Some(true) => InvalidCall::CutOff,
                _ => self.choices.of(&[InvalidCall::BadArguments, InvalidCall::UnknownTool]),
            };
            return self.append(Body::CallInvalid(CallInvalid { call, why, result: digest(20) }));
        }
        let read = |name: &str| Touch::Read { path: path(name) };
        let exec = |line: &str| Touch::Exec { argv: words(line), program: None };
        // Few argument digests, so that the same failing call comes up again.
        let args = digest(30 + self.choices.pick(3) as u64);
        let (args, what) = match self.mood {
            Mood::Stubborn if mine == AgentId::ROOT => {
                (digest(30), self.choices.of(&[0, 6, 6, 6, 6, 6, 14, 14]))
            }
            Mood::Stubborn => (digest(30), self.choices.of(&[0, 6, 6, 6, 6, 6, 6, 6])),
            _ => (args, self.choices.pick(16)),
        };
        let (tool, touches, recovery) = match what {
            0 => ("submit", vec![], Recovery::Replayable),
            1 => ("read", vec![read("a")], Recovery::Replayable),
            2 => ("read", vec![read(ASKED), read("a")], Recovery::Replayable),
            3..=5 => {
                let names: &[&str] = match self.choices.pick(5) {
                    0 => &["a"],
                    1 => &["src/lib.rs", "new/file"],
                    2 => &[ASKED, "a"],
                    3 => &[PROTECTED],
                    _ => &[],
                };
                let touches = names.iter().map(|name| Touch::Write { path: path(name) }).collect();
                ("write", touches, Recovery::Replayable)
            }
            6 => ("exec", vec![exec("rm -rf a")], Recovery::Supervised),
            7 => ("exec", vec![exec("git push")], Recovery::Supervised),
            12 => ("shell_poll", vec![], Recovery::Replayable),
            7..=11 | 13 if !self.created().servers.is_empty() => servers::call(&mut self.choices),
            14 | 15 => ("delegate", vec![Touch::Spawn { agent: "helper".to_owned() }], Recovery::Replayable),
            8 => ("mcp", vec![Touch::Call { tool: "mail".to_owned() }], Recovery::Indeterminate),
            _ => ("exec", vec![exec("make all")], Recovery::Supervised),
        };
        self.decide(Some(call), tool, args, touches, recovery);
    }

    fn decide(
        &mut self,
        call: Option<CallRef>,
        tool: &str,
        args: Digest,
        touches: Vec<Touch>,
        recovery: Recovery,
    ) {
        let whose = call.map_or(AgentId::ROOT, |_| self.state.acting());
        let policy = self.state.policy_of(whose).unwrap();
        let decision = match call {
            Some(_) => policy.decide(&touches, self.state.rung()),
            None => policy.decide_ordered(&touches, self.state.rung(), Ordered::by(tool)),
        };
        let act = self.state.next_act();
        self.append(Body::ActDecided(ActDecided {
            act,
            call,
            tool: tool.to_owned(),
            args,
            touches,
            recovery,
            decision,
        }));
    }

    /// Takes one of the open acts a step further, not always the first; or reads one more call meanwhile.
    fn act(&mut self) {
        if let Some(call) = self.unread_call()
            && self.state.cancelled().is_none()
            && self.choices.once_in(3)
        {
            return self.call(call);
        }
        let open: Vec<ActId> = match self.state.next() {
            Next::Recover(id) if self.state.cancelled().is_some() => vec![id],
            _ => self.acts_at_hand(),
        };
        // Nobody calls a server that is about to start.
        let start = self.state.open_acts().iter().find(|(_, act)| self.state.starts_server(act).is_some());
        let start = start.map(|(id, _)| *id).filter(|id| open.contains(id));
        let id = start.unwrap_or_else(|| self.choices.of(&open));
        let act = self.state.open_acts()[&id].clone();
        if let Some(intent) = &act.started {
            self.settle(id, &act, intent);
        } else if act.is_refused() {
            self.end(id, ActEnd::Refused, Vec::new(), Vec::new(), None);
        } else if act.may_start() {
            self.perform(id, &act);
        } else {
            match self.choices.pick(3) {
                0 => self.verdict(id, Verdict::Denied),
                1 => self.verdict(id, Verdict::Approved),
                _ => {
                    self.detach(Pause::Approval, Some(id));
                }
            }
        }
    }

    /// A call of the step that has not been read, while another's act is open.
    fn unread_call(&self) -> Option<CallRef> {
        let mut read = 0;
        let mine = self.state.acting();
        for event in self.events.iter().rev().filter(|event| event.agent == mine) {
            match &event.body {
                Body::ModelAnswered(body) => {
                    return (read < body.calls && body.stop != Stop::Length)
                        .then_some(CallRef { step: body.step, index: read });
                }
                Body::CallInvalid(_) | Body::ActDecided(ActDecided { call: Some(_), .. }) => read += 1,
                _ => {}
            }
        }
        None
    }

    fn verdict(&mut self, act: ActId, verdict: Verdict) {
        self.append(Body::ActApproved(ActApproved { act, verdict, by: "world".to_owned() }));
    }

    /// Begins an act that may begin; one that only reads is over at once.
    fn perform(&mut self, id: ActId, act: &OpenAct) {
        let mut writes = Vec::new();
        for (index, touch) in act.touches.iter().enumerate() {
            match touch {
                Touch::Read { .. } => {}
                Touch::Write { path } => writes.push(path.clone()),
                Touch::Call { .. } => return self.perform_call(id, act),
                Touch::Exec { argv, .. } if index == 0 => {
                    let (argv, cwd) = (argv.clone(), RelPath::root());
                    let staged = self.created().policy.workspace.is_staged();
                    let server = self.state.starts_server(act).is_some();
                    let narrowed = self.state.bound_as(act.agent) != AgentId::ROOT;
                    let may_go_on = act.call.is_some() && !staged && !narrowed;
                    let intent = if server || (may_go_on && self.choices.once_in(3)) {
                        Intent::Background { argv, cwd, limit_ms: None, publish: None }
                    } else {
                        Intent::Command { argv, cwd, limit_ms: 1000 }
                    };
                    self.append(Body::ActStarted(ActStarted { act: id, intent }));
                    return self.dial(id);
                }
                Touch::Spawn { .. } => return self.spawn(id, act),
                // Not yet in the journal's vocabulary: these fail before they start.
                _ => {
                    return self.end(id, ActEnd::Failed, Vec::new(), Vec::new(), None);
                }
            }
        }
        let end = if self.choices.once_in(5) { ActEnd::Failed } else { ActEnd::Done };
        if writes.is_empty() || end == ActEnd::Failed {
            return self.end(id, end, Vec::new(), Vec::new(), None);
        }
        let changes = writes.iter().map(|path| self.change(path.as_str())).collect();
        self.append(Body::ActStarted(ActStarted { act: id, intent: Intent::Write { changes } }));
    }

    /// A command that runs may dial.
    fn dial(&mut self, act: ActId) {
        if self.choices.once_in(3) {
            let (host, port) = ("example.org".to_owned(), 443);
            let policy = self.state.policy_of(self.state.open_acts()[&act].agent).unwrap();
            let decision = policy.decide_dial(&host, port, self.state.rung());
            self.append(Body::NetDecided(NetDecided { act, host, port, decision, private: Vec::new() }));
        }
    }

    /// Ends an act that started. By the same driver or by the next, the event is the same.
    fn settle(&mut self, id: ActId, act: &OpenAct, intent: &Intent) {
        if let Intent::Write { changes } = intent {
            // Meanwhile a drift may have taken the files elsewhere: then the write failed and changed nothing.
            let fits = changes.iter().all(|change| self.files.get(&change.path) == change.before.as_ref());
            if !fits || self.choices.once_in(5) {
                return self.end(id, ActEnd::Failed, Vec::new(), Vec::new(), None);
            }
            return self.wrote(id, changes);
        }
        if let Intent::Call { .. } = intent {
            return self.settle_call(id, act);
        }
        if let Intent::Background { .. } = intent {
            let end = if self.choices.once_in(6) { ActEnd::Interrupted } else { ActEnd::Done };
            return self.end(id, end, vec![], vec![], None);
        }
        if let Intent::Spawn(spawn) = intent {
            return self.end_spawn(id, spawn.agent);
        }
        if let Some(staged) = &act.staged {
            return self.apply_staged(id, staged);
        }
        if self.state.indeterminate_act() == Some(id) || (self.troubles > 0 && self.choices.once_in(9)) {
            return self.ask_a_person(id);
        }
        if act.settled.is_some() || self.choices.once_in(8) {
            // It was not let go, or a person says what became of it.
            return self.end(id, ActEnd::Interrupted, Vec::new(), Vec::new(), None);
        }
        if self.created().policy.workspace.is_staged() && act.call.is_some() {
            return self.stage(id, act);
        }
        let exit = self.exit();
        let mut changes = match self.choices.pick(if act.call.is_some() { 3 } else { 6 }) {
            1 => vec![self.change("a")],
            2 => vec![self.change("new/file"), self.change(ASKED)],
            _ => vec![],
        };
        let mut reverted = if self.choices.once_in(4) { vec![path(PROTECTED)] } else { vec![] };
        reverted.extend(self.take_back(id, &mut changes));
        let command = self.ran(act, exit);
        self.end(id, exit.end(), changes, reverted, Some(command));
    }

    fn exit(&mut self) -> ExitFact {
        match self.choices.pick(8) {
            0..=3 => ExitFact::Exited { code: 0 },
            4 | 5 => ExitFact::Exited { code: 1 },
            6 => self.choices.of(&[ExitFact::TimedOut { limit_ms: 1000 }, ExitFact::Signalled { signal: 9 }]),
            _ => self.choices.of(&[ExitFact::DriverLost, ExitFact::Cancelled]),
        }
    }

    fn ran(&mut self, act: &OpenAct, exit: ExitFact) -> CommandFact {
        CommandFact {
            exit,
            duration_ms: 1,
            output_bytes: 0,
            survivors: 0,
            caps: Vec::new(),
            traffic: None,
            containment: (act.rung != self.state.rung() || self.choices.once_in(4))
                .then(|| receipt(act.rung)),
        }
    }

    /// What a command changed in its layer; or it is gone with its driver.
    fn stage(&mut self, id: ActId, act: &OpenAct) {
        let left = |name: &str, why| Unapplied { path: path(name), why };
        let (mut changes, mut unapplied) = match self.choices.pick(6) {
            0 => (vec![self.change("a")], vec![]),
            1 => (
                vec![self.change("new/file"), self.change("a")],
                vec![left(PROTECTED, WhyUnapplied::Guarded)],
            ),
            2 => (vec![], vec![left("a", WhyUnapplied::Conflict), left("b", WhyUnapplied::HeldBack)]),
            3 => (vec![], vec![]),
            4 => {
                let command = self.ran(act, ExitFact::DriverLost);
                return self.end(id, ActEnd::Interrupted, vec![], vec![], Some(command));
            }
            _ => return self.end(id, ActEnd::Interrupted, vec![], vec![], None),
        };
        let guarded = self.take_back(id, &mut changes);
        unapplied.extend(guarded.into_iter().map(|path| Unapplied { path, why: WhyUnapplied::Guarded }));
        let beside = self.choices.pick(2) as u64;
        self.append(Body::ActStaged(Box::new(ActStaged { act: id, changes, unapplied, beside })));
    }

    /// Puts what was staged into the workspace; where a file is not what it was, nothing of it.
    fn apply_staged(&mut self, id: ActId, staged: &ActStaged) {
        let fits = |change: &Change| self.files.get(&change.path) == change.before.as_ref();
        let mut unapplied = staged.unapplied.clone();
        if !staged.changes.iter().all(fits) {
            unapplied.extend(staged.changes.iter().map(|change| {
                let why = if fits(change) { WhyUnapplied::HeldBack } else { WhyUnapplied::Conflict };
                Unapplied { path: change.path.clone(), why }
            }));
        }
        let changes = staged.applied(&unapplied, &[]);
        let act = self.state.open_acts()[&id].clone();
        let (end, command) = if self.choices.once_in(6) {
            (ActEnd::Interrupted, None)
        } else {
            let exit = self.exit();
            (exit.end(), Some(self.ran(&act, exit)))
        };
        self.finish_act(id, end, changes, vec![], unapplied, command);
    }

    /// Nobody can tell what became of an act. The next time, a person does.
    fn ask_a_person(&mut self, act: ActId) {
        if self.state.cancelled().is_some() {
            return self.end(act, ActEnd::Interrupted, Vec::new(), Vec::new(), None);
        }
        if self.state.indeterminate_act() == Some(act) {
            let how = self.choices.of(&[Settlement::DidNot, Settlement::Happened, Settlement::Again]);
            return self.append(Body::ActSettled(ActSettled { act, how, by: "world".to_owned() }));
        }
        if self.state.open_acts()[&act].settled.is_some() {
            // A person has said so before.
            return self.end(act, ActEnd::Interrupted, Vec::new(), Vec::new(), None);
        }
        self.troubles -= 1;
        self.detach(Pause::Indeterminate, Some(act));
    }

    /// A write did what it set out to do, which its start says.
    fn wrote(&mut self, act: ActId, changes: &[Change]) {
        for change in changes {
            write(&mut self.files, change);
        }
        self.end(act, ActEnd::Done, Vec::new(), Vec::new(), None);
    }

    fn end(
        &mut self,
        act: ActId,
        end: ActEnd,
        changes: Vec<Change>,
        reverted: Vec<RelPath>,
        command: Option<CommandFact>,
    ) {
        self.finish_act(act, end, changes, reverted, Vec::new(), command);
    }

    fn finish_act(
        &mut self,
        act: ActId,
        end: ActEnd,
        changes: Vec<Change>,
        reverted: Vec<RelPath>,
        unapplied: Vec<Unapplied>,
        command: Option<CommandFact>,
    ) {
        for change in &changes {
            write(&mut self.files, change);
        }
        let seen = match end {
            ActEnd::Done => vec![Seen { path: path("a"), content: digest(10) }],
            _ => vec![],
        };
        let open = &self.state.open_acts()[&act];
        let (rung, is_poll) = (open.rung, open.tool == "shell_poll");
        let server = self.state.starts_server(open).is_some();
        let begins = matches!(open.started, Some(Intent::Background { .. })) && !server;
        self.started_as.insert(act, rung);
        let mine = open.agent;
        let mine = |process: &Process| process.agent() == mine && process.server.is_none();
        let processes = self.state.processes().filter(|(_, process)| mine(process));
        let processes: Vec<_> = processes.map(|(act, process)| (act, process.clone())).collect();
        let told = match (end, begins, is_poll) {
            (ActEnd::Done, true, _) => Some(Told { process: act, from: 0, to: 3 }),
            (ActEnd::Done, false, true) if !processes.is_empty() => {
                let (process, was) = self.choices.of(&processes);
                let most = match &was.end {
                    None => was.shown + 4,
                    Some(end) => end.command.as_ref().map_or(was.shown, |command| command.output_bytes),
                };
                Some(Told { process, from: was.shown, to: most })
            }
            _ => None,
        };
        self.append(Body::ActFinished(Box::new(ActFinished {
            act,
            end,
            told,
            result: digest(11),
            changes,
            reverted,
            unapplied,
            seen,
            command,
            duration_ms: 1,
        })));
    }

    fn judge(&mut self, act: ActId) {
        let verdict = match self.state.gate_run().unwrap() {
            (Some(ExitFact::Exited { code: 0 }), false) => GateVerdict::Passed,
            (Some(ExitFact::Exited { code: 0 } | ExitFact::Cancelled | ExitFact::DriverLost) | None, _) => {
                GateVerdict::Errored
            }
            (Some(_), _) => GateVerdict::Failed,
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
