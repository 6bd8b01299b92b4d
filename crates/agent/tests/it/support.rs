//! A runtime over a temp folder and a scripted model.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use provost_agent::{Ending, Interrupt, Observer, Order, RunError, Runtime, Words};
use provost_core::contract::{Contract, Source};
use provost_core::event::{Body, Event, ModelFact};
use provost_core::id::RunId;
use provost_core::path::RelPath;
use provost_core::transcript::{Call, Message};
use provost_journal::{SqliteStore, Store};
use provost_model::{Answer, Provider, Scripted};
use tempfile::TempDir;

/// What happened, in the order in which it could be seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An event became durable.
    Durable(&'static str),
    /// The model was asked, having been shown so many results.
    Asked { results: usize },
}

#[derive(Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<Vec<Seen>>>);

impl Tape {
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    fn push(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }
}

impl Observer for Tape {
    fn event(&self, event: &Event, _: &dyn Words) {
        self.push(Seen::Durable(event.body.kind()));
    }
}

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) tape: Tape,
    /// What contains commands, where it is not this host.
    executor: Option<Arc<dyn provost_agent::Executor>>,
}

/// By what staged changes are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Overlay,
    /// R3 on a host that has no overlay.
    CopyInPlace,
    /// R2.
    CopyElsewhere,
}

impl How {
    pub(crate) const ALL: [Self; 3] = [Self::Overlay, Self::CopyInPlace, Self::CopyElsewhere];

    fn executor(self) -> Arc<dyn provost_agent::Executor> {
        let mut probe = provost_sandbox::Probe::run();
        match self {
            Self::Overlay => {}
            Self::CopyInPlace => {
                for fact in probe.facts.iter_mut().filter(|fact| fact.name == "overlay") {
                    fact.holds = false;
                }
            }
            Self::CopyElsewhere => probe.strongest = provost_core::containment::Rung::R2,
        }
        Arc::new(provost_agent::Host(probe))
    }
}

impl Bench {
    /// On a host that stages so.
    pub(crate) fn on(how: How, files: &[(&str, &str)]) -> Self {
        Self { executor: Some(how.executor()), ..Self::new(files) }
    }

    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join("workspace").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        std::fs::create_dir_all(dir.path().join("workspace")).unwrap();
        let store = Arc::new(SqliteStore::open(dir.path().join("store/runs.db")).unwrap());
        Self { dir, store, tape: Tape::default(), executor: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("workspace").join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A runtime whose model gives these answers, one a request.
    pub(crate) fn runtime(&self, answers: Vec<Answer>) -> Runtime {
        let tape = self.tape.clone();
        let answers = Mutex::new(answers.into_iter().collect::<std::collections::VecDeque<_>>());
        let model = Scripted::from_fn(move |_, messages: &[Message]| {
            let results = messages
                .iter()
                .map(|message| match message {
                    Message::Results { results } => results.len(),
                    _ => 0,
                })
                .sum();
            tape.push(Seen::Asked { results });
            Ok(answers.lock().unwrap().pop_front().unwrap_or_else(|| Answer::text("done")))
        });
        self.runtime_with(Arc::new(model))
    }

    pub(crate) fn runtime_with(&self, provider: Arc<dyn Provider>) -> Runtime {
        let model = ModelFact::new("scripted", "scripted", "");
        let mut runtime = Runtime::new(self.store.clone(), self.dir.path().join("spool"), provider, model);
        runtime.observer = Arc::new(self.tape.clone());
        if let Some(executor) = &self.executor {
            runtime.executor = executor.clone();
        }
        runtime
    }

    pub(crate) async fn start(
        &self,
        runtime: &Runtime,
        contract: Contract,
    ) -> Result<(RunId, Ending), RunError> {
        let order = Order {
            contract,
            workspace: self.dir.path().join("workspace"),
            source: Source::Directory { commit: None, scope: RelPath::root() },
            repository: None,
        };
        runtime.start(order, Interrupt::new().unwrap()).await
    }

    pub(crate) async fn resume(&self, runtime: &Runtime, run: &RunId) -> Result<Ending, RunError> {
        runtime.resume(run, &[], Interrupt::new().unwrap()).await
    }

    pub(crate) async fn bodies(&self, run: &RunId) -> Vec<Body> {
        self.store.events(run, 0).await.unwrap().into_iter().map(|event| event.body).collect()
    }

    /// What the model was told about its `n`th act.
    pub(crate) async fn told(&self, run: &RunId, n: usize) -> String {
        let finished = self.bodies(run).await.into_iter().filter_map(|body| match body {
            Body::ActFinished(finished) => Some(finished.result),
            _ => None,
        });
        let digest = finished.into_iter().nth(n).unwrap();
        String::from_utf8(self.store.blob(run, digest).await.unwrap().unwrap()).unwrap()
    }
}

/// One call.
pub(crate) fn call(name: &str, arguments: serde_json::Value) -> Call {
    Call { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_string() }
}

/// An answer of one call.
pub(crate) fn calls(name: &str, arguments: serde_json::Value) -> Answer {
    Answer::calls(vec![call(name, arguments)])
}

/// The host's toolchains, as the command line would pass them.
pub(crate) fn host() -> provost_tools::command::HostEnvironment {
    let var = |name: &str| std::env::var(name).ok();
    provost_tools::command::HostEnvironment {
        path: var("PATH").unwrap_or_default(),
        home: var("HOME"),
        cargo_home: var("CARGO_HOME"),
        rustup_home: var("RUSTUP_HOME"),
    }
}

/// This host, as if it could contain no more strongly than this.
pub(crate) fn at_most(rung: provost_core::containment::Rung) -> Arc<dyn provost_agent::Executor> {
    at_most_without(rung, &[])
}

/// The same without these facts of its probe.
pub(crate) fn at_most_without(
    rung: provost_core::containment::Rung,
    facts: &[&str],
) -> Arc<dyn provost_agent::Executor> {
    let mut probe = provost_sandbox::Probe::run();
    probe.strongest = rung;
    probe.facts.retain(|fact| !facts.contains(&fact.name.as_str()));
    Arc::new(provost_agent::Host(probe))
}
