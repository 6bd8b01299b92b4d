//! Rewinds at their crash points (I2, I4): the event is durable before the first file is touched, and whoever takes the
//! run up next carries it to its end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_agent::{Ending, Interrupt, RunError, Target, Undo, system_clock};
use provost_core::contract::Contract;
use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, Event, NoteWhy};
use provost_core::id::RunId;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_journal::{
    Appended, Blob, BoxFuture, Head, Lease, Letter, Owner, Posted, RunRow, Salt, SqliteStore, Store,
    StoreError, Word,
};
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, calls};

/// When a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    BeforeItsAppend,
    BehindIt,
}

/// A store whose next append ends its process: before it, or right behind it.
struct Dying {
    inner: Arc<SqliteStore>,
    when: When,
}

impl Dying {
    fn error() -> StoreError {
        StoreError::Io { path: PathBuf::from("store"), detail: "the process died here".to_owned() }
    }
}

impl Store for Dying {
    fn create_after<'a>(
        &'a self,
        run: &'a RunId,
        salt: Salt,
        generation: u64,
        now_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.create_after(run, salt, generation, now_ms)
    }

    fn acquire<'a>(
        &'a self,
        run: &'a RunId,
        owner: Owner,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        self.inner.acquire(run, owner, now_ms, ttl)
    }

    fn renew<'a>(
        &'a self,
        lease: &'a Lease,
        now_ms: u64,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Lease, StoreError>> {
        self.inner.renew(lease, now_ms, ttl)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.release(lease)
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        expected: &'a Head,
        drafts: Vec<Draft>,
        blobs: Vec<Blob>,
    ) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(async move {
            if self.when == When::BehindIt {
                self.inner.append(lease, expected, drafts, blobs).await?;
            }
            Err(Self::error())
        })
    }

    fn events<'a>(&'a self, run: &'a RunId, from: u64) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        self.inner.events(run, from)
    }

    fn events_json<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Vec<u8>>, StoreError>> {
        self.inner.events_json(run)
    }

    fn blob<'a>(
        &'a self,
        run: &'a RunId,
        digest: Digest,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        self.inner.blob(run, digest)
    }

    fn salt<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Option<Salt>, StoreError>> {
        self.inner.salt(run)
    }

    fn head<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Head, StoreError>> {
        self.inner.head(run)
    }

    fn runs(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        self.inner.runs()
    }

    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<RunId, StoreError>> {
        self.inner.find(prefix)
    }

    fn forget<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.forget(run)
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        self.inner.unfinished()
    }

    fn row<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<RunRow, StoreError>> {
        self.inner.row(run)
    }

    fn post<'a>(&'a self, run: &'a RunId, letter: Letter) -> BoxFuture<'a, Result<Posted, StoreError>> {
        self.inner.post(run, letter)
    }

    fn letters<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Vec<Letter>, StoreError>> {
        self.inner.letters(run)
    }

    fn discard<'a>(&'a self, lease: &'a Lease, read: Vec<Word>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.discard(lease, read)
    }
}

type Files = BTreeMap<&'static str, Option<String>>;

const NAMES: [&str; 4] = ["a.txt", "gone.txt", "dir/new.txt", "swap"];

fn script() -> Vec<Answer> {
    let line = "echo two > a.txt; rm gone.txt; mkdir dir; echo n > dir/new.txt; rm swap; mkdir swap; echo i > swap/in";
    vec![
        calls("exec", json!({ "argv": ["sh", "-c", line] })),
        calls("write_file", json!({ "path": "asked.txt", "content": "asked\n" })),
        Answer::text("done"),
    ]
}

/// A run that did all that and waits for a person's word.
async fn waiting() -> (Bench, RunId) {
    let bench = Bench::new(&[("a.txt", "one\n"), ("gone.txt", "g\n"), ("swap", "s\n")]);
    let asks = Layer::named("test").rule(Effect::Ask, "write asked.txt").unwrap();
    let contract = Contract::new("do it").policy(Policy::preset(Preset::Workspace).with(asks));
    let (run, ending) = bench.start(&bench.runtime(script()), contract).await.unwrap();
    assert!(matches!(ending, Ending::Paused(_)), "{ending:?}");
    (bench, run)
}

