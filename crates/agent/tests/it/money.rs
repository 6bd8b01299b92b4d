//! What calls are charged, whatever becomes of them (I6), and what a vendor says beside its answer.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use provost_agent::{Interrupt, RunError};
use provost_core::budget::{Bound, Budget, Price};
use provost_core::contract::Contract;
use provost_core::event::{Body, ModelAnswered, ModelFact, ModelFailed};
use provost_core::id::RunId;
use provost_core::outcome::Outcome;
use provost_core::policy::{Policy, Preset};
use provost_core::spend::{Account, Call};
use provost_core::state::RunState;
use provost_core::transcript::{Message, Usage};
use provost_journal::Store as _;
use provost_model::{
    Answer, Billed, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude, Provider, RateLimits,
    RetryPolicy, Scripted, Sink, Window,
};
use serde_json::json;

use crate::support::{Bench, calls};

fn contract() -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::Workspace))
}

fn look() -> Answer {
    calls("read_file", json!({ "path": "a.txt" }))
}

fn bench() -> Bench {
    Bench::new(&[("a.txt", "one\n")])
}

fn answered(bodies: &[Body]) -> Vec<&ModelAnswered> {
    let found = bodies.iter().filter_map(|body| match body {
        Body::ModelAnswered(body) => Some(body),
        _ => None,
    });
    found.collect()
}

fn failed(bodies: &[Body]) -> Vec<&ModelFailed> {
    let found = bodies.iter().filter_map(|body| match body {
        Body::ModelFailed(body) => Some(body),
        _ => None,
    });
    found.collect()
}

async fn state(bench: &Bench, run: &RunId) -> RunState {
    RunState::fold(run.clone(), &bench.store.events(run, 0).await.unwrap()).unwrap()
}

/// At once, and so often.
fn patient(attempts: u32) -> RetryPolicy {
    RetryPolicy { attempts, base: Duration::ZERO, max: Duration::ZERO, ..RetryPolicy::default() }
}

fn limits(remaining: u64, resets_in: Duration) -> RateLimits {
    let window = Window {
        counts: "requests".to_owned(),
        limit: Some(50),
        remaining: Some(remaining),
        resets_in: Some(resets_in),
    };
    RateLimits { windows: vec![window], extras: vec![("x-ratelimit-mood".to_owned(), "fair".to_owned())] }
}

