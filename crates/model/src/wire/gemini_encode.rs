//! Gemini: the request.

use std::collections::HashMap;

use provost_core::transcript::{Assistant, Message};
use serde_json::{Map, Value};

use super::gemini_decode::{KeptSignature, Signed};
use super::json::{arguments_object, put};
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// `{…,"tools":[…],"systemInstruction":…,"contents":[…` and, as tail, `],"generationConfig":{…}}`. The model stands in
/// the URL.
pub(super) struct Encoder {
    prefix: Prefix,
    messages: usize,
    max_output: u64,
    /// What the caller wants in `generationConfig` besides the output limit.
    generation: Map<String, Value>,
    /// Names of the calls of the last answer, by id: their results must repeat them.
    names: HashMap<String, String>,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Prefix::default();
        let mut generation = Map::new();
        out.push(b'{');
        for (key, value) in &options.extra {
            match value {
                Value::Object(members) if key == "generationConfig" => generation = members.clone(),
                _ => {
                    put(&mut out, key);
                    out.push(b':');
                    put(&mut out, value);
                    out.push(b',');
                }
            }
        }
        for (n, tool) in prelude.tools.iter().enumerate() {
            let begin: &[u8] = if n == 0 { b"\"tools\":[{\"functionDeclarations\":[" } else { b"," };
            out.extend_from_slice(begin);
            out.extend_from_slice(b"{\"name\":");
            put(&mut out, &tool.name);
            out.extend_from_slice(b",\"description\":");
            put(&mut out, &tool.description);
            // `parameters` takes a dialect of its own; this takes JSON Schema.
            out.extend_from_slice(b",\"parametersJsonSchema\":");
            put(&mut out, &tool.schema);
            out.push(b'}');
        }
        if !prelude.tools.is_empty() {
            out.extend_from_slice(b"]}],");
        }
        if !prelude.system.is_empty() {
            out.extend_from_slice(b"\"systemInstruction\":{\"parts\":[{\"text\":");
            put(&mut out, &prelude.system);
            out.extend_from_slice(b"}]},");
        }
        out.extend_from_slice(b"\"contents\":[");
        Self { prefix: out, messages: 0, max_output: prelude.max_output, generation, names: HashMap::new() }
    }

    /// A message of these parts, each a JSON text.
    fn message(&mut self, role: &str, parts: &[Vec<u8>]) {
        if self.messages > 0 {
            self.prefix.push(b',');
        }
        self.messages += 1;
        self.prefix.extend_from_slice(b"{\"role\":");
        put(&mut self.prefix, role);
        self.prefix.extend_from_slice(b",\"parts\":[");
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                self.prefix.push(b',');
            }
            self.prefix.extend_from_slice(part);
        }
        self.prefix.extend_from_slice(b"]}");
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

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text } => self.message("user", &[text_part(text, None)]),
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Results { results } if results.is_empty() => {}
            Message::Results { results } => {
                let parts: Vec<Vec<u8>> = results
                    .iter()
                    .map(|result| {
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
                    })
                    .collect();
                self.message("user", &parts);
            }
        }
    }

    fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        out.push(b']');
        let limit = if max_output == 0 { self.max_output } else { max_output };
        let mut generation = self.generation.clone();
        if limit > 0 {
            generation.insert("maxOutputTokens".to_owned(), limit.into());
        }
        if !generation.is_empty() {
            out.extend_from_slice(b",\"generationConfig\":");
            put(out, &generation);
        }
        out.push(b'}');
    }
}
