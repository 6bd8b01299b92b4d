//! OpenAI Responses: the request.

use provost_core::transcript::{Assistant, Image, Message};
use serde_json::{Map, Value, json};

use super::json::{arguments_object, put};
use super::responses_decode::KeptItem;
use super::writer::{Writer, data_url, limit, members};
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{"model":…,"stream":true,"store":false,…,"tools":[…],"instructions":…,"input":[…` and, as tail,
/// `],"max_output_tokens":N}`. The vendor stores nothing, so each request carries the whole dialogue.
pub(super) struct Encoder {
    out: Writer,
    max_output: u64,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Writer::default();
        out.raw("{\"model\":");
        out.value(&options.model);
        out.raw(",\"stream\":true,\"store\":false");
        if options.encrypted_reasoning {
            // Without it a model begins each step without what it had thought before its last calls.
            out.raw(",\"include\":[\"reasoning.encrypted_content\"]");
        }
        let mut own = Map::new();
        if let Some(schema) = &prelude.schema {
            let format = json!({ "type": "json_schema", "name": schema.name, "schema": schema.schema, "strict": true });
            own.insert("text".to_owned(), json!({ "format": format }));
        }
        if let Some(effort) = prelude.effort {
            own.insert("reasoning".to_owned(), json!({ "effort": effort.word() }));
        }
        for (key, value) in members(options, own) {
            out.member(&key, &value);
        }
        out.list(",\"tools\":[", &prelude.tools, "]", |out, tool| {
            out.raw("{\"type\":\"function\"");
            out.member("name", &tool.name);
            out.member("description", &tool.description);
            out.member("parameters", &tool.schema);
            // This wire takes a schema as strict where nothing is said, and then refuses optional members.
            out.raw(",\"strict\":false}");
        });
        if !prelude.system.is_empty() {
            out.member("instructions", &prelude.system);
        }
        out.raw(",\"input\":[");
        Self { out, max_output: prelude.max_output }
    }

    /// Begins an item of `kind`; its members follow.
    fn open(&mut self, kind: &str) {
        self.out.item();
        self.out.raw("{\"type\":");
        self.out.value(kind);
    }

    /// Text, or parts where there are images.
    fn content(&mut self, key: &str, text: &str, images: &[Image]) {
        if images.is_empty() {
            return self.out.member(key, text);
        }
        let text = (!text.is_empty()).then(|| json!({ "type": "input_text", "text": text }));
        let image = |image| json!({ "type": "input_image", "detail": "auto", "image_url": data_url(image) });
        let parts: Vec<Value> = text.into_iter().chain(images.iter().map(image)).collect();
        self.out.member(key, &parts);
    }

    fn said(&mut self, role: &str, text: &str, images: &[Image]) {
        self.open("message");
        self.out.member("role", role);
        self.content("content", text, images);
        self.out.raw("}");
    }

    fn assistant(&mut self, assistant: &Assistant) {
        let kept: Vec<KeptItem> = assistant.opaque.iter().filter_map(|o| KeptItem::read(o)).collect();
        let said = !assistant.text.is_empty();
        // A reasoning item is refused unless what it led to follows it.
        self.kept(&kept, 0, said || !assistant.calls.is_empty());
        if said {
            self.said("assistant", &assistant.text, &[]);
        }
        for (n, call) in assistant.calls.iter().enumerate() {
            self.kept(&kept, n, n > 0);
            self.open("function_call");
            self.out.member("call_id", &call.id);
            self.out.member("name", &call.name);
            self.out.member("arguments", &*arguments_object(&call.arguments));
            self.out.raw("}");
        }
    }

    /// Sends back the items that came before call number `at`.
    fn kept(&mut self, kept: &[KeptItem], at: usize, due: bool) {
        for item in kept.iter().filter(|item| due && item.before_call == at) {
            self.out.item();
            self.out.raw(item.item.get());
        }
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text, images } => self.said("user", text, images),
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Results { results } => {
                for result in results {
                    self.open("function_call_output");
                    self.out.member("call_id", &result.call_id);
                    self.content("output", &result.text, &result.images);
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
        if let Some(limit) = limit(max_output, self.max_output) {
            out.extend_from_slice(b",\"max_output_tokens\":");
            put(out, &limit);
        }
        out.push(b'}');
    }
}
