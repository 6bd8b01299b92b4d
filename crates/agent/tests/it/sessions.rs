//! Governed sessions: a run under an authorization is held to its time, and to whoever may revoke it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use provost_agent::{Ending, Interrupt, Mandate, Order, RunError, Runtime, Session};
use provost_core::act::{ActEnd, Intent};
use provost_core::contract::{Contract, Source};
use provost_core::digest::Digest;
use provost_core::event::Body;
use provost_core::id::RunId;
use provost_core::outcome::{Outcome, Unauthorized};
use provost_core::path::RelPath;
use provost_core::policy::{Policy, Preset, WorkspaceMode};
use provost_core::session::Authorized;
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, calls};

const NOT_BEFORE: u64 = 1_000_000;
const EXPIRES: u64 = 2_000_000;

pub(crate) fn session() -> Session {
    let authorized =
        Authorized { payload: Digest::ZERO, not_before_ms: NOT_BEFORE, expires_ms: EXPIRES, rollbacks: 2 };
    Session { run: "r-session".parse().unwrap(), authorized }
}

fn contract() -> Contract {
    let policy = Policy { workspace: WorkspaceMode::staged(), ..Policy::preset(Preset::Workspace) };
    Contract::new("do it").policy(policy)
}

pub(crate) async fn start(
    bench: &Bench,
    runtime: &Runtime,
    contract: Contract,
) -> Result<(RunId, Ending), RunError> {
    let order = Order {
        contract,
        workspace: bench.dir.path().join("workspace"),
        source: Source::Directory { commit: None, scope: RelPath::root() },
        repository: None,
    };
    let session = session();
    let run = session.run.clone();
    Ok((run, runtime.start_session(order, session, Interrupt::new().unwrap()).await?))
}

/// A clock that stands at `at`.
pub(crate) fn stands(runtime: &mut Runtime, at: u64) -> Arc<AtomicU64> {
    let clock = Arc::new(AtomicU64::new(at));
    let reads = clock.clone();
    runtime.clock = Arc::new(move || reads.load(Ordering::SeqCst));
    clock
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

fn outcome(ending: &Ending) -> Outcome {
    match ending {
        Ending::Over(finished) => finished.outcome,
        Ending::Paused(paused) => panic!("it waits: {paused:?}"),
    }
}

/// Acts that started.
async fn started(bench: &Bench, run: &RunId) -> usize {
    bench.bodies(run).await.iter().filter(|body| matches!(body, Body::ActStarted(_))).count()
}

/// Revoked once the driver has asked so often. That the heartbeat asks too is left out: how often it does is a matter of time.
struct Revoked {
    from: u32,
    asked: AtomicU32,
}

impl Mandate for Revoked {
    fn revoked(&self) -> Option<String> {
        if std::thread::current().name() == Some("heartbeat") {
            return None;
        }
        (self.asked.fetch_add(1, Ordering::SeqCst) >= self.from).then(|| "trust/revoked".to_owned())
    }
}

/// Revoked, whoever asks.
struct Gone;

impl Mandate for Gone {
    fn revoked(&self) -> Option<String> {
        Some("trust/revoked".to_owned())
    }
}

#[tokio::test]
async fn a_session_is_not_begun_outside_of_its_time() {
    for (at, said) in [(NOT_BEFORE - 1, "not valid yet"), (EXPIRES, "has expired")] {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let mut runtime = bench.runtime(vec![]);
        stands(&mut runtime, at);
        let error = start(&bench, &runtime, contract()).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    for at in [NOT_BEFORE, EXPIRES - 1] {
        let writes = calls("write_file", json!({ "path": "new.txt", "content": "two\n" }));
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let mut runtime = bench.runtime(vec![writes]);
        stands(&mut runtime, at);
        let (_, ending) = start(&bench, &runtime, contract()).await.unwrap();
        assert_eq!((outcome(&ending), bench.read("new.txt").as_str()), (Outcome::Done, "two\n"));
    }
}

#[tokio::test]
async fn when_its_time_is_over_nothing_begins_any_more() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let clock = Arc::new(AtomicU64::new(NOT_BEFORE));
    let answers = Mutex::new(vec![shell("echo three > a.txt"), shell("echo two > a.txt")]);
    let late = clock.clone();
    let model = provost_model::Scripted::from_fn(move |_, _| {
        let answer = answers.lock().unwrap().pop().unwrap();
        // The second answer comes in the last moment, and its call is to be decided on after it.
        late.fetch_add((EXPIRES - NOT_BEFORE) / 2 - 1, Ordering::SeqCst);
        Ok(answer)
    });
    let mut runtime = bench.runtime_with(Arc::new(model));
    let reads = clock.clone();
    runtime.clock = Arc::new(move || reads.fetch_add(1, Ordering::SeqCst));
    let (run, ending) = start(&bench, &runtime, contract()).await.unwrap();
    assert_eq!(outcome(&ending), Outcome::Unauthorized { why: Unauthorized::Expired });
    assert_eq!(ending.exit_code(), 3);
    assert_eq!((bench.read("a.txt").as_str(), started(&bench, &run).await), ("two\n", 1));
    let last: Vec<_> = bench.bodies(&run).await.iter().rev().take(2).map(Body::kind).collect();
    assert_eq!(last, ["run.finished", "run.cancelled"]);
    // It stays over.
    let again = bench.resume(&runtime, &run).await.unwrap();
    assert_eq!(outcome(&again), Outcome::Unauthorized { why: Unauthorized::Expired });
}

#[tokio::test]
async fn a_run_that_is_taken_up_when_its_time_is_over_is_closed() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let overloaded = |_: &_, _: &[provost_core::transcript::Message]| {
        Err(provost_model::Failure::new(provost_model::FailureClass::Auth, "no"))
    };
    let mut runtime = bench.runtime_with(Arc::new(provost_model::Scripted::from_fn(overloaded)));
    let clock = stands(&mut runtime, NOT_BEFORE);
    let (run, ending) = start(&bench, &runtime, contract()).await.unwrap();
    assert!(matches!(ending, Ending::Paused(_)), "{ending:?}");
    clock.store(EXPIRES, Ordering::SeqCst);
    let ending = bench.resume(&runtime, &run).await.unwrap();
    assert_eq!(outcome(&ending), Outcome::Unauthorized { why: Unauthorized::Expired });
    assert_eq!(bench.bodies(&run).await.iter().filter(|body| body.kind() == "model.failed").count(), 1);
}

