//! The decoders, without a socket: what real servers send, and what none should.

use proptest::prelude::*;
use provost_core::transcript::{Call, Stop, Usage};
use provost_model::sse::SseEvent;
use provost_model::wire::{Decoded, Progress};
use provost_model::{Failure, FailureClass, WireKind};

use crate::support::{Heard, WIRES, call};

fn decode(wire: WireKind, bytes: &[u8]) -> (Result<Decoded, Failure>, Heard) {
    let mut heard = Heard::default();
    let mut decoder = wire.decoder(3);
    let mut framing = wire.framing();
    let mut events = Vec::new();
    framing.feed(bytes, &mut events).unwrap();
    framing.finish(&mut events);
    for event in events {
        match decoder.feed(event, &mut heard) {
            Ok(Progress::Done) => break,
            Ok(_) => {}
            Err(failure) => return (Err(failure), heard),
        }
    }
    (decoder.finish(), heard)
}

fn chat(chunks: &[&str]) -> (Result<Decoded, Failure>, Heard) {
    let mut stream = String::new();
    for chunk in chunks {
        stream += "data: ";
        stream += chunk;
        stream += "\r\n\r\n: keep-alive\r\n\r\n";
    }
    decode(WireKind::OpenAiChat, stream.as_bytes())
}

fn calls(deltas: &[&str]) -> Vec<Call> {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|d| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{d}]}}}}]}}"#))
        .collect();
    chunks.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let (decoded, heard) = chat(&chunks);
    let decoded = decoded.unwrap();
    assert_eq!(heard.calls, decoded.assistant.calls, "every call is shown once, with its final id");
    decoded.assistant.calls
}

#[test]
fn calls_in_pieces_and_interleaved() {
    assert_eq!(
        calls(&[
            r#"{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"x\":"}}"#,
            r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}"#,
            r#"{"index":0,"function":{"arguments":"1}"}}"#,
            r#"{"index":1,"function":{"arguments":"}"}}"#,
        ]),
        [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]
    );
}

#[test]
fn ids_that_are_missing_or_repeated_are_made_unique() {
    assert_eq!(
        calls(&[
            r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":1,"function":{"name":"g","arguments":"{}"}}"#,
        ]),
        [call("call_3_0", "f", "{}"), call("call_3_1", "g", "{}")]
    );
    assert_eq!(
        calls(&[
            r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":1,"id":"x","function":{"name":"g","arguments":"{}"}}"#,
        ]),
        [call("x", "f", "{}"), call("x_1", "g", "{}")]
    );
}

#[test]
fn servers_that_give_every_call_index_0_or_none() {
    let expected = [call("a", "f", "{}"), call("b", "f", "{}")];
    assert_eq!(
        calls(&[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}"#,
        ]),
        expected
    );
    assert_eq!(
        calls(&[
            r#"{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{}"}}"#
        ]),
        expected
    );
    assert_eq!(
        calls(&[
            r#"{"function":{"name":"f","arguments":"{}"}}"#,
            r#"{"function":{"name":"f","arguments":"{}"}}"#,
        ])
        .len(),
        2
    );
}

#[test]
fn servers_that_repeat_id_and_name_with_every_piece() {
    assert_eq!(
        calls(&[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}"#,
        ]),
        [call("a", "f", "{\"x\":1}")]
    );
}

#[test]
fn arguments_that_are_an_object_or_absent() {
    assert_eq!(
        calls(&[r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"x": 1}}}"#]),
        [call("a", "f", "{\"x\": 1}")]
    );
    assert_eq!(
        calls(&[r#"{"index":0,"id":"a","function":{"name":"f","arguments":null}}"#]),
        [call("a", "f", "")]
    );
}

#[test]
fn a_call_is_shown_when_the_next_begins() {
    let mut heard = Heard::default();
    let mut decoder = WireKind::OpenAiChat.decoder(0);
    for (index, shown) in [(0, 0), (1, 1)] {
        let data = format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"id":"c{index}","function":{{"name":"f","arguments":"{{}}"}}}}]}}}}]}}"#
        );
        decoder.feed(SseEvent { event: String::new(), data }, &mut heard).unwrap();
        assert_eq!(heard.calls.len(), shown);
    }
}

#[test]
fn the_end_of_a_stream() {
    let text = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    // Without `[DONE]`: the finish reason is what counts.
    assert_eq!(chat(&[text, stop]).0.unwrap().assistant.text, "a");
    assert_eq!(chat(&[text, stop, "[DONE]"]).0.unwrap().usage, None);
    for cut in [&[text][..], &[text, "[DONE]"], &["[DONE]"], &[]] {
        assert_eq!(chat(cut).0.unwrap_err().class, FailureClass::UnknownOutcome, "{cut:?}");
    }
    // A finish reason that tells of a breakdown.
    let broken = r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#;
    assert!(chat(&[text, broken]).0.unwrap_err().retryable());
    // Calls promised and none there.
    let none = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
    assert_eq!(chat(&[none]).0.unwrap_err().class, FailureClass::Malformed);
}

