//! What may happen in the middle of a child's work: a person is asked, another model stands in, and its steps are steps
//! like any other to whoever looks back.

use std::sync::Arc;

use provost_agent::{
    Answer as Given, Ending, ForkOrder, ForkPlace, Interrupt, RunError, Runtime, Says, Target, Undo,
};
use provost_core::contract::Contract;
use provost_core::event::{Body, Event, ModelFact, Verdict};
use provost_core::history;
use provost_core::id::{AgentId, RunId};
use provost_core::outcome::Pause;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_core::route::{Route, RouteId, Routing};
use provost_core::transcript::Message;
use provost_journal::{SqliteStore, Store};
use provost_model::{Answer, Failure, FailureClass, RetryPolicy, Scripted};
use serde_json::json;

use crate::support::{Bench, calls};

const PART: &str = "do a part";

fn writes(path: &str) -> Answer {
    calls("write_file", json!({ "path": path, "content": "written\n" }))
}

/// The root has a child write these files, and then writes one itself. The child's dialogue is the one about its part, so
/// that the model answers whatever driver asks; it cannot be reached for a child that has answered so often.
fn model(files: &'static [&'static str], fails_after: Option<usize>) -> Scripted {
    Scripted::from_fn(move |_, messages: &[Message]| {
        let said = messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let is_child = matches!(messages.first(), Some(Message::User { text, .. }) if text.as_str() == PART);
        if is_child && fails_after.is_some_and(|after| said >= after) {
            return Err(Failure::new(FailureClass::Overloaded, "it does not answer"));
        }
        let answer = match (is_child, said) {
            (true, said) => files.get(said).copied().map(writes),
            (false, 0) => Some(calls("delegate", json!({ "goal": PART, "name": "helper" }))),
            (false, 1) => Some(writes("of-root.txt")),
            (false, _) => None,
        };
        Ok(answer.unwrap_or_else(|| Answer::text("done")))
    })
}

fn contract() -> Contract {
    let asks = Layer::named("test").rule(Effect::Ask, "write asked/**").unwrap();
    Contract::new("do it").policy(Policy::preset(Preset::Workspace).with(asks))
}

fn runtime(bench: &Bench, model: Scripted) -> Runtime {
    let mut runtime = bench.runtime_with(Arc::new(model));
    runtime.retry = RetryPolicy::none();
    runtime
}