#[tokio::test]
async fn what_a_vendor_says_beside_its_answer_is_in_the_journal() {
    let bench = bench();
    let raw = r#"{"prompt_tokens":7,"surprise":{"deep":true}}"#;
    let told =
        Answer { raw_usage: Some(raw.to_owned()), rate_limits: limits(3, Duration::from_secs(9)), ..look() };
    let refusal =
        Failure::new(FailureClass::RateLimited, "slow down").with_rate_limits(limits(0, Duration::ZERO));
    let mut runtime =
        bench.runtime_with(Arc::new(Scripted::new([Ok(told), Err(refusal), Ok(Answer::text("done"))])));
    runtime.retry = patient(3);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let bodies = bench.bodies(&run).await;
    let [first, last] = answered(&bodies)[..] else { panic!("{bodies:?}") };
    let blob = bench.store.blob(&run, first.raw_usage.unwrap()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(blob).unwrap(), raw);
    let fact = first.rate_limits.as_ref().unwrap();
    let window = &fact.windows[0];
    assert_eq!(
        (window.counts.as_str(), window.remaining, window.resets_in_ms),
        ("requests", Some(3), Some(9_000))
    );
    let extras = bench.store.blob(&run, fact.extras.unwrap()).await.unwrap().unwrap();
    assert_eq!(extras, br#"[["x-ratelimit-mood","fair"]]"#);
    assert_eq!(failed(&bodies)[0].rate_limits.as_ref().unwrap().windows[0].remaining, Some(0));
    // The control: who says nothing has said nothing.
    assert_eq!((&last.raw_usage, &last.rate_limits), (&None, &None));
    // Last seen, not last answered.
    let state = state(&bench, &run).await;
    assert_eq!(state.rate_limits().unwrap().1.windows[0].remaining, Some(0));
}

#[tokio::test]
async fn w10_a_call_that_may_have_been_billed_is_charged_by_estimate() {
    let broke = |billed, usage| {
        Failure::new(FailureClass::Transport, "the stream broke").with_usage(usage).with_billed(billed)
    };
    let counted = Usage { input: 70, output: 3, ..Usage::default() };
    let perhaps = |answer_bytes| Billed::Perhaps { answer_bytes };
    let cases = [
        // Refused, or never sent.
        (broke(Billed::AsCounted, None), None),
        (broke(Billed::AsCounted, Some(counted)), Some((70, 3, false))),
        // What had come of the answer counts, as far as the vendor had not counted it.
        (broke(perhaps(300), Some(counted)), Some((70, 100, true))),
        (broke(perhaps(6), Some(counted)), Some((70, 3, false))),
        // No more than was reserved.
        (broke(perhaps(u32::MAX), Some(counted)), Some((70, 16_384, true))),
        (broke(perhaps(0), None), Some((u64::MAX, 0, true))),
    ];
    for (failure, charged) in cases {
        let bench = bench();
        let said = format!("{failure:?}");
        let mut runtime =
            bench.runtime_with(Arc::new(Scripted::new([Err(failure), Ok(Answer::text("done"))])));
        runtime.retry = patient(2);
        let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
        assert_eq!(ending.exit_code(), 0, "{said}");
        let bodies = bench.bodies(&run).await;
        let [failed] = failed(&bodies)[..] else { panic!("{bodies:?}") };
        let estimated = charged.is_some_and(|(_, _, estimated)| estimated);
        assert_eq!((failed.usage.is_some(), failed.estimated), (charged.is_some(), estimated), "{said}");
        if let (Some(usage), Some((input, output, _))) = (failed.usage, charged) {
            // The prompt by its bytes.
            assert!(usage.input == input || input == u64::MAX && usage.input > 100, "{said}: {usage:?}");
            assert_eq!(usage.output, output, "{said}");
        }
        let state = state(&bench, &run).await;
        let sum = failed.usage.unwrap_or_default();
        assert_eq!(state.ledger().usage.output, sum.output + 1, "{said}");
        assert_eq!(state.ledger().estimated_calls, u32::from(estimated));
    }
}

/// Says something and then nothing more, until nobody listens.
struct Silent(Interrupt);

impl Provider for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }
    fn model(&self) -> &'static str {
        "silent"
    }
    fn endpoint(&self) -> &'static str {
        ""
    }
    fn open(&self, _: Prelude) -> Box<dyn Dialogue> {
        Box::new(SilentDialogue(self.0.clone()))
    }
}

struct SilentDialogue(Interrupt);

impl Dialogue for SilentDialogue {
    fn push(&mut self, _: &Message) {}
    fn prompt_bytes(&self) -> usize {
        3_000
    }
    fn ask<'a>(
        &'a mut self,
        _: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            sink.text(&"word ".repeat(60));
            self.0.request();
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn w10_a_call_that_is_given_up_is_charged_by_estimate() {
    let bench = bench();
    let interrupt = Interrupt::new().unwrap();
    let runtime = bench.runtime_with(Arc::new(Silent(interrupt.clone())));
    let order = provost_agent::Order {
        contract: contract(),
        workspace: bench.path(""),
        source: provost_core::contract::Source::Directory {
            commit: None,
            scope: provost_core::path::RelPath::root(),
        },
        repository: None,
    };
    let (run, ending) = runtime.start(order, interrupt).await.unwrap();
    assert_eq!(ending.exit_code(), 130);
    let bodies = bench.bodies(&run).await;
    let [failed] = failed(&bodies)[..] else { panic!("{bodies:?}") };
    let usage = Usage { input: 1_000, output: 100, ..Usage::default() };
    assert_eq!((failed.class.as_str(), failed.usage, failed.estimated), ("cancelled", Some(usage), true));
    // It goes on from there, and what was given up stays charged.
    let ending = bench.runtime(vec![Answer::text("done")]).resume(&run, &[], Interrupt::new().unwrap()).await;
    assert_eq!(ending.unwrap().exit_code(), 0);
    assert_eq!(state(&bench, &run).await.ledger().usage.output, 101);
}

/// What a vendor does with one request.
#[derive(Debug, Clone)]
enum Vendor {
    /// Answers, with so much of what it was asked for at most, in tenths.
    Answers {
        tenths: u64,
        counts: bool,
    },
    /// Breaks off behind so many bytes.
    Breaks {
        bytes: u32,
        counts: bool,
    },
    Refuses,
}

fn vendors() -> impl Strategy<Value = Vec<Vendor>> {
    let one = prop_oneof![
        3 => (0_u64..=10, any::<bool>()).prop_map(|(tenths, counts)| Vendor::Answers { tenths, counts }),
        3 => (0_u32..9_000, any::<bool>()).prop_map(|(bytes, counts)| Vendor::Breaks { bytes, counts }),
        1 => Just(Vendor::Refuses),
    ];
    prop::collection::vec(one, 1..12)
}

/// A vendor that counts a prompt as it was reserved, and an answer within what it was asked for.
struct Counting {
    turns: Arc<std::sync::Mutex<std::collections::VecDeque<Vendor>>>,
    /// What it has counted, whether or not it said so.
    bill: Arc<std::sync::Mutex<u64>>,
}

struct CountingDialogue {
    of: Counting,
    bytes: usize,
}

impl Provider for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }
    fn model(&self) -> &'static str {
        "counting"
    }
    fn endpoint(&self) -> &'static str {
        ""
    }
    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        let of = Self { turns: self.turns.clone(), bill: self.bill.clone() };
        Box::new(CountingDialogue { of, bytes: prelude.system.len() })
    }
}

