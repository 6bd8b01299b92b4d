//! Each wire's contract: a stream in the vendor's documented shape, with all that may stand in between, comes to the same
//! answer however its bytes arrive; and so does the answer that was not streamed.

use proptest::prelude::*;
use provost_core::transcript::{Assistant, Message, Stop, Usage};
use provost_model::wire::{Decoded, EncodeOptions, Progress};
use provost_model::{Failure, FailureClass, Prelude, WireKind};

use crate::support::{Heard, WIRES, call, result, user};

/// The text of all fixtures: characters of two, three and four bytes.
const TEXT: &str = "Gr\u{fc}\u{df}e \u{2192} \u{1f600}";
const REASONING: &str = "hm\u{2026} well";

fn decode<'a>(
    wire: WireKind,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Decoded, Failure>, Heard) {
    let mut heard = Heard::default();
    let (mut framing, mut decoder) = (wire.framing(), wire.decoder(5));
    let mut events = Vec::new();
    for piece in pieces {
        framing.feed(piece, &mut events).unwrap();
    }
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

/// Events in CRLF, with a byte order mark in front and comments, keep-alives, fields and events in between that nobody
/// knows.
fn events(all: &[(&str, &str)]) -> Vec<u8> {
    let mut out = "\u{feff}: hello \u{2192}\r\n\r\n".to_owned();
    for (n, (kind, data)) in all.iter().enumerate() {
        if !kind.is_empty() {
            out += &format!("event: {kind}\r\n");
        }
        out += &format!("id: {n}\r\nretry: 3000\r\nnobody: knows\r\ndata: {data}\r\n\r\n");
        match n % 3 {
            0 => out += ": keep-alive\r\n\r\n",
            1 => out += "event: ping\ndata: {\"type\":\"ping\",\"nobody\":[1,{}]}\n\n",
            _ => out += "\r\n\n",
        }
    }
    out.into_bytes()
}

/// A stream with text, reasoning, two calls at once and usage.
fn stream(wire: WireKind) -> Vec<u8> {
    match wire {
        WireKind::OpenAiChat => events(&[
            ("", r#"{"id":"c","object":"chat.completion.chunk","model":"m","service_tier":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#),
            ("", r#"{"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm… well"}}]}"#),
            ("", r#"{"model":"m","choices":[{"index":0,"delta":{"content":"Grüße → "}}]}"#),
            ("", r#"{"model":"m","choices":[{"index":0,"delta":{"content":"\ud83d\ude00"}},{"index":1,"delta":{"content":"another"}}]}"#),
            ("", r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]}}]}"#),
            ("", r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"list","arguments":"{}"}}]}}]}"#),
            ("", r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\": \"ü"}}]}}]}"#),
            ("", r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}}]}"#),
            ("", r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#),
            ("", r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":5}}}"#),
            ("", "[DONE]"),
        ]),
        WireKind::OpenAiResponses => events(&[
            ("response.created", r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m","output":[],"error":null,"usage":null}}"#),
            ("response.in_progress", r#"{"type":"response.in_progress","sequence_number":1,"response":{"status":"in_progress"}}"#),
            ("keepalive", r#"{"type":"keepalive","sequence_number":2}"#),
            ("response.output_item.added", r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}}"#),
            ("response.reasoning_summary_part.added", r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#),
            ("response.reasoning_summary_text.delta", r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"hm… well","obfuscation":"xyz"}"#),
            ("response.output_item.done", r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs","type":"reasoning","encrypted_content":"seal","summary":[{"type":"summary_text","text":"hm… well"}]}}"#),
            ("response.output_item.added", r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg","type":"message","status":"in_progress","role":"assistant","content":[]}}"#),
            ("response.content_part.added", r#"{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}"#),
            ("response.output_text.delta", r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Grüße → ","logprobs":[]}"#),
            ("response.output_text.delta", r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"\ud83d\ude00"}"#),
            ("response.output_text.done", r#"{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"Grüße → 😀"}"#),
            ("response.output_item.done", r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Grüße → 😀","annotations":[]}]}}"#),
            ("response.output_item.added", r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc1","type":"function_call","status":"in_progress","call_id":"a","name":"read","arguments":""}}"#),
            ("response.output_item.added", r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc2","type":"function_call","call_id":"b","name":"list","arguments":""}}"#),
            ("response.function_call_arguments.delta", r#"{"type":"response.function_call_arguments.delta","item_id":"fc1","output_index":2,"delta":"{\"p\": \"ü"}"#),
            ("response.function_call_arguments.delta", r#"{"type":"response.function_call_arguments.delta","item_id":"fc2","output_index":3,"delta":"{}"}"#),
            ("response.function_call_arguments.delta", r#"{"type":"response.function_call_arguments.delta","item_id":"fc1","output_index":2,"delta":"\"}"}"#),
            ("response.function_call_arguments.done", r#"{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"p\": \"ü\"}"}"#),
            ("response.output_item.done", r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc1","type":"function_call","status":"completed","call_id":"a","name":"read","arguments":"{\"p\": \"ü\"}"}}"#),
            ("response.output_item.done", r#"{"type":"response.output_item.done","output_index":3,"item":{"id":"fc2","type":"function_call","call_id":"b","name":"list","arguments":"{}"}}"#),
            ("response.completed", &format!(r#"{{"type":"response.completed","sequence_number":40,"response":{}}}"#, whole(wire))),
        ]),
        WireKind::AnthropicMessages => events(&[
            ("message_start", r#"{"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":60,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm… well"}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"seal"}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":null}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüße → "}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\ud83d\ude00"}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"read","input":{},"caller":{"type":"direct"}}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"p\": \"ü"}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"}"}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"b","name":"list","input":{}}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":3}"#),
            ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":20}}"#),
            ("message_stop", r#"{"type":"message_stop"}"#),
        ]),
        WireKind::Gemini => events(&[
            ("", r#"{"candidates":[{"content":{"parts":[{"text":"hm… well","thought":true}],"role":"model"},"index":0,"safetyRatings":[]}],"usageMetadata":{"promptTokenCount":100,"totalTokenCount":100},"modelVersion":"m","responseId":"r"}"#),
            ("", r#"{"candidates":[{"content":{"parts":[{"text":"Grüße → "}],"role":"model"},"index":0}],"modelVersion":"m"}"#),
            ("", r#"{"candidates":[{"content":{"parts":[{"text":"\ud83d\ude00"}],"role":"model"},"index":0},{"content":{"parts":[{"text":"another"}]},"index":1}]}"#),
            ("", r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a","name":"read","args":{"p": "ü"}},"thoughtSignature":"seal"},{"functionCall":{"id":"b","name":"list"}}],"role":"model"},"index":0}]}"#),
            ("", r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":15,"thoughtsTokenCount":5,"totalTokenCount":120,"promptTokensDetails":[{"modality":"TEXT","tokenCount":100}]},"modelVersion":"m"}"#),
        ]),
        WireKind::Ollama => [
            r#"{"model":"m","created_at":"2026-01-31T09:05:00Z","message":{"role":"assistant","content":"","thinking":"hm… well"},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"Grüße → "},"nobody":{"knows":[1]},"done":false}"#,
            "",
            r#"{"model":"m","message":{"role":"assistant","content":"\ud83d\ude00"},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"read","arguments":{"p": "ü"}}}]},"done":false}"#,
            r#"{"nobody":"knows"}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"id":"b","function":{"index":1,"name":"list","arguments":{}}}]},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":9,"load_duration":1,"prompt_eval_count":100,"prompt_eval_duration":2,"eval_count":20,"eval_duration":3}"#,
        ]
        .join("\r\n")
        .into_bytes(),
    }
}

/// The same answer, not streamed.
fn whole(wire: WireKind) -> String {
    match wire {
        WireKind::OpenAiChat => r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße → 😀","reasoning_content":"hm… well","refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"p\": \"ü\"}"}},{"id":"b","type":"function","function":{"name":"list","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":5}}}"#,
        WireKind::OpenAiResponses => r#"{"id":"r","object":"response","status":"completed","model":"m","error":null,"incomplete_details":null,"output":[{"id":"rs","type":"reasoning","encrypted_content":"seal","summary":[{"type":"summary_text","text":"hm… well"}]},{"id":"msg","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Grüße → 😀","annotations":[]}]},{"id":"fc1","type":"function_call","status":"completed","call_id":"a","name":"read","arguments":"{\"p\": \"ü\"}"},{"id":"fc2","type":"function_call","call_id":"b","name":"list","arguments":"{}"}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}}"#,
        WireKind::AnthropicMessages => r#"{"id":"msg","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm… well","signature":"seal"},{"type":"text","text":"Grüße → 😀"},{"type":"tool_use","id":"a","name":"read","input":{"p": "ü"}},{"type":"tool_use","id":"b","name":"list","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":60,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":20}}"#,
        WireKind::Gemini => r#"{"candidates":[{"content":{"parts":[{"text":"hm… well","thought":true},{"text":"Grüße → 😀"},{"functionCall":{"id":"a","name":"read","args":{"p": "ü"}},"thoughtSignature":"seal"},{"functionCall":{"id":"b","name":"list"}}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":15,"thoughtsTokenCount":5,"totalTokenCount":120},"modelVersion":"m"}"#,
        WireKind::Ollama => r#"{"model":"m","message":{"role":"assistant","content":"Grüße → 😀","thinking":"hm… well","tool_calls":[{"id":"a","function":{"name":"read","arguments":{"p": "ü"}}},{"id":"b","function":{"name":"list","arguments":{}}}]},"done":true,"done_reason":"stop","prompt_eval_count":100,"eval_count":20}"#,
    }
    .to_owned()
}

/// Asserts that it is the answer of the fixtures.
#[track_caller]
fn assert_answer(wire: WireKind, decoded: Result<Decoded, Failure>, heard: &Heard) -> Decoded {
    let decoded = decoded.unwrap();
    let assistant = &decoded.assistant;
    assert_eq!(assistant.text, TEXT, "{wire:?}");
    assert_eq!(assistant.calls, [call("a", "read", "{\"p\": \"\u{fc}\"}"), call("b", "list", "{}")]);
    assert_eq!(assistant.opaque.len(), 1, "{wire:?}: {:?}", assistant.opaque);
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), (TEXT, REASONING), "{wire:?}");
    let mut shown = heard.calls.clone();
    shown.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(shown, assistant.calls, "{wire:?}");
    assert_eq!((decoded.stop, decoded.model.as_deref()), (Stop::ToolCalls, Some("m")));
    let expected = match wire {
        // The one counts no reasoning, the other neither that nor its cache.
        WireKind::AnthropicMessages => Usage { input: 60, cache_read: 40, output: 20, ..Usage::default() },
        WireKind::Ollama => Usage { input: 100, output: 20, ..Usage::default() },
        _ => Usage { input: 60, cache_read: 40, output: 20, reasoning: 5, cache_write: 0 },
    };
    assert_eq!(decoded.usage, Some(expected), "{wire:?}");
    assert!(decoded.raw_usage.as_deref().is_some_and(|raw| raw.contains("20") || raw.contains("15")));
    decoded
}

#[test]
fn a_stream_chopped_at_every_byte_is_the_same_answer() {
    for wire in WIRES {
        let bytes = stream(wire);
        let (decoded, heard) = decode(wire, [&bytes[..]]);
        let expected = assert_answer(wire, decoded, &heard);
        for at in 0..=bytes.len() {
            let (decoded, again) = decode(wire, [&bytes[..at], &bytes[at..]]);
            assert_eq!(
                (decoded.as_ref().ok(), &again),
                (Some(&expected), &heard),
                "{wire:?} chopped at {at}"
            );
        }
        let (decoded, again) = decode(wire, bytes.chunks(1));
        assert_eq!((decoded.ok(), again), (Some(expected), heard), "{wire:?} byte by byte");
    }
}

#[test]
fn an_answer_that_is_not_streamed_is_the_same() {
    for wire in WIRES {
        let whole = whole(wire);
        let bytes = match wire {
            WireKind::Ollama => whole,
            _ => format!("data: {whole}\n\n"),
        };
        let (decoded, heard) = decode(wire, [bytes.as_bytes()]);
        assert_answer(wire, decoded, &heard);
    }
    // Where server-sent events were not asked for, this vendor sends its pieces as one list.
    let bytes = format!("data: [{}]\n\n", whole(WireKind::Gemini));
    let (decoded, heard) = decode(WireKind::Gemini, [bytes.as_bytes()]);
    assert_answer(WireKind::Gemini, decoded, &heard);
}

/// Every end before the last word of the answer is a failure, and shows no part of a call.
#[test]
fn a_stream_that_is_cut_anywhere_is_no_answer() {
    for wire in WIRES {
        let bytes = stream(wire);
        let last: &[u8] = match wire {
            WireKind::OpenAiChat => b"\"finish_reason\":\"tool_calls\"",
            WireKind::OpenAiResponses => b"event: response.completed",
            WireKind::AnthropicMessages => b"\"stop_reason\":\"tool_use\"",
            WireKind::Gemini => b"\"finishReason\"",
            WireKind::Ollama => b"\"done\":true",
        };
        let end = bytes.windows(last.len()).position(|window| window == last).unwrap();
        for cut in 0..=end {
            let (decoded, heard) = decode(wire, [&bytes[..cut]]);
            let failure = decoded.unwrap_err();
            assert_eq!(failure.class, FailureClass::UnknownOutcome, "{wire:?} cut at {cut}: {failure}");
            let whole = |arguments: &str| serde_json::from_str::<serde_json::Value>(arguments).is_ok();
            assert!(heard.calls.iter().all(|call| whole(&call.arguments)), "{wire:?} cut at {cut}");
        }
    }
}

/// What is sent back holds each block where its vendor wants it.
#[test]
fn the_answer_goes_back_as_it_came() {
    for wire in WIRES {
        let answer = decode(wire, [&stream(wire)[..]]).0.unwrap().assistant;
        let options = EncodeOptions { model: "m".to_owned(), ..EncodeOptions::default() };
        let body = |answer: Assistant| {
            let mut encoder = wire.encoder(&options, &Prelude::default());
            encoder.push(&user("go"));
            encoder.push(&Message::Assistant(answer));
            encoder
                .push(&Message::Results { results: vec![result("a", "x", false), result("b", "y", true)] });
            let mut body = encoder.prefix().to_vec();
            encoder.tail(9, &mut body);
            let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
            serde_json::to_string_pretty(&value).unwrap()
        };
        insta::assert_snapshot!(format!("back_{}", wire.word()), body(answer.clone()));
        // What another vendor sealed is not sent.
        for other in WIRES.into_iter().filter(|other| *other != wire) {
            let theirs = decode(other, [&stream(other)[..]]).0.unwrap().assistant;
            let plain = Assistant { opaque: Vec::new(), ..theirs.clone() };
            assert_eq!(body(theirs), body(plain), "{other:?} sent to {wire:?}");
        }
    }
}

/// How the newer wires say that they stopped short, refused or failed.
#[test]
fn ends_of_every_kind() {
    use FailureClass as C;
    let end = |wire: WireKind, data: &str| {
        let bytes = if wire == WireKind::Ollama { format!("{data}\n") } else { format!("data: {data}\n\n") };
        decode(wire, [bytes.as_bytes()]).0
    };
    let stops = [
        (
            WireKind::OpenAiResponses,
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","call_id":"a","name":"f","arguments":"{\"cut"}]}}"#,
            Stop::Length,
        ),
        (
            WireKind::OpenAiResponses,
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
            Stop::Refused,
        ),
        (
            WireKind::OpenAiResponses,
            r#"{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}"#,
            Stop::Refused,
        ),
        (WireKind::OpenAiResponses, r#"{"object":"response","status":"completed","output":[]}"#, Stop::End),
        (
            WireKind::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}"#,
            Stop::Length,
        ),
        (WireKind::Gemini, r#"{"candidates":[{"finishReason":"SAFETY"}]}"#, Stop::Refused),
        (WireKind::Gemini, r#"{"candidates":[{"finishReason":"PROHIBITED_CONTENT"}]}"#, Stop::Refused),
        (WireKind::Gemini, r#"{"candidates":[{"content":{},"finishReason":"STOP"}]}"#, Stop::End),
        (WireKind::Gemini, r#"{"candidates":[{"finishReason":"SOMETHING_NEW"}]}"#, Stop::End),
        (WireKind::Ollama, r#"{"message":{"content":"a"},"done":true,"done_reason":"length"}"#, Stop::Length),
        (WireKind::Ollama, r#"{"message":{"content":""},"done":true}"#, Stop::End),
    ];
    for (wire, data, stop) in stops {
        let decoded = end(wire, data).unwrap();
        assert_eq!((decoded.stop, decoded.assistant.calls.len()), (stop, 0), "{wire:?} {data}");
        assert_eq!(decoded.usage, None, "what is not said is not zero");
    }
    let failures = [
        (
            WireKind::OpenAiResponses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}"#,
            C::Server,
        ),
        (
            WireKind::OpenAiResponses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}}"#,
            C::RateLimited,
        ),
        (
            WireKind::OpenAiResponses,
            r#"{"type":"error","code":"insufficient_quota","message":"x","param":null}"#,
            C::Quota,
        ),
        (
            WireKind::OpenAiResponses,
            r#"{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{"}"#,
            C::Malformed,
        ),
        (
            WireKind::Gemini,
            r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}}"#,
            C::Refused,
        ),
        (
            WireKind::Gemini,
            r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: read("}]}"#,
            C::Malformed,
        ),
        (
            WireKind::Gemini,
            r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}"#,
            C::RateLimited,
        ),
        (
            WireKind::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}}]},"finishReason":"STOP"}]}"#,
            C::Malformed,
        ),
        (WireKind::Ollama, r#"{"error":"an error was encountered while running the model"}"#, C::Server),
        (WireKind::Ollama, r#"{"message":{"content":""},"done":true,"done_reason":"load"}"#, C::Server),
        (WireKind::Ollama, "not JSON", C::Malformed),
    ];
    for (wire, data, class) in failures {
        assert_eq!(end(wire, data).unwrap_err().class, class, "{wire:?} {data}");
    }
}

/// What a model wrote as arguments reaches the tools as it stands, also where the wire has objects.
#[test]
fn arguments_of_every_kind_arrive_as_written() {
    for (arguments, expected) in [
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
        (r#""{\"cut""#, r#"{"cut"#),
        ("[1]", "[1]"),
        ("null", "{}"),
    ] {
        let gemini = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"f","args":{arguments}}}}}]}},"finishReason":"STOP"}}]}}"#
        );
        let ollama = format!(
            r#"{{"message":{{"tool_calls":[{{"function":{{"name":"f","arguments":{arguments}}}}}]}},"done":true}}"#
        );
        for (wire, bytes) in [(WireKind::Gemini, format!("data: {gemini}\n\n")), (WireKind::Ollama, ollama)] {
            let decoded = decode(wire, [bytes.as_bytes()]).0.unwrap();
            assert_eq!(decoded.assistant.calls, [call("call_5_0", "f", expected)], "{wire:?}");
            assert_eq!(decoded.stop, Stop::ToolCalls);
        }
    }
}

