//! Every wire, end to end, against the rehearsal server.

use std::time::Duration;

use provost_core::transcript::{Message, Stop, Usage};
use provost_model::wire::EncodeOptions;
use provost_model::{
    Auth, BaseUrl, Billed, FailureClass, Invocation, PlainHttp, Provider as _, Remote, Secret, WireKind,
};
use serde_json::{Value, json};

use crate::support::{CANARY, Heard, WIRES, ask, prelude, provider, rehearse, result, user};

fn quick() -> Invocation {
    Invocation {
        timeout: Duration::from_secs(20),
        idle: Duration::from_secs(10),
        ..Invocation::new("run-1:0")
    }
}

/// The failure that `fault` causes at first, and the answer that follows it.
async fn fault(wire: WireKind, fault: Value) -> (provost_model::Failure, Heard) {
    let server = rehearse(&json!({"steps": [
        {"say": "hello there, this is a text of some length", "call": {"name": "list", "arguments": {"a": [1, 2, 3]}}, "fault": fault},
    ]}));
    let remote = provider(wire, &server.base_url(wire));
    let (first, heard) = ask(&remote, &quick()).await;
    let (second, _) = ask(&remote, &quick()).await;
    assert_eq!(second.unwrap().assistant.calls.len(), 1, "a fault fires once");
    (first.unwrap_err(), heard)
}

/// A body of many pieces goes out as one of known length, since servers refuse a chunked one, and again for a retry.
#[tokio::test]
async fn a_long_prompt_is_sent_whole_with_its_length() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [{"say": "read", "fault": {"status": 500}}]}));
        let remote = provider(wire, &server.base_url(wire));
        let mut dialogue = remote.open(prelude());
        let long = user(&"a long prompt\n".repeat(100_000));
        dialogue.push(&long);
        assert!(dialogue.ask(&quick(), &mut Heard::default()).await.is_err());
        assert_eq!(dialogue.ask(&quick(), &mut Heard::default()).await.unwrap().assistant.text, "read");

        let options = EncodeOptions { model: "test-model".to_owned(), ..EncodeOptions::default() };
        let mut encoder = wire.encoder(&options, &prelude());
        encoder.push(&long);
        let mut expected = encoder.prefix().to_vec();
        encoder.tail(0, &mut expected);
        assert!(expected.len() > 1_400_000);
        let requests = server.handle().requests();
        assert_eq!(requests.len(), 2);
        for request in requests {
            assert!(request.body == expected, "{wire:?}: other bytes were sent");
            let header = |wanted: &str| {
                request.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
            };
            assert_eq!(header("content-length"), Some(expected.len().to_string()));
            assert_eq!(header("transfer-encoding"), None);
        }
    }
}

/// The attempt failed and is paid for: what the server had counted by then comes with the failure.
#[tokio::test]
async fn a_failure_brings_the_usage_that_was_counted_before_it() {
    let usage = json!({"input": 70, "output": 5});
    // This wire counts the prompt at the start.
    let wire = WireKind::AnthropicMessages;
    let failed = |fault: Value| {
        let server = rehearse(&json!({"steps": [{"say": "a", "usage": usage, "fault": fault}]}));
        async move { ask(&provider(wire, &server.base_url(wire)), &quick()).await.0.unwrap_err() }
    };
    let counted = Some(Usage { input: 70, output: 1, ..Usage::default() });
    assert_eq!(failed(json!({"drop_after": 3})).await.usage, counted);
    assert_eq!(failed(json!({"error_after": 3})).await.usage, counted);
    let none = failed(json!({"drop_after": 0})).await;
    assert_eq!(
        (none.class, none.usage),
        (FailureClass::UnknownOutcome, None),
        "nothing was said, which is not zero"
    );
    assert_eq!(failed(json!({"status": 500})).await.usage, None);

    // This one at the end, in the event before `[DONE]`.
    let wire = WireKind::OpenAiChat;
    let failed = |after: u64| {
        let step = json!({"say": "a", "usage": usage, "fault": {"error_after": after}});
        let server = rehearse(&json!({"steps": [step]}));
        async move { ask(&provider(wire, &server.base_url(wire)), &quick()).await.0.unwrap_err() }
    };
    assert_eq!(failed(3).await.usage, None);
    assert_eq!(failed(4).await.usage, Some(Usage { input: 70, output: 5, ..Usage::default() }));
}

