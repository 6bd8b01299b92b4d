//! What is sent: whole bodies as snapshots, and a prefix that never changes.

use provost_core::transcript::{Assistant, Message};
use provost_model::wire::EncodeOptions;
use provost_model::{Effort, Prelude, WireKind};
use serde_json::{Value, json};

use crate::support::{WIRES, assistant, call, limit, pictures, prelude, result, schema, sent, user};

fn options() -> EncodeOptions {
    let mut options = EncodeOptions { model: "test-model".to_owned(), ..EncodeOptions::default() };
    options.extra.insert("temperature".to_owned(), 0.into());
    options
}

fn body(wire: WireKind, options: &EncodeOptions, prelude: &Prelude, messages: &[Message]) -> String {
    let mut encoder = wire.encoder(options, prelude);
    for message in messages {
        encoder.push(message);
    }
    let mut body = encoder.prefix().to_vec();
    encoder.tail(0, &mut body);
    let body = String::from_utf8(body).unwrap();
    serde_json::from_str::<Value>(&body).unwrap();
    body
}

fn dialogue() -> Vec<Message> {
    vec![
        user("Fix it.\u{7}"),
        Message::Assistant(Assistant {
            text: "Looking.".to_owned(),
            calls: vec![
                call("a", "read_file", "{\"path\": \"x\", \"path\": \"y\"}"),
                call("b.1:2", "list", ""),
            ],
            opaque: vec![
                "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"}".to_owned(),
                "{\"reasoning_content\":\"hm\"}".to_owned(),
            ],
        }),
        Message::Results { results: vec![result("a", "content", false), result("b.1:2", "", true)] },
        assistant("", vec![call("c", "list", "{\"broken")]),
        Message::Results { results: vec![result("c", "not JSON", true)] },
        user("go on"),
    ]
}

#[test]
fn a_dialogue_in_every_wire() {
    for wire in WIRES {
        // One message a line, for a reader's sake; the bytes between are as sent.
        let body = body(wire, &options(), &prelude(), &dialogue()).replace("{\"role\"", "\n{\"role\"");
        insta::assert_snapshot!(wire.word(), body);
    }
}

#[test]
fn the_smallest_request_in_every_wire() {
    for wire in WIRES {
        let body = body(wire, &EncodeOptions::default(), &Prelude::default(), &[user(" ")]);
        insta::assert_snapshot!(format!("smallest_{}", wire.word()), body);
    }
}

#[test]
fn reasoning_goes_back_where_it_is_wanted() {
    let options = EncodeOptions { echo_reasoning: true, max_completion_tokens: true, ..options() };
    let body = body(WireKind::OpenAiChat, &options, &prelude(), &dialogue());
    assert!(body.contains("\"reasoning_content\":\"hm\"") && body.contains("\"max_completion_tokens\":1000"));
}

#[test]
fn the_prefix_never_changes_over_200_pushes() {
    for wire in WIRES {
        let mut encoder = wire.encoder(&options(), &prelude());
        let all = dialogue();
        let mut before = encoder.prefix().to_vec();
        for n in 0..200 {
            encoder.push(&all[n % all.len()]);
            let now = encoder.prefix().to_vec();
            assert!(now.starts_with(&before), "{wire:?} changed its prefix at push {n}");
            before = now;
            let mut whole = before.clone();
            encoder.tail(7, &mut whole);
            let value: Value = serde_json::from_slice(&whole).unwrap();
            assert_eq!(limit(wire, &value), 7);
            // Asking changes nothing.
            assert_eq!(encoder.prefix().to_vec(), before);
        }
    }
}