impl Dialogue for CountingDialogue {
    fn push(&mut self, message: &Message) {
        self.bytes += serde_json::to_vec(message).unwrap().len();
    }
    fn prompt_bytes(&self) -> usize {
        self.bytes
    }
    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        _: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        let input = self.bytes as u64 / 3;
        let usage = |output| Usage { input, output, ..Usage::default() };
        let turn = self.of.turns.lock().unwrap().pop_front();
        let result = match turn {
            None => Ok((Answer::text("done"), 1, true)),
            Some(Vendor::Answers { tenths, counts }) => {
                // Without a count it is estimated by its bytes, of which an answer of this length has as many.
                let output = if counts { invocation.max_output * tenths / 10 } else { 20 };
                Ok((look(), output, counts))
            }
            Some(Vendor::Refuses) => Err(Failure::new(FailureClass::Overloaded, "no")),
            Some(Vendor::Breaks { bytes, counts }) => {
                let output = u64::from(bytes).div_ceil(3).min(invocation.max_output);
                *self.of.bill.lock().unwrap() += input + output;
                let counted = counts.then(|| usage(1));
                let billed = Billed::Perhaps { answer_bytes: bytes };
                Err(Failure::new(FailureClass::Transport, "broke").with_usage(counted).with_billed(billed))
            }
        };
        let result = result.map(|(answer, output, counts)| {
            *self.of.bill.lock().unwrap() += input + output;
            Answer { usage: counts.then(|| usage(output)), ..answer }
        });
        Box::pin(std::future::ready(result))
    }
}

async fn bounded(turns: Vec<Vendor>, budget: Budget) -> Result<(), TestCaseError> {
    let bench = bench();
    let bill = Arc::default();
    let said = format!("{turns:?}");
    let turns = Arc::new(std::sync::Mutex::new(turns.into()));
    let mut runtime = bench.runtime_with(Arc::new(Counting { turns, bill: Arc::clone(&bill) }));
    runtime.retry = patient(4);
    let contract = contract().budget(budget).price(Price::flat(1_000_000, 3_000_000));
    let (run, mut ending) = bench.start(&runtime, contract).await.unwrap();
    // A provider that gives up is resumed, as a worker does.
    for _ in 0..9 {
        if ending.exit_code() != 6 {
            break;
        }
        ending = runtime.resume(&run, &[], Interrupt::new().unwrap()).await.unwrap();
    }
    let state = state(&bench, &run).await;
    let ledger = state.ledger();
    prop_assert!(budget.tokens.is_none_or(|most| ledger.usage.total() <= most), "{said}: {ledger:?}");
    prop_assert!(budget.cost_micros.is_none_or(|most| ledger.cost_micros <= most), "{said}: {ledger:?}");
    // What the vendor counted is no more than what was charged.
    let bill = *bill.lock().unwrap();
    prop_assert!(bill <= ledger.usage.total() + 40, "{said}: {bill} of {ledger:?}");
    // The account that costs are shown from says the same as the ledger.
    let account = Account::of(&bench.store.events(&run, 0).await.unwrap());
    let cost = |call: &Call| Some(account.asked(call)?.price.as_ref()?.of(&call.usage?));
    let cost: u64 = account.calls.iter().filter_map(cost).sum();
    prop_assert_eq!(cost, ledger.cost_micros);
    Ok(())
}