#[tokio::test]
async fn text() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [{
            "say": "Grüße, \"world\"\n\u{1F600} and a longer text so that it comes in pieces",
            "usage": {"input": 70, "output": 5, "cache_read": 20, "cache_write": 10},
        }]}));
        let (answer, heard) = ask(&provider(wire, &server.base_url(wire)), &quick()).await;
        let answer = answer.unwrap();
        assert_eq!(
            answer.assistant.text,
            "Grüße, \"world\"\n\u{1F600} and a longer text so that it comes in pieces"
        );
        assert_eq!(heard.text, answer.assistant.text);
        assert_eq!(answer.stop, Stop::End);
        let (input, cache_read, cache_write) = match wire {
            // No word for what was written to a cache, and none for caches at all.
            WireKind::Gemini => (80, 20, 0),
            WireKind::Ollama => (100, 0, 0),
            _ => (70, 20, 10),
        };
        assert_eq!(answer.usage, Some(Usage { input, output: 5, cache_read, cache_write, reasoning: 0 }));
        let raw = answer.raw_usage.unwrap();
        assert!(["_tokens", "TokenCount", "eval_count"].iter().any(|word| raw.contains(word)), "{raw}");
        assert_eq!(answer.model, "test-model");
        assert!(answer.ttft_ms.is_some());
    }
}

#[tokio::test]
async fn usage_that_was_never_said_is_none() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [{"say": "x", "usage": false}]}));
        let (answer, _) = ask(&provider(wire, &server.base_url(wire)), &quick()).await;
        assert_eq!(answer.unwrap().usage, None, "{wire:?}");
    }
}

#[tokio::test]
async fn a_dialogue_of_calls() {
    for wire in WIRES {
        let long = "x".repeat(200);
        let server = rehearse(&json!({
            "steps": [
                {"say": "Looking.", "call": {"name": "read_file", "arguments": {"path": long}}},
                {"calls": [{"name": "list"}, {"name": "read_file", "arguments": "{\"path\": \"b\", \"path\": \"c\"}"}]},
                {"call": {"name": "list", "arguments": {"n": "{{i}}"}}, "repeat": 2},
                {"say": "half-time"},
            ],
            "final": "fin",
        }));
        let remote = provider(wire, &server.base_url(wire));
        let mut dialogue = remote.open(prelude());
        dialogue.push(&user("go"));
        let mut seen = Vec::new();
        for _ in 0..6 {
            let mut heard = Heard::default();
            let answer = dialogue.ask(&quick(), &mut heard).await.unwrap();
            assert_eq!(heard.calls, answer.assistant.calls);
            let calls = answer.assistant.calls.clone();
            let expected = if calls.is_empty() { Stop::End } else { Stop::ToolCalls };
            assert_eq!(answer.stop, expected);
            seen.push(format!(
                "{}|{}",
                answer.assistant.text,
                calls.iter().map(|c| format!("{}{}", c.name, c.arguments)).collect::<Vec<_>>().join(",")
            ));
            dialogue.push(&Message::Assistant(answer.assistant));
            if calls.is_empty() {
                dialogue.push(&user("and?"));
            } else {
                let results = calls.iter().map(|c| result(&c.id, "ok", false)).collect();
                dialogue.push(&Message::Results { results });
            }
        }
        assert_eq!(
            seen,
            [
                &format!("Looking.|read_file{{\"path\":\"{long}\"}}"),
                "|list{},read_file{\"path\": \"b\", \"path\": \"c\"}",
                "|list{\"n\":\"0\"}",
                "|list{\"n\":\"1\"}",
                "half-time|",
                "fin|",
            ]
        );
    }
}

#[tokio::test]
async fn thinking_comes_back_as_an_opaque_block() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [{"think": "hmm, well", "say": "yes"}], "final": "more"}));
        let remote = provider(wire, &server.base_url(wire));
        let mut dialogue = remote.open(prelude());
        dialogue.push(&user("go"));
        let mut heard = Heard::default();
        let answer = dialogue.ask(&quick(), &mut heard).await.unwrap();
        assert_eq!(heard.reasoning, "hmm, well");
        assert_eq!(answer.assistant.text, "yes");
        assert_eq!(answer.assistant.opaque.len(), 1);
        dialogue.push(&Message::Assistant(answer.assistant));
        dialogue.push(&user("more"));
        dialogue.ask(&quick(), &mut heard).await.unwrap();
        let body = String::from_utf8(server.handle().requests()[1].body.to_vec()).unwrap();
        let block = match wire {
            // Sent only where somebody asked for it.
            WireKind::OpenAiChat => None,
            WireKind::OpenAiResponses => Some(r#""encrypted_content":"c2VhbGVk""#),
            WireKind::AnthropicMessages => {
                Some(r#"{"type":"thinking","thinking":"hmm, well","signature":"c2lnbmVk"}"#)
            }
            WireKind::Gemini => Some(r#"{"text":"","thoughtSignature":"c2lnbmVk"}"#),
            WireKind::Ollama => Some(r#""thinking":"hmm, well""#),
        };
        assert_eq!(body.contains(block.unwrap_or("hmm, well")), block.is_some(), "{body}");
        assert!(!body.contains("reasoning_content"));
    }
}

#[tokio::test]
async fn a_length_stop_and_a_refusal() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [
            {"call": {"name": "list", "arguments": "{\"a\": \"cut he"}, "stop": "length"},
        ]}));
        let (answer, heard) = ask(&provider(wire, &server.base_url(wire)), &quick()).await;
        let answer = answer.unwrap();
        assert_eq!((answer.stop, answer.assistant.calls.len(), heard.calls.len()), (Stop::Length, 0, 0));
        if wire == WireKind::Ollama {
            continue; // It has no word for a refusal.
        }
        let server = rehearse(&json!({"steps": [{"say": "I", "stop": "refused"}]}));
        let (answer, _) = ask(&provider(wire, &server.base_url(wire)), &quick()).await;
        assert_eq!(answer.unwrap().stop, Stop::Refused);
    }
}

