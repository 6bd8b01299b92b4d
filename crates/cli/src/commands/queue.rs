//! `provost enqueue` and `provost worker`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use provost::agent::{
    Always, Approver, Ending, Enqueued, Left, Observer, Queued, Runtime, Shop, Until, Words,
    Worker as Drives, enqueue as put, system_clock,
};
use provost::core::event::{Body, DriverDetached, Event, ModelFact, Questions, RunQueued};
use provost::core::id::RunId;
use provost::core::outcome::Pause;
use provost::core::text::{Lines as Escape, visible};
use provost::journal::Store;
use provost::model::presets::Preset;
use serde_json::json;

use super::agent_runtime::PLANNERS;
use super::export::{Made, Wanted};
use super::model_choice::{ModelChoice, choose_model};
use super::price::price;
use super::routing::{Models, apart, routing};
use super::run::{committed, contract, order};
use super::servers::servers;
use super::setup::{Place, interrupt, keep_outside, runtime};
use crate::args::{Enqueue, Wire, Worker};
use crate::failure::{AtPath, Failure};
use crate::render::{JsonLines, say};
use crate::world::World;

pub(crate) async fn enqueue(world: &World, args: Enqueue) -> Result<u8, Failure> {
    let (routing, mut others) = routing(&args.order.terms.routing)?;
    let contract = contract(world, &args.order)?.routing(routing);
    let mut order = order(&args.order, contract)?;
    order.contract.servers = servers(world, &args.order.servers, &order.workspace)?;
    keep_outside("the store", &world.store_path(args.store.store.as_deref())?, &order.workspace)?;
    let mut model = choose_model(&args.order.terms.model)?;
    apart(&model, &others)?;
    price(world, &args.order.terms.price, &order.workspace, (&mut model, &mut others), &mut order.contract)?;
    // Where a worker could not ask, and what must not be kept, is said now.
    for model in [&model].into_iter().chain(&others) {
        model.endpoint(world)?;
    }
    let place = Place::open(world, args.store.store.as_deref())?;
    let store: Arc<dyn Store> = place.store.clone();
    let queued = Queued {
        contract: order.contract,
        workspace: order.workspace,
        repository: order.repository,
        model: model.fact(),
        key_env: model.key_env.clone().or_else(|| model.noted_key_env()),
        questions: if args.order.yes { Questions::Approved } else { Questions::Wait },
    };
    let goes_to = format!("{} at {}", queued.model.name, queued.model.endpoint);
    let (run, how) = put(&store, &system_clock(), args.id, &queued).await?;
    let stage = store.row(&run).await?.stage;
    if args.json {
        let state = stage.word();
        JsonLines::say(&json!({ "run": run.as_str(), "enqueued": how == Enqueued::Now, "state": state }));
    } else {
        match how {
            Enqueued::Now => say!("queued {run}: {}", visible(&goes_to, Escape::Escape)),
            Enqueued::Before if stage.is_over() => say!(
                "{run} is there already, with the same contract: {stage}. It will not run again; take another id, or \
                 `provost store delete {}` first",
                place.named(&run)
            ),
            Enqueued::Before => say!("{run} is there already, with the same contract: {stage}"),
        }
    }
    Ok(0)
}

pub(crate) async fn worker(world: &World, args: Worker) -> Result<u8, Failure> {
    let place = Place::open(world, args.store.store.as_deref())?;
    if let Some(dir) = &args.export {
        std::fs::create_dir_all(dir).at(dir)?;
    }
    let lines = if args.json { Lines::Programs } else { Lines::People };
    let pace = args.pace.pace.unwrap_or_default();
    let shop = Bench { world, place: &place, export: args.export, pace, lines, worst: AtomicU8::new(0) };
    let until = if args.until_empty { Until::Empty } else { Until::Interrupted };
    let interrupt = interrupt()?;
    if !args.json {
        eprintln!("working on `{}`; Ctrl-C leaves the runs to be resumed", place.store.path().display());
    }
    let first = Drives::new(place.store.clone(), system_clock(), &shop, interrupt.clone())?;
    let work = (0..args.jobs).map(|_| {
        let mut worker = first.beside();
        async move { worker.work(until).await }
    });
    for done in join_all(work).await {
        done?;
    }
    Ok(if interrupt.is_requested() { 130 } else { shop.worst.load(Ordering::Relaxed) })
}

/// Where a worker of the command line gets what it drives with.
struct Bench<'a> {
    world: &'a World,
    place: &'a Place,
    export: Option<PathBuf>,
    /// Longest that is waited before a request where the vendor grants nothing more.
    pace: Duration,
    lines: Lines,
    /// The highest exit code of the runs that it left.
    worst: AtomicU8,
}

