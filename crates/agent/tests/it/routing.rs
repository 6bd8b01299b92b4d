//! Models beside the first: who is asked, with what, and what is on record of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use provost_agent::{Ending, RunError, Runtime};
use provost_core::contract::{Contract, Gate};
use provost_core::event::{Body, ModelFact};
use provost_core::outcome::{Outcome, Pause};
use provost_core::policy::{Policy, Preset};
use provost_core::route::{Escalate, Route, RouteId, Routing};
use provost_core::transcript::Message;
use provost_journal::Store;
use provost_model::{Answer, Failure, FailureClass, Provider, RetryPolicy, Scripted};
use serde_json::json;

use crate::support::{Bench, calls};

type Turn = Result<Answer, Failure>;

/// A model that gives these answers, and then says that it is done.
fn model(turns: impl IntoIterator<Item = Turn>) -> Scripted {
    let turns = Mutex::new(turns.into_iter().collect::<VecDeque<_>>());
    Scripted::from_fn(move |_, _: &[Message]| {
        turns.lock().unwrap().pop_front().unwrap_or_else(|| Ok(Answer::text("done")))
    })
}

fn fails(class: FailureClass) -> Turn {
    Err(Failure::new(class, "it does not answer"))
}

fn reads() -> Answer {
    calls("read_file", json!({ "path": "a.txt" }))
}

fn others(count: usize) -> Vec<Route> {
    let route = |n| Route { model: ModelFact::new("scripted", format!("other-{n}"), ""), price: None };
    (1..=count).map(route).collect()
}

fn contract(routing: Routing) -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::Workspace)).routing(routing)
}

fn with_fallback() -> Routing {
    Routing { others: others(1), fallback: vec![RouteId(1)], ..Routing::default() }
}

fn runtime(bench: &Bench, first: &Scripted, others: &[&Scripted]) -> Runtime {
    let shared = |model: &Scripted| Arc::new(model.clone()) as Arc<dyn Provider>;
    let mut runtime = bench.runtime_with(shared(first));
    runtime.others = others.iter().map(|model| shared(model)).collect();
    runtime.retry = RetryPolicy::none();
    runtime
}

async fn routes(bench: &Bench, run: &provost_core::id::RunId) -> Vec<(&'static str, u16)> {
    let events = bench.store.events(run, 0).await.unwrap();
    let of = |body: &Body| match body {
        Body::ModelAnswered(body) => Some(("answered", body.route.0)),
        Body::ModelFailed(body) => Some(("failed", body.route.0)),
        _ => None,
    };
    events.iter().filter_map(|event| of(&event.body)).collect()
}

#[tokio::test]
async fn a_fallback_takes_over_with_all_that_was_said() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let first = model([Ok(reads()), Ok(reads()), fails(FailureClass::Overloaded)]);
    let second = model([Ok(reads())]);
    let runtime = runtime(&bench, &first, &[&second]);
    let (run, ending) = bench.start(&runtime, contract(with_fallback())).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let asked = routes(&bench, &run).await;
    let expected = [("answered", 0), ("answered", 0), ("failed", 0), ("answered", 1), ("answered", 1)];
    assert_eq!(asked, expected);
    let (before, after) = (first.messages(0), second.messages(0));
    assert!(before.len() >= 5, "{before:?}");
    assert_eq!(after[..before.len()], before[..], "the fallback was told what the first was told");
}

#[tokio::test]
async fn without_a_fallback_the_run_waits_and_goes_on_with_the_first() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let first = model([Ok(reads()), fails(FailureClass::Overloaded), Ok(reads())]);
    let runtime = runtime(&bench, &first, &[]);
    let (run, ending) = bench.start(&runtime, contract(Routing::default())).await.unwrap();
    let Ending::Paused(paused) = ending else { panic!("{ending:?}") };
    assert_eq!(paused.why, Pause::Provider);
    let ending = bench.resume(&runtime, &run).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
}

#[tokio::test]
async fn a_run_whose_models_are_not_all_there_does_not_begin() {
    let bench = Bench::new(&[]);
    let runtime = runtime(&bench, &model([]), &[]);
    let error = bench.start(&runtime, contract(with_fallback())).await.unwrap_err();
    assert!(matches!(&error, RunError::Contract(_)), "{error}");
    assert!(error.to_string().contains("names 1 models beside the first, and 0 are there"), "{error}");
}

#[tokio::test]
async fn a_gate_that_fails_brings_in_the_stronger_model_and_a_resume_keeps_it() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let gate = Gate::command(["grep", "-q", "two", "a.txt"].map(str::to_owned).to_vec());
    let edits = calls("edit_file", json!({ "path": "a.txt", "old": "one", "new": "two" }));
    let first = model([]);
    let stronger = model([fails(FailureClass::Overloaded), Ok(edits)]);
    let routing = Routing {
        others: others(1),
        escalate: Some(Escalate { after: 1, to: RouteId(1) }),
        ..Routing::default()
    };
    let runtime = runtime(&bench, &first, &[&stronger]);
    let (run, ending) = bench.start(&runtime, contract(routing).gate(gate)).await.unwrap();
    // The first stands in for it, has nothing to say, and the gate fails again until that is enough.
    let Ending::Over(finished) = &ending else { panic!("{ending:?}") };
    assert_eq!(finished.outcome, Outcome::GateFailed);
    assert_eq!(routes(&bench, &run).await[..3], [("answered", 0), ("failed", 1), ("answered", 0)]);

    let bench = Bench::new(&[("a.txt", "one\n")]);
    let gate = Gate::command(["grep", "-q", "two", "a.txt"].map(str::to_owned).to_vec());
    let edits = calls("edit_file", json!({ "path": "a.txt", "old": "one", "new": "two" }));
    let stronger = model([Ok(edits)]);
    let routing = Routing {
        others: others(1),
        escalate: Some(Escalate { after: 1, to: RouteId(1) }),
        ..Routing::default()
    };
    let runtime = self::runtime(&bench, &model([]), &[&stronger]);
    let (run, ending) = bench.start(&runtime, contract(routing).gate(gate)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(routes(&bench, &run).await, [("answered", 0), ("answered", 1), ("answered", 1)]);
}
