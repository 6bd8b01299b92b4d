//! Ollama: the request.

use std::collections::HashMap;

use provost_core::transcript::{Assistant, Message};
use serde_json::{Map, Value};

use super::json::{arguments_object, put};
use super::ollama_decode::thinking_of;
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{"model":…,"stream":true,…,"tools":[…],"messages":[…` and, as tail, `],"options":{…}}`.
pub(super) struct Encoder {
    prefix: Prefix,
    messages: usize,
    max_output: u64,
    /// What the caller wants in `options` besides the output limit.
    options: Map<String, Value>,
    /// Names of the calls of the last answer, by id: their results must repeat them.
    names: HashMap<String, String>,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Prefix::default();
        let mut own = Map::new();
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, &options.model);
        // Without these the server drops the oldest messages of a dialogue that is too long, and says nothing.
        out.extend_from_slice(b",\"stream\":true,\"truncate\":false,\"shift\":false");
        for (key, value) in &options.extra {
            match value {
                Value::Object(members) if key == "options" => own = members.clone(),
                _ => {
                    out.push(b',');
                    put(&mut out, key);
                    out.push(b':');
                    put(&mut out, value);
                }
            }
        }
        for (n, tool) in prelude.tools.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b",\"tools\":[" } else { b"," });
            out.extend_from_slice(b"{\"type\":\"function\",\"function\":{\"name\":");
            put(&mut out, &tool.name);
            out.extend_from_slice(b",\"description\":");
            put(&mut out, &tool.description);
            out.extend_from_slice(b",\"parameters\":");
            put(&mut out, &tool.schema);
            out.extend_from_slice(b"}}");
        }
        if !prelude.tools.is_empty() {
            out.push(b']');
        }
        out.extend_from_slice(b",\"messages\":[");
        let mut encoder = Self {
            prefix: out,
            messages: 0,
            max_output: prelude.max_output,
            options: own,
            names: HashMap::new(),
        };
        if !prelude.system.is_empty() {
            encoder.said("system", &prelude.system);
        }
        encoder
    }

    fn open(&mut self, role: &str, content: &str) {
        if self.messages > 0 {
            self.prefix.push(b',');
        }
        self.messages += 1;
        self.prefix.extend_from_slice(b"{\"role\":");
        put(&mut self.prefix, role);
        self.string("content", content);
    }

    fn said(&mut self, role: &str, content: &str) {
        self.open(role, content);
        self.prefix.push(b'}');
    }

    fn string(&mut self, key: &str, value: &str) {
        self.prefix.push(b',');
        put(&mut self.prefix, key);
        self.prefix.push(b':');
        put(&mut self.prefix, value);
    }

    fn assistant(&mut self, assistant: &Assistant) {
        self.open("assistant", &assistant.text);
        if let Some(thinking) = assistant.opaque.iter().find_map(|opaque| thinking_of(opaque)) {
            // The model's template decides how much of it the model sees again.
            self.string("thinking", &thinking);
        }
        self.names.clear();
        for (n, call) in assistant.calls.iter().enumerate() {
            self.names.insert(call.id.clone(), call.name.clone());
            self.prefix.extend_from_slice(if n == 0 { b",\"tool_calls\":[" } else { b"," });
            self.prefix.extend_from_slice(b"{\"id\":");
            put(&mut self.prefix, &call.id);
            self.prefix.extend_from_slice(b",\"function\":{\"name\":");
            put(&mut self.prefix, &call.name);
            self.prefix.extend_from_slice(b",\"arguments\":");
            self.prefix.extend_from_slice(arguments_object(&call.arguments).as_bytes());
            self.prefix.extend_from_slice(b"}}");
        }
        if !assistant.calls.is_empty() {
            self.prefix.push(b']');
        }
        self.prefix.push(b'}');
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text } => self.said("user", text),
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Results { results } => {
                for result in results {
                    self.open("tool", &result.text);
                    // Older servers know the name alone, newer ones the id too.
                    self.string("tool_call_id", &result.call_id);
                    let name = self.names.get(&result.call_id).cloned().unwrap_or_default();
                    self.string("tool_name", &name);
                    self.prefix.push(b'}');
                }
            }
        }
    }

    fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        out.push(b']');
        let limit = if max_output == 0 { self.max_output } else { max_output };
        let mut options = self.options.clone();
        if limit > 0 {
            options.insert("num_predict".to_owned(), limit.into());
        }
        if !options.is_empty() {
            out.extend_from_slice(b",\"options\":");
            put(out, &options);
        }
        out.push(b'}');
    }
}
