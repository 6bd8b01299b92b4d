//! A real model: llama.cpp's server with SmolLM2 135M, which `./test --real-model` builds and starts. It is a toy: what it
//! says does not matter, what the server does with the wires does.

use std::time::Duration;

use provost_model::{
    Answer, BaseUrl, Discard, Invocation, PlainHttp, Prelude, Provider as _, Remote, RemoteBuilder, Sink,
    WireKind,
};
use serde_json::{Value, json};

use crate::support::{Heard, user};

const WIRES: [WireKind; 3] = [WireKind::OpenAiChat, WireKind::OpenAiResponses, WireKind::AnthropicMessages];

fn server() -> String {
    std::env::var("PROVOST_TEST_LLAMA")
        .expect("PROVOST_TEST_LLAMA names no server: run `./test --real-model`, which builds and starts one")
}

fn builder(wire: WireKind) -> RemoteBuilder {
    let base = match wire {
        WireKind::AnthropicMessages => server(),
        _ => format!("{}/v1", server()),
    };
    let base = BaseUrl::parse(&base, PlainHttp::LoopbackOnly).unwrap();
    Remote::builder(wire, base, "smollm2-135m").extra("temperature", json!(0))
}

fn patient(max_output: u64) -> Invocation {
    Invocation {
        max_output,
        timeout: Duration::from_mins(10),
        idle: Duration::from_mins(5),
        ..Invocation::new("i")
    }
}

fn tool() -> Prelude {
    let path = json!({"type": "string", "enum": ["src/lib.rs", "src/main.rs"]});
    let schema = json!({"type": "object", "properties": {"path": path}, "required": ["path"]});
    Prelude {
        tools: vec![provost_core::transcript::ToolSpec {
            name: "read_file".to_owned(),
            description: "Reads a file.".to_owned(),
            schema,
        }],
        ..Prelude::default()
    }
}

async fn ask(remote: &Remote, prelude: Prelude, words: &str, max_output: u64) -> (Answer, Heard) {
    let mut dialogue = remote.open(prelude);
    dialogue.push(&user(words));
    let mut heard = Heard::default();
    let answer = dialogue.ask(&patient(max_output), &mut heard).await;
    (answer.unwrap_or_else(|failure| panic!("{:?}: {failure}", remote.wire())), heard)
}

#[derive(Default)]
struct Deltas(usize);

impl Sink for Deltas {
    fn text(&mut self, _: &str) {
        self.0 += 1;
    }
}

#[tokio::test]
#[ignore = "wants a model: ./test --real-model"]
async fn it_streams_and_counts_its_cache() {
    for wire in WIRES {
        let remote = builder(wire).build().unwrap();
        let words = format!("On the wire {}: {}", wire.word(), "count the words of this prompt. ".repeat(20));
        let mut dialogue = remote.open(Prelude::default());
        dialogue.push(&user(&words));
        let mut deltas = Deltas::default();
        let first = dialogue.ask(&patient(24), &mut deltas).await.unwrap();
        let usage = first.usage.unwrap();
        assert!(deltas.0 > 1 && first.ttft_ms.is_some(), "{wire:?}: it came in {} pieces", deltas.0);
        assert!((1..=24).contains(&usage.output) && usage.input > 0, "{wire:?}: {usage:?}");
        // The same again: all of the prompt but its end is in the server's cache, and the counts stay disjoint.
        let again = dialogue.ask(&patient(24), &mut Discard).await.unwrap().usage.unwrap();
        assert!(again.cache_read > 50, "{wire:?}: {again:?}");
        assert_eq!(again.input + again.cache_read, usage.input + usage.cache_read, "{wire:?}");
    }
}

/// What the server says of its slots: whether any is at work.
async fn at_work() -> bool {
    let (_, _, body) = super::http::send("GET", &format!("{}/slots", server()), Vec::new()).await;
    let slots: Vec<Value> = serde_json::from_slice(&body).unwrap();
    slots.iter().any(|slot| slot["is_processing"] == true)
}