/// W6: no terminal event is an error, and no part of a call gets out.
#[tokio::test]
async fn a_drop_in_mid_stream_is_a_transport_failure() {
    for wire in WIRES {
        // On the chat wire the sixth event is the one with the finish reason; two wires have calls in one event, and it
        // is the third.
        let last = if matches!(wire, WireKind::Gemini | WireKind::Ollama) { 2 } else { 5 };
        for after in 0..=last {
            let (failure, heard) = fault(wire, json!({"drop_after": after})).await;
            assert_eq!(failure.class, FailureClass::UnknownOutcome, "{wire:?} after {after}: {failure}");
            assert_eq!(failure.bytes_received > 0, after > 0, "{failure:?}");
            assert!(heard.calls.is_empty());
        }
    }
}

/// Once the finish reason was seen the answer stands, whatever becomes of its connection.
#[tokio::test]
async fn a_drop_after_the_finish_reason_is_an_answer_without_usage() {
    let wire = WireKind::OpenAiChat;
    let server = rehearse(&json!({"steps": [{"say": "short", "fault": {"drop_after": 3}}]}));
    let (answer, _) = ask(&provider(wire, &server.base_url(wire)), &quick()).await;
    let answer = answer.unwrap();
    assert_eq!((answer.assistant.text.as_str(), answer.usage), ("short", None));
}

#[tokio::test]
async fn statuses() {
    for wire in WIRES {
        let (failure, _) = fault(wire, json!({"status": 429, "headers": {"retry-after": "1"}})).await;
        assert_eq!(failure.class, FailureClass::RateLimited);
        assert_eq!(failure.status, Some(429));
        assert_eq!(failure.retry_after, Some(Duration::from_secs(1)));

        let (failure, _) = fault(wire, json!({"status": 500})).await;
        assert_eq!((failure.class, failure.status), (FailureClass::Server, Some(500)));
        let (failure, _) = fault(wire, json!({"status": 529})).await;
        assert_eq!(failure.class, FailureClass::Overloaded);
        // This one has no kinds of errors, only words.
        if wire != WireKind::Ollama {
            let (failure, _) =
                fault(wire, json!({"status": 429, "type": "insufficient_quota", "message": "no money"}))
                    .await;
            assert_eq!(failure.class, FailureClass::Quota);
            assert!(!failure.retryable());
        }
        let (failure, _) = fault(wire, json!({"status": 400, "message": "prompt is too long"})).await;
        assert_eq!(failure.class, FailureClass::ContextOverflow);
        let (failure, _) =
            fault(wire, json!({"status": 307, "headers": {"location": "http://127.0.0.1:1/x"}})).await;
        assert_eq!(failure.class, FailureClass::BadRequest);
        assert!(failure.message.contains("redirect"), "{failure}");
    }
}

/// W7: absurd waits are kept as stated, for the policy to refuse, and the message tells of them.
#[tokio::test]
async fn retry_after_in_all_its_forms() {
    let wire = WireKind::OpenAiChat;
    let (failure, _) = fault(wire, json!({"status": 429, "headers": {"retry-after": "86400"}})).await;
    assert_eq!(failure.retry_after, Some(Duration::from_hours(24)));
    assert!(failure.message.contains("86400"), "{failure}");
    let date = httpdate(Duration::from_secs(30));
    let (failure, _) = fault(wire, json!({"status": 429, "headers": {"retry-after": date}})).await;
    let wait = failure.retry_after.unwrap();
    assert!((27..=30).contains(&wait.as_secs()), "{wait:?}");
    let (failure, _) = fault(wire, json!({"status": 429, "headers": {"retry-after": "soon"}})).await;
    assert_eq!(failure.retry_after, None);
}

