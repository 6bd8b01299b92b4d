//! Prompts only grow, byte for byte, and what was sent is on record.

use std::sync::{Arc, Mutex};

use provost_agent::{Ending, Runtime};
use provost_core::contract::Contract;
use provost_core::event::{Body, Event, PromptFact};
use provost_core::id::StepId;
use provost_core::policy::{Policy, Preset};
use provost_core::prompt::Break;
use provost_core::transcript::Message;
use provost_journal::Store;
use provost_model::{
    Answer, BaseUrl, BoxFuture, Dialogue, Failure, FailureClass, Invocation, PlainHttp, Prelude, Provider,
    Remote, RetryPolicy, Sink, WireKind,
};
use serde_json::json;

use crate::support::{Bench, calls};

/// What a request is answered with, by its number and its bytes.
type Turns = Arc<dyn Fn(usize, &[u8]) -> Result<Answer, Failure> + Send + Sync>;

/// Encodes as a real wire does and answers by itself. Keeps what it would have sent.
#[derive(Clone)]
pub(crate) struct Wired {
    wire: Remote,
    turns: Turns,
    pub(crate) sent: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The message that is encoded otherwise, as another version might.
    altered: Option<usize>,
}

impl Wired {
    fn new(
        kind: WireKind,
        model: &str,
        turns: impl Fn(usize) -> Result<Answer, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self::seeing(kind, model, move |n, _| turns(n))
    }

    /// One that answers by what it is sent.
    pub(crate) fn seeing(
        kind: WireKind,
        model: &str,
        turns: impl Fn(usize, &[u8]) -> Result<Answer, Failure> + Send + Sync + 'static,
    ) -> Self {
        let base = BaseUrl::parse("http://127.0.0.1:1", PlainHttp::LoopbackOnly).unwrap();
        let wire = Remote::builder(kind, base, model).build().unwrap();
        Self { wire, turns: Arc::new(turns), sent: Arc::default(), altered: None }
    }
}

impl Provider for Wired {
    fn name(&self) -> &'static str {
        "wired"
    }

    fn model(&self) -> &'static str {
        "wired"
    }

    fn endpoint(&self) -> &'static str {
        ""
    }

    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue> {
        Box::new(WiredDialogue { wired: self.clone(), inner: self.wire.open(prelude), pushed: 0 })
    }
}

struct WiredDialogue {
    wired: Wired,
    inner: Box<dyn Dialogue>,
    pushed: usize,
}

impl Dialogue for WiredDialogue {
    fn push(&mut self, message: &Message) {
        if self.wired.altered == Some(self.pushed) {
            self.inner.push(&Message::user("in other words"));
        } else {
            self.inner.push(message);
        }
        self.pushed += 1;
    }

    fn prompt_bytes(&self) -> usize {
        self.inner.prompt_bytes()
    }

    fn prompt(&self, from: u64, see: &mut dyn FnMut(&[u8])) {
        self.inner.prompt(from, see);
    }

    fn ask<'a>(
        &'a mut self,
        _: &'a Invocation,
        _: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        let mut sent = Vec::new();
        self.inner.prompt(0, &mut |piece| sent.extend_from_slice(piece));
        let mut all = self.wired.sent.lock().unwrap();
        let answer = (self.wired.turns)(all.len(), &sent);
        all.push(sent);
        Box::pin(std::future::ready(answer))
    }
}

fn contract() -> Contract {
    let mut contract = Contract::new("read it").policy(Policy::preset(Preset::Workspace));
    contract.budget.steps = Some(1_000);
    contract
}

fn runtime(bench: &Bench, wired: &Wired) -> Runtime {
    let mut runtime = bench.runtime_with(Arc::new(wired.clone()));
    runtime.retry = RetryPolicy::none();
    runtime
}