/// A long dialogue is in memory once: growing moves no full piece, and requests refer to the same ones.
#[test]
fn full_pieces_are_never_copied() {
    for wire in WIRES {
        let mut encoder = wire.encoder(&options(), &prelude());
        assert!(encoder.prefix().full().is_empty(), "a short dialogue is one piece");
        let mut text = String::new();
        let mut before: Vec<(*const u8, usize)> = Vec::new();
        for size in [10, 65_536, 200_000, 1, 70_000, 65_535] {
            let said = "x\u{e9}\"".repeat(size / 4 + 1);
            encoder.push(&user(&said));
            text.push_str(&said);
            let prefix = encoder.prefix();
            let now: Vec<_> = prefix.full().iter().map(|piece| (piece.as_ptr(), piece.len())).collect();
            assert!(now.starts_with(&before), "{wire:?}: a piece moved");
            assert!(now.iter().all(|(_, size)| *size == 65_536) && prefix.open().len() < 65_536);
            assert_eq!(prefix.len(), prefix.to_vec().len());
            before = now;
        }
        assert!(before.len() > 5);
        let mut whole = encoder.prefix().to_vec();
        encoder.tail(0, &mut whole);
        let value: Value = serde_json::from_slice(&whole).unwrap();
        let all = sent(wire, &value);
        let users = all.iter().filter(|m| m["role"] == "user");
        let said = users.map(|m| {
            let content = &m[if wire == WireKind::Gemini { "parts" } else { "content" }];
            content.as_str().or(content[0]["text"].as_str()).unwrap()
        });
        assert_eq!(said.collect::<String>(), text);
    }
}

#[test]
fn the_anthropic_wire_has_two_breakpoints_and_the_second_moves() {
    for n in 1..dialogue().len() {
        let body = body(WireKind::AnthropicMessages, &options(), &prelude(), &dialogue()[..n]);
        assert_eq!(body.matches("cache_control").count(), 2);
        let value: Value = serde_json::from_str(&body).unwrap();
        assert!(!value["system"][0]["cache_control"].is_null());
        let last = value["messages"].as_array().unwrap().last().unwrap();
        assert!(!last["content"].as_array().unwrap().last().unwrap()["cache_control"].is_null(), "{last}");
    }
}

/// An answer of nothing at all must not make the dialogue invalid.
#[test]
fn an_empty_answer_is_left_out_where_the_wire_refuses_it() {
    let messages = [user("a"), assistant("  ", Vec::new()), user("b")];
    let body = body(WireKind::AnthropicMessages, &options(), &prelude(), &messages);
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["messages"].as_array().unwrap().len(), 2);
}

/// One bad call must not make every later request invalid: a lone surrogate is JSON to whoever only passes over it.
#[test]
fn arguments_that_are_no_json_go_back_in_a_body_that_is() {
    for arguments in [r#"{"a":"\ud800"}"#, r#"{"a": "#, "null", "[1]", ""] {
        let call = call("c", "read", arguments);
        let messages =
            [user("go"), Message::Assistant(Assistant { calls: vec![call], ..Assistant::default() })];
        for wire in WIRES {
            let body = body(wire, &options(), &Prelude::default(), &messages);
            let read: serde_json::Value = serde_json::from_str(&body).unwrap();
            let text = read.to_string();
            assert!(text.contains("\"read\""), "{arguments}: {text}");
            // What OpenAI's wires carry as text must be JSON as well.
            let said = &sent(wire, &read)[1];
            let inner =
                said["tool_calls"][0]["function"]["arguments"].as_str().or(said["arguments"].as_str());
            if let Some(inner) = inner {
                assert!(serde_json::from_str::<serde_json::Value>(inner).unwrap().is_object(), "{inner}");
            }
        }
    }
}

#[test]
fn images_a_schema_and_effort_in_every_wire() {
    for wire in WIRES {
        let asked = Prelude { schema: Some(schema()), effort: Some(Effort::Medium), ..Prelude::default() };
        let body = body(wire, &options(), &asked, &pictures());
        assert_eq!(body.matches("iVBORw0KGgo").count(), 5, "{wire:?}");
        let pixel = crate::support::image().data;
        let body = body.replace(&pixel, "PIXEL").replace("{\"role\"", "\n{\"role\"");
        insta::assert_snapshot!(format!("pictures_{}", wire.word()), body);
    }
}

