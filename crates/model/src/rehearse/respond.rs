//! A step in the words of a wire, streaming and not.

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
            WireKind::AnthropicMessages => self.anthropic_events(),
        }
    }

    /// The body of an answer that is not streamed.
    pub(super) fn whole(&self, wire: WireKind) -> Bytes {
        match wire {
            WireKind::OpenAiChat => self.chat_whole(),
            WireKind::AnthropicMessages => self.anthropic_whole(),
        }
    }

    fn chat_stop(&self) -> &'static str {
        match self.stop {
            Some(StopSaid::Length) => "length",
            Some(StopSaid::Refused) => "content_filter",
            None if self.calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    fn chat_usage(&self) -> Option<serde_json::Value> {
        let usage = self.usage?;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let mut details = json!({ "cached_tokens": usage.cache_read });
        if usage.cache_write > 0 {
            details["cache_write_tokens"] = usage.cache_write.into();
        }
        Some(json!({
            "prompt_tokens": prompt,
            "completion_tokens": usage.output,
            "total_tokens": prompt + usage.output,
            "prompt_tokens_details": details,
            "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
        }))
    }

    fn chat_events(&self, include_usage: bool) -> Vec<Bytes> {
        let head = format!(
            "data: {{\"id\":\"chatcmpl-{}\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":{}",
            self.step,
            quoted(self.model)
        );
        let chunk = |delta: &str, reason: Option<&str>| {
            let reason = reason.map_or("null".to_owned(), quoted);
            Bytes::from(format!(
                "{head},\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
            ))
        };
        let mut out = vec![chunk("{\"role\":\"assistant\",\"content\":\"\"}", None)];
        for piece in self.think.as_deref().map(pieces).into_iter().flatten() {
            out.push(chunk(&format!("{{\"reasoning_content\":{}}}", quoted(piece)), None));
        }
        for piece in pieces(&self.say) {
            out.push(chunk(&format!("{{\"content\":{}}}", quoted(piece)), None));
        }
        for (n, call) in self.calls.iter().enumerate() {
            out.push(chunk(
                &format!(
                    "{{\"tool_calls\":[{{\"index\":{n},\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":\"\"}}}}]}}",
                    quoted(&call.id),
                    quoted(&call.name)
                ),
                None,
            ));
            for piece in pieces(&call.arguments) {
                out.push(chunk(
                    &format!(
                        "{{\"tool_calls\":[{{\"index\":{n},\"function\":{{\"arguments\":{}}}}}]}}",
                        quoted(piece)
                    ),
                    None,
                ));
            }
        }
        out.push(chunk("{}", Some(self.chat_stop())));
        if let Some(usage) = self.chat_usage().filter(|_| include_usage) {
            out.push(Bytes::from(format!("{head},\"choices\":[],\"usage\":{usage}}}\n\n")));
        }
        out.push(Bytes::from_static(b"data: [DONE]\n\n"));
        out
    }

    fn chat_whole(&self) -> Bytes {
        let mut message = json!({ "role": "assistant", "content": self.say });
        if let Some(think) = &self.think {
            message["reasoning_content"] = think.as_str().into();
        }
        if !self.calls.is_empty() {
            let call = |call: &TurnCall| {
                json!({
                    "id": call.id, "type": "function",
                    "function": { "name": call.name, "arguments": call.arguments },
                })
            };
            message["tool_calls"] = self.calls.iter().map(call).collect();
        }
        json!({
            "id": format!("chatcmpl-{}", self.step),
            "object": "chat.completion",
            "created": 0,
            "model": self.model,
            "choices": [{ "index": 0, "message": message, "finish_reason": self.chat_stop() }],
            "usage": self.chat_usage(),
        })
        .to_string()
        .into()
    }

    fn anthropic_stop(&self) -> &'static str {
        match self.stop {
            Some(StopSaid::Length) => "max_tokens",
            Some(StopSaid::Refused) => "refusal",
            None if self.calls.is_empty() => "end_turn",
            None => "tool_use",
        }
    }

    /// Usage at the start and at the end.
    fn anthropic_usage(&self) -> (serde_json::Value, serde_json::Value) {
        let Some(usage) = self.usage else { return (json!({}), json!({})) };
        let start = json!({
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": 1,
        });
        (start, json!({ "output_tokens": usage.output }))
    }

    fn anthropic_events(&self) -> Vec<Bytes> {
        let event = |kind: &str, rest: &str| {
            Bytes::from(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n"))
        };
        let (start, end) = self.anthropic_usage();
        let mut out = vec![
            event(
                "message_start",
                &format!(
                    ",\"message\":{{\"id\":\"msg_{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{start}}}",
                    self.step,
                    quoted(self.model)
                ),
            ),
            event("ping", ""),
        ];
        let mut index = 0;
        let mut block = |begin: String, deltas: Vec<String>| {
            out.push(event("content_block_start", &format!(",\"index\":{index},\"content_block\":{begin}")));
            for delta in deltas {
                out.push(event("content_block_delta", &format!(",\"index\":{index},\"delta\":{delta}")));
            }
            out.push(event("content_block_stop", &format!(",\"index\":{index}")));
            index += 1;
        };
        let delta = |kind: &str, key: &str, piece: &str| {
            format!("{{\"type\":\"{kind}\",\"{key}\":{}}}", quoted(piece))
        };
        if let Some(think) = &self.think {
            let mut deltas: Vec<String> =
                pieces(think).map(|piece| delta("thinking_delta", "thinking", piece)).collect();
            deltas.push(delta("signature_delta", "signature", "c2lnbmVk"));
            block("{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}".to_owned(), deltas);
        }
        if !self.say.is_empty() {
            let deltas = pieces(&self.say).map(|piece| delta("text_delta", "text", piece)).collect();
            block("{\"type\":\"text\",\"text\":\"\"}".to_owned(), deltas);
        }
        for call in &self.calls {
            let deltas =
                pieces(&call.arguments).map(|p| delta("input_json_delta", "partial_json", p)).collect();
            let begin = format!(
                "{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{{}}}}",
                quoted(&call.id),
                quoted(&call.name)
            );
            block(begin, deltas);
        }
        out.push(event(
            "message_delta",
            &format!(
                ",\"delta\":{{\"stop_reason\":\"{}\",\"stop_sequence\":null}},\"usage\":{end}",
                self.anthropic_stop()
            ),
        ));
        out.push(event("message_stop", ""));
        out
    }

    fn anthropic_whole(&self) -> Bytes {
        let mut content = Vec::new();
        if let Some(think) = &self.think {
            content
                .push(json!({ "type": "thinking", "thinking": think, "signature": "c2lnbmVk" }).to_string());
        }
        if !self.say.is_empty() {
            content.push(json!({ "type": "text", "text": self.say }).to_string());
        }
        for call in &self.calls {
            // This form has no room for arguments that are no JSON.
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
            content.push(format!(
                "{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{}}}",
                quoted(&call.id),
                quoted(&call.name),
                if valid { &call.arguments } else { "{}" }
            ));
        }
        let (mut usage, end) = self.anthropic_usage();
        if let (Some(all), Some(output)) = (usage.as_object_mut(), end.get("output_tokens")) {
            all.insert("output_tokens".to_owned(), output.clone());
        }
        format!(
            "{{\"id\":\"msg_{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":[{}],\"stop_reason\":\"{}\",\"stop_sequence\":null,\"usage\":{usage}}}",
            self.step,
            quoted(self.model),
            content.join(","),
            self.anthropic_stop()
        )
        .into()
    }
}

/// The error object of both wires' kind: each finds its members.
pub(super) fn error_object(kind: &str, message: &str) -> String {
    json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string()
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
