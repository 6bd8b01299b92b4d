//! The rehearsal server itself.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use provost_core::transcript::{CallResult, Message};
use provost_model::rehearse::{Running, Script, Server};
use provost_model::{Discard, Provider as _, Secret};
use serde_json::{Value, json};

use crate::support::{CANARY, ask, image, prelude, provider, result};

async fn http(server: &Running, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let stream = tokio::net::TcpStream::connect(server.addr).await.unwrap();
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "x")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = send.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

fn start(script: &Value) -> Running {
    Server::bind("127.0.0.1:0", Script::parse(&script.to_string()).unwrap()).unwrap().start()
}

#[test]
fn bad_scripts_say_where_they_are_bad() {
    let error = |text: &str| Script::parse(text).unwrap_err().to_string();
    let errors = [
        "",
        "{}",
        "{\"steps\": []}",
        "{\"steps\": [\n  {\"sya\": \"x\"}]}",
        "{\"steps\": [\n  {\"repeat\": 3}]}",
        "{\"steps\": [{\"say\": \"x\", \"repeat\": 0}]}",
        "{\"steps\": [{\"call\": {\"name\": \"a\"}, \"calls\": []}]}",
        "{\"steps\": [{\"say\": \"x\", \"usage\": true}]}",
        "{\"steps\": [{\"say\": \"x\",}]}",
    ]
    .map(error)
    .join("\n");
    insta::assert_snapshot!(errors);
    let missing = Script::load(std::path::Path::new("/nowhere/script.json")).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/script.json: "), "{missing}");
}

#[tokio::test]
async fn models_unknown_paths_and_bad_requests() {
    let server = start(&json!({"model": "m1", "final": "x"}));
    let (status, models) = http(&server, "GET", "/v1/models", &json!(null)).await;
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("m1")));
    assert_eq!(http(&server, "POST", "/v2/nothing", &json!({})).await.0, 404);
    assert_eq!(http(&server, "POST", "/v1/chat/completions", &json!({"messages": []})).await.0, 400);
    assert_eq!(http(&server, "POST", "/v1/messages", &json!({"messages": [{"role": "user"}]})).await.0, 400);
}

#[tokio::test]
async fn without_streaming() {
    let server = start(&json!({"steps": [{"say": "a", "call": {"name": "f", "arguments": {"x": 1}}}]}));
    let messages = json!([{"role": "user", "content": "go"}]);
    let (_, chat) = http(&server, "POST", "/v1/chat/completions", &json!({"messages": messages})).await;
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
    let request = json!({"messages": messages, "max_tokens": 10});
    let (_, message) = http(&server, "POST", "/v1/messages", &request).await;
    assert_eq!(message["content"][1]["input"], json!({"x": 1}));
    assert_eq!(message["stop_reason"], "tool_use");
}

/// The step is read from the last call id, so a client that shortened its history goes on where it was.
#[tokio::test]
async fn a_shortened_history_goes_on() {
    let server = start(&json!({"steps": [{"call": {"name": "f"}, "repeat": 1_000_000_000}]}));
    let next = |messages: Value| {
        let server = &server;
        async move {
            let (_, reply) =
                http(server, "POST", "/v1/chat/completions", &json!({"messages": messages})).await;
            reply["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned()
        }
    };
    let user = json!({"role": "user", "content": "go"});
    let tool = json!({"role": "tool", "tool_call_id": "call_41_0", "content": "r"});
    let said = json!({"role": "assistant", "content": "x"});
    assert_eq!(next(json!([user])).await, "call_0_0");
    assert_eq!(next(json!([user, said, user])).await, "call_1_0");
    assert_eq!(next(json!([user, tool])).await, "call_42_0");
    assert_eq!(next(json!([user, tool, said, user])).await, "call_43_0");
}

#[tokio::test]
async fn other_dialogues_have_their_own_steps() {
    let server = start(&json!({
        "final": "parent", "dialogues": [{"when": "CHILD", "final": "child"}],
    }));
    for (first, expected) in [("hello", "parent"), ("you are a CHILD", "child")] {
        let messages = json!([{"role": "user", "content": [{"type": "text", "text": first}]}]);
        let (_, reply) = http(&server, "POST", "/v1/chat/completions", &json!({"messages": messages})).await;
        assert_eq!(reply["choices"][0]["message"]["content"], expected);
    }
}

#[tokio::test]
async fn the_log_holds_requests_and_no_credential() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.ndjson");
    let script = Script::parse("{\"final\": \"x\"}").unwrap();
    let server = Server::bind("127.0.0.1:0", script)
        .unwrap()
        .log_to(&file)
        .unwrap()
        .require_key(Secret::new(CANARY))
        .start();
    for wire in crate::support::WIRES {
        ask(&provider(wire, &server.base_url(wire)), &provost_model::Invocation::new("i")).await.0.unwrap();
    }
    let log = std::fs::read_to_string(&file).unwrap();
    assert_eq!(log.lines().count(), crate::support::WIRES.len());
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["step"], 0);
        let told = [&line["body"], &line["path"]].map(|text| text.as_str().unwrap());
        assert!(told.iter().any(|text| text.contains("test-model")), "{told:?}");
    }
    assert!(!log.contains(CANARY));
    assert_eq!(server.handle().count(), crate::support::WIRES.len() as u64);
    assert!(server.handle().requests().is_empty(), "nothing is kept unless asked for");
}

#[tokio::test]
async fn images_are_read_over() {
    let steps =
        json!([{"say": "two calls", "calls": [{"name": "read_file"}, {"name": "list"}]}, {"say": "a pixel"}]);
    let server = start(&json!({"dialogues": [{"when": "What is this?", "steps": steps}], "final": "?"}));
    for wire in crate::support::WIRES {
        let mut dialogue = provider(wire, &server.base_url(wire)).open(prelude());
        let invocation = provost_model::Invocation::new("i");
        dialogue.push(&Message::User { text: "What is this?".to_owned(), images: vec![image()] });
        let first = dialogue.ask(&invocation, &mut Discard).await.unwrap().assistant;
        let results = first
            .calls
            .iter()
            .map(|call| CallResult { images: vec![image()], ..result(&call.id, "see", false) });
        let results = results.collect();
        dialogue.push(&Message::Assistant(first.clone()));
        dialogue.push(&Message::Results { results });
        let second = dialogue.ask(&invocation, &mut Discard).await.unwrap().assistant;
        assert_eq!((first.text.as_str(), first.calls.len()), ("two calls", 2), "{wire:?}");
        assert_eq!(second.text, "a pixel", "{wire:?}");
    }
}

#[tokio::test]
async fn it_stops() {
    let server = start(&json!({"final": "x"}));
    let addr = server.addr;
    server.stop().await.unwrap();
    assert!(std::net::TcpStream::connect(addr).is_err());
}
