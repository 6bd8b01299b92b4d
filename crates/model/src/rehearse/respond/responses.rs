//! A step as OpenAI Responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Turn, pieces, quoted};
use crate::rehearse::script::StopSaid;

/// The sealed reasoning of a step that thinks: base64 that says nothing.
const SEALED: &str = "c2VhbGVk";

impl Turn<'_> {
    fn responses_usage(&self) -> Option<Value> {
        let usage = self.usage?;
        let input = usage.input + usage.cache_read + usage.cache_write;
        let mut details = json!({ "cached_tokens": usage.cache_read });
        if usage.cache_write > 0 {
            details["cache_write_tokens"] = usage.cache_write.into();
        }
        Some(json!({
            "input_tokens": input,
            "input_tokens_details": details,
            "output_tokens": usage.output,
            "output_tokens_details": { "reasoning_tokens": usage.reasoning },
            "total_tokens": input + usage.output,
        }))
    }

    /// The items of the answer, whole.
    fn responses_items(&self) -> Vec<Value> {
        let mut items = Vec::new();
        let step = self.step;
        if let Some(think) = &self.think {
            items.push(json!({
                "type": "reasoning", "id": format!("rs_{step}"), "encrypted_content": SEALED,
                "summary": [{ "type": "summary_text", "text": think }],
            }));
        }
        if !self.say.is_empty() {
            items.push(json!({
                "type": "message", "id": format!("msg_{step}"), "status": "completed", "role": "assistant",
                "content": [{ "type": "output_text", "text": self.say, "annotations": [] }],
            }));
        }
        for (n, call) in self.calls.iter().enumerate() {
            items.push(json!({
                "type": "function_call", "id": format!("fc_{step}_{n}"), "status": "completed",
                "call_id": call.id, "name": call.name, "arguments": call.arguments,
            }));
        }
        items
    }

    /// The response at its end.
    fn responses_object(&self) -> Value {
        let (status, why) = match self.stop {
            Some(StopSaid::Length) => ("incomplete", json!({ "reason": "max_output_tokens" })),
            Some(StopSaid::Refused) => ("incomplete", json!({ "reason": "content_filter" })),
            None => ("completed", Value::Null),
        };
        json!({
            "id": format!("resp_{}", self.step), "object": "response", "created_at": 0, "status": status,
            "error": null, "incomplete_details": why, "model": self.model,
            "output": self.responses_items(), "usage": self.responses_usage(), "store": false,
        })
    }

    pub(super) fn responses_events(&self) -> Vec<Bytes> {
        let mut out: Vec<Bytes> = Vec::new();
        let mut event = |kind: &str, members: &str| {
            let number = out.len();
            out.push(Bytes::from(format!(
                "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number}{members}}}\n\n"
            )));
        };
        let begun = json!({
            "id": format!("resp_{}", self.step), "object": "response", "created_at": 0,
            "status": "in_progress", "error": null, "incomplete_details": null, "model": self.model,
            "output": [], "usage": null, "store": false,
        });
        event("response.created", &format!(",\"response\":{begun}"));
        for (index, item) in self.responses_items().into_iter().enumerate() {
            let mut start = item.clone();
            let (delta, place, text) = match item["type"].as_str() {
                Some("reasoning") => {
                    start["summary"] = json!([]);
                    start["encrypted_content"] = json!("");
                    let text = item["summary"][0]["text"].clone();
                    ("response.reasoning_summary_text.delta", ",\"summary_index\":0", text)
                }
                Some("message") => {
                    start["content"] = json!([]);
                    start["status"] = json!("in_progress");
                    let text = item["content"][0]["text"].clone();
                    ("response.output_text.delta", ",\"content_index\":0", text)
                }
                _ => {
                    start["arguments"] = json!("");
                    start["status"] = json!("in_progress");
                    ("response.function_call_arguments.delta", "", item["arguments"].clone())
                }
            };
            event("response.output_item.added", &format!(",\"output_index\":{index},\"item\":{start}"));
            for piece in pieces(text.as_str().unwrap_or_default()) {
                let members = format!(
                    ",\"item_id\":{},\"output_index\":{index}{place},\"delta\":{}",
                    item["id"],
                    quoted(piece)
                );
                event(delta, &members);
            }
            event("response.output_item.done", &format!(",\"output_index\":{index},\"item\":{item}"));
        }
        let end = self.responses_object();
        let kind = if self.stop.is_some() { "response.incomplete" } else { "response.completed" };
        event(kind, &format!(",\"response\":{end}"));
        out
    }

    pub(super) fn responses_whole(&self) -> Bytes {
        self.responses_object().to_string().into()
    }
}
