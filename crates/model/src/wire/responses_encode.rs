//! OpenAI Responses: the request.

use provost_core::transcript::{Assistant, Message};

use super::json::{arguments_object, put};
use super::responses_decode::KeptItem;
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{"model":…,"stream":true,"store":false,…,"tools":[…],"instructions":…,"input":[…` and, as tail,
/// `],"max_output_tokens":N}`. The vendor stores nothing, so each request carries the whole dialogue.
pub(super) struct Encoder {
    prefix: Prefix,
    items: usize,
    max_output: u64,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Prefix::default();
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, &options.model);
        out.extend_from_slice(b",\"stream\":true,\"store\":false");
        if options.encrypted_reasoning {
            // Without it a model begins each step without what it had thought before its last calls.
            out.extend_from_slice(b",\"include\":[\"reasoning.encrypted_content\"]");
        }
        for (key, value) in &options.extra {
            out.push(b',');
            put(&mut out, key);
            out.push(b':');
            put(&mut out, value);
        }
        for (n, tool) in prelude.tools.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b",\"tools\":[" } else { b"," });
            out.extend_from_slice(b"{\"type\":\"function\",\"name\":");
            put(&mut out, &tool.name);
            out.extend_from_slice(b",\"description\":");
            put(&mut out, &tool.description);
            out.extend_from_slice(b",\"parameters\":");
            put(&mut out, &tool.schema);
            // This wire takes a schema as strict where nothing is said, and then refuses optional members.
            out.extend_from_slice(b",\"strict\":false}");
        }
        if !prelude.tools.is_empty() {
            out.push(b']');
        }
        if !prelude.system.is_empty() {
            out.extend_from_slice(b",\"instructions\":");
            put(&mut out, &prelude.system);
        }
        out.extend_from_slice(b",\"input\":[");
        Self { prefix: out, items: 0, max_output: prelude.max_output }
    }

    /// Begins an item of `kind`; its members follow.
    fn open(&mut self, kind: &str) {
        self.comma();
        self.prefix.extend_from_slice(b"{\"type\":");
        put(&mut self.prefix, kind);
    }

    fn comma(&mut self) {
        if self.items > 0 {
            self.prefix.push(b',');
        }
        self.items += 1;
    }

    fn string(&mut self, key: &str, value: &str) {
        self.prefix.push(b',');
        put(&mut self.prefix, key);
        self.prefix.push(b':');
        put(&mut self.prefix, value);
    }

    fn said(&mut self, role: &str, text: &str) {
        self.open("message");
        self.string("role", role);
        self.string("content", text);
        self.prefix.push(b'}');
    }

    fn assistant(&mut self, assistant: &Assistant) {
        let kept: Vec<KeptItem> = assistant.opaque.iter().filter_map(|o| KeptItem::read(o)).collect();
        let said = !assistant.text.is_empty();
        // A reasoning item is refused unless what it led to follows it.
        self.kept(&kept, 0, said || !assistant.calls.is_empty());
        if said {
            self.said("assistant", &assistant.text);
        }
        for (n, call) in assistant.calls.iter().enumerate() {
            self.kept(&kept, n, n > 0);
            self.open("function_call");
            self.string("call_id", &call.id);
            self.string("name", &call.name);
            self.string("arguments", &arguments_object(&call.arguments));
            self.prefix.push(b'}');
        }
    }

    /// Sends back the items that came before call number `at`.
    fn kept(&mut self, kept: &[KeptItem], at: usize, due: bool) {
        for item in kept.iter().filter(|item| due && item.before_call == at) {
            self.comma();
            self.prefix.extend_from_slice(item.item.get().as_bytes());
        }
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text } => self.said("user", text),
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Results { results } => {
                for result in results {
                    self.open("function_call_output");
                    self.string("call_id", &result.call_id);
                    self.string("output", &result.text);
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
            out.extend_from_slice(b",\"max_output_tokens\":");
            put(out, &limit);
        }
        out.push(b'}');
    }
}
