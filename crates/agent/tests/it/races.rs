//! Many drivers race for one run: one drives, and what it did is the only thing that happened (I12).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, Condvar, Mutex};

use provost_agent::{Always, Ending, Executor, Host, Interrupt, Order, RunError, Runtime, Unobserved};
use provost_core::contract::{Contract, Source};
use provost_core::event::{Body, ModelFact};
use provost_core::id::RunId;
use provost_core::outcome::{Outcome, Pause};
use provost_core::path::RelPath;
use provost_core::policy::{Policy, Preset};
use provost_core::transcript::Message;
use provost_journal::{SqliteStore, Store, StoreError};
use provost_model::{Answer, Provider, RetryPolicy, Scripted};
use provost_sandbox::Probe;
use provost_tools::Registry;
use provost_tools::command::HostEnvironment;
use serde_json::json;
use tempfile::TempDir;

use crate::support::calls;

const DRIVERS: usize = 50;
const PROCESSES: usize = 8;
/// Steps of the run, the last of which ends it.
const STEPS: usize = 6;

/// How a driver fared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fared {
    /// It brought the run to its end, or found it there.
    Over,
    /// Somebody else had it.
    Conflict,
    /// Anything else is a defect.
    Otherwise(String),
}

/// A run that waits to be taken up.
struct Waiting {
    dir: TempDir,
    run: RunId,
    executor: Arc<dyn Executor>,
}

impl Waiting {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("workspace")).unwrap();
        std::fs::write(dir.path().join("workspace/a.txt"), "one\n").unwrap();
        let executor: Arc<dyn Executor> = Arc::new(Host(Probe::run()));
        let interrupt = Interrupt::new().unwrap();
        interrupt.request();
        let order = Order {
            contract: Contract::new("do it").policy(Policy::preset(Preset::Workspace)),
            workspace: dir.path().join("workspace"),
            source: Source::Directory { commit: None, scope: RelPath::root() },
            repository: None,
        };
        let runtime = runtime(dir.path(), executor.clone(), Arc::new(Scripted::new([])));
        let (run, ending) = runtime.start(order, interrupt).await.unwrap();
        assert!(matches!(ending, Ending::Paused(left) if left.why == Pause::Interrupted));
        Self { dir, run, executor }
    }

    /// What the journal must say, whoever of the racers drove: one driver came, each step is there once, and it is over.
    async fn assert_driven_by_one(&self) {
        let store = SqliteStore::open(store_path(self.dir.path())).unwrap();
        let events = store.events(&self.run, 0).await.unwrap();
        let mut drivers = Vec::new();
        let mut steps = Vec::new();
        for event in events {
            match event.body {
                Body::DriverAttached(attached) => drivers.push(attached.generation),
                Body::ModelAnswered(answered) => {
                    assert_eq!(drivers.len(), 2, "a step of another driver than the one that won");
                    steps.push(answered.step.0 as usize);
                }
                Body::RunFinished(finished) => assert_eq!(finished.outcome, Outcome::Done),
                _ => {}
            }
        }
        assert_eq!(drivers.len(), 2, "the one that began it and the one that won: {drivers:?}");
        assert!(drivers[0] < drivers[1]);
        assert_eq!(steps, (0..STEPS).collect::<Vec<_>>());
    }
}

fn store_path(place: &Path) -> std::path::PathBuf {
    place.join("store.db")
}

/// A driver with a handle of its own on the store, as another process would have.
fn runtime(place: &Path, executor: Arc<dyn Executor>, provider: Arc<dyn Provider>) -> Runtime {
    Runtime {
        store: Arc::new(SqliteStore::open(store_path(place)).unwrap()),
        provider,
        others: Vec::new(),
        model: ModelFact::new("scripted", "scripted", ""),
        tools: Registry::standard(),
        executor,
        approver: Arc::new(Always::LATER),
        observer: Arc::new(Unobserved),
        retry: RetryPolicy::default(),
        pace: std::time::Duration::ZERO,
        host: HostEnvironment::default(),
        images: provost_sandbox::image::ImageStore::new(place.join("images")),
        engines: std::collections::BTreeMap::new(),
        client: Arc::new(provost_tools::mcp::Mcp),
        variables: Arc::new(|_| None),
        mandate: Arc::new(provost_agent::Standing),
        drift: provost_agent::Drift::Refused,
        spool: place.join("spool"),
        clock: provost_agent::system_clock(),
    }
}

/// A model that says of each request for which step it was.
fn model(asked: impl Fn(usize) + Send + Sync + 'static) -> Arc<dyn Provider> {
    Arc::new(Scripted::from_fn(move |_, messages: &[Message]| {
        let step = messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        asked(step);
        Ok(if step + 1 < STEPS {
            calls("read_file", json!({ "path": "a.txt" }))
        } else {
            Answer::text("done")
        })
    }))
}

fn take_up(runtime: &Runtime, run: &RunId) -> Fared {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match executor.block_on(runtime.resume(run, &[], Interrupt::new().unwrap())) {
        Ok(Ending::Over(_)) => Fared::Over,
        Err(RunError::Store(StoreError::Conflict { .. })) => Fared::Conflict,
        other => Fared::Otherwise(format!("{other:?}")),
    }
}