/// Signatures stand with the parts that they came with, however many there are.
#[test]
fn gemini_signatures_go_back_with_their_parts() {
    let bytes = concat!(
        r#"data: {"candidates":[{"content":{"parts":[{"text":"one "},{"text":"two ","thoughtSignature":"s1"},{"text":"three"}]}}]}"#,
        "\n\n",
        r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":{}},"thoughtSignature":"s2"}]}}]}"#,
        "\n\n",
        r#"data: {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s3"}]},"finishReason":"STOP"}]}"#,
        "\n\n",
    );
    let wire = WireKind::Gemini;
    let answer = decode(wire, [bytes.as_bytes()]).0.unwrap().assistant;
    let mut encoder = wire.encoder(&EncodeOptions::default(), &Prelude::default());
    encoder.push(&Message::Assistant(answer));
    let body = String::from_utf8(encoder.prefix().to_vec()).unwrap();
    assert_eq!(
        body.split_once("\"parts\":").unwrap().1,
        r#"[{"text":"one "},{"text":"two ","thoughtSignature":"s1"},{"text":"three"},{"text":"","thoughtSignature":"s3"},{"functionCall":{"id":"call_5_0","name":"f","args":{}}},{"functionCall":{"id":"call_5_1","name":"g","args":{}},"thoughtSignature":"s2"}]}"#
    );
}

proptest! {
    #[test]
    fn any_chopping_is_the_same_answer(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30)) {
        for wire in WIRES {
            let bytes = stream(wire);
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|two| &bytes[two[0]..two[1]]);
            let (decoded, heard) = decode(wire, pieces);
            let (expected, all) = decode(wire, [&bytes[..]]);
            prop_assert_eq!((decoded.ok(), heard), (expected.ok(), all));
        }
    }
}
