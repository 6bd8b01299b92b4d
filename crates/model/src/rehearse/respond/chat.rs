//! A step as chat completions.

use bytes::Bytes;
use serde_json::json;

use super::{Turn, TurnCall, pieces, quoted};
use crate::rehearse::script::StopSaid;

impl Turn<'_> {
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

    pub(super) fn chat_events(&self, include_usage: bool) -> Vec<Bytes> {
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

    pub(super) fn chat_whole(&self) -> Bytes {
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
}
