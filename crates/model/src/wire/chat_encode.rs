//! Chat completions: the request.

use provost_core::transcript::{CallResult, Image, Message};
use serde_json::{Map, Value, json};

use super::json::{arguments_object, put};
use super::writer::{Writer, data_url, limit, members};
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{"model":…,"stream":true,…,"tools":[…],"messages":[…` and, as tail, `],"max_tokens":N}`: the members that
/// change stand last, so that the prefix never does.
pub(super) struct Encoder {
    out: Writer,
    max_output: u64,
    limit_name: &'static str,
    echo_reasoning: bool,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Writer::default();
        out.raw("{\"model\":");
        out.value(&options.model);
        out.raw(",\"stream\":true");
        if !options.no_stream_options {
            out.raw(",\"stream_options\":{\"include_usage\":true}");
        }
        let mut own = Map::new();
        if let Some(schema) = &prelude.schema {
            let asked = json!({ "name": schema.name, "schema": schema.schema, "strict": true });
            own.insert("response_format".to_owned(), json!({ "type": "json_schema", "json_schema": asked }));
        }
        if let Some(effort) = prelude.effort {
            own.insert("reasoning_effort".to_owned(), effort.word().into());
        }
        for (key, value) in members(options, own) {
            out.member(&key, &value);
        }
        out.function_tools(&prelude.tools);
        out.raw(",\"messages\":[");
        let mut encoder = Self {
            out,
            max_output: prelude.max_output,
            limit_name: if options.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" },
            echo_reasoning: options.echo_reasoning,
        };
        if !prelude.system.is_empty() {
            encoder.said("system", &prelude.system);
        }
        encoder
    }

    fn open(&mut self, role: &str) {
        self.out.item();
        self.out.raw("{\"role\":");
        self.out.value(role);
    }

    fn said(&mut self, role: &str, text: &str) {
        self.open(role);
        self.out.member("content", text);
        self.out.raw("}");
    }

    /// A user's message of parts: each a text with images behind it.
    fn shown<'a>(&mut self, texts: impl IntoIterator<Item = (&'a str, &'a [Image])>) {
        let mut parts = Vec::new();
        for (text, images) in texts {
            if !text.is_empty() {
                parts.push(json!({ "type": "text", "text": text }));
            }
            let image = |image| json!({ "type": "image_url", "image_url": { "url": data_url(image) } });
            parts.extend(images.iter().map(image));
        }
        self.open("user");
        self.out.member("content", &Value::Array(parts));
        self.out.raw("}");
    }

    fn results(&mut self, results: &[CallResult]) {
        for result in results {
            self.open("tool");
            self.out.member("tool_call_id", &result.call_id);
            self.out.member("content", &result.text);
            self.out.raw("}");
        }
        // A result is text on this wire, so its images follow in a user's message.
        let seen: Vec<(String, &[Image])> = results
            .iter()
            .filter(|result| !result.images.is_empty())
            .map(|result| (format!("Images of the result of call `{}`:", result.call_id), &*result.images))
            .collect();
        if !seen.is_empty() {
            self.shown(seen.iter().map(|(text, images)| (text.as_str(), *images)));
        }
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text, images } if images.is_empty() => self.said("user", text),
            Message::User { text, images } => self.shown([(text.as_str(), images.as_slice())]),
            Message::Assistant(assistant) => {
                self.open("assistant");
                if assistant.text.is_empty() && !assistant.calls.is_empty() {
                    self.out.raw(",\"content\":null");
                } else {
                    self.out.member("content", &assistant.text);
                }
                let mut reasoning =
                    assistant.opaque.iter().filter_map(|o| super::chat_decode::reasoning_of(o));
                if let Some(text) = reasoning.next().filter(|_| self.echo_reasoning) {
                    self.out.member("reasoning_content", &text);
                }
                self.out.list(",\"tool_calls\":[", &assistant.calls, "]", |out, call| {
                    out.raw("{\"type\":\"function\"");
                    out.member("id", &call.id);
                    out.raw(",\"function\":{\"name\":");
                    out.value(&call.name);
                    out.member("arguments", &*arguments_object(&call.arguments));
                    out.raw("}}");
                });
                self.out.raw("}");
            }
            Message::Results { results } => self.results(results),
        }
    }

    fn prefix(&self) -> &Prefix {
        self.out.prefix()
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        out.push(b']');
        if let Some(limit) = limit(max_output, self.max_output) {
            out.push(b',');
            put(out, self.limit_name);
            out.push(b':');
            put(out, &limit);
        }
        out.push(b'}');
    }
}