/// Vendors changed how they are asked, and each model knows one way.
#[test]
fn effort_in_the_words_that_a_model_knows() {
    let asked = |wire: WireKind, model: &str, effort, max_output| -> Value {
        let options = EncodeOptions { model: model.to_owned(), ..EncodeOptions::default() };
        let prelude = Prelude { effort, max_output, ..Prelude::default() };
        serde_json::from_str(&body(wire, &options, &prelude, &[user("go")])).unwrap()
    };
    let claude = |model, limit| {
        let body = asked(WireKind::AnthropicMessages, model, Some(Effort::High), limit);
        (body["thinking"].clone(), body["output_config"].clone(), body["max_tokens"].clone())
    };
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    assert_eq!(claude("claude-sonnet-4-5", 64_000), (budget(16_384), Value::Null, json!(64_000)));
    assert_eq!(claude("claude-sonnet-4-5", 0), (budget(4_096), Value::Null, json!(8_192)));
    // There is no room for any.
    assert_eq!(claude("claude-sonnet-4-5", 2_000), (Value::Null, Value::Null, json!(2_000)));
    let adaptive = json!({"type": "adaptive"});
    assert_eq!(claude("claude-sonnet-5", 2_000), (adaptive, json!({"effort": "high"}), json!(2_000)));

    let gemini = |model, limit| {
        asked(WireKind::Gemini, model, Some(Effort::Low), limit)["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(gemini("gemini-2.5-flash", 0), json!({"thinkingBudget": 1_024}));
    assert_eq!(gemini("gemini-2.5-flash", 1_000), Value::Null);
    assert_eq!(gemini("gemini-3-pro", 1_000), json!({"thinkingLevel": "LOW"}));

    for wire in WIRES {
        let body = asked(wire, "m", None, 0).to_string();
        assert!(!["think", "effort", "reasoning"].iter().any(|word| body.contains(word)), "{body}");
    }
}

#[test]
fn what_the_caller_says_itself_stands() {
    let said = [
        (WireKind::OpenAiChat, "reasoning_effort", json!("minimal"), "/reasoning_effort", json!("minimal")),
        // Objects are joined.
        (
            WireKind::OpenAiResponses,
            "reasoning",
            json!({"summary": "auto"}),
            "/reasoning/summary",
            json!("auto"),
        ),
        (
            WireKind::OpenAiResponses,
            "reasoning",
            json!({"summary": "auto"}),
            "/reasoning/effort",
            json!("high"),
        ),
        (
            WireKind::OpenAiResponses,
            "text",
            json!({"verbosity": "low"}),
            "/text/format/name",
            json!("verdict"),
        ),
        (
            WireKind::AnthropicMessages,
            "thinking",
            json!({"type": "disabled"}),
            "/thinking/type",
            json!("disabled"),
        ),
        (
            WireKind::Gemini,
            "generationConfig",
            json!({"thinkingConfig": {"thinkingBudget": 0}}),
            "/generationConfig/thinkingConfig",
            json!({"thinkingBudget": 0}),
        ),
        (WireKind::Ollama, "think", json!(false), "/think", json!(false)),
    ];
    for (wire, key, value, place, expected) in said {
        let mut options = EncodeOptions { model: "gemini-2.5-pro".to_owned(), ..EncodeOptions::default() };
        options.extra.insert(key.to_owned(), value);
        let prelude = Prelude { schema: Some(schema()), effort: Some(Effort::High), ..Prelude::default() };
        let body = body(wire, &options, &prelude, &[user("go")]);
        assert_eq!(body.matches(&format!("\"{key}\":")).count(), 1, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body.pointer(place), Some(&expected), "{wire:?}: {body}");
    }
}
