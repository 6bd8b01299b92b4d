//! What of a server's tools a model is told, and a server that breaks off in the middle of its words.

use std::time::Duration;

use provost_core::server::Server;
use provost_tools::mcp::{Client, Cut, Mcp, Offered, Unanswered, fit};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

fn server() -> Server {
    Server::new("s", vec!["server".to_owned()])
}

fn offered(name: &str, schema: Value) -> Offered {
    Offered { name: name.to_owned(), description: String::new(), schema }
}

/// Why a schema is left out; `None` where it is not.
fn refused(schema: Value) -> Option<String> {
    fit(&server(), vec![offered("t", schema)]).left_out.pop()
}

/// M1, M2: one schema that a vendor refuses would have each request of the run refused.
#[test]
fn m2_a_schema_that_vendors_refuse_is_left_out_with_a_reason() {
    let with = |name: &str, inner: Value| json!({ "type": "object", "properties": { name: inner } });
    let string = || json!({ "type": "string" });
    let mut deep = string();
    for _ in 0..20 {
        deep = json!({ "type": "array", "items": deep });
    }
    let bad = [
        (with("$.xgafv", string()), "a property `$.xgafv`"),
        (with(&"x".repeat(65), string()), "a property `xxx"),
        (with("", string()), "a property ``"),
        (with("a", json!({ "type": "object", "required": true })), "`required` that is no list"),
        (with("a", json!({ "type": "object", "properties": {}, "required": ["b"] })), "requires `b`"),
        (json!({ "type": "object", "properties": { "required": ["a"] } }), "is no schema"),
        (with("a", json!({ "type": "array" })), "does not say of what"),
        (with("a", json!({ "type": "text" })), "a type that is none"),
        (with("a", json!({ "$ref": "https://example.org/x" })), "another document"),
        (with("a", deep), "nested"),
        (json!({ "type": "string" }), "not of an object"),
        (json!({ "type": "object", "anyOf": [{ "type": "object" }] }), "`anyOf` at its top"),
        (json!([]), "not an object"),
        (json!({ "type": "object", "if": { "$ref": "https://example.org/x" } }), "cannot be used"),
        (json!({ "type": "object", "patternProperties": { "(": {} } }), "cannot be used"),
        (json!({ "type": "object", "patternProperties": 5 }), "cannot be used"),
        (with("a", json!({ "enum": 5 })), "at `/properties/a/enum` cannot be used"),
        (with("a", json!({ "type": "string", "minLength": "long" })), "cannot be used"),
        (with("a", json!({ "$ref": "#/$defs/nowhere" })), "cannot be used"),
        (with("a", json!({ "type": "string", "description": "x".repeat(20_000) })), "16384 is the most"),
    ];
    for (schema, why) in bad {
        let said = refused(schema.clone()).unwrap_or_default();
        assert!(said.contains(why), "{schema}: {said}");
    }
    let good = [
        json!({}),
        json!({ "type": "object", "$schema": "http://json-schema.org/draft-07/schema#" }),
        with("a_b-c.d", json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null })),
        json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "$ref": "#/$defs/x" } } },
                "$defs": { "x": { "type": "string", "pattern": "^(?=a)a+$", "x-own": 5 } } }),
        json!({ "type": "object", "if": { "required": [] }, "patternProperties": { "^x-": { "type": "string" } } }),
        with("a", json!({ "type": ["string", "null"], "enum": ["x"] })),
        json!({ "type": "object", "properties": { "required": { "type": "boolean" } }, "required": ["required"] }),
    ];
    for schema in good {
        assert_eq!(refused(schema.clone()), None, "{schema}");
    }
}

#[test]
fn names_are_what_all_vendors_take_and_no_two_are_the_same() {
    let names = ["Get-Weather", "get_weather", "日本", &"n".repeat(62), "bell\u{7}", ""];
    let all = fit(&server(), names.iter().map(|name| offered(name, json!({}))).collect());
    let told: Vec<&str> = all.tools.values().map(|spec| spec.name.as_str()).collect();
    assert_eq!(told, ["s__get_weather", "s____"]);
    assert_eq!(all.left_out.len(), 4, "{:?}", all.left_out);
    assert!(all.left_out.iter().any(|said| said.contains("another tool is `s__get_weather` already")));
    // The same offer in another order is the same list.
    let again = fit(&server(), names.iter().rev().map(|name| offered(name, json!({}))).collect());
    assert_eq!(all, again);
}

#[test]
fn i1_descriptions_hide_nothing_and_have_an_end() {
    let said = format!("Reads.\u{202e}\u{1b}[2J{}", "x".repeat(10_000));
    let tool = Offered { description: said, ..offered("t", json!({})) };
    let fitted = fit(&server(), vec![tool]);
    let told = &fitted.tools["t"].description;
    assert!(told.starts_with("Reads.") && told.len() < 2_200, "{} bytes", told.len());
    assert!(!told.contains(['\u{202e}', '\u{1b}']) && told.contains("bytes more"), "{told}");
}

/// Answers as a server of the older lifecycle would, line by line; `None` breaks off.
async fn answer(stream: UnixStream, tool: impl Fn(&Value) -> Option<String> + Send + 'static) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "s", "version": "1" }
            }),
            "tools/list" => json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" } }] }),
            "tools/call" => match tool(id) {
                Some(said) if said.is_empty() => continue,
                Some(said) => {
                    let _ = write.write_all(said.as_bytes()).await;
                    continue;
                }
                None => return,
            },
            _ => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } });
                write.write_all(format!("{error}\n").as_bytes()).await.unwrap();
                continue;
            }
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

fn called(
    tool: impl Fn(&Value) -> Option<String> + Send + 'static,
    limit: Duration,
) -> Result<String, Unanswered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        tokio::spawn(answer(theirs, tool));
        let (connection, offered) = Mcp.connect(ours).await.unwrap();
        assert_eq!(offered[0].name, "t");
        let cut = Box::pin(async move {
            tokio::time::sleep(limit).await;
            Cut::TimedOut
        });
        connection.call("t", &serde_json::Map::new(), cut).await.map(|reply| reply.text)
    })
}

#[test]
fn m3_whatever_a_server_says_a_call_comes_to_an_end() {
    let long = Duration::from_mins(1);
    let good = |id: &Value| {
        Some(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"hello\"}}]}}}}\n"
        ))
    };
    assert_eq!(called(good, long), Ok("hello".to_owned()));
    // It breaks off, or its words have no end.
    assert!(matches!(called(|_| None, long), Err(Unanswered::Broken(_))));
    assert!(matches!(called(|_| Some("x".repeat(9 << 20)), long), Err(Unanswered::Broken(_))));
    // It asks without end, and reads no answer; a few questions are nothing.
    let asks = |count: usize| "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(count);
    let flood = called(move |_| Some(asks(100_000)), long);
    let Err(Unanswered::Broken(why)) = flood else { panic!("{flood:?}") };
    assert_eq!(why, "it sent more than 10000 messages for one question");
    let asked = called(move |id| Some(asks(1_000) + &good(id).unwrap()), long);
    assert_eq!(asked, Ok("hello".to_owned()));
    // It refuses, and it says nothing.
    let no = |id: &Value| {
        Some(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32000,\"message\":\"closed today\"}}}}\n"
        ))
    };
    assert_eq!(called(no, long), Err(Unanswered::Refused("closed today".to_owned())));
    assert_eq!(
        called(|_| Some(String::new()), Duration::from_millis(20)),
        Err(Unanswered::Cut(Cut::TimedOut))
    );
}
