//! Ollama: the request.

use std::collections::HashMap;

use provost_core::transcript::{Assistant, Image, Message};
use serde_json::{Map, Value};

use super::json::{arguments_object, put};
use super::ollama_decode::thinking_of;
use super::writer::{Writer, limit, members};
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{"model":…,"stream":true,…,"tools":[…],"messages":[…` and, as tail, `],"options":{…}}`.
pub(super) struct Encoder {
    out: Writer,
    max_output: u64,
    /// What the caller wants in `options` besides the output limit.
    options: Map<String, Value>,
    /// Names of the calls of the last answer, by id: their results must repeat them.
    names: HashMap<String, String>,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Writer::default();
        out.raw("{\"model\":");
        out.value(&options.model);
        // Without these the server drops the oldest messages of a dialogue that is too long, and says nothing.
        out.raw(",\"stream\":true,\"truncate\":false,\"shift\":false");
        let mut own = Map::new();
        if let Some(schema) = &prelude.schema {
            own.insert("format".to_owned(), schema.schema.clone());
        }
        if let Some(effort) = prelude.effort {
            own.insert("think".to_owned(), effort.word().into());
        }
        let mut last = Map::new();
        for (key, value) in members(options, own) {
            match value {
                Value::Object(members) if key == "options" => last = members,
                value => out.member(&key, &value),
            }
        }
        out.function_tools(&prelude.tools);
        out.raw(",\"messages\":[");
        let mut encoder = Self { out, max_output: prelude.max_output, options: last, names: HashMap::new() };
        if !prelude.system.is_empty() {
            encoder.open("system", &prelude.system, &[]);
            encoder.out.raw("}");
        }
        encoder
    }

    /// Begins a message; further members may follow.
    fn open(&mut self, role: &str, content: &str, images: &[Image]) {
        self.out.item();
        self.out.raw("{\"role\":");
        self.out.value(role);
        self.out.member("content", content);
        // The bytes alone: this server looks at them for what they are.
        self.out.list(",\"images\":[", images, "]", |out, image| out.value(&image.data));
    }

    fn assistant(&mut self, assistant: &Assistant) {
        self.open("assistant", &assistant.text, &[]);
        if let Some(thinking) = assistant.opaque.iter().find_map(|opaque| thinking_of(opaque)) {
            // The model's template decides how much of it the model sees again.
            self.out.member("thinking", &thinking);
        }
        self.names.clear();
        let names = &mut self.names;
        self.out.list(",\"tool_calls\":[", &assistant.calls, "]", |out, call| {
            names.insert(call.id.clone(), call.name.clone());
            out.raw("{\"id\":");
            out.value(&call.id);
            out.raw(",\"function\":{\"name\":");
            out.value(&call.name);
            out.raw(",\"arguments\":");
            out.raw(&arguments_object(&call.arguments));
            out.raw("}}");
        });
        self.out.raw("}");
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text, images } => {
                self.open("user", text, images);
                self.out.raw("}");
            }
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Results { results } => {
                for result in results {
                    self.open("tool", &result.text, &result.images);
                    // Older servers know the name alone, newer ones the id too.
                    self.out.member("tool_call_id", &result.call_id);
                    self.out.member("tool_name", self.names.get(&result.call_id).map_or("", String::as_str));
                    self.out.raw("}");
                }
            }
        }
    }

    fn prefix(&self) -> &Prefix {
        self.out.prefix()
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        out.push(b']');
        let mut options = self.options.clone();
        if let Some(limit) = limit(max_output, self.max_output) {
            options.insert("num_predict".to_owned(), limit.into());
        }
        if !options.is_empty() {
            out.extend_from_slice(b",\"options\":");
            put(out, &options);
        }
        out.push(b'}');
    }
}
