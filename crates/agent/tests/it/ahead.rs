//! Reads that begin while the answer is still coming: seen by changing the file before the answer ends.

use std::path::PathBuf;
use std::sync::Arc;

use provost_core::contract::Contract;
use provost_core::event::Body;
use provost_core::id::RunId;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_core::transcript::{Call, Message};
use provost_model::{Answer, BoxFuture, Dialogue, Failure, Invocation, Prelude, Provider, Sink};
use serde_json::json;

use crate::support::{Bench, call};

/// Lets `heard` be heard, changes the file, and then answers `said`.
#[derive(Clone)]
struct Streams {
    file: PathBuf,
    heard: Vec<Call>,
    said: Vec<Call>,
}

impl Provider for Streams {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn model(&self) -> &'static str {
        "streams"
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn open(&self, _: Prelude) -> Box<dyn Dialogue> {
        Box::new(Streaming { of: self.clone(), asked: 0 })
    }
}

struct Streaming {
    of: Streams,
    asked: usize,
}

impl Dialogue for Streaming {
    fn push(&mut self, _: &Message) {}

    fn prompt_bytes(&self) -> usize {
        1
    }

    fn ask<'a>(
        &'a mut self,
        _: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            self.asked += 1;
            if self.asked > 1 {
                return Ok(Answer::text("done"));
            }
            for call in &self.of.heard {
                sink.call(call);
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            std::fs::write(&self.of.file, "later\n").unwrap();
            Ok(Answer::calls(self.of.said.clone()))
        })
    }
}

fn read(path: &str) -> Call {
    call("read_file", json!({ "path": path }))
}

/// What the model was told of its calls, under `policy`.
async fn told(policy: Policy, heard: Vec<Call>, said: Vec<Call>) -> (Vec<String>, Vec<&'static str>) {
    let bench = Bench::new(&[("a.txt", "sooner\n"), ("b.txt", "b\n"), ("big.txt", &BIG.repeat(200_000))]);
    let file = bench.path("a.txt");
    let count = said.len();
    let runtime = bench.runtime_with(Arc::new(Streams { file, heard, said }));
    let (run, ending): (RunId, _) =
        bench.start(&runtime, Contract::new("read").policy(policy)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let mut told = Vec::new();
    for n in 0..count {
        told.push(bench.told(&run, n).await);
    }
    (told, bench.bodies(&run).await.iter().map(Body::kind).collect())
}

/// A line of a file of a megabyte.
const BIG: &str = "line\n";

fn workspace() -> Policy {
    Policy::preset(Preset::Workspace)
}

#[tokio::test]
async fn a_read_that_is_heard_begins_before_the_answer_ends_and_leaves_the_same_journal() {
    let (early, with) = told(workspace(), vec![read("a.txt")], vec![read("a.txt")]).await;
    assert!(early[0].contains("sooner"), "{early:?}");
    // The control: one that is not heard is read once it is asked for.
    let (late, without) = told(workspace(), vec![], vec![read("a.txt")]).await;
    assert!(late[0].contains("later"), "{late:?}");
    assert_eq!(with, without, "a trace is left");
}

#[tokio::test]
async fn what_the_answer_does_not_ask_for_in_this_place_is_never_used() {
    for said in [
        vec![call("read_file", json!({ "path": "./a.txt" }))],
        vec![call("grep", json!({ "pattern": "er" }))],
        vec![read("b.txt"), read("a.txt")],
    ] {
        let (told, _) = told(workspace(), vec![read("a.txt")], said.clone()).await;
        assert!(
            told.last().unwrap().contains("later") || !told.last().unwrap().contains("sooner"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn i1_only_what_policy_allows_outright_is_read_ahead() {
    let asks = workspace().with(Layer::named("asks").rule(Effect::Ask, "read a.txt").unwrap());
    let bench = Bench::new(&[("a.txt", "sooner\n")]);
    let streams =
        Streams { file: bench.path("a.txt"), heard: vec![read("a.txt")], said: vec![read("a.txt")] };
    let mut runtime = bench.runtime_with(Arc::new(streams));
    runtime.approver = Arc::new(provost_agent::Always::APPROVE);
    let (run, _) = bench.start(&runtime, Contract::new("read").policy(asks)).await.unwrap();
    let told = bench.told(&run, 0).await;
    assert!(told.contains("later"), "it was read before anybody was asked: {told}");
}

/// A search of the whole workspace does not answer for a file that a rule of its own asks about.
#[tokio::test]
async fn a_search_leaves_out_what_a_rule_asks_about() {
    let bench = Bench::new(&[("a.txt", "a needle\n"), ("secrets/key.txt", "a needle\n")]);
    let asks = workspace().with(Layer::named("asks").rule(Effect::Ask, "read secrets/**").unwrap());
    let searches = call("grep", json!({ "pattern": "needle" }));
    let runtime = bench.runtime(vec![Answer::calls(vec![searches])]);
    let (run, ending) = bench.start(&runtime, Contract::new("search").policy(asks)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let told = bench.told(&run, 0).await;
    assert!(told.contains("a.txt") && !told.contains("secrets"), "{told}");
    // The control: where the search itself is asked about, and allowed, so is what stands beneath.
    let bench = Bench::new(&[("a.txt", "a needle\n"), ("secrets/key.txt", "a needle\n")]);
    let searches = call("grep", json!({ "pattern": "needle" }));
    let mut runtime = bench.runtime(vec![Answer::calls(vec![searches])]);
    runtime.approver = Arc::new(provost_agent::Always::APPROVE);
    let (run, _) = bench.start(&runtime, Contract::new("search")).await.unwrap();
    assert!(bench.told(&run, 0).await.contains("secrets"));
    // And where the folder is searched that the rule asks about.
    let bench = Bench::new(&[("secrets/key.txt", "a needle\n")]);
    let searches = call("grep", json!({ "pattern": "needle", "path": "secrets" }));
    let mut runtime = bench.runtime(vec![Answer::calls(vec![searches])]);
    runtime.approver = Arc::new(provost_agent::Always::APPROVE);
    let asks = workspace().with(Layer::named("asks").rule(Effect::Ask, "read secrets/").unwrap());
    let (run, _) = bench.start(&runtime, Contract::new("search").policy(asks)).await.unwrap();
    let told = bench.told(&run, 0).await;
    assert!(told.contains("secrets/key.txt"), "{told}");
}

/// Behind a call that changes something nothing is read ahead: it may read what that one changes.
#[tokio::test]
async fn only_the_leading_reads_are_read_ahead() {
    let writes = call("write_file", json!({ "path": "c.txt", "content": "c\n" }));
    let calls = vec![read("b.txt"), writes, read("a.txt")];
    let (told, _) = told(workspace(), calls.clone(), calls).await;
    assert!(told[0].contains('b') && told[2].contains("later"), "{told:?}");
}

/// So many reads and so many bytes are held, and no more: an answer may ask for thousands.
#[tokio::test]
async fn reads_ahead_are_bounded_by_their_count_and_their_bytes() {
    for (path, before, words) in
        [("b.txt", 31, "sooner"), ("b.txt", 32, "later"), ("big.txt", 1, "sooner"), ("big.txt", 9, "later")]
    {
        let calls: Vec<Call> = (0..before).map(|_| read(path)).chain([read("a.txt")]).collect();
        let (told, _) = told(workspace(), calls.clone(), calls).await;
        assert!(told.last().unwrap().contains(words), "{before} of {path}: {}", told.last().unwrap());
    }
}
