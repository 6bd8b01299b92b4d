//! What the wires cost: `cargo bench -p provost-model --bench wires`.
//!
//! First how fast a stream is read, in MB/s of one thread: the framing alone (server-sent events, lines), and with the
//! wire's decoder behind it. Then a whole streamed call over loopback, against a server that answers at once, beside a
//! bare socket that sends the same bytes to it and reads the same answer. Both are measured in turn, call by call, so that a
//! busy machine slows both alike. It asserts nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use provost_core::transcript::{Message, ToolSpec};
use provost_model::wire::{EncodeOptions, Progress};
use provost_model::{
    BaseUrl, Discard, HttpClient, Invocation, PlainHttp, Prelude, Provider as _, Remote, WireKind,
};
use serde_json::json;

const ROUNDS: usize = 15;
const CALLS: usize = 300;
/// Deltas in the streams that are read for their speed, and in the answers of calls.
const MANY: usize = 40_000;
const FEW: usize = 60;
/// As a socket hands them over.
const PIECE: usize = 16 << 10;

fn main() {
    println!("reading a stream of {MANY} deltas, MB/s, median of {ROUNDS}");
    println!("{:<20} {:>8} {:>9} {:>14}", "wire", "size kB", "framing", "with decoder");
    for wire in WireKind::ALL {
        let stream = stream(wire, MANY);
        let framing = speed(&stream, |bytes| frame(wire, bytes));
        let decoder = speed(&stream, |bytes| decode(wire, bytes));
        println!("{:<20} {:>8} {framing:>9.0} {decoder:>14.0}", wire.word(), stream.len() / 1_000);
    }
    println!();
    println!("a streamed call of {FEW} deltas over loopback, µs, {CALLS} calls each, in turn");
    println!(
        "{:<20} {:>9} {:>12} {:>10} {:>11} {:>9} {:>12}",
        "wire", "sent kB", "bare median", "bare p90", "our median", "our p90", "more, median"
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for wire in WireKind::ALL {
        for words in [1_000, 1_000_000] {
            runtime.block_on(call(wire, &"word ".repeat(words / 5)));
        }
    }
}

/// A stream as a vendor sends it: so many deltas of text of a few characters, one call, and the end.
fn stream(wire: WireKind, deltas: usize) -> Vec<u8> {
    let mut events: Vec<(&str, serde_json::Value)> = Vec::new();
    let text = |n: usize| ["The ", "quick ", "br\u{f6}wn ", "fox, ", "jumps\n"][n % 5];
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 9, "input_tokens": 9, "output_tokens": 9});
    match wire {
        WireKind::OpenAiChat => {
            let chunk = |delta: serde_json::Value, end: Option<&str>| {
                json!({
                    "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx", "object": "chat.completion.chunk", "created": 1_700_000_000,
                    "model": "model-1", "service_tier": "default", "system_fingerprint": "fp_0123456789",
                    "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": end}], "usage": null,
                })
            };
            events.extend((0..deltas).map(|n| ("", chunk(json!({"content": text(n)}), None))));
            let call = json!({"name": "read_file", "arguments": "{\"path\":\"a\"}"});
            let call = json!([{"index": 0, "id": "call_1", "type": "function", "function": call}]);
            events.push(("", chunk(json!({"tool_calls": call}), None)));
            events.push(("", chunk(json!({}), Some("tool_calls"))));
            events.push(("", json!({"choices": [], "usage": usage})));
        }
        WireKind::OpenAiResponses => {
            let said = |n: usize| {
                json!({
                    "type": "response.output_text.delta", "sequence_number": n, "item_id": "msg_0123456789abcdef",
                    "output_index": 0, "content_index": 0, "delta": text(n), "logprobs": [],
                })
            };
            events.extend((0..deltas).map(|n| ("response.output_text.delta", said(n))));
            let call =
                json!({"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": "{}"});
            let done = json!({"type": "response.output_item.done", "output_index": 1, "item": call});
            events.push(("response.output_item.done", done));
            let response = json!({"status": "completed", "model": "m", "output": [], "usage": usage});
            events.push(("response.completed", json!({"type": "response.completed", "response": response})));
        }
        WireKind::AnthropicMessages => {
            let message = json!({"model": "m", "content": [], "usage": usage});
            events.push(("message_start", json!({"type": "message_start", "message": message})));
            let mut block = |index: usize, start: serde_json::Value, deltas: Vec<serde_json::Value>| {
                let start = json!({"type": "content_block_start", "index": index, "content_block": start});
                events.push(("content_block_start", start));
                for delta in deltas {
                    let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
                    events.push(("content_block_delta", delta));
                }
                events.push(("content_block_stop", json!({"type": "content_block_stop", "index": index})));
            };
            let said = (0..deltas).map(|n| json!({"type": "text_delta", "text": text(n)})).collect();
            block(0, json!({"type": "text", "text": ""}), said);
            block(1, json!({"type": "tool_use", "id": "a", "name": "read_file", "input": {}}), Vec::new());
            let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage});
            events.push(("message_delta", end));
            events.push(("message_stop", json!({"type": "message_stop"})));
        }
        WireKind::Gemini => {
            let piece = |part: serde_json::Value, end: Option<&str>| {
                let content = json!({"parts": [part], "role": "model"});
                json!({
                    "candidates": [{"content": content, "finishReason": end, "index": 0}],
                    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18},
                    "modelVersion": "model-1", "responseId": "0123456789abcdef",
                })
            };
            events.extend((0..deltas).map(|n| ("", piece(json!({"text": text(n)}), None))));
            let call = json!({"functionCall": {"name": "read_file", "args": {"path": "a"}}});
            events.push(("", piece(call, Some("STOP"))));
        }
        WireKind::Ollama => {
            let line = |message: serde_json::Value, done: bool| json!({"model": "m", "created_at": "2026-01-01T00:00:00.000000Z", "message": message, "done": done});
            let said = |n: usize| line(json!({"role": "assistant", "content": text(n)}), false);
            events.extend((0..deltas).map(|n| ("", said(n))));
            let call = json!([{"function": {"name": "read_file", "arguments": {"path": "a"}}}]);
            events.push(("", line(json!({"role": "assistant", "content": "", "tool_calls": call}), true)));
        }
    }
    let mut out = Vec::new();
    for (kind, data) in events {
        let event = match (wire, kind) {
            (WireKind::Ollama, _) => format!("{data}\n"),
            (_, "") => format!("data: {data}\n\n"),
            (_, kind) => format!("event: {kind}\ndata: {data}\n\n"),
        };
        out.extend_from_slice(event.as_bytes());
    }
    if wire == WireKind::OpenAiChat {
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
    out
}

