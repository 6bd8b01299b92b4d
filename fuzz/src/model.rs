//! What servers of models send, and scripts.

use provost_core::transcript::Message;
use provost_model::agent_runtime::events_log::{Log, What};
use provost_model::agent_runtime::shapes::{self, Row};
use provost_model::rehearse::Script;
use provost_model::sse::{SseEvent, SseParser};
use provost_model::wire::{Decoded, EncodeOptions, Progress};
use provost_model::{Discard, Prelude, WireKind};

/// The events of a stream that arrives in these pieces.
fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
    let mut parser = SseParser::default();
    let mut out = Vec::new();
    for piece in pieces {
        parser.feed(piece, &mut out).expect("far below the limit");
    }
    out
}

/// Server-sent events: any split gives the same events, and a small limit is kept.
pub fn sse(data: &[u8]) {
    let whole = events([data]);
    assert_eq!(events(data.chunks(1)), whole);
    let piece = data.first().map_or(3, |byte| usize::from(byte % 16) + 2);
    assert_eq!(events(data.chunks(piece)), whole);
    let (mut parser, mut out) = (SseParser::with_limit(16), Vec::new());
    let _ = parser.feed(data, &mut out);
    assert!(
        out.iter().all(|event| event.event.len() <= 48 && event.data.len() <= 48),
        "U+FFFD has three bytes"
    );
}

fn decode(kind: WireKind, events: Vec<SseEvent>) -> Option<Decoded> {
    let mut decoder = kind.decoder(7);
    for event in events {
        if decoder.feed(event, &mut Discard).ok()? == Progress::Done {
            break;
        }
    }
    decoder.finish().ok()
}

/// The events of a wire's stream that arrives in these pieces.
fn framed<'a>(kind: WireKind, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
    let mut framing = kind.framing();
    let mut out = Vec::new();
    for piece in pieces {
        framing.feed(piece, &mut out).expect("far below the limit");
    }
    framing.finish(&mut out);
    out
}

/// An answer on a wire. Where the wire has server-sent events, a line that is not a field of an event stands for the data of
/// one, so that inputs may be plain JSON lines. Whatever is decoded can be sent back: the next request is JSON.
fn answer(kind: WireKind, data: &[u8]) {
    let mut stream = Vec::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let bare = kind != WireKind::Ollama && line.starts_with(b"{");
        if bare {
            stream.extend_from_slice(b"data: ");
        }
        stream.extend_from_slice(line);
        if bare {
            stream.extend_from_slice(b"\n\n");
        }
    }
    let whole = decode(kind, framed(kind, [&stream[..]]));
    assert_eq!(decode(kind, framed(kind, stream.chunks(5))), whole);
    let Some(decoded) = whole else { return };
    let mut ids: Vec<&str> = decoded.assistant.calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|two| two[0] != two[1]), "ids are unique: {ids:?}");
    assert!(decoded.assistant.calls.iter().all(|call| !call.name.is_empty()));
    let mut encoder = kind.encoder(&EncodeOptions::default(), &Prelude::default());
    encoder.push(&Message::user("go"));
    encoder.push(&Message::Assistant(decoded.assistant));
    let mut body = encoder.prefix().to_vec();
    encoder.tail(100, &mut body);
    let sent = serde_json::from_slice::<serde_json::Value>(&body);
    assert!(sent.is_ok(), "{sent:?}: {}", String::from_utf8_lossy(&body));
}

/// An answer on the chat-completions wire.
pub fn chat(data: &[u8]) {
    answer(WireKind::OpenAiChat, data);
}

/// An answer on the Responses wire.
pub fn responses(data: &[u8]) {
    answer(WireKind::OpenAiResponses, data);
}

/// An answer on Gemini's wire.
pub fn gemini(data: &[u8]) {
    answer(WireKind::Gemini, data);
}

/// An answer on Ollama's wire, in lines.
pub fn ollama(data: &[u8]) {
    answer(WireKind::Ollama, data);
}

/// An answer on the Messages wire.
pub fn anthropic(data: &[u8]) {
    answer(WireKind::AnthropicMessages, data);
}

/// An event log of rust-agent-runtime: every line is counted or taken, what is torn changes nothing before it, and the
/// table of it has a line for each task and no others.
pub fn events_log(data: &[u8]) {
    let log = Log::read(data);
    assert_eq!(log.lines, data.split_inclusive(|byte| *byte == b'\n').count() as u64);
    assert!(log.problems.iter().all(|problem| (1..=log.lines).contains(&problem.line)));
    assert!(log.problems.len() as u64 <= log.problem_count);
    assert!(log.tasks.keys().all(|id| !id.contains(['\t', '\n'])));
    let whole = data.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if log.problems.iter().any(|problem| problem.what == What::Torn) {
        assert_eq!(Log::read(&data[..whole]).tasks, log.tasks, "what is torn is not believed");
    }
    let table = shapes::status(log.tasks.iter().map(|(id, task)| Row::of(id, task)));
    assert_eq!(table.matches('\n').count(), log.tasks.len() + 1, "{table}");
}

/// A rehearsal script: white space around it changes nothing, and an error says where it is.
pub fn script(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Script::parse(text) {
        Ok(script) => {
            let again = Script::parse(&format!("\n{text}\n")).expect("it parsed without the line feeds");
            assert_eq!((again.len(), again.model()), (script.len(), script.model()));
        }
        Err(error) => assert!(error.to_string().starts_with("script:"), "{error}"),
    }
}