/// Tells of the first text.
struct First(Option<tokio::sync::oneshot::Sender<()>>);

impl Sink for First {
    fn text(&mut self, _: &str) {
        if let Some(told) = self.0.take() {
            let _ = told.send(());
        }
    }
}

#[tokio::test]
#[ignore = "wants a model: ./test --real-model"]
async fn an_attempt_that_is_dropped_ends_the_generation() {
    for wire in WIRES {
        assert!(!at_work().await, "the server is idle at first");
        let remote = builder(wire).build().unwrap();
        let mut dialogue = remote.open(Prelude::default());
        dialogue.push(&user("Tell me a very long story, and then another one."));
        let (told, first) = tokio::sync::oneshot::channel();
        let (invocation, mut sink) = (patient(3_000), First(Some(told)));
        {
            let mut asked = dialogue.ask(&invocation, &mut sink);
            tokio::select! {
                answer = &mut asked => panic!("{wire:?}: it ended by itself: {answer:?}"),
                _ = first => {}
            }
            // The control: it goes on as long as the attempt lives.
            assert!(at_work().await, "{wire:?}");
        }
        // The whole answer would take minutes.
        let stopped = tokio::time::timeout(Duration::from_secs(20), async {
            while at_work().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        stopped.await.unwrap_or_else(|_| panic!("{wire:?}: the server goes on generating"));
    }
}

/// The server forces a call where the wire can carry its members for that; on Messages it drops them.
#[tokio::test]
#[ignore = "wants a model: ./test --real-model"]
async fn a_forced_call_comes_whole() {
    for wire in [WireKind::OpenAiChat, WireKind::OpenAiResponses] {
        let remote = builder(wire)
            .extra("tool_choice", json!("required"))
            .extra("parallel_tool_calls", json!(false))
            // `<tool_call>` and a line end, which so small a model would not begin with.
            .extra("logit_bias", json!({"44": 10, "19324": 10, "79": 10, "4350": 10, "46": 10, "198": 14}))
            .build()
            .unwrap();
        let (answer, heard) = ask(&remote, tool(), "Read src/lib.rs", 64).await;
        assert_eq!(answer.assistant.calls.len(), 1, "{wire:?}: {answer:?}");
        let call = &answer.assistant.calls[0];
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(call.name, "read_file");
        assert!(["src/lib.rs", "src/main.rs"].contains(&arguments["path"].as_str().unwrap()), "{wire:?}");
        assert!(heard.calls.len() <= 1, "{wire:?}: {heard:?}");
    }
}

#[tokio::test]
#[ignore = "wants a model: ./test --real-model"]
async fn output_is_bound_to_the_schema() {
    let kind = json!({"type": "string", "enum": ["cat", "dog"]});
    let schema = json!({
        "type": "object", "properties": {"kind": kind, "age": {"type": "integer"}},
        "required": ["kind", "age"], "additionalProperties": false,
    });
    let asked = provost_model::OutputSchema { name: "animal".to_owned(), schema };
    let chat = Prelude { schema: Some(asked.clone()), ..Prelude::default() };
    // This server reads a schema on the other wires only where chat completions have it.
    let format = json!({"type": "json_schema", "json_schema": {"name": asked.name, "schema": asked.schema}});
    let responses = builder(WireKind::OpenAiResponses).extra("response_format", format);
    for (builder, prelude) in [(builder(WireKind::OpenAiChat), chat), (responses, Prelude::default())] {
        let remote = builder.build().unwrap();
        for words in ["What is this?", "Write me a poem.", "My dog is three years old."] {
            let (answer, heard) = ask(&remote, prelude.clone(), words, 64).await;
            let value: Value = serde_json::from_str(&answer.assistant.text).unwrap();
            let animal =
                (value["kind"].as_str().unwrap(), value["age"].is_i64(), value.as_object().unwrap().len());
            assert!(matches!(animal, ("cat" | "dog", true, 2)), "{:?}: {value}", remote.wire());
            assert_eq!(heard.text, answer.assistant.text);
        }
    }
}
