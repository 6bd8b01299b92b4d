//! What it costs to take up a long run: `cargo bench -p provost-agent --bench resume`, or `-- 1000` for a shorter one.
//!
//! A run of 10,000 steps is made with the real driver on a store on disk: nine of ten steps read one of 100 small files,
//! the tenth edits one. Then it is taken up, several times: from the call of [`Runtime::resume`] until the model's first
//! request. The parts are done alone between these, so that a busy machine shows in all. It asserts no duration.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_agent::{Ending, Interrupt, Order, Runtime};
use provost_core::budget::Budget;
use provost_core::contract::{Contract, Source};
use provost_core::dialogue::{self, Item};
use provost_core::digest::Digest;
use provost_core::event::{Event, ModelFact};
use provost_core::id::RunId;
use provost_core::outcome::Pause;
use provost_core::path::RelPath;
use provost_core::policy::{Policy, Preset};
use provost_core::state::RunState;
use provost_core::transcript::{Call, Message};
use provost_journal::{SqliteStore, Store};
use provost_model::{
    Answer, BaseUrl, BoxFuture, Dialogue, Failure, FailureClass, Invocation, PlainHttp, Prelude, Provider,
    Remote, Sink, WireKind,
};
use provost_tools::Workspace;
use provost_tools::command::HostEnvironment;
use provost_tools::workspace::Manifest;
use serde_json::json;

const STEPS: usize = 10_000;
const FILES: usize = 100;
const ROUNDS: usize = 11;

/// A provider that encodes as a real wire does and answers by itself. Its answers come to an end; then it refuses.
struct Model {
    wire: Remote,
    steps: usize,
    notes: Arc<Notes>,
}

/// What it was asked.
#[derive(Default)]
struct Notes {
    answers: AtomicUsize,
    encoded: Mutex<Duration>,
    asked: Mutex<Option<Instant>>,
    prompt: AtomicUsize,
}

struct Talk {
    inner: Box<dyn Dialogue>,
    steps: usize,
    notes: Arc<Notes>,
}

impl Provider for Model {
    fn name(&self) -> &'static str {
        "bench"
    }

    fn model(&self) -> &'static str {
        "bench"
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        Box::new(Talk { inner: self.wire.open(prelude), steps: self.steps, notes: self.notes.clone() })
    }
}

impl Dialogue for Talk {
    fn push(&mut self, message: &Message) {
        let begun = Instant::now();
        self.inner.push(message);
        *self.notes.encoded.lock().unwrap_or_else(PoisonError::into_inner) += begun.elapsed();
    }

    fn prompt_bytes(&self) -> usize {
        self.inner.prompt_bytes()
    }

    fn ask<'a>(
        &'a mut self,
        _: &'a Invocation,
        _: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        let now = Instant::now();
        self.notes.asked.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
        self.notes.prompt.store(self.inner.prompt_bytes(), Ordering::Relaxed);
        let step = self.notes.answers.fetch_add(1, Ordering::Relaxed);
        let answer = if step < self.steps {
            Ok(Answer::calls(vec![call(step)]))
        } else {
            Err(Failure::new(FailureClass::BadRequest, "the script has no further answer"))
        };
        Box::pin(std::future::ready(answer))
    }
}

fn call(step: usize) -> Call {
    let (name, arguments) = if step % 10 == 9 {
        let state = |n: usize| format!("state = {n}");
        ("edit_file", json!({ "path": "state.txt", "old": state(step / 10), "new": state(step / 10 + 1) }))
    } else if step.is_multiple_of(10) {
        ("read_file", json!({ "path": "state.txt" }))
    } else {
        ("read_file", json!({ "path": format!("folder{}/file{}.txt", step % 10, step / 10 % 10) }))
    };
    Call { id: format!("call_{step}_0"), name: name.to_owned(), arguments: arguments.to_string() }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let steps = args.next().and_then(|text| text.parse().ok()).unwrap_or(STEPS);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let workspace = dir.path().join("workspace");
    make_workspace(&workspace);
    let store = Arc::new(SqliteStore::open(dir.path().join("store.db")).expect("a store"));
    let notes = Arc::new(Notes::default());
    let base = BaseUrl::parse("http://127.0.0.1:9/v1", PlainHttp::LoopbackOnly).expect("an address");
    let wire = Remote::builder(WireKind::OpenAiChat, base, "bench").build().expect("a provider");
    let model = Model { wire, steps, notes: notes.clone() };
    let fact = ModelFact::new("bench", "bench", "");
    let mut runtime = Runtime::new(store.clone(), dir.path().join("spool"), Arc::new(model), fact);
    runtime.host = HostEnvironment { path: "/usr/bin:/bin".to_owned(), ..HostEnvironment::default() };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");

    let begun = Instant::now();
    let run = tokio.block_on(start(&runtime, &workspace));
    let built = begun.elapsed();
    let events = tokio.block_on(store.events(&run, 0)).expect("events");
    println!(
        "## Taking up a run of {steps} steps, {} events, on {} files (aim: 100 ms for 10,000 steps)\n",
        events.len(),
        FILES + 1
    );
    println!("made in {:.1} s", built.as_secs_f64());
    drop(events);

    let mut rows = Rows::default();
    for _ in 0..ROUNDS {
        round(&tokio, &runtime, &store, &run, &workspace, &notes, &mut rows);
    }
    println!("prompt: {} kB\n", notes.prompt.load(Ordering::Relaxed) / 1024);
    println!("| part | least ms | p50 ms | p90 ms |");
    println!("| --- | --- | --- | --- |");
    for (what, mut times) in rows.0 {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        println!("| {what} | {:.1} | {:.1} | {:.1} |", at(0), at(50), at(90));
    }
}