fn prompts(events: &[Event]) -> Vec<PromptFact> {
    let of = |event: &Event| match &event.body {
        Body::ModelAnswered(body) => body.prompt,
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Reads, writes, commands, refusals, calls that are none: whatever a step leads to, the next prompt begins with the last.
fn turn(n: usize) -> Answer {
    match n % 6 {
        0 => calls("read_file", json!({ "path": "a.txt" })),
        1 => calls("edit_file", json!({ "path": "a.txt", "old": "one", "new": "one" })),
        2 => calls("write_file", json!({ "path": format!("f{n}.txt"), "content": "x\n" })),
        3 => calls("read_file", json!({ "path": "../outside" })),
        4 => calls("no_such_tool", json!({ "n": n })),
        _ => Answer::text(""),
    }
}

#[tokio::test]
async fn each_prompt_of_200_steps_begins_with_the_one_before_also_across_a_resume() {
    const STEPS: usize = 200;
    for kind in WireKind::ALL {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        // In the middle it fails once: the run is taken up again by another driver.
        let wired = Wired::new(kind, "m", |n| match n {
            100 => Err(Failure::new(FailureClass::Auth, "not now")),
            n if n < STEPS => Ok(turn(n)),
            _ => Ok(Answer::text("done")),
        });
        let runtime = runtime(&bench, &wired);
        let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
        assert!(matches!(ending, Ending::Paused(_)), "{kind:?}: {ending:?}");
        assert_eq!(bench.resume(&runtime, &run).await.unwrap().exit_code(), 0, "{kind:?}");

        let sent = wired.sent.lock().unwrap().clone();
        assert_eq!(sent.len(), STEPS + 1);
        for (n, pair) in sent.windows(2).enumerate() {
            assert!(pair[1].starts_with(&pair[0]), "{kind:?}: prompt {} does not begin with {n}", n + 1);
        }
        // What was sent is what the journal says, and no prompt broke.
        let events = bench.store.events(&run, 0).await.unwrap();
        let salt = bench.store.salt(&run).await.unwrap().unwrap();
        let answered: Vec<&Vec<u8>> =
            sent.iter().enumerate().filter(|(n, _)| *n != 100).map(|(_, bytes)| bytes).collect();
        let facts = prompts(&events);
        assert_eq!(facts.len(), answered.len());
        for (fact, bytes) in facts.iter().zip(answered) {
            assert_eq!((fact.bytes, fact.digest), (bytes.len() as u64, salt.digest(bytes)), "{kind:?}");
        }
        assert!(!events.iter().any(|event| matches!(event.body, Body::PromptBroke(_))), "{kind:?}");
    }
}

/// A run of some steps that pauses, taken up again by `then`.
async fn broken(then: impl FnOnce(&Wired) -> Wired) -> Option<(u64, Break, Vec<PromptFact>)> {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let wired = Wired::new(WireKind::OpenAiChat, "m", |n| match n {
        4 => Err(Failure::new(FailureClass::Auth, "not now")),
        n if n < 6 => Ok(calls("read_file", json!({ "path": "a.txt" }))),
        _ => Ok(Answer::text("done")),
    });
    let (run, _) = bench.start(&runtime(&bench, &wired), contract()).await.unwrap();
    let other = then(&wired);
    assert_eq!(bench.resume(&runtime(&bench, &other), &run).await.unwrap().exit_code(), 0);
    let events = bench.store.events(&run, 0).await.unwrap();
    let broke = events.iter().find_map(|event| match &event.body {
        Body::PromptBroke(body) => Some((body.same_bytes, body.at)),
        _ => None,
    });
    broke.map(|(same, at)| (same, at, prompts(&events)))
}

#[tokio::test]
async fn a_prompt_that_breaks_is_on_record_with_the_first_thing_that_differs() {
    assert_eq!(broken(Clone::clone).await, None);
    let (same, at, _) = broken(|wired| Wired { wire: renamed("other"), ..wired.clone() }).await.unwrap();
    assert_eq!((same, at), (0, Break::Prelude));
    // Goal, answer and result, answer and result, …: the fifth message stands before the answer of the third step.
    let altered = |wired: &Wired| Wired { altered: Some(4), ..wired.clone() };
    let (same, at, facts) = broken(altered).await.unwrap();
    assert_eq!((same, at), (facts[1].bytes, Break::Message { step: StepId(2) }));
}

fn renamed(model: &str) -> Remote {
    let base = BaseUrl::parse("http://127.0.0.1:1", PlainHttp::LoopbackOnly).unwrap();
    Remote::builder(WireKind::OpenAiChat, base, model).build().unwrap()
}