/// Whose answers there are, in their order, and of which model.
fn answers(events: &[Event]) -> Vec<(u32, u16)> {
    let of = |event: &Event| match &event.body {
        Body::ModelAnswered(body) => Some((event.agent.0, body.route.0)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// A run of which a child waits for a person.
async fn parked(bench: &Bench) -> (RunId, provost_core::id::ActId) {
    let runtime = runtime(bench, model(&["first.txt", "asked/second.txt"], None));
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    let Ending::Paused(paused) = ending else { panic!("{ending:?}") };
    assert_eq!(paused.why, Pause::Approval);
    let act = paused.act.unwrap();
    let events = bench.store.events(&run, 0).await.unwrap();
    let decided = |event: &&Event| matches!(&event.body, Body::ActDecided(body) if body.act == act);
    assert_eq!(events.iter().find(decided).unwrap().agent, AgentId(1));
    assert!(!bench.path("asked/second.txt").exists());
    (run, act)
}

/// I4: whoever takes the run up goes on inside the child, whose first act is not done again.
#[tokio::test]
async fn a_word_on_a_childs_act_is_given_to_another_driver() {
    for (verdict, is_written) in [(Verdict::Approved, true), (Verdict::Denied, false)] {
        let bench = Bench::new(&[]);
        let (run, act) = parked(&bench).await;
        // As in another process: nothing of the first driver is left.
        let mut next = runtime(&bench, model(&["first.txt", "asked/second.txt"], None));
        next.store = Arc::new(SqliteStore::open(bench.dir.path().join("store/runs.db")).unwrap());
        let word = [Given { act, says: Says::Verdict(verdict) }];
        let ending = next.resume(&run, &word, Interrupt::new().unwrap()).await.unwrap();
        assert_eq!(ending.exit_code(), 0);
        assert_eq!(bench.path("asked/second.txt").exists(), is_written);
        let events = bench.store.events(&run, 0).await.unwrap();
        assert_eq!(answers(&events), [(0, 0), (1, 0), (1, 0), (1, 0), (0, 0), (0, 0)]);
        assert_eq!(bench.told(&run, 1).await.contains("said no"), !is_written);
        assert_eq!(bench.read("of-root.txt"), "written\n");
    }
}

/// It is told what was said in the child's dialogue, and goes on for the root too.
#[tokio::test]
async fn a_fallback_stands_in_within_a_child() {
    let bench = Bench::new(&[]);
    let files = &["first.txt", "second.txt"];
    let (first, second) = (model(files, Some(1)), model(files, None));
    let mut runtime = runtime(&bench, first);
    runtime.others = vec![Arc::new(second.clone())];
    let route = Route { model: ModelFact::new("scripted", "other", ""), price: None };
    let routing = Routing { others: vec![route], fallback: vec![RouteId(1)], ..Routing::default() };
    let (run, ending) = bench.start(&runtime, contract().routing(routing)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let events = bench.store.events(&run, 0).await.unwrap();
    assert_eq!(answers(&events), [(0, 0), (1, 0), (1, 1), (1, 1), (0, 1), (0, 1)]);
    assert_eq!(
        (bench.read("second.txt"), bench.read("of-root.txt")),
        ("written\n".into(), "written\n".into())
    );
    // The control: without one the run waits, in the middle of the child.
    let bench = Bench::new(&[]);
    let runtime = self::runtime(&bench, model(files, Some(1)));
    let (_, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert!(matches!(&ending, Ending::Paused(paused) if paused.why == Pause::Provider), "{ending:?}");
}

fn order(bench: &Bench, step: u32) -> ForkOrder {
    let to = bench.dir.path().join(format!("fork-{step}"));
    ForkOrder { step, to, id: None, place: ForkPlace::Folder }
}

/// Steps are counted over the whole tree: 1 is the root's, 2 to 4 are the child's, 5 and 6 the root's again.
#[tokio::test]
async fn a_childs_step_can_be_looked_at_gone_back_to_and_forked_from() {
    let bench = Bench::new(&[]);
    let files = &["first.txt", "second.txt"];
    let (run, ending) = bench.start(&runtime(&bench, model(files, None)), contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let events = bench.store.events(&run, 0).await.unwrap();
    let changed = |step| {
        let changes = history::changed_in(&events, step).unwrap().changes;
        changes.iter().map(|change| change.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        [changed(1), changed(2), changed(3), changed(4)],
        [vec![], vec!["first.txt".to_owned()], vec!["second.txt".to_owned()], vec![]]
    );

    let undo = Undo::new(bench.store.clone());
    for step in [1, 2, 3, 5] {
        let forked = undo.fork(&run, &order(&bench, step)).await.unwrap();
        let has = |name: &str| forked.root.join(name).exists();
        assert_eq!([has("first.txt"), has("second.txt"), has("of-root.txt")], [step > 1, step > 2, step > 4]);
        // It goes on where its parent was then: inside the child, where that had not ended.
        let ending = bench.resume(&runtime(&bench, model(files, None)), &forked.run).await.unwrap();
        assert_eq!(ending.exit_code(), 0);
        let of_fork = bench.store.events(&forked.run, 0).await.unwrap();
        assert_eq!(answers(&of_fork), answers(&events));
        assert!(has("first.txt") && has("second.txt") && has("of-root.txt"));
    }

    let to = |step| Target { step, ..Target::default() };
    undo.rewind(&run, &to(2), "test").await.unwrap();
    let there = ["first.txt", "second.txt", "of-root.txt"].map(|name| bench.path(name).exists());
    assert_eq!(there, [true, false, false]);
}

#[tokio::test]
async fn a_step_in_which_a_child_waits_is_not_forked_from() {
    let bench = Bench::new(&[]);
    let (run, _) = parked(&bench).await;
    let undo = Undo::new(bench.store.clone());
    let error = undo.fork(&run, &order(&bench, 3)).await.unwrap_err();
    assert!(matches!(error, RunError::Undo(_)), "{error}");
    assert!(error.to_string().contains("step 3 is not over: an act of it waits"), "{error}");
    // The control: the child's step before.
    let _ = undo.fork(&run, &order(&bench, 2)).await.unwrap();
}
