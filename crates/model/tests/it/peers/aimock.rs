//! Every wire against `aimock`, a mock server that has read the vendors' documentation for itself.

use std::time::Duration;

use provost_core::transcript::{Message, Stop, Usage};
use provost_model::sse::SseEvent;
use provost_model::wire::EncodeOptions;
use provost_model::{
    Answer, BaseUrl, Discard, Failure, FailureClass, Invocation, PlainHttp, Provider as _, Remote, WireKind,
};
use serde_json::{Value, json};

use super::mock::Mock;
use crate::support::{Heard, WIRES, prelude, result, user};

const TEXT: &str =
    "Gr\u{fc}\u{df}e \u{2192} \u{1f600}, \"quoted\"\nand of some length, so that it comes in pieces";

fn remote(mock: &Mock, wire: WireKind, headers: &[(&str, &str)]) -> Remote {
    let base = BaseUrl::parse(&mock.base(wire), PlainHttp::LoopbackOnly).unwrap();
    let mut builder = Remote::builder(wire, base, "test-model");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.build().unwrap()
}

fn quick() -> Invocation {
    Invocation {
        timeout: Duration::from_mins(1),
        idle: Duration::from_secs(30),
        ..Invocation::new("run-1:0")
    }
}

async fn ask(remote: &Remote, words: &str) -> (Result<Answer, Failure>, Heard) {
    let mut dialogue = remote.open(prelude());
    dialogue.push(&user(words));
    let mut heard = Heard::default();
    let answer = dialogue.ask(&quick(), &mut heard).await;
    (answer, heard)
}

/// Usage in each vendor's own words. The mock has none for caches.
fn usage(wire: WireKind) -> Value {
    match wire {
        WireKind::OpenAiChat | WireKind::Ollama => json!({"prompt_tokens": 70, "completion_tokens": 5}),
        WireKind::OpenAiResponses | WireKind::AnthropicMessages => {
            json!({"input_tokens": 70, "output_tokens": 5})
        }
        WireKind::Gemini => json!({"promptTokenCount": 70, "candidatesTokenCount": 5, "totalTokenCount": 75}),
    }
}

fn read_call() -> Value {
    json!({"name": "read_file", "arguments": {"path": "\u{fc}.txt", "lines": [1, 2]}})
}

fn answers() -> Value {
    let mut fixtures = Vec::new();
    for wire in WIRES {
        fixtures.push(json!({
            "match": {"userMessage": format!("say {}", wire.word())},
            "response": {"content": TEXT, "reasoning": "hm\u{2026} well", "usage": usage(wire)},
        }));
    }
    fixtures.extend([
        json!({"match": {"userMessage": "one call", "hasToolResult": false}, "response": {"toolCalls": [read_call()]}}),
        json!({
            "match": {"userMessage": "two calls", "hasToolResult": false},
            "response": {"content": "Looking.", "toolCalls": [read_call(), {"name": "list", "arguments": {}}]},
        }),
        json!({"match": {"toolResultContains": "an apple"}, "response": {"content": "It is an apple."}}),
        json!({"match": {"userMessage": "too long"}, "response": {"content": "cut o", "finishReason": "length"}}),
        json!({"match": {"userMessage": "filtered"}, "response": {"content": "no", "finishReason": "content_filter"}}),
    ]);
    fixtures.into()
}

#[tokio::test]
async fn text_reasoning_and_usage() {
    let mock = Mock::start(&answers());
    for wire in WIRES {
        let (answer, heard) = ask(&remote(&mock, wire, &[]), &format!("say {}", wire.word())).await;
        let answer = answer.unwrap_or_else(|failure| panic!("{wire:?}: {failure}"));
        assert_eq!(answer.assistant.text, TEXT, "{wire:?}");
        // It knows of no thinking on this wire.
        let reasoning = if wire == WireKind::Ollama { "" } else { "hm\u{2026} well" };
        assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), (TEXT, reasoning), "{wire:?}");
        assert_eq!(answer.stop, Stop::End, "{wire:?}");
        // And there it says zeros, which is as good as nothing.
        let counted = Usage { input: 70, output: 5, ..Usage::default() };
        assert_eq!(answer.usage, (wire != WireKind::Ollama).then_some(counted), "{wire:?}");
    }
}