fn look(bench: &Bench) -> Files {
    NAMES.into_iter().map(|name| (name, std::fs::read_to_string(bench.path(name)).ok())).collect()
}

fn start() -> Files {
    let some = |text: &str| Some(text.to_owned());
    BTreeMap::from([
        ("a.txt", some("one\n")),
        ("gone.txt", some("g\n")),
        ("dir/new.txt", None),
        ("swap", some("s\n")),
    ])
}

fn dying(bench: &Bench, when: When) -> Undo {
    let store = Arc::new(Dying { inner: bench.store.clone(), when });
    Undo { clock: system_clock(), ..Undo::new(store) }
}

async fn drifts(bench: &Bench, run: &RunId) -> usize {
    bench.bodies(run).await.iter().filter(|body| matches!(body, Body::WorkspaceDrifted(_))).count()
}

#[tokio::test]
async fn i2_a_rewind_that_died_before_its_event_did_nothing() {
    let (bench, run) = waiting().await;
    let (files, events) = (look(&bench), bench.bodies(&run).await.len());
    let died = dying(&bench, When::BeforeItsAppend).rewind(&run, &Target::default(), "test").await;
    assert!(matches!(died, Err(RunError::Store(_))), "{died:?}");
    assert_eq!((look(&bench), bench.bodies(&run).await.len()), (files, events));
    // The control: one that does not die.
    let done = Undo::new(bench.store.clone()).rewind(&run, &Target::default(), "test").await.unwrap();
    assert_eq!((look(&bench), done.carried.len()), (start(), 0));
    assert!(!bench.path("dir").exists(), "the folder that became empty is gone");
}

/// Whatever part of the files was put back when it died: the next driver puts the rest back, and nobody drifted.
#[tokio::test]
async fn i4_a_rewind_that_died_behind_its_event_is_carried_to_its_end() {
    for chosen in 0..1_u32 << NAMES.len() {
        let (bench, run) = waiting().await;
        let died = dying(&bench, When::BehindIt).rewind(&run, &Target::default(), "test").await;
        assert!(died.is_err());
        for (index, name) in NAMES.iter().enumerate().filter(|(index, _)| chosen & (1 << index) != 0) {
            let _ = index;
            let path = bench.path(name);
            if path.is_dir() {
                std::fs::remove_dir_all(&path).unwrap();
            }
            match &start()[name] {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
        }
        if chosen % 2 == 0 {
            let runtime = bench.runtime(script().split_off(2));
            let ending = runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap();
            assert_eq!(ending.exit_code(), 5, "it still waits");
        } else {
            let undo = Undo::new(bench.store.clone());
            let planned = undo.plan_rewind(&run, &Target::default()).await.unwrap();
            assert_eq!(planned.changes, [], "all that is to be put back was on its way");
            let done = undo.rewind(&run, &Target::default(), "test").await.unwrap();
            assert_eq!((done.changes, done.carried.len()), (Vec::new(), planned.carried.len()));
        }
        assert_eq!(look(&bench), start(), "{chosen:b}");
        assert!(!bench.path("dir").exists());
        assert_eq!(drifts(&bench, &run).await, 0, "{chosen:b}");
    }
}

/// What is neither as before the rewind nor as after it is somebody's, and stays.
#[tokio::test]
async fn what_somebody_did_meanwhile_is_drift_and_is_not_overwritten() {
    let (bench, run) = waiting().await;
    assert!(dying(&bench, When::BehindIt).rewind(&run, &Target::default(), "test").await.is_err());
    std::fs::write(bench.path("a.txt"), "mine\n").unwrap();
    let mut runtime = bench.runtime(script().split_off(2));
    runtime.approver = Arc::new(provost_agent::Always::APPROVE);
    let ending = runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(bench.read("a.txt"), "mine\n");
    assert_eq!(bench.read("gone.txt"), "g\n", "the rest was put back");
    assert_eq!(drifts(&bench, &run).await, 1);

    // Once a driver has taken the run up, a file that is as it was before the rewind is somebody's too.
    let (bench, run) = waiting().await;
    Undo::new(bench.store.clone()).rewind(&run, &Target::default(), "test").await.unwrap();
    let runtime = bench.runtime(Vec::new());
    assert_eq!(runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap().exit_code(), 5);
    std::fs::write(bench.path("a.txt"), "two\n").unwrap();
    let mut runtime = bench.runtime(script().split_off(2));
    runtime.approver = Arc::new(provost_agent::Always::APPROVE);
    assert_eq!(runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap().exit_code(), 0);
    assert_eq!((bench.read("a.txt").as_str(), drifts(&bench, &run).await), ("two\n", 1));
}

#[tokio::test]
async fn the_model_is_told_once_and_its_word_that_it_is_done_is_asked_for_anew() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let contract = Contract::new("do it").policy(Policy::preset(Preset::Workspace));
    // Interrupted right behind its answer: that it is done is said, and nobody has taken it down.
    let interrupt = Interrupt::new().unwrap();
    let stop = interrupt.clone();
    let answers = std::sync::Mutex::new(vec![
        Answer::text("now it is done"),
        Answer::text("done"),
        calls("write_file", json!({ "path": "b.txt", "content": "b\n" })),
    ]);
    let model = provost_model::Scripted::from_fn(move |_, _| {
        let answer = answers.lock().unwrap().pop().unwrap();
        if answer.assistant.text == "done" {
            stop.request();
        }
        Ok(answer)
    });
    let runtime = bench.runtime_with(Arc::new(model));
    let order = provost_agent::Order {
        contract,
        workspace: bench.path(""),
        source: provost_core::contract::Source::Directory {
            commit: None,
            scope: provost_core::path::RelPath::root(),
        },
        repository: None,
    };
    let (run, ending) = runtime.start(order, interrupt).await.unwrap();
    assert_eq!(ending.exit_code(), 130, "{ending:?}");
    runtime.rewind(&run, &Target::default(), "test").await.unwrap();
    assert!(!bench.path("b.txt").exists());
    let ending = runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let bodies = bench.bodies(&run).await;
    let submitted: Vec<u32> = bodies
        .iter()
        .filter_map(|body| match body {
            Body::Submitted(body) => Some(body.step.0),
            _ => None,
        })
        .collect();
    assert_eq!(submitted, [2], "only the word that came after the rewind counts");
    let notes = bodies.iter().filter(|body| matches!(body, Body::Note(note) if note.why == NoteWhy::Rewound));
    assert_eq!(notes.count(), 1);
}