/// A refusal that does not say when to come back, with limits that do.
#[tokio::test]
async fn spent_limits_say_when_to_come_back() {
    let headers = json!({
        "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1.5s", "x-ratelimit-remaining-tokens": "900", "x-ratelimit-key": CANARY,
    });
    for wire in WIRES {
        let (failure, _) = fault(wire, json!({"status": 429, "message": "slow", "headers": headers})).await;
        assert_eq!(failure.class, FailureClass::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_millis(1_500)), "{failure}");
        assert!(failure.message.contains("requests of 60"), "{failure}");
        let limits = failure.rate_limits.unwrap();
        assert_eq!((limits.windows.len(), limits.windows[1].remaining), (2, Some(900)));
        assert_eq!(limits.extras, [("x-ratelimit-key".to_owned(), "[secret]".to_owned())]);
    }
    // What the vendor states itself counts before that; and a spent window explains no other failure.
    let wire = WireKind::OpenAiChat;
    let mut stated = headers.clone();
    stated["retry-after"] = "7".into();
    let (failure, _) = fault(wire, json!({"status": 429, "headers": stated})).await;
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    let (failure, _) = fault(wire, json!({"status": 500, "headers": headers})).await;
    assert_eq!(failure.retry_after, None);
    assert!(failure.rate_limits.is_some());
}

fn httpdate(ahead: Duration) -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now() + ahead)
}

/// W8: a 200 with an error event in it.
#[tokio::test]
async fn an_error_event_in_a_good_stream() {
    for wire in WIRES {
        let (failure, _) = fault(wire, json!({"error_after": 3})).await;
        assert_eq!(failure.class, FailureClass::Overloaded);
        assert_eq!(failure.status, Some(200));
        assert!(failure.retryable());
        if wire == WireKind::Ollama {
            continue; // It has no kinds of errors, only words.
        }
        let (failure, _) = fault(wire, json!({"error_after": 0, "type": "invalid_request_error"})).await;
        assert_eq!(failure.class, FailureClass::BadRequest);
    }
}

/// W4: arguments that are no JSON are the tool layer's business.
#[tokio::test]
async fn malformed_arguments_pass_verbatim() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [
            {"call": {"name": "list", "arguments": {"path": "abcdef"}}, "fault": {"bad_json": true}},
        ]}));
        let remote = provider(wire, &server.base_url(wire));
        let (answer, _) = ask(&remote, &quick()).await;
        let answer = answer.unwrap();
        assert_eq!(answer.assistant.calls[0].arguments, "{\"path\":");
        assert_eq!(answer.stop, Stop::ToolCalls);

        // And the dialogue goes on: what is sent back is an object that any server takes.
        let mut dialogue = remote.open(prelude());
        dialogue.push(&user("go"));
        let id = answer.assistant.calls[0].id.clone();
        dialogue.push(&Message::Assistant(answer.assistant));
        dialogue.push(&Message::Results { results: vec![result(&id, "not JSON", true)] });
        assert_eq!(dialogue.ask(&quick(), &mut Heard::default()).await.unwrap().assistant.text, "done");
    }
}

/// W6: silence.
#[tokio::test]
async fn silence_runs_into_the_idle_limit() {
    for wire in WIRES {
        let server = rehearse(&json!({"steps": [{"say": "x", "fault": {"stall_ms": 30_000}}]}));
        let remote = provider(wire, &server.base_url(wire));
        let invocation = Invocation { idle: Duration::from_millis(150), ..quick() };
        let (answer, _) = ask(&remote, &invocation).await;
        let failure = answer.unwrap_err();
        assert_eq!(failure.class, FailureClass::Timeout);
        assert!(failure.message.contains("silence"), "{failure}");

        let server = rehearse(&json!({"steps": [{"say": "x", "fault": {"latency_ms": 30_000}}]}));
        let remote = provider(wire, &server.base_url(wire));
        let (answer, _) = ask(&remote, &invocation).await;
        assert_eq!(answer.unwrap_err().class, FailureClass::Timeout);
        let whole = Invocation { timeout: Duration::from_millis(150), ..quick() };
        let failure = ask(&remote, &whole).await.0.unwrap_err();
        assert!(failure.message.contains("took longer"), "{failure}");
    }
}