fn speed(stream: &[u8], read: impl Fn(&[u8])) -> f64 {
    let mut all: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            read(stream);
            begun.elapsed()
        })
        .collect();
    stream.len() as f64 / 1e6 / median(&mut all).as_secs_f64()
}

fn frame(wire: WireKind, bytes: &[u8]) {
    let (mut framing, mut events) = (wire.framing(), Vec::new());
    for piece in bytes.chunks(PIECE) {
        framing.feed(piece, &mut events).expect("it fits");
        events.clear();
    }
}

fn decode(wire: WireKind, bytes: &[u8]) {
    let (mut framing, mut decoder, mut events) = (wire.framing(), wire.decoder(0), Vec::new());
    let mut progress = Progress::Open;
    for piece in bytes.chunks(PIECE) {
        framing.feed(piece, &mut events).expect("it fits");
        for event in events.drain(..) {
            progress = decoder.feed(event, &mut Discard).expect("it is well formed");
        }
    }
    assert_ne!(progress, Progress::Open);
    assert_eq!(decoder.finish().expect("it is whole").assistant.calls.len(), 1);
}

fn prelude() -> Prelude {
    let tool = |n: usize| ToolSpec {
        name: format!("tool_{n}"),
        description: "Does something.".to_owned(),
        schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    Prelude {
        system: "You are a benchmark.".to_owned(),
        tools: (0..8).map(tool).collect(),
        ..Prelude::default()
    }
}

async fn call(wire: WireKind, words: &str) {
    let answer = stream(wire, FEW);
    let media = if wire == WireKind::Ollama { "application/x-ndjson" } else { "text/event-stream" };
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n", answer.len());
    let reply = [head.as_bytes(), &answer].concat();
    let length = reply.len();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reply = reply.clone();
            std::thread::spawn(move || serve(stream, &reply));
        }
    });

    let base = BaseUrl::parse(&format!("http://{address}"), PlainHttp::LoopbackOnly).expect("a base");
    let remote = Remote::builder(wire, base, "m").http(HttpClient::new()).build().expect("a provider");
    let mut dialogue = remote.open(prelude());
    let message = Message::user(words);
    dialogue.push(&message);
    let invocation = Invocation::new("run-1:0");

    // The bytes that the other client sends: the same body, and a head of the same members.
    let mut encoder =
        wire.encoder(&EncodeOptions { model: "m".to_owned(), ..EncodeOptions::default() }, &prelude());
    encoder.push(&message);
    let mut body = encoder.prefix().to_vec();
    encoder.tail(0, &mut body);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: {media}\r\n\
         idempotency-key: run-1:0\r\nuser-agent: bare\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), &body].concat();
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_nodelay(true).expect("an option");
    let mut received = vec![0; length];

    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for round in 0..CALLS + 10 {
        let begun = Instant::now();
        socket.write_all(&request).expect("it is sent");
        socket.read_exact(&mut received).expect("it answers");
        let took = begun.elapsed();
        let begun = Instant::now();
        dialogue.ask(&invocation, &mut Discard).await.expect("it answers");
        // The first ones connect and warm up.
        if round >= 10 {
            bare.push(took);
            ours.push(begun.elapsed());
        }
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (bare_median, our_median) = (micros(median(&mut bare)), micros(median(&mut ours)));
    println!(
        "{:<20} {:>9} {bare_median:>12.0} {:>10.0} {our_median:>11.0} {:>9.0} {:>12.0}",
        wire.word(),
        request.len() / 1_000,
        micros(bare[CALLS * 9 / 10]),
        micros(ours[CALLS * 9 / 10]),
        our_median - bare_median,
    );
}

/// Reads requests and answers each at once, until the client goes.
fn serve(stream: TcpStream, reply: &[u8]) {
    stream.set_nodelay(true).expect("an option");
    let mut reader = BufReader::with_capacity(1 << 16, stream.try_clone().expect("a handle"));
    let mut stream = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = reader.by_ref().take(length);
        if std::io::copy(&mut body, &mut std::io::sink()).is_err() || stream.write_all(reply).is_err() {
            return;
        }
    }
}

fn median(all: &mut [Duration]) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}
