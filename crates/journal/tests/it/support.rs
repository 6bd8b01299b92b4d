//! What the tests share: runs, drafts, and children that are this test program again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use provost_core::act::{ActEnd, Recovery, Touch};
use provost_core::event::{
    ActDecided, ActFinished, Body, CallRef, Draft, Event, ModelAnswered, Note, NoteWhy, Seen,
};
use provost_core::id::{ActId, AgentId, RunId, StepId};
use provost_core::path::RelPath;
use provost_core::policy::{Decision, Effect};
use provost_core::transcript::{Stop, Usage};
use provost_evidence::canonical::to_canonical;
use provost_evidence::chain::seal;
use provost_journal::{Blob, Head, Lease, Owner, Salt, SqliteStore, Store, StoreError};

pub(crate) const TTL: Duration = Duration::from_mins(1);

/// A folder that goes when the test does, and the store in it.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("temp folder") }
    }

    /// A place with a store as the first program of that format left it.
    pub(crate) fn with_fixture(format: u32) -> Self {
        let place = Self::new();
        std::fs::copy(fixture(&format!("format-{format}.db")), place.file()).expect("copies");
        place
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    pub(crate) fn open(&self) -> SqliteStore {
        SqliteStore::open(self.file()).expect("opens")
    }
}

/// A file in `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(future)
}

pub(crate) fn run(name: &str) -> RunId {
    name.parse().expect("run id")
}

pub(crate) fn salt() -> Salt {
    Salt::new([7; 32])
}

pub(crate) fn me() -> Owner {
    Owner::this_process().expect("proc")
}

/// A run that this process drives.
pub(crate) fn driven(store: &SqliteStore, name: &str) -> Lease {
    let run = run(name);
    wait(async {
        store.create(&run, salt(), 1).await.expect("creates");
        store.acquire(&run, me(), 1, TTL).await.expect("acquires")
    })
}

pub(crate) fn note(at_ms: u64) -> Draft {
    let text = salt().digest(&at_ms.to_le_bytes());
    Draft { at_ms, agent: AgentId(0), body: Body::Note(Note { why: NoteWhy::Empty, text }) }
}

/// A step as a run of a coding agent has most often: an answer with one call that reads a file.
pub(crate) fn step(n: u32) -> (Vec<Draft>, Vec<Blob>) {
    let blob = |text: String| Blob::new(&salt(), text.into_bytes());
    let path = RelPath::parse(&format!("src/module_{n}.rs")).expect("path");
    let answer = blob(format!("{{\"text\":\"reading {n}\",\"calls\":[]}}"));
    let args = blob(format!("{{\"path\":\"{path}\"}}"));
    let result = blob(format!("1 fn number_{n}() {{}}"));
    let bodies = [
        Body::ModelAnswered(ModelAnswered {
            step: StepId(n),
            invocation: format!("r01a22a0c7c00-0102030405/{n}"),
            route: provost_core::route::RouteId::FIRST,
            prompt: None,
            answer: answer.digest(),
            calls: 1,
            text: true,
            stop: Stop::ToolCalls,
            usage: Usage { input: 1200, output: 60, ..Usage::default() },
            estimated: false,
            raw_usage: None,
            rate_limits: None,
            model: "some-model-2026-01".into(),
            latency_ms: 812,
            ttft_ms: Some(211),
        }),
        Body::ActDecided(ActDecided {
            act: ActId(n),
            call: Some(CallRef { step: StepId(n), index: 0 }),
            tool: "read".into(),
            args: args.digest(),
            touches: vec![Touch::Read { path: path.clone() }],
            recovery: Recovery::Replayable,
            decision: Decision {
                effect: Effect::Allow,
                touch: 0,
                rule: "read **".into(),
                layer: "preset strict".into(),
                source: None,
            },
        }),
        Body::ActFinished(Box::new(ActFinished {
            act: ActId(n),
            end: ActEnd::Done,
            result: result.digest(),
            changes: vec![],
            reverted: vec![],
            unapplied: vec![],
            seen: vec![Seen { path, content: result.digest() }],
            command: None,
            told: None,
            duration_ms: 3,
        })),
    ];
    let drafts =
        bodies.map(|body| Draft { at_ms: 1_796_000_000_000 + u64::from(n), agent: AgentId(0), body });
    (drafts.into(), vec![answer, args, result])
}

/// Seals the run again from nothing and compares: places, links and hashes, and the stored bytes.
pub(crate) fn assert_chain(store: &SqliteStore, run: &RunId) -> Vec<Event> {
    let (events, lines, head) = wait(async {
        (
            store.events(run, 0).await.expect("reads"),
            store.events_json(run).await.expect("reads lines"),
            store.head(run).await.expect("head"),
        )
    });
    let mut again = Head::empty();
    for (event, line) in events.iter().zip(&lines) {
        let draft = Draft { at_ms: event.at_ms, agent: event.agent, body: event.body.clone() };
        assert_eq!(&seal(run, &mut again, draft).expect("seals"), event);
        assert_eq!(&to_canonical(event).expect("canonical"), line);
    }
    assert_eq!(lines.len(), events.len());
    assert_eq!(again, head);
    events
}

/// This test program again, running only `test`, told by the environment what to do.
pub(crate) fn child(test: &str, place: &Path, word: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("PROVOST_TEST_PLACE", place)
        .env("PROVOST_TEST_WORD", word);
    command
}

/// Where this process is a child: the store's path and its word.
pub(crate) fn as_child() -> Option<(PathBuf, String)> {
    Some((std::env::var_os("PROVOST_TEST_PLACE")?.into(), std::env::var("PROVOST_TEST_WORD").ok()?))
}

pub(crate) fn assert_ok(output: &Output) {
    assert!(
        output.status.success(),
        "child failed: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Appends `count` notes, each on the head that the last left.
pub(crate) async fn append_notes(store: &SqliteStore, lease: &Lease, count: u64) -> Result<Head, StoreError> {
    let mut head = store.head(&lease.run).await?;
    for n in 0..count {
        head = store.append(lease, &head, vec![note(n)], vec![]).await?.head;
    }
    Ok(head)
}
