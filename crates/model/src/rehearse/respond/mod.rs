//! A step in the words of a wire, streaming and not.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use bytes::Bytes;
use provost_core::transcript::Usage;
use serde::Serialize;
use serde_json::json;

use super::script::{Step, StopSaid, UsageSaid, fill};
use crate::WireKind;

/// Largest piece of text or arguments in one delta, in characters.
const PIECE: usize = 24;
/// Deltas per text at most: a long text comes in larger pieces.
const PIECES: usize = 32;

/// A step made ready for one request.
pub(super) struct Turn<'a> {
    pub(super) model: &'a str,
    pub(super) step: u64,
    pub(super) say: String,
    pub(super) think: Option<String>,
    pub(super) calls: Vec<TurnCall>,
    stop: Option<StopSaid>,
    usage: Option<Usage>,
}

/// A call made ready.
pub(super) struct TurnCall {
    id: String,
    name: String,
    arguments: String,
}

impl<'a> Turn<'a> {
    /// `k` is the step's number, `i` its repetition; `cut` cuts the arguments in half.
    pub(super) fn new(model: &'a str, k: u64, i: u64, step: &Step, prompt_bytes: usize, cut: bool) -> Self {
        let calls = step
            .calls
            .iter()
            .enumerate()
            .map(|(n, call)| {
                let mut arguments = call.arguments(i);
                if cut {
                    let half = arguments.floor_char_boundary((arguments.len() / 2).max(2));
                    arguments.truncate(half);
                }
                TurnCall { id: format!("call_{k}_{n}"), name: call.name.clone(), arguments }
            })
            .collect();
        let usage = match step.usage {
            Some(UsageSaid(said)) => said,
            None => Some(Usage { input: prompt_bytes as u64 / 4, output: 10, ..Usage::default() }),
        };
        Self {
            model,
            step: k,
            say: fill(step.say.as_deref().unwrap_or_default(), i),
            think: step.think.as_deref().map(|text| fill(text, i)),
            calls,
            stop: step.stop,
            usage,
        }
    }

    /// The events of a streamed answer.
    pub(super) fn events(&self, wire: WireKind, include_usage: bool) -> Vec<Bytes> {
        match wire {
            WireKind::OpenAiChat => self.chat_events(include_usage),
            WireKind::OpenAiResponses => self.responses_events(),
            WireKind::AnthropicMessages => self.anthropic_events(),
            WireKind::Gemini => self.gemini_events(),
            WireKind::Ollama => self.ollama_events(),
        }
    }

    /// The body of an answer that is not streamed.
    pub(super) fn whole(&self, wire: WireKind) -> Bytes {
        match wire {
            WireKind::OpenAiChat => self.chat_whole(),
            WireKind::OpenAiResponses => self.responses_whole(),
            WireKind::AnthropicMessages => self.anthropic_whole(),
            WireKind::Gemini => self.gemini_whole(),
            WireKind::Ollama => self.ollama_whole(),
        }
    }
}

/// What goes wrong, in the words of a wire; without one in those that most clients find.
pub(super) fn error_object(wire: Option<WireKind>, kind: &str, message: &str) -> String {
    match wire {
        Some(WireKind::Gemini) => {
            let (code, status) = match kind {
                "overloaded_error" => (503, "UNAVAILABLE"),
                "rate_limit_error" => (429, "RESOURCE_EXHAUSTED"),
                "authentication_error" => (401, "UNAUTHENTICATED"),
                "invalid_request_error" => (400, "INVALID_ARGUMENT"),
                "api_error" => (500, "INTERNAL"),
                other => (500, other),
            };
            json!({ "error": { "code": code, "message": message, "status": status } })
        }
        // This server has no kinds: its words are all there is.
        Some(WireKind::Ollama) => json!({ "error": message }),
        _ => json!({ "type": "error", "error": { "type": kind, "message": message } }),
    }
    .to_string()
}

/// Arguments where a wire has an object. What is none is sent as a string, as some servers do.
fn argument_object(arguments: &str) -> String {
    let object = arguments.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok();
    if object { arguments.to_owned() } else { quoted(arguments) }
}

fn quoted(text: impl AsRef<str> + Serialize) -> String {
    serde_json::to_string(&text).unwrap_or_default()
}

/// `text` in pieces, cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let size = PIECE.max(text.len().div_ceil(PIECES));
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut at = size.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, after) = rest.split_at(at);
        rest = after;
        Some(piece)
    })
}