#[tokio::test]
async fn a_command_is_ended_when_the_time_is_over() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    // The clock goes once the model has answered.
    let since: Arc<Mutex<Option<Instant>>> = Arc::default();
    let begins = since.clone();
    let model = provost_model::Scripted::from_fn(move |_, _| {
        begins.lock().unwrap().get_or_insert_with(Instant::now);
        Ok(shell("echo two > a.txt; while :; do :; done"))
    });
    let mut runtime = bench.runtime_with(Arc::new(model));
    runtime.clock = Arc::new(move || {
        let gone = since.lock().unwrap().map_or(0, |since| since.elapsed().as_millis() as u64);
        EXPIRES - 3_000 + gone
    });
    let (run, ending) = start(&bench, &runtime, contract()).await.unwrap();
    assert_eq!(outcome(&ending), Outcome::Unauthorized { why: Unauthorized::Expired });
    let bodies = bench.bodies(&run).await;
    let limit = bodies.iter().find_map(|body| match body {
        Body::ActStarted(started) => match started.intent {
            Intent::Command { limit_ms, .. } => Some(limit_ms),
            _ => None,
        },
        _ => None,
    });
    assert!(limit.unwrap() <= 3_000);
    let timed_out = |body: &Body| matches!(body, Body::ActFinished(end) if end.end == ActEnd::TimedOut);
    assert!(bodies.iter().any(timed_out));
}

#[tokio::test]
async fn a_session_that_is_revoked_ends_at_once() {
    let script = || vec![shell("echo two > a.txt"), shell("echo three > a.txt")];
    let mut seen = Vec::new();
    // Asked before each step and each act: sooner or later in the run.
    for from in 0..16 {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let mut runtime = bench.runtime(script());
        stands(&mut runtime, NOT_BEFORE);
        runtime.mandate = Arc::new(Revoked { from, asked: AtomicU32::new(0) });
        let (run, ending) = start(&bench, &runtime, contract()).await.unwrap();
        let after = bench.bodies(&run).await.into_iter().skip_while(|body| body.kind() != "run.cancelled");
        let after: Vec<_> = after.collect();
        if outcome(&ending) == Outcome::Done {
            assert!(after.is_empty());
            seen.push("done");
            continue;
        }
        assert_eq!(outcome(&ending), Outcome::Unauthorized { why: Unauthorized::Revoked });
        let Body::RunCancelled(cancelled) = &after[0] else { unreachable!() };
        assert_eq!(cancelled.by, "trust/revoked");
        assert_eq!(after.iter().map(Body::kind).collect::<Vec<_>>(), ["run.cancelled", "run.finished"]);
        seen.push(
            ["one\n", "two\n", "three\n"].into_iter().find(|text| bench.read("a.txt") == *text).unwrap(),
        );
    }
    assert!(
        seen.is_sorted_by_key(|word| ["one\n", "two\n", "three\n", "done"].iter().position(|it| it == word))
    );
    assert!(["one\n", "two\n", "three\n", "done"].iter().all(|word| seen.contains(word)), "{seen:?}");
}

#[tokio::test]
async fn of_an_ordinary_run_nobody_asks() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    // Long enough for the heartbeat to ask, if it did.
    let mut runtime = bench.runtime(vec![shell("sleep 1.5; echo two > a.txt")]);
    runtime.mandate = Arc::new(Gone);
    let (_, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!((outcome(&ending), bench.read("a.txt").as_str()), (Outcome::Done, "two\n"));
}

#[tokio::test]
async fn an_answer_that_was_lost_stops_the_session_until_somebody_resumes_it() {
    use provost_model::{Failure, FailureClass};

    let bench = Bench::new(&[("a.txt", "one\n")]);
    let asked = Arc::new(AtomicU32::new(0));
    let counts = asked.clone();
    let model = provost_model::Scripted::from_fn(move |_, _| match counts.fetch_add(1, Ordering::SeqCst) {
        0 => Err(Failure::new(FailureClass::UnknownOutcome, "the connection broke")),
        1 => Ok(shell("echo two > a.txt")),
        _ => Ok(Answer::text("done")),
    });
    let mut runtime = bench.runtime_with(Arc::new(model));
    stands(&mut runtime, NOT_BEFORE);
    let (run, ending) = start(&bench, &runtime, contract()).await.unwrap();
    assert_eq!((ending.word(), ending.exit_code()), ("provider_failed", 6));
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it is not asked again by itself");
    let ending = bench.resume(&runtime, &run).await.unwrap();
    assert_eq!((outcome(&ending), bench.read("a.txt").as_str()), (Outcome::Done, "two\n"));
}
