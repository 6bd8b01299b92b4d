//! Every crash, in simulation: the real driver and the real state machine on a simulated store, model, clock and
//! executor, and on real files in memory. A run is taken to its end; then from each point that it passed it is taken up
//! again, and from each point of that once more (I1 to I6, I12).
//!
//! `PROVOST_SIM_SEED=N` replays one seed; `PROVOST_SIM_SCHEDULES=N` tries so many schedules in each test.

mod agents;
mod commands;
mod model;
mod scenario;
mod servers;
mod store;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_agent::{
    Answer as Given, Ending, Interrupt, Order, Queued, Runtime, Says, Session, Unobserved, Word, enqueue,
};
use provost_core::act::{ActEnd, Intent};
use provost_core::contract::Source;
use provost_core::event::{Body, ModelFact, Questions, Settlement, Verdict};
use provost_core::id::{ActId, RunId};
use provost_core::outcome::{Outcome, Pause};
use provost_core::path::RelPath;
use provost_core::transcript::Usage;
use provost_journal::{Letter, Word as Told};
use provost_model::RetryPolicy;
use provost_tools::Registry;
use provost_tools::command::HostEnvironment;

use commands::SimExecutor;
use model::SimModel;
use scenario::{Begins, FILES, Scenario};
use servers::SimClient;
use store::SimStore;
use world::{Files, Keep, Tree, World};

/// A world, and a driver for it whose memory nothing outlives.
struct Sim {
    world: Arc<World>,
    runtime: Runtime,
    scenario: Scenario,
    executor: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
struct End {
    outcome: Outcome,
    verified: bool,
    files: Files,
    steps: u32,
    usage: Usage,
}

/// A run that is over.
struct Over {
    end: End,
    folders: BTreeSet<PathBuf>,
    /// An act was cut short, or the budget was spent by what was lost: it may rightly have ended otherwise.
    may_differ: bool,
}

impl Over {
    /// What it left in the workspace.
    fn left(self) -> Tree {
        Tree { files: self.end.files, folders: self.folders }
    }
}

struct Approver;

impl provost_agent::Approver for Approver {
    fn name(&self) -> &'static str {
        "sim"
    }

    /// By what is asked, so that every driver of a run gives the same word. Not by the act's number: a server of tools that
    /// was lost with its driver takes one more.
    fn decide<'a>(&'a self, question: &'a provost_agent::Question) -> provost_model::BoxFuture<'a, Word> {
        let sum: usize = question.args.bytes().map(usize::from).sum();
        let word = [Word::Approve, Word::Deny, Word::Later][sum % 3];
        Box::pin(std::future::ready(word))
    }
}

impl Sim {
    fn new(seed: u64) -> Self {
        // In memory where the host has that: the simulation is about order, not about the disk.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let root = dir.path().join("w");
        std::fs::create_dir(&root).unwrap();
        let world = Arc::new(World::new(root, &FILES));
        let scenario = Scenario::of(seed);
        if scenario.begins == Begins::Cancelled {
            let letter = Letter { by: "somebody".to_owned(), at_ms: 0, says: Told::Cancel };
            world.with(|state| state.letters.push(letter));
        }
        let clock = world.clone();
        let script = Arc::new(scenario.scripts.clone());
        let model = |refused_from| -> Arc<dyn provost_model::Provider> {
            let (summary, counts) = (scenario.summary.clone(), scenario.window.is_some());
            Arc::new(SimModel { world: world.clone(), script: script.clone(), refused_from, summary, counts })
        };
        let runtime = Runtime {
            store: Arc::new(SimStore(world.clone())),
            others: (0..scenario.contract.routing.others.len()).map(|_| model(None)).collect(),
            provider: model(scenario.refused_from),
            model: ModelFact { window: scenario.window, ..ModelFact::new("sim", "sim", "") },
            tools: Registry::standard(),
            executor: Arc::new(SimExecutor(world.clone())),
            client: Arc::new(SimClient(world.clone())),
            variables: Arc::new(|_| None),
            drift: provost_agent::Drift::Refused,
            mandate: Arc::new(provost_agent::Standing),
            approver: Arc::new(Approver),
            observer: Arc::new(Unobserved),
            retry: RetryPolicy::default(),
            pace: std::time::Duration::ZERO,
            host: HostEnvironment::default(),
            images: provost_sandbox::image::ImageStore::new(dir.path().join("images")),
            engines: std::collections::BTreeMap::new(),
            spool: dir.path().join("spool"),
            clock: Arc::new(move || clock.tick()),
        };
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { world, runtime, scenario, executor, _dir: dir }
    }