#[test]
fn calls_with_a_plain_stop_are_calls() {
    let (decoded, heard) = chat(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    ]);
    assert_eq!(decoded.unwrap().stop, Stop::ToolCalls);
    assert_eq!(heard.calls.len(), 1);
}

#[test]
fn an_error_in_the_stream() {
    let (failure, _) = chat(&[r#"{"error":{"message":"overloaded, try later","type":"overloaded_error"}}"#]);
    assert_eq!(failure.unwrap_err().class, FailureClass::Overloaded);
    let (failure, _) = chat(&["not json"]);
    assert_eq!(failure.unwrap_err().class, FailureClass::Malformed);
}

#[test]
fn a_whole_completion_in_place_of_a_stream() {
    let (decoded, heard) = chat(&[
        r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
    ]);
    let decoded = decoded.unwrap();
    assert_eq!((decoded.assistant.text.as_str(), decoded.assistant.calls.len()), ("hi", 1));
    assert_eq!(decoded.usage, Some(Usage { input: 3, output: 2, ..Usage::default() }));
    assert_eq!(heard.text, "hi");

    let message = r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"a","name":"f","input":{"x":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}"#;
    let (decoded, _) = decode(WireKind::AnthropicMessages, format!("data: {message}\n\n").as_bytes());
    let decoded = decoded.unwrap();
    assert_eq!(decoded.assistant.calls, [call("a", "f", "{\"x\":1}")]);
    assert_eq!(decoded.stop, Stop::ToolCalls);
}

#[test]
fn usage_in_vendors_dialects() {
    let usage = |raw: &str| {
        chat(&[
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            &format!("{{\"usage\":{raw}}}"),
        ])
        .0
        .unwrap()
        .usage
    };
    let of = |input, output, cache_read, reasoning| {
        Some(Usage { input, output, cache_read, cache_write: 0, reasoning })
    };
    assert_eq!(
        usage(
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}"#
        ),
        of(6, 5, 4, 2)
    );
    assert_eq!(
        usage(
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}"#
        ),
        of(6, 5, 4, 0)
    );
    // Reasoning counted apart from the completion: the total tells.
    assert_eq!(
        usage(
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}"#
        ),
        of(10, 12, 0, 7)
    );
    assert_eq!(usage("null"), None);
    assert_eq!(usage(r#"{"prompt_tokens":0,"completion_tokens":0}"#), None);
    assert_eq!(usage(r#"{"prompt_tokens":"many"}"#), None);
    // More cached than sent: never below zero.
    assert_eq!(
        usage(r#"{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":9}}"#),
        of(0, 1, 3, 0)
    );
}

/// What was counted before an answer turned out to be malformed, or in the same breath.
#[test]
fn usage_is_known_after_an_error() {
    let usage = |wire: WireKind, events: &[&str]| {
        let mut decoder = wire.decoder(0);
        let fed: Result<Vec<_>, _> = events
            .iter()
            .map(|data| {
                decoder
                    .feed(SseEvent { event: String::new(), data: (*data).to_owned() }, &mut Heard::default())
            })
            .collect();
        assert!(fed.is_err(), "{events:?}");
        decoder.usage()
    };
    let counted = Some(Usage { input: 3, output: 2, ..Usage::default() });
    let chat = WireKind::OpenAiChat;
    let says = r#""usage":{"prompt_tokens":3,"completion_tokens":2}"#;
    for malformed in [
        r#""choices":7"#,
        r#""choices":[{"message":{"content":7}}]"#,
        r#""error":{"message":"broke"}"#,
        r#""choices":[{"delta":{},"finish_reason":"error"}]"#,
    ] {
        assert_eq!(usage(chat, &[&format!("{{{malformed},{says}}}")]), counted, "{malformed}");
        assert_eq!(usage(chat, &[&format!("{{{says}}}"), &format!("{{{malformed}}}")]), counted);
        assert_eq!(usage(chat, &[&format!("{{{malformed}}}")]), None);
    }
    assert_eq!(usage(chat, &[&format!("{{{says}}}"), "no JSON"]), counted);

    let anthropic = WireKind::AnthropicMessages;
    let says = r#""usage":{"input_tokens":3,"output_tokens":2}"#;
    let start = format!(r#"{{"type":"message_start","message":{{{says}}}}}"#);
    let stray = r#"{"type":"content_block_delta","index":4,"delta":{"text":"a"}}"#;
    assert_eq!(usage(anthropic, &[&start, stray]), counted);
    assert_eq!(usage(anthropic, &[&format!(r#"{{"type":"message","content":7,{says}}}"#)]), counted);
    assert_eq!(usage(anthropic, &[stray]), None);
}

const MESSAGE: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1,\"cache_read_input_tokens\":4}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"xyz\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":30}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

#[test]
fn an_anthropic_message() {
    let (decoded, heard) = decode(WireKind::AnthropicMessages, MESSAGE.as_bytes());
    let decoded = decoded.unwrap();
    assert_eq!(decoded.assistant.calls, [call("a", "f", "{}")]);
    assert_eq!(heard.calls, decoded.assistant.calls);
    assert_eq!(decoded.assistant.opaque, [r#"{"type":"redacted_thinking","data":"xyz"}"#]);
    assert_eq!(decoded.usage, Some(Usage { input: 9, output: 30, cache_read: 4, ..Usage::default() }));
    assert_eq!(
        decoded.raw_usage.as_deref(),
        Some(
            "[{\"input_tokens\":9,\"output_tokens\":1,\"cache_read_input_tokens\":4},{\"output_tokens\":30}]"
        )
    );
}

#[test]
fn an_anthropic_message_cut_anywhere_before_its_stop_reason_is_a_failure() {
    let end = MESSAGE.find("event: message_delta").unwrap();
    for cut in (0..=end).step_by(7) {
        let (failure, heard) = decode(WireKind::AnthropicMessages, &MESSAGE.as_bytes()[..cut]);
        assert_eq!(failure.unwrap_err().class, FailureClass::UnknownOutcome);
        assert!(heard.calls.iter().all(|call| call.arguments == "{}"));
    }
}

#[test]
fn a_delta_without_a_block_is_malformed() {
    let stray = "data: {\"type\":\"content_block_delta\",\"index\":4,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    assert_eq!(
        decode(WireKind::AnthropicMessages, stray.as_bytes()).0.unwrap_err().class,
        FailureClass::Malformed
    );
}

fn any_event() -> impl Strategy<Value = String> {
    let scrap = prop::sample::select(vec![
        r#""type":"content_block_start""#,
        r#""type":"content_block_delta""#,
        r#""type":"message_delta""#,
        r#""type":"message_stop""#,
        r#""type":"error""#,
        r#""index":1"#,
        r#""index":-1"#,
        r#""choices":[]"#,
        r#""choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]}}]"#,
        r#""choices":[{"delta":{"tool_calls":[{}]}}]"#,
        r#""choices":null"#,
        r#""choices":[{"finish_reason":"stop"}]"#,
        r#""choices":[{"delta":{"content":[{"text":"a"},{}]}}]"#,
        r#""delta":{"text":"a"}"#,
        r#""usage":{}"#,
        r#""content_block":{"type":"tool_use","id":null,"name":"x","input":3}"#,
        r#""delta":{"stop_reason":"tool_use"}"#,
        r#""content_block":{"type":"server_tool_use","name":"x"}"#,
        r#""delta":{"partial_json":"{"}"#,
        r#""error":7"#,
        r#""usage":{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551615}"#,
        r#""usage":{"input_tokens":18446744073709551615,"output_tokens":1}"#,
        r#""message":{"content":[1]}"#,
    ]);
    prop_oneof![
        6 => prop::collection::vec(scrap, 0..5).prop_map(|scraps| format!("{{{}}}", scraps.join(","))),
        1 => ".{0,40}",
        1 => Just("[DONE]".to_owned()),
    ]
}

proptest! {
    #[test]
    fn decoders_never_panic_and_never_show_a_call_twice(
        events in prop::collection::vec((prop::sample::select(vec!["", "error", "x"]), any_event()), 0..20)
    ) {
        for wire in WIRES {
            let mut heard = Heard::default();
            let mut decoder = wire.decoder(0);
            let mut failed = false;
            for (event, data) in &events {
                let event = SseEvent { event: (*event).to_owned(), data: data.clone() };
                if decoder.feed(event, &mut heard).is_err() { failed = true; break; }
            }
            if !failed && let Ok(decoded) = decoder.finish() {
                let mut ids: Vec<_> = decoded.assistant.calls.iter().map(|call| call.id.clone()).collect();
                let all = ids.len();
                ids.sort();
                ids.dedup();
                prop_assert_eq!(ids.len(), all);
            }
            let mut ids: Vec<_> = heard.calls.iter().map(|call| call.id.clone()).collect();
            let all = ids.len();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), all);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for wire in WIRES {
            let _ = decode(wire, &bytes);
        }
    }
}
