//! Gemini: the request.

use std::collections::HashMap;

use provost_core::transcript::{Assistant, CallResult, Image, Message};
use serde_json::{Map, Value, json};

use super::effort::{gemini_takes_words, tokens};
use super::gemini_decode::{KeptSignature, Signed};
use super::json::{arguments_object, put};
use super::writer::{Writer, limit, members};
use super::{Encode, EncodeOptions, Prefix};
use crate::{Effort, Prelude};

/// `{…,"tools":[…],"systemInstruction":…,"contents":[…` and, as tail, `],"generationConfig":{…}}`. The model stands in
/// the URL.
pub(super) struct Encoder {
    out: Writer,
    max_output: u64,
    /// What `generationConfig` holds besides the output limit.
    generation: Map<String, Value>,
    /// Effort that is asked for in tokens: how many depends on the output limit.
    effort: Option<Effort>,
    /// Names of the calls of the last answer, by id: their results must repeat them.
    names: HashMap<String, String>,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Writer::default();
        let mut own = Map::new();
        if let Some(schema) = &prelude.schema {
            own.insert("responseMimeType".to_owned(), "application/json".into());
            // `responseSchema` takes a dialect of its own; this takes JSON Schema.
            own.insert("responseJsonSchema".to_owned(), schema.schema.clone());
        }
        let words = prelude.effort.filter(|_| gemini_takes_words(&options.model));
        if let Some(effort) = words {
            let level = effort.word().to_uppercase();
            own.insert("thinkingConfig".to_owned(), json!({ "thinkingLevel": level }));
        }
        let own = Map::from_iter([("generationConfig".to_owned(), Value::Object(own))]);
        let mut generation = Map::new();
        out.raw("{");
        for (key, value) in members(options, own) {
            match value {
                Value::Object(members) if key == "generationConfig" => generation = members,
                value => {
                    out.value(&key);
                    out.raw(":");
                    out.value(&value);
                    out.raw(",");
                }
            }
        }
        out.list("\"tools\":[{\"functionDeclarations\":[", &prelude.tools, "]}],", |out, tool| {
            out.raw("{\"name\":");
            out.value(&tool.name);
            out.member("description", &tool.description);
            // `parameters` takes a dialect of its own; this takes JSON Schema.
            out.member("parametersJsonSchema", &tool.schema);
            out.raw("}");
        });
        if !prelude.system.is_empty() {
            out.raw("\"systemInstruction\":{\"parts\":[{\"text\":");
            out.value(&prelude.system);
            out.raw("}]},");
        }
        out.raw("\"contents\":[");
        // What the caller says of thinking stands.
        let told = generation.contains_key("thinkingConfig");
        let effort = prelude.effort.filter(|_| !told);
        Self { out, max_output: prelude.max_output, generation, effort, names: HashMap::new() }
    }

    /// A message of these parts, each a JSON text.
    fn message(&mut self, role: &str, parts: &[Vec<u8>]) {
        self.out.item();
        self.out.raw("{\"role\":");
        self.out.value(role);
        self.out.list(",\"parts\":[", parts, "]}", |out, part| out.bytes(part));
    }

    fn assistant(&mut self, assistant: &Assistant) {
        let kept: Vec<KeptSignature> =
            assistant.opaque.iter().filter_map(|o| KeptSignature::read(o)).collect();
        let mut parts = Vec::new();
        // Signed text stays a part of its own: a signature holds for the part that it came with.
        let mut from = 0;
        for sign in &kept {
            let Signed::Text { from: start, to } = sign.signed else { continue };
            let (Some(before), Some(own)) = (assistant.text.get(from..start), assistant.text.get(start..to))
            else {
                continue;
            };
            if !before.is_empty() {
                parts.push(text_part(before, None));
            }
            parts.push(text_part(own, Some(&sign.signature)));
            from = to;
        }
        match assistant.text.get(from..) {
            Some(rest) if !rest.is_empty() => parts.push(text_part(rest, None)),
            _ => {}
        }
        self.names.clear();
        for (n, call) in assistant.calls.iter().enumerate() {
            self.names.insert(call.id.clone(), call.name.clone());
            let mut part = b"{\"functionCall\":{\"id\":".to_vec();
            put(&mut part, &call.id);
            part.extend_from_slice(b",\"name\":");
            put(&mut part, &call.name);
            part.extend_from_slice(b",\"args\":");
            part.extend_from_slice(arguments_object(&call.arguments).as_bytes());
            part.push(b'}');
            if let Some(sign) = kept.iter().find(|sign| sign.signed == Signed::Call { call: n }) {
                part.extend_from_slice(b",\"thoughtSignature\":");
                put(&mut part, &sign.signature);
            }
            part.push(b'}');
            parts.push(part);
        }
        // A message without parts is refused.
        if !parts.is_empty() {
            self.message("model", &parts);
        }
    }

    fn result(&self, result: &CallResult) -> Vec<u8> {
        let mut part = b"{\"functionResponse\":{\"id\":".to_vec();
        put(&mut part, &result.call_id);
        part.extend_from_slice(b",\"name\":");
        put(&mut part, self.names.get(&result.call_id).map_or("", String::as_str));
        part.extend_from_slice(if result.is_error {
            b",\"response\":{\"error\":"
        } else {
            b",\"response\":{\"output\":".as_slice()
        });
        put(&mut part, &result.text);
        part.extend_from_slice(b"}}}");
        part
    }
}

fn text_part(text: &str, signature: Option<&str>) -> Vec<u8> {
    let mut part = b"{\"text\":".to_vec();
    put(&mut part, text);
    if let Some(signature) = signature {
        part.extend_from_slice(b",\"thoughtSignature\":");
        put(&mut part, signature);
    }
    part.push(b'}');
    part
}

fn image_part(image: &Image) -> Vec<u8> {
    let mut part = b"{\"inlineData\":{\"mimeType\":".to_vec();
    put(&mut part, &image.media);
    part.extend_from_slice(b",\"data\":");
    put(&mut part, &image.data);
    part.extend_from_slice(b"}}");
    part
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text, images } => {
                let text = (!text.is_empty() || images.is_empty()).then(|| text_part(text, None));
                let parts: Vec<Vec<u8>> = text.into_iter().chain(images.iter().map(image_part)).collect();
                self.message("user", &parts);
            }
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Results { results } => {
                // Images stand behind all results: only the newest models take them inside of one.
                let images = results.iter().flat_map(|result| &result.images).map(image_part);
                let parts: Vec<Vec<u8>> =
                    results.iter().map(|result| self.result(result)).chain(images).collect();
                if !parts.is_empty() {
                    self.message("user", &parts);
                }
            }
        }
    }

    fn prefix(&self) -> &Prefix {
        self.out.prefix()
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        out.push(b']');
        let limit = limit(max_output, self.max_output);
        let mut generation = self.generation.clone();
        if let Some(limit) = limit {
            generation.insert("maxOutputTokens".to_owned(), limit.into());
        }
        if let Some(tokens) = self.effort.and_then(|effort| tokens(effort, limit.unwrap_or(0))) {
            generation.insert("thinkingConfig".to_owned(), json!({ "thinkingBudget": tokens }));
        }
        if !generation.is_empty() {
            out.extend_from_slice(b",\"generationConfig\":");
            put(out, &generation);
        }
        out.push(b'}');
    }
}