#[derive(Default)]
struct Rows(Vec<(&'static str, Vec<Duration>)>);

impl Rows {
    fn add(&mut self, what: &'static str, time: Duration) {
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, times)) => times.push(time),
            None => self.0.push((what, vec![time])),
        }
    }

    fn time<T>(&mut self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.add(what, begun.elapsed());
        done
    }
}

fn round(
    tokio: &tokio::runtime::Runtime,
    runtime: &Runtime,
    store: &Arc<SqliteStore>,
    run: &RunId,
    workspace: &Path,
    notes: &Notes,
    rows: &mut Rows,
) {
    *notes.encoded.lock().unwrap_or_else(PoisonError::into_inner) = Duration::ZERO;
    *notes.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let begun = Instant::now();
    let ending = tokio.block_on(runtime.resume(run, &[], Interrupt::new().expect("a handle")));
    let ended = begun.elapsed();
    paused(&ending.expect("it is taken up"));
    let asked = notes.asked.lock().unwrap_or_else(PoisonError::into_inner).expect("it was asked");
    rows.add("**resume until the first request**", asked - begun);
    rows.add("of that encoding", *notes.encoded.lock().unwrap_or_else(PoisonError::into_inner));
    rows.add("until it has let go again", ended);

    let events: Vec<Event> = rows
        .time("alone: events read and verified", || tokio.block_on(store.events(run, 0)).expect("events"));
    rows.time("alone: fold", || RunState::fold(run.clone(), &events).expect("it is sound"));
    let digests = words(&events);
    rows.time("alone: words read", || tokio.block_on(store.blobs(run, &digests)).expect("words"));
    rows.time("alone: files looked at", || {
        let workspace = Workspace::open(workspace).expect("it opens");
        Manifest::scan(&workspace, &BTreeSet::new(), 1 << 20, &mut |_, _| {}).expect("it scans")
    });
}

/// The names of all words of the dialogue.
fn words(events: &[Event]) -> Vec<Digest> {
    let mut dialogue = dialogue::Dialogue::default();
    let mut words = BTreeSet::new();
    for event in events {
        dialogue.apply(event);
    }
    for item in dialogue.items() {
        match item {
            Item::User(digest) | Item::Assistant(digest) => drop(words.insert(*digest)),
            Item::Shown(..) => unreachable!("these runs show no images"),
            Item::Results(results) => words.extend(results.iter().map(|result| result.text)),
        }
    }
    words.into_iter().collect()
}

async fn start(runtime: &Runtime, workspace: &Path) -> RunId {
    let budget = Budget { steps: None, ..Budget::default() };
    let order = Order {
        contract: Contract::new("be quick").policy(Policy::preset(Preset::Workspace)).budget(budget),
        source: Source::Directory { commit: None, scope: RelPath::root() },
        repository: Some(workspace.to_owned()),
        workspace: workspace.to_owned(),
    };
    let (run, ending) = runtime.start(order, Interrupt::new().expect("a handle")).await.expect("a run");
    paused(&ending);
    run
}

fn paused(ending: &Ending) {
    assert!(
        matches!(ending, Ending::Paused(left) if left.why == Pause::Provider),
        "it ended with {ending:?}"
    );
}

/// A committed repository.
fn make_workspace(dir: &Path) {
    fs::create_dir(dir).expect("a folder");
    fs::write(dir.join("state.txt"), "state = 0\n").expect("a file");
    for folder in 0..10 {
        let folder_path = dir.join(format!("folder{folder}"));
        fs::create_dir(&folder_path).expect("a folder");
        for file in 0..FILES / 10 {
            let line = format!("a line of file {file} of folder {folder}\n");
            fs::write(folder_path.join(format!("file{file}.txt")), line.repeat(8)).expect("a file");
        }
    }
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=bench", "-c", "user.email=bench@invalid", "commit", "-q", "-m", "start"],
    ] {
        let status = Command::new("git").arg("-C").arg(dir).args(arguments).status().expect("git starts");
        assert!(status.success(), "git {arguments:?}");
    }
}