/// The model that a run names, with the key where `key_env` says.
pub(super) fn model_of(fact: &ModelFact, key_env: Option<&str>) -> Result<ModelChoice, Failure> {
    let wire = Wire::from_word(&fact.wire).ok_or_else(|| unknown_wire(&fact.wire))?;
    let (name, base_url) = (fact.name.clone(), fact.endpoint.clone());
    Ok(ModelChoice {
        wire,
        name,
        base_url,
        key_env: key_env.map(str::to_owned),
        // As it was named, unless this program has no such row any more: then the base URL tells.
        provider: fact.provider.as_deref().and_then(|name| Preset::named(name).ok()),
        window: fact.window,
        cassette: None,
    })
}

fn unknown_wire(wire: &str) -> Failure {
    if PLANNERS.contains(&wire) {
        return Failure::usage(
            "a program decides for it, whose settings are in the environment of its command",
        )
        .hint("`provost agent-runtime run DIR ID WORKSPACE` goes on with it");
    }
    Failure::usage(format!("the run's wire `{wire}` is not known here"))
}

/// What is printed of what a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    People,
    Programs,
}

impl Lines {
    fn say(self, run: &RunId, what: &str, exit_code: Option<u8>, words: Option<&str>) {
        match self {
            Self::Programs => {
                let line =
                    json!({ "run": run.as_str(), "kind": what, "exit_code": exit_code, "words": words });
                JsonLines::say(&line);
            }
            Self::People => {
                let words =
                    words.map_or(String::new(), |words| format!(": {}", visible(words, Escape::Escape)));
                say!("{run}  {what}{words}");
            }
        }
    }
}

/// Says that the worker has a run, once it has.
struct Taken {
    run: RunId,
    lines: Lines,
}

impl Observer for Taken {
    fn event(&self, event: &Event, _: &dyn Words) {
        match &event.body {
            Body::DriverAttached(_) => self.lines.say(&self.run, "taken", None, None),
            Body::RunCreated(created) if committed(created).is_some_and(|tree| tree != created.tree.sha1) => {
                let words =
                    "not all of the workspace is committed: the evidence cannot be held against the commit";
                self.lines.say(&self.run, "note", None, Some(words));
            }
            _ => {}
        }
    }
}

impl Bench<'_> {
    fn say(&self, run: &RunId, what: &str, exit_code: Option<u8>, words: Option<&str>) {
        self.lines.say(run, what, exit_code, words);
    }

    async fn wanted(&self, run: &RunId, dir: &Path) -> Result<Wanted, Failure> {
        let (_, created, _) = self.place.load(run.as_str()).await?;
        Wanted::check(self.world, dir, Path::new(&created.root))
    }

    fn note(&self, code: u8) {
        self.worst.fetch_max(code, Ordering::Relaxed);
    }
}

impl Shop for Bench<'_> {
    fn runtime(&self, run: &RunId, queued: &RunQueued) -> Result<Runtime, String> {
        let approver: Arc<dyn Approver> = match queued.questions {
            Questions::Approved => Arc::new(Always::APPROVE),
            Questions::Wait => Arc::new(Always::LATER),
        };
        model_of(&queued.model, queued.key_env.as_deref())
            .and_then(|model| Models::of_run(model, queued.routing.as_deref()))
            .and_then(|models| {
                runtime(
                    self.world,
                    self.place,
                    &models,
                    Path::new(&queued.root),
                    Arc::new(Taken { run: run.clone(), lines: self.lines }),
                    approver,
                )
            })
            .map(|runtime| Runtime { pace: self.pace, ..runtime })
            .map_err(|failure| failure.message().to_owned())
    }

    fn leaves(&self, run: &RunId, how: &Left) {
        match how {
            Left::Ended(ending) => {
                let code = ending.exit_code();
                self.note(code);
                let words = match ending {
                    Ending::Paused(DriverDetached { why: Pause::Approval, act: Some(act) }) => {
                        let named = self.place.named(run);
                        Some(format!("`provost attach {named} --approve {act}`, or `--deny {act}`"))
                    }
                    _ => None,
                };
                self.say(run, ending.word(), Some(code), words.as_deref());
            }
            Left::Dropped => self.say(run, "cancelled", Some(10), None),
            Left::Held(why) => {
                self.note(5);
                self.say(run, "held", Some(5), Some(why));
            }
            // It has not failed, and is not left.
            Left::Waits(error) => self.say(run, "waits", None, Some(&error.to_string())),
            Left::Failed(error) => {
                self.note(error.exit_code());
                self.say(run, "failed", Some(error.exit_code()), Some(&error.to_string()));
            }
        }
    }

    fn over<'a>(&'a self, run: &'a RunId, ending: &'a Ending) -> provost::model::BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(dir) = &self.export else { return };
            let dir = dir.join(run.as_str());
            let made = match self.wanted(run, &dir).await {
                Ok(wanted) => wanted.make(self.place, run, ending).await,
                Err(failure) => Made::Failed(failure),
            };
            match made {
                Made::Bundle(exported) => {
                    let dir = exported.dir.display().to_string();
                    self.say(run, "exported", None, Some(&dir));
                }
                Made::Failed(failure) => {
                    self.note(failure.code());
                    self.say(run, "no bundle", Some(failure.code()), Some(failure.message()));
                }
                Made::Nothing | Made::NotYet(_) => {}
            }
        })
    }
}