#[test]
fn i6_a_tree_never_spends_past_its_ledger_whatever_becomes_of_its_calls() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    let budgets = (prop::option::of(500_u64..20_000), prop::option::of(500_u64..30_000));
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&(vendors(), budgets), |(turns, (tokens, cost_micros))| {
        tokio.block_on(bounded(turns, Budget { tokens, cost_micros, ..Budget::default() }))
    });
    result.unwrap();
}

#[tokio::test]
async fn a_run_waits_for_its_vendor_where_that_is_wanted() {
    let mut gaps = Vec::new();
    for pace in [Duration::ZERO, Duration::from_secs(5)] {
        let bench = bench();
        let spent = Answer { rate_limits: limits(0, Duration::from_millis(700)), ..look() };
        let mut runtime = bench.runtime(vec![spent, Answer::text("done")]);
        runtime.pace = pace;
        let (run, _) = bench.start(&runtime, contract()).await.unwrap();
        let events = bench.store.events(&run, 0).await.unwrap();
        let at: Vec<u64> = events
            .iter()
            .filter(|event| matches!(event.body, Body::ModelAnswered(_)))
            .map(|event| event.at_ms)
            .collect();
        gaps.push(at[1] - at[0]);
    }
    // Nothing is left until then, so the second answer cannot come before; how much later it comes says nothing.
    assert!(gaps[1] >= 690, "{gaps:?}");
    // One that would take longer than the caller waits is not waited for: else this test would not end.
    let bench = bench();
    let spent = Answer { rate_limits: limits(0, Duration::from_hours(1)), ..look() };
    let mut runtime = bench.runtime(vec![spent, Answer::text("done")]);
    runtime.pace = Duration::from_secs(5);
    assert_eq!(bench.start(&runtime, contract()).await.unwrap().1.exit_code(), 0);
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_not_sent() {
    for (window, code, asked) in [(50, 6, 0), (1 << 20, 0, 1)] {
        let bench = bench();
        let model = Scripted::new([Ok(Answer::text("done"))]);
        let mut runtime = bench.runtime_with(Arc::new(model.clone()));
        runtime.model = ModelFact { window: Some(window), ..ModelFact::new("scripted", "small", "") };
        let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
        assert_eq!((ending.exit_code(), 1 - model.left()), (code, asked), "{window}");
        let bodies = bench.bodies(&run).await;
        let failed = failed(&bodies);
        assert_eq!(failed.len(), 1 - asked);
        if let [failed] = failed[..] {
            assert_eq!((failed.class.as_str(), failed.usage), ("context_overflow", None));
            let words = bench.store.blob(&run, failed.message).await.unwrap().unwrap();
            let words = String::from_utf8(words).unwrap();
            assert!(words.contains("the window of `small` holds 50; it was not sent"), "{words}");
        }
    }
}

#[tokio::test]
async fn w10_a_bound_on_money_without_a_price_is_refused_before_the_run() {
    let bench = bench();
    let runtime = bench.runtime(Vec::new());
    let budget = Budget { cost_micros: Some(1), ..Budget::default() };
    let refused = bench.start(&runtime, contract().budget(budget)).await.unwrap_err();
    assert!(matches!(refused, RunError::Contract(_)), "{refused}");
    assert_eq!(bench.store.runs().await.unwrap().len(), 0);
    let priced = contract().budget(budget).price(Price::flat(1_000_000, 1_000_000));
    let (_, ending) = bench.start(&runtime, priced).await.unwrap();
    let provost_agent::Ending::Over(finished) = ending else { panic!("{ending:?}") };
    assert_eq!(finished.outcome, Outcome::BudgetSpent { bound: Bound::Cost });
}