/// W7: the body of a 429 that never ends.
#[tokio::test]
async fn an_endless_error_body_is_given_up() {
    let start = std::time::Instant::now();
    let (failure, _) = fault(
        WireKind::OpenAiChat,
        json!({"status": 429, "endless": true, "body": "{\"error\":", "headers": {"retry-after": "2"}}),
    )
    .await;
    assert_eq!(failure.class, FailureClass::RateLimited);
    assert_eq!(failure.retry_after, Some(Duration::from_secs(2)));
    assert!(start.elapsed() < Duration::from_secs(9));
}

#[tokio::test]
async fn nobody_listens() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let remote = provider(WireKind::OpenAiChat, &format!("http://127.0.0.1:{port}"));
    let failure = ask(&remote, &quick()).await.0.unwrap_err();
    assert_eq!(failure.class, FailureClass::Transport);
    assert!(failure.message.contains("cannot connect"), "{failure}");
    assert_eq!(failure.status, None);
}

/// I8: the key is delivered (the server demands it) and turns up nowhere else.
#[tokio::test]
async fn the_key_turns_up_nowhere() {
    for wire in WIRES {
        let echo = format!("bad key {CANARY} and {}{CANARY}", "y".repeat(580));
        let server = rehearse(&json!({"steps": [
            {"say": "a", "fault": {"status": 401, "type": "authentication_error", "message": echo}},
        ]}));
        let remote = provider(wire, &server.base_url(wire));
        let (first, _) = ask(&remote, &quick()).await;
        let failure = first.unwrap_err();
        assert_eq!(failure.class, FailureClass::Auth);
        let (second, _) = ask(&remote, &quick()).await;
        let shown = format!(
            "{remote:?} {failure:?} {failure} {:?} {:?} {:?}",
            second.unwrap(),
            crate::support::auth(wire),
            server.handle().requests()
        );
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("[secret]") && shown.contains("[redacted]"));
        let seen = &server.handle().requests()[0];
        assert!(seen.headers.contains(&("idempotency-key".to_owned(), "run-1:0".to_owned())));

        // A server that echoes the key in a stream.
        let after = if matches!(wire, WireKind::Gemini | WireKind::Ollama) { 1 } else { 2 };
        let server = rehearse(&json!({"steps": [
            {"say": CANARY, "fault": {"error_after": after, "message": echo}},
        ]}));
        let remote = provider(wire, &server.base_url(wire));
        let (first, heard) = ask(&remote, &quick()).await;
        let failure = first.unwrap_err();
        let shown = format!("{failure:?} {heard:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_an_auth_failure() {
    let server = rehearse(&json!({"final": "x"}));
    let base = BaseUrl::parse(&server.base_url(WireKind::OpenAiChat), PlainHttp::LoopbackOnly).unwrap();
    let told = async |auth| {
        let remote = Remote::builder(WireKind::OpenAiChat, base.clone(), "m").auth(auth).build().unwrap();
        let failure = ask(&remote, &quick()).await.0.unwrap_err();
        assert_eq!(failure.class, FailureClass::Auth);
        failure.to_string()
    };
    insta::assert_snapshot!(told(Auth::None).await);
    insta::assert_snapshot!(told(Auth::Bearer(Secret::new("another key"))).await);
}

/// What a vendor may have counted without saying so is told from what it cannot have: whoever pays has to know.
#[tokio::test]
async fn w10_what_may_have_been_billed_is_told() {
    let asked = |wire, what| async move { fault(wire, what).await.0.billed };
    for wire in WIRES {
        // Refused: nothing was generated.
        for what in [json!({"status": 500}), json!({"status": 429}), json!({"error_after": 0})] {
            assert_eq!(asked(wire, what.clone()).await, Billed::AsCounted, "{wire:?} {what}");
        }
        // A gateway gave up waiting, or the connection broke before a word.
        for what in [json!({"status": 504}), json!({"drop_after": 0})] {
            assert_eq!(
                asked(wire, what.clone()).await,
                Billed::Perhaps { answer_bytes: 0 },
                "{wire:?} {what}"
            );
        }
        // This wire announces more before the first word.
        let after = if wire == WireKind::OpenAiResponses { 8 } else { 3 };
        let Billed::Perhaps { answer_bytes } = asked(wire, json!({"drop_after": after})).await else {
            panic!("{wire:?}: an answer that breaks off was begun")
        };
        assert!(
            (5..=64).contains(&answer_bytes),
            "{wire:?}: {answer_bytes} bytes of the answer, not of its envelope"
        );
    }
    let (nobody, _) = ask(&provider(WireKind::OpenAiChat, "http://127.0.0.1:1/v1"), &quick()).await;
    assert_eq!(nobody.unwrap_err().billed, Billed::AsCounted, "nobody was reached");
}
