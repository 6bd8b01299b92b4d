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
        Some(json!({
            "input_tokens": input,
            "input_tokens_details": { "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write },
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
            // What was asked for, as far as clients demand it.
            "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "instructions": null, "metadata": {},
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
        let mut begun = self.responses_object();
        begun["status"] = json!("in_progress");
        begun["incomplete_details"] = Value::Null;
        begun["output"] = json!([]);
        begun["usage"] = Value::Null;
        event("response.created", &format!(",\"response\":{begun}"));
        event("response.in_progress", &format!(",\"response\":{begun}"));
        for (index, item) in self.responses_items().into_iter().enumerate() {
            let streamed = Streamed::of(&item);
            event(
                "response.output_item.added",
                &format!(",\"output_index\":{index},\"item\":{}", streamed.start),
            );
            let place = format!(",\"item_id\":{},\"output_index\":{index}{}", item["id"], streamed.place);
            if let Some((kind, mut part)) = streamed.part.clone() {
                part["text"] = json!("");
                event(&format!("response.{kind}.added"), &format!("{place},\"part\":{part}"));
            }
            let (name, kind, more) = (streamed.name, streamed.kind, streamed.more);
            for piece in pieces(&streamed.text) {
                event(
                    &format!("response.{kind}.delta"),
                    &format!("{place}{more},\"delta\":{}", quoted(piece)),
                );
            }
            let text = quoted(&streamed.text);
            event(&format!("response.{kind}.done"), &format!("{place}{more},\"{name}\":{text}"));
            if let Some((kind, part)) = streamed.part {
                event(&format!("response.{kind}.done"), &format!("{place},\"part\":{part}"));
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

/// How an item is streamed.
struct Streamed {
    /// The item as it begins.
    start: Value,
    /// What is streamed of it: the events' kind, and their member with all of it.
    kind: &'static str,
    name: &'static str,
    text: String,
    /// The part that it is in, where the item has parts: the events' kind, and the whole part.
    part: Option<(&'static str, Value)>,
    /// Members that say which part it is.
    place: &'static str,
    /// Further members of the text's events.
    more: String,
}

impl Streamed {
    fn of(item: &Value) -> Self {
        let mut start = item.clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("reasoning") => {
                start["summary"] = json!([]);
                start["encrypted_content"] = json!("");
                let part = item["summary"][0].clone();
                Self {
                    start,
                    kind: "reasoning_summary_text",
                    name: "text",
                    text: text(&part["text"]),
                    part: Some(("reasoning_summary_part", part)),
                    place: ",\"summary_index\":0",
                    more: String::new(),
                }
            }
            Some("message") => {
                start["content"] = json!([]);
                start["status"] = json!("in_progress");
                let part = item["content"][0].clone();
                Self {
                    start,
                    kind: "output_text",
                    name: "text",
                    text: text(&part["text"]),
                    part: Some(("content_part", part)),
                    place: ",\"content_index\":0",
                    more: ",\"logprobs\":[]".to_owned(),
                }
            }
            _ => {
                start["arguments"] = json!("");
                start["status"] = json!("in_progress");
                Self {
                    start,
                    kind: "function_call_arguments",
                    name: "arguments",
                    text: text(&item["arguments"]),
                    part: None,
                    place: "",
                    more: format!(",\"name\":{}", item["name"]),
                }
            }
        }
    }
}