/// A folder that died empty, where a file is to stand, is in nobody's way.
#[tokio::test]
async fn i4_a_rewind_that_died_between_a_file_and_its_folder_is_carried_to_its_end() {
    for resumed in [true, false] {
        let (bench, run) = waiting().await;
        assert!(dying(&bench, When::BehindIt).rewind(&run, &Target::default(), "test").await.is_err());
        std::fs::remove_file(bench.path("swap/in")).unwrap();
        if resumed {
            let runtime = bench.runtime(script().split_off(2));
            assert_eq!(runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap().exit_code(), 5);
        } else {
            Undo::new(bench.store.clone()).rewind(&run, &Target::default(), "test").await.unwrap();
        }
        assert_eq!(look(&bench), start());
    }
}

/// A rewind that came to its end is over: who takes up again what it put back has done that themselves.
#[tokio::test]
async fn what_somebody_does_after_a_rewind_is_theirs_even_where_it_is_what_the_run_had_done() {
    for resumed in [true, false] {
        let (bench, run) = waiting().await;
        let undo = Undo::new(bench.store.clone());
        undo.rewind(&run, &Target::default(), "test").await.unwrap();
        std::fs::write(bench.path("a.txt"), "two\n").unwrap();
        std::fs::remove_file(bench.path("gone.txt")).unwrap();
        if resumed {
            let mut runtime = bench.runtime(script().split_off(2));
            runtime.approver = Arc::new(provost_agent::Always::APPROVE);
            assert_eq!(runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap().exit_code(), 0);
            assert_eq!(drifts(&bench, &run).await, 1);
        } else {
            let again = undo.rewind(&run, &Target::default(), "test").await.unwrap();
            assert_eq!((again.changes, again.carried, again.others.len()), (vec![], vec![], 2));
        }
        assert_eq!((bench.read("a.txt").as_str(), bench.path("gone.txt").exists()), ("two\n", false));
    }
}