    /// Takes the run from where the world stands to its end.
    fn drive(&self) -> Over {
        self.executor.block_on(async {
            let mut given: Vec<Given> = Vec::new();
            for _ in 0..20 {
                let run = self.world.with(|state| state.run.clone().filter(|_| !state.events.is_empty()));
                let interrupt = Interrupt::new().unwrap();
                let ending = match (&run, self.scenario.begins) {
                    (Some(run), _) => self.runtime.resume(run, &given, interrupt).await,
                    (None, Begins::Ordered) => match self.scenario.session.clone() {
                        None => self.runtime.start(self.order(), interrupt).await.map(|(_, ending)| ending),
                        Some(authorized) => {
                            let session = Session { run: "sim-session".parse().unwrap(), authorized };
                            self.runtime.start_session(self.order(), session, interrupt).await
                        }
                    },
                    (None, Begins::Queued | Begins::Cancelled) => {
                        let run = self.enqueue().await;
                        self.runtime.resume(&run, &given, interrupt).await
                    }
                };
                match ending.unwrap() {
                    Ending::Over(finished) => return self.over(finished.outcome, finished.verified),
                    Ending::Paused(paused) => {
                        let act = paused.act.unwrap();
                        given = match paused.why {
                            // Every other person writes, and goes.
                            Pause::Approval if act.0 % 2 == 1 => {
                                self.write_to(act);
                                Vec::new()
                            }
                            why => vec![self.word_on(why, act)],
                        };
                    }
                }
            }
            panic!("the run does not end");
        })
    }

    async fn enqueue(&self) -> RunId {
        let Order { contract, workspace, repository, .. } = self.order();
        let model = self.runtime.model.clone();
        let queued =
            Queued { contract, workspace, repository, model, key_env: None, questions: Questions::Wait };
        let id = Some("sim-queued".parse().unwrap());
        enqueue(&self.runtime.store, &self.runtime.clock, id, &queued).await.unwrap().0
    }

    fn order(&self) -> Order {
        Order {
            contract: self.scenario.contract.clone(),
            workspace: self.world.root.clone(),
            source: Source::Directory { commit: None, scope: RelPath::root() },
            repository: None,
        }
    }

    /// A person's word by letter, which nobody has to be asked for again.
    fn write_to(&self, act: ActId) {
        self.world.with(|state| {
            assert!(state.answered.insert(act), "what somebody wrote on act {act} was lost");
            let says = Told::Verdict { act, verdict: Verdict::Approved };
            state.letters.push(Letter { by: "somebody".to_owned(), at_ms: 0, says });
        });
    }

    /// A person's word, who looks and tells the truth.
    fn word_on(&self, why: Pause, act: ActId) -> Given {
        let says = match why {
            Pause::Approval => Says::Verdict(Verdict::Approved),
            Pause::Indeterminate => {
                let (ran, again) = self.world.with(|state| {
                    // What did not happen is wanted again by every other person.
                    let again = state.events.iter().rev().find_map(|event| match &event.body {
                        Body::ActStarted(body) if body.act == act => {
                            Some(matches!(body.intent, Intent::Call { .. }) && act.0.is_multiple_of(2))
                        }
                        _ => None,
                    });
                    (state.ran.iter().any(|ran| ran.act == act), again == Some(true))
                });
                Says::Settled(match (ran, again) {
                    (true, _) => Settlement::Happened,
                    (false, true) => Settlement::Again,
                    (false, false) => Settlement::DidNot,
                })
            }
            other => panic!("nobody paused it for {other:?}"),
        };
        Given { act, says }
    }