/// Who was asked for which step.
#[derive(Default)]
struct Asked(Mutex<BTreeMap<usize, Vec<usize>>>);

impl Asked {
    fn note(&self, driver: usize, step: usize) {
        self.0.lock().unwrap().entry(step).or_default().push(driver);
    }

    fn assert_once_by_one(&self) {
        let asked = self.0.lock().unwrap();
        assert_eq!(asked.len(), STEPS);
        let first = &asked[&0];
        assert!(first.len() == 1 && asked.values().all(|by| by == first), "asked by: {asked:?}");
    }
}

/// Lets fifty drivers loose at once. `asked` is told who is asked for which step.
fn race(waiting: &Waiting, asked: &Arc<dyn Fn(usize, usize) + Send + Sync>, fared: &(impl Fn(Fared) + Sync)) {
    let start = Barrier::new(DRIVERS);
    std::thread::scope(|scope| {
        for driver in 0..DRIVERS {
            let (start, asked) = (&start, asked.clone());
            scope.spawn(move || {
                let model = model(move |step| asked(driver, step));
                let runtime = runtime(waiting.dir.path(), waiting.executor.clone(), model);
                start.wait();
                fared(take_up(&runtime, &waiting.run));
            });
        }
    });
}

#[tokio::test]
async fn i12_of_fifty_drivers_one_drives_and_all_others_are_told_who() {
    let waiting = Waiting::new().await;
    let back = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let who = Arc::new(Asked::default());
    let (theirs, notes) = (back.clone(), who.clone());
    // The one that won holds the run until all others are back.
    let asked: Arc<dyn Fn(usize, usize) + Send + Sync> = Arc::new(move |driver, step| {
        notes.note(driver, step);
        let (back, changed) = &*theirs;
        drop(changed.wait_while(back.lock().unwrap(), |back| back.len() < DRIVERS - 1).unwrap());
    });
    race(&waiting, &asked, &|fared| {
        back.0.lock().unwrap().push(fared);
        back.1.notify_all();
    });
    let mut back = back.0.lock().unwrap().clone();
    assert_eq!(back.pop(), Some(Fared::Over));
    assert_eq!(back, vec![Fared::Conflict; DRIVERS - 1]);
    who.assert_once_by_one();
    waiting.assert_driven_by_one().await;
}

/// The same, with nobody waiting for anybody: a driver may also come when the run is over, or get the lease of a run that
/// ended since it looked.
#[tokio::test]
async fn i12_fifty_drivers_that_do_not_wait_for_each_other_make_one_run() {
    for _ in 0..3 {
        let waiting = Waiting::new().await;
        let who = Arc::new(Asked::default());
        let notes = who.clone();
        let asked: Arc<dyn Fn(usize, usize) + Send + Sync> =
            Arc::new(move |driver, step| notes.note(driver, step));
        let back = Mutex::new(Vec::new());
        race(&waiting, &asked, &|fared| back.lock().unwrap().push(fared));
        let back = back.into_inner().unwrap();
        assert!(back.contains(&Fared::Over));
        assert!(back.iter().all(|fared| matches!(fared, Fared::Over | Fared::Conflict)), "{back:?}");
        who.assert_once_by_one();
        waiting.assert_driven_by_one().await;
    }
}

/// Processes, which share nothing but the file: this test program again.
#[tokio::test]
async fn i12_of_eight_processes_one_drives() {
    if let (Ok(place), Ok(run)) = (std::env::var("PROVOST_TEST_PLACE"), std::env::var("PROVOST_TEST_WORD")) {
        // Another thread: this one has an executor already.
        return std::thread::spawn(move || be_a_driver(Path::new(&place), &run)).join().unwrap();
    }
    let waiting = Waiting::new().await;
    let mut children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "races::i12_of_eight_processes_one_drives", "--nocapture"])
                .env("PROVOST_TEST_PLACE", waiting.dir.path())
                .env("PROVOST_TEST_WORD", waiting.run.as_str())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines()).collect();
    for output in &mut outputs {
        assert!(output.by_ref().map_while(Result::ok).any(|line| line == "ready"));
    }
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let who = Asked::default();
    let mut over = 0;
    for (driver, (mut child, output)) in children.into_iter().zip(outputs).enumerate() {
        for line in output.map_while(Result::ok) {
            over += usize::from(line == "fared Over");
            assert!(!line.starts_with("fared Otherwise"), "process {driver}: {line}");
            if let Some(step) = line.strip_prefix("asked ") {
                who.note(driver, step.parse().unwrap());
            }
        }
        assert!(child.wait().unwrap().success(), "process {driver}");
    }
    assert!(over >= 1);
    who.assert_once_by_one();
    waiting.assert_driven_by_one().await;
}

fn be_a_driver(place: &Path, run: &str) {
    let model = model(|step| println!("asked {step}"));
    let runtime = runtime(place, Arc::new(Host(Probe::run())), model);
    // The runner has begun a line already.
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    println!("fared {:?}", take_up(&runtime, &run.parse().unwrap()));
}
