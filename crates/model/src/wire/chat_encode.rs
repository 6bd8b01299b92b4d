//! Chat completions: the request.

use provost_core::transcript::Message;

use super::json::{arguments_object, put};
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{"model":…,"stream":true,…,"tools":[…],"messages":[…` and, as tail, `],"max_tokens":N}`: the members that
/// change stand last, so that the prefix never does.
pub(super) struct Encoder {
    prefix: Prefix,
    messages: usize,
    max_output: u64,
    limit_name: &'static str,
    echo_reasoning: bool,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Prefix::default();
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, &options.model);
        out.extend_from_slice(b",\"stream\":true");
        if !options.no_stream_options {
            out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
        }
        for (key, value) in &options.extra {
            out.push(b',');
            put(&mut out, key);
            out.push(b':');
            put(&mut out, value);
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
            limit_name: if options.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" },
            echo_reasoning: options.echo_reasoning,
        };
        if !prelude.system.is_empty() {
            encoder.open("system");
            encoder.string("content", &prelude.system);
            encoder.prefix.push(b'}');
        }
        encoder
    }

    fn open(&mut self, role: &str) {
        if self.messages > 0 {
            self.prefix.push(b',');
        }
        self.messages += 1;
        self.prefix.extend_from_slice(b"{\"role\":");
        put(&mut self.prefix, role);
    }

    fn string(&mut self, key: &str, value: &str) {
        self.prefix.push(b',');
        put(&mut self.prefix, key);
        self.prefix.push(b':');
        put(&mut self.prefix, value);
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text } => {
                self.open("user");
                self.string("content", text);
                self.prefix.push(b'}');
            }
            Message::Assistant(assistant) => {
                self.open("assistant");
                if assistant.text.is_empty() && !assistant.calls.is_empty() {
                    self.prefix.extend_from_slice(b",\"content\":null");
                } else {
                    self.string("content", &assistant.text);
                }
                let mut reasoning =
                    assistant.opaque.iter().filter_map(|o| super::chat_decode::reasoning_of(o));
                if let Some(text) = reasoning.next().filter(|_| self.echo_reasoning) {
                    self.string("reasoning_content", &text);
                }
                for (n, call) in assistant.calls.iter().enumerate() {
                    self.prefix.extend_from_slice(if n == 0 { b",\"tool_calls\":[" } else { b"," });
                    self.prefix.extend_from_slice(b"{\"type\":\"function\"");
                    self.string("id", &call.id);
                    self.prefix.extend_from_slice(b",\"function\":{\"name\":");
                    put(&mut self.prefix, &call.name);
                    self.string("arguments", &arguments_object(&call.arguments));
                    self.prefix.extend_from_slice(b"}}");
                }
                if !assistant.calls.is_empty() {
                    self.prefix.push(b']');
                }
                self.prefix.push(b'}');
            }
            Message::Results { results } => {
                for result in results {
                    self.open("tool");
                    self.string("tool_call_id", &result.call_id);
                    self.string("content", &result.text);
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
        if limit > 0 {
            out.push(b',');
            put(out, self.limit_name);
            out.push(b':');
            put(out, &limit);
        }
        out.push(b'}');
    }
}