#[tokio::test]
async fn calls_and_their_results() {
    let mock = Mock::start(&answers());
    for wire in WIRES {
        for (words, count) in [("one call", 1), ("two calls", 2)] {
            let mut dialogue = remote(&mock, wire, &[]).open(prelude());
            dialogue.push(&user(words));
            let mut heard = Heard::default();
            let first = dialogue.ask(&quick(), &mut heard).await.unwrap();
            let calls = &first.assistant.calls;
            assert_eq!(heard.calls, *calls, "{wire:?}");
            assert_eq!((calls.len(), first.stop), (count, Stop::ToolCalls), "{wire:?}");
            let arguments: Value = serde_json::from_str(&calls[0].arguments).unwrap();
            assert_eq!(
                (calls[0].name.as_str(), &arguments),
                ("read_file", &read_call()["arguments"]),
                "{wire:?}"
            );
            assert_eq!(calls.last().map(|call| call.id == calls[0].id), Some(count == 1), "{wire:?}");

            // The mock reads the answer and the results back, or it would find nothing that matches.
            let results = calls.iter().map(|call| result(&call.id, "an apple", false)).collect();
            dialogue.push(&Message::Assistant(first.assistant.clone()));
            dialogue.push(&Message::Results { results });
            let second = dialogue.ask(&quick(), &mut Discard).await;
            let second = second.unwrap_or_else(|failure| panic!("{wire:?}: {failure}"));
            assert_eq!(second.assistant.text, "It is an apple.", "{wire:?}");
        }
    }
    // What it understood of the last request of each wire: the whole dialogue, with the results under their calls' ids.
    for request in mock.journal().await.chunks(4).map(|requests| &requests[3]) {
        let messages = request["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
        assert!(
            roles.starts_with(&["system", "user", "assistant"]) && roles.ends_with(&["tool", "tool"]),
            "{request}"
        );
        let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
        let answered: Vec<&Value> =
            messages.iter().filter_map(|message| message.get("tool_call_id")).collect();
        // On Ollama's wire it does not look at ids.
        let calls: Vec<&Value> = calls.map(|call| &call["id"]).collect();
        assert!(answered == calls || answered.is_empty() && calls[0] == "call_0", "{request}");
        assert_eq!(request["tools"].as_array().map(Vec::len), Some(2), "{request}");
    }
}

/// An answer that is not streamed, from the same server, comes to the same.
#[tokio::test]
async fn without_streaming() {
    let mock = Mock::start(&answers());
    for wire in WIRES {
        let mut encoder = wire.encoder(
            &EncodeOptions { model: "test-model".to_owned(), ..EncodeOptions::default() },
            &prelude(),
        );
        encoder.push(&user("two calls"));
        let mut body = encoder.prefix().to_vec();
        encoder.tail(0, &mut body);
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        let path = match wire {
            WireKind::OpenAiChat => "/chat/completions",
            WireKind::OpenAiResponses => "/responses",
            WireKind::AnthropicMessages => "/v1/messages",
            WireKind::Gemini => "/v1beta/models/test-model:generateContent",
            WireKind::Ollama => "/api/chat",
        };
        if wire != WireKind::Gemini {
            body["stream"] = false.into();
            body.as_object_mut().unwrap().remove("stream_options");
        }
        let url = format!("{}{path}", mock.base(wire));
        let (status, media, whole) = super::http::send("POST", &url, body.to_string().into_bytes()).await;
        assert_eq!((status, media.as_str()), (200, "application/json"), "{wire:?}");
        let mut decoder = wire.decoder(0);
        let mut heard = Heard::default();
        let event = SseEvent { event: String::new(), data: String::from_utf8(whole).unwrap() };
        decoder.feed(event, &mut heard).unwrap_or_else(|failure| panic!("{wire:?}: {failure}"));
        let decoded = decoder.finish().unwrap();
        let (streamed, _) = ask(&remote(&mock, wire, &[]), "two calls").await;
        let streamed = streamed.unwrap();
        let shape = |assistant: &provost_core::transcript::Assistant| {
            let calls: Vec<(String, Value)> = assistant
                .calls
                .iter()
                .map(|call| (call.name.clone(), serde_json::from_str(&call.arguments).unwrap()))
                .collect();
            (assistant.text.clone(), calls)
        };
        assert_eq!(shape(&decoded.assistant), shape(&streamed.assistant), "{wire:?}");
        assert_eq!((decoded.stop, heard.calls.len()), (Stop::ToolCalls, 2), "{wire:?}");
    }
}

#[tokio::test]
async fn answers_that_were_cut_off_or_filtered() {
    let mock = Mock::start(&answers());
    // On Ollama's wire the mock has one word for every end.
    for wire in WIRES.into_iter().filter(|wire| *wire != WireKind::Ollama) {
        let (answer, _) = ask(&remote(&mock, wire, &[]), "too long").await;
        assert_eq!(answer.unwrap().stop, Stop::Length, "{wire:?}");
        let (answer, _) = ask(&remote(&mock, wire, &[]), "filtered").await;
        match wire {
            // The mock has no word for it here.
            WireKind::AnthropicMessages => assert_eq!(answer.unwrap().stop, Stop::End),
            // The vendor says `incomplete` and why; this mock says that the response failed, and no more.
            WireKind::OpenAiResponses => assert_eq!(answer.unwrap_err().class, FailureClass::Server),
            _ => assert_eq!(answer.unwrap().stop, Stop::Refused, "{wire:?}"),
        }
    }
}

#[tokio::test]
async fn errors_in_the_words_of_each_vendor() {
    let cases = [
        (400, "invalid_request_error", "bad parameter", FailureClass::BadRequest),
        (401, "authentication_error", "wrong key", FailureClass::Auth),
        (403, "permission_error", "not yours", FailureClass::Auth),
        (404, "not_found_error", "no such model", FailureClass::BadRequest),
        (429, "rate_limit_error", "slow down", FailureClass::RateLimited),
        (500, "api_error", "it broke", FailureClass::Server),
        (503, "overloaded_error", "come back later", FailureClass::Overloaded),
    ];
    let fixtures: Vec<Value> = cases
        .iter()
        .map(|(status, kind, words, _)| {
            json!({
                "match": {"userMessage": words}, "status": status,
                "response": {"error": {"message": words, "type": kind}, "status": status, "retryAfter": 7},
            })
        })
        .collect();
    let mock = Mock::start(&fixtures.into());
    for wire in WIRES {
        for (status, _, words, class) in cases {
            let (answer, _) = ask(&remote(&mock, wire, &[]), words).await;
            let failure = answer.unwrap_err();
            assert_eq!((failure.class, failure.status), (class, Some(status)), "{wire:?}: {failure}");
            assert!(failure.message.contains(words), "{wire:?}: {failure}");
            let wait = (status == 429).then_some(Duration::from_secs(7));
            assert_eq!(failure.retry_after, wait, "{wire:?}: {failure}");
        }
    }
}

#[tokio::test]
async fn its_chaos_is_told_apart() {
    let cases = [
        ("drop", FailureClass::Server),
        ("malformed", FailureClass::Malformed),
        ("disconnect", FailureClass::UnknownOutcome),
        ("ratelimit", FailureClass::RateLimited),
    ];
    let mock = Mock::start(&answers());
    for wire in WIRES {
        let words = format!("say {}", wire.word());
        for (mode, class) in cases {
            let header = format!("x-aimock-chaos-{mode}");
            let (answer, heard) = ask(&remote(&mock, wire, &[(&header, "1")]), &words).await;
            let failure = answer.unwrap_err();
            assert_eq!(failure.class, class, "{wire:?}, {mode}: {failure}");
            assert_eq!(
                failure.retry_after,
                (mode == "ratelimit").then_some(Duration::from_secs(1)),
                "{wire:?}"
            );
            assert!(failure.retryable());
            assert_eq!(heard, Heard::default(), "{wire:?}, {mode}");
        }
        // Latency delays and changes nothing; a patience shorter than it is a time limit that passed.
        let slow = remote(&mock, wire, &[("x-aimock-chaos-latency", "300")]);
        assert_eq!(ask(&slow, &words).await.0.unwrap().assistant.text, TEXT);
        let mut dialogue = remote(&mock, wire, &[("x-aimock-chaos-latency", "30000")]).open(prelude());
        dialogue.push(&user(&words));
        let impatient = Invocation { idle: Duration::from_millis(50), ..quick() };
        let failure = dialogue.ask(&impatient, &mut Discard).await.unwrap_err();
        assert_eq!(failure.class, FailureClass::Timeout, "{wire:?}: {failure}");
        // The control: without chaos the same words are answered.
        assert_eq!(ask(&remote(&mock, wire, &[]), &words).await.0.unwrap().assistant.text, TEXT);
    }
}

/// A stream that the server ends in the middle, as a proxy does that gives up.
#[tokio::test]
async fn a_stream_that_breaks_off() {
    let fixtures = json!([
        {"match": {"userMessage": "break"}, "response": {"content": TEXT}, "chunkSize": 5, "truncateAfterChunks": 6},
        {"match": {"userMessage": "whole"}, "response": {"content": TEXT}, "chunkSize": 5},
    ]);
    let mock = Mock::start(&fixtures);
    for wire in WIRES {
        let (answer, heard) = ask(&remote(&mock, wire, &[]), "break").await;
        assert_eq!(answer.unwrap_err().class, FailureClass::UnknownOutcome, "{wire:?}");
        assert!(TEXT.starts_with(&heard.text) && heard.text.len() < TEXT.len(), "{wire:?}");
        let (answer, heard) = ask(&remote(&mock, wire, &[]), "whole").await;
        assert_eq!(
            (answer.unwrap().assistant.text, heard.text),
            (TEXT.to_owned(), TEXT.to_owned()),
            "{wire:?}"
        );
    }
}