    /// What must hold of any run that is over, however often its drivers died.
    fn over(&self, outcome: Outcome, verified: bool) -> Over {
        let Tree { files, folders } = self.world.tree();
        self.world.with(|state| {
            // The state machine refuses what cannot have happened: acts against the policy, ends before starts, answers
            // counted twice, older drivers.
            let folded = agents::fold(&state.events);
            assert!(folded.open_acts().is_empty() || folded.cancelled().is_some());
            assert!(folded.open_processes().is_empty());
            let mut usage = Usage::default();
            let mut lost = 0;
            let mut started: BTreeMap<ActId, u32> = BTreeMap::new();
            let mut invocations = BTreeSet::new();
            let mut cut_short = false;
            let mut again: BTreeMap<ActId, u32> = BTreeMap::new();
            for event in &state.events {
                match &event.body {
                    Body::ActStarted(body)
                        if !matches!(body.intent, Intent::Write { .. } | Intent::Spawn(_)) =>
                    {
                        *started.entry(body.act).or_default() += 1;
                    }
                    Body::ModelAnswered(body) => {
                        usage.add(&body.usage);
                        assert!(
                            invocations.insert(&body.invocation),
                            "{} was counted twice",
                            body.invocation
                        );
                    }
                    Body::ModelFailed(body) => lost += u32::from(body.estimated),
                    Body::ActSettled(body) if body.how == Settlement::Again => {
                        *again.entry(body.act).or_default() += 1;
                    }
                    Body::ActFinished(body) => cut_short |= body.end == ActEnd::Interrupted,
                    _ => {}
                }
            }
            // I4: no command ran twice and no tool with an effect was called twice, and none that the journal does not know.
            let mut ran: BTreeMap<ActId, u32> = BTreeMap::new();
            for command in &state.ran {
                *ran.entry(command.act).or_default() += 1;
            }
            for (act, times) in &ran {
                assert_eq!(*times, 1, "act {act} ran twice");
                assert_eq!(
                    started.get(act).copied(),
                    Some(1 + again.get(act).copied().unwrap_or_default()),
                    "act {act} ran and was started {:?}",
                    started.get(act)
                );
            }
            let ledger = folded.ledger();
            let charged = ledger.usage;
            // I6: also where an answer was lost with its driver.
            assert!(
                charged.total() >= state.billed,
                "{charged:?} are in the ledger, {} were billed",
                state.billed
            );
            // What was lost counts against the budget of tokens, which may then end the run sooner.
            let spent_by_what_was_lost = lost > 0 && self.scenario.contract.budget.tokens.is_some();
            let end = End { outcome, verified, files, steps: ledger.steps, usage };
            // A driver that comes anew takes its time, in which an authorization may run out.
            let runs_out = self.scenario.session.is_some() && self.scenario.expires;
            Over { end, folders, may_differ: cut_short || spent_by_what_was_lost || runs_out }
        })
    }
}

/// How much was tried.
#[derive(Debug, Default, Clone, Copy)]
struct Tried {
    /// Crashes, or pairs of them.
    schedules: u64,
    /// Runs that were taken up: those of the schedules that are not the one before over again, by what they leave to a
    /// driver.
    driven: u64,
}

impl Tried {
    fn add(&mut self, schedules: u64) {
        self.schedules += schedules;
        self.driven += 1;
    }
}

/// All crashes of depth two of one scenario, or as many as are wanted.
fn explore(seed: u64, most: u64) -> Tried {
    let sim = Sim::new(seed);
    let say = |first: &str, second: &str| {
        if std::thread::panicking() {
            eprintln!("PROVOST_SIM_SEED={seed}: crashed {first}, then {second}");
        }
    };
    let mut tried = Tried::default();
    sim.world.keep(Keep::Points);
    let over = sim.drive();
    assert!(!over.may_differ || sim.scenario.expires, "seed {seed}: nothing was cut short");
    let whole = over.end.clone();
    let mut lies = over.left();
    for first in sim.world.take_points() {
        sim.world.restore(&first, &lies);
        sim.world.keep(Keep::Points);
        let _told = OnFailure(|| say(first.what, "not again"));
        let over = sim.drive();
        if !over.may_differ {
            assert_eq!(over.end, whole, "seed {seed}, crashed {}", first.what);
        }
        lies = over.left();
        tried.add(first.times);
        sim.world.keep(Keep::Nothing);
        for second in sim.world.take_points() {
            if tried.schedules >= most {
                return tried;
            }
            sim.world.restore(&second, &lies);
            let _told = OnFailure(|| say(first.what, second.what));
            let over = sim.drive();
            if !over.may_differ {
                let (first, second) = (first.what, second.what);
                assert_eq!(over.end, whole, "seed {seed}, crashed {first}, then {second}");
            }
            lies = over.left();
            tried.add(first.times * second.times);
        }
    }
    tried
}

/// Says where it happened when a test fails within.
struct OnFailure<F: Fn()>(F);

impl<F: Fn()> Drop for OnFailure<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Explores one seed after the other, from `first` in steps of `stride`, until there were enough schedules.
fn explore_from(first: u64, stride: u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("PROVOST_SIM_SEED") {
        println!("seed {seed}: {:?}", explore(seed, u64::MAX));
        return;
    }
    let wanted = number("PROVOST_SIM_SCHEDULES").unwrap_or(30_000);
    let (mut seed, mut tried) = (first, Tried::default());
    while tried.schedules < wanted {
        let Tried { schedules, driven } = explore(seed, wanted - tried.schedules);
        tried = Tried { schedules: tried.schedules + schedules, driven: tried.driven + driven };
        seed += stride;
    }
    println!("{tried:?} of the seeds {first} to {seed} in steps of {stride}");
}

#[test]
fn sim_every_crash_of_depth_two_first_part() {
    explore_from(0, 4);
}

#[test]
fn sim_every_crash_of_depth_two_second_part() {
    explore_from(1, 4);
}

#[test]
fn sim_every_crash_of_depth_two_third_part() {
    explore_from(2, 4);
}

#[test]
fn sim_every_crash_of_depth_two_fourth_part() {
    explore_from(3, 4);
}
