//! Anthropic messages: the request.

use std::borrow::Cow;

use provost_core::transcript::{Image, Message};
use serde::Deserialize;
use serde_json::{Map, json};

use super::effort::{claude_takes_words, tokens};
use super::json::{arguments_object, put};
use super::writer::{Writer, limit, members};
use super::{Encode, EncodeOptions, Prefix};
use crate::{Effort, Prelude};

/// This wire demands an output limit; this one is used where nobody named any.
const DEFAULT_MAX_OUTPUT: u64 = 8_192;

const CACHE: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// `{"model":…,"stream":true,…,"tools":[…],"system":[…],"messages":[…`.
///
/// The last block of the last message stays open in the prefix (no closing brace): the tail closes it with a
/// cache breakpoint, a later push closes it without one. So the breakpoint moves while the prefix never changes.
pub(super) struct Encoder {
    out: Writer,
    /// A message is open, and whether its open block may carry a breakpoint.
    open: Option<bool>,
    max_output: u64,
    /// Effort that is asked for in tokens: how many depends on the output limit.
    effort: Option<Effort>,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Writer::default();
        out.raw("{\"model\":");
        out.value(&options.model);
        out.raw(",\"stream\":true");
        let mut own = Map::new();
        let mut output = Map::new();
        if let Some(schema) = &prelude.schema {
            output.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema.schema }));
        }
        // What the caller says of thinking stands.
        let mut effort = prelude.effort.filter(|_| !options.extra.contains_key("thinking"));
        if let Some(effort) = effort.take_if(|_| claude_takes_words(&options.model)) {
            own.insert("thinking".to_owned(), json!({ "type": "adaptive" }));
            output.insert("effort".to_owned(), effort.word().into());
        }
        if !output.is_empty() {
            own.insert("output_config".to_owned(), output.into());
        }
        for (key, value) in members(options, own) {
            out.member(&key, &value);
        }
        // One breakpoint behind tools and system; it stands here only if there is no system block.
        let last = prelude.system.is_empty().then(|| prelude.tools.len().wrapping_sub(1));
        out.list(",\"tools\":[", prelude.tools.iter().enumerate(), "]", |out, (n, tool)| {
            out.raw("{\"name\":");
            out.value(&tool.name);
            out.member("description", &tool.description);
            out.member("input_schema", &tool.schema);
            out.raw(if last == Some(n) { CACHE } else { "" });
            out.raw("}");
        });
        if !prelude.system.is_empty() {
            out.raw(",\"system\":[{\"type\":\"text\",\"text\":");
            out.value(&prelude.system);
            out.raw(CACHE);
            out.raw("}]");
        }
        out.raw(",\"messages\":[");
        Self { out, open: None, max_output: prelude.max_output, effort }
    }

    /// Begins a message; `blocks` writes its blocks.
    fn message(&mut self, role: &str) {
        if self.open.is_some() {
            self.out.raw("}]},");
        }
        self.out.raw("{\"role\":");
        self.out.value(role);
        self.out.raw(",\"content\":[");
        self.open = None;
    }

    /// Appends a block given without its closing brace.
    fn block(&mut self, cacheable: bool, write: impl FnOnce(&mut Writer)) {
        if self.open.is_some() {
            self.out.raw("},");
        }
        write(&mut self.out);
        self.open = Some(cacheable);
    }

    fn text(&mut self, text: &str) {
        self.block(true, |out| {
            out.raw("{\"type\":\"text\",\"text\":");
            out.value(text);
        });
    }
}

/// An image's block without its closing brace.
fn image(out: &mut Writer, image: &Image) {
    out.raw("{\"type\":\"image\",\"source\":{\"type\":\"base64\"");
    out.member("media_type", &image.media);
    out.member("data", &image.data);
    out.raw("}");
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text, images } => {
                self.message("user");
                // The vendor has them in front of the words that are about them.
                for shown in images {
                    self.block(true, |out| image(out, shown));
                }
                // This wire refuses blank text.
                match text.trim().is_empty() {
                    false => self.text(text),
                    true if images.is_empty() => self.text("(empty)"),
                    true => {}
                }
            }
            Message::Assistant(assistant) => {
                let opaque: Vec<(&str, bool)> =
                    assistant.opaque.iter().filter_map(|o| own_block(o)).collect();
                let blank = assistant.text.trim().is_empty();
                if opaque.is_empty() && blank && assistant.calls.is_empty() {
                    // A message without content is refused; users' messages on both sides may stand together.
                    return;
                }
                self.message("assistant");
                for (body, cacheable) in opaque {
                    self.block(cacheable, |out| out.raw(body));
                }
                if !blank {
                    self.text(&assistant.text);
                }
                for call in &assistant.calls {
                    self.block(true, |out| {
                        out.raw("{\"type\":\"tool_use\",\"id\":");
                        out.value(&*id(&call.id));
                        out.member("name", &call.name);
                        out.raw(",\"input\":");
                        out.raw(&arguments_object(&call.arguments));
                    });
                }
            }
            Message::Results { results } if results.is_empty() => {}
            Message::Results { results } => {
                self.message("user");
                for result in results {
                    self.block(true, |out| {
                        out.raw("{\"type\":\"tool_result\",\"tool_use_id\":");
                        out.value(&*id(&result.call_id));
                        if result.images.is_empty() {
                            out.member("content", &result.text);
                        } else {
                            out.raw(",\"content\":[");
                            if !result.text.trim().is_empty() {
                                out.raw("{\"type\":\"text\",\"text\":");
                                out.value(&result.text);
                                out.raw("},");
                            }
                            out.list("", &result.images, "]", |out, shown| {
                                image(out, shown);
                                out.raw("}");
                            });
                        }
                        if result.is_error {
                            out.raw(",\"is_error\":true");
                        }
                    });
                }
            }
        }
    }

    fn prefix(&self) -> &Prefix {
        self.out.prefix()
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        match self.open {
            Some(true) => {
                out.extend_from_slice(CACHE.as_bytes());
                out.extend_from_slice(b"}]}");
            }
            Some(false) => out.extend_from_slice(b"}]}"),
            None => {}
        }
        out.push(b']');
        let limit = limit(max_output, self.max_output).unwrap_or(DEFAULT_MAX_OUTPUT);
        if let Some(tokens) = self.effort.and_then(|effort| tokens(effort, limit)) {
            out.extend_from_slice(b",\"thinking\":");
            put(out, &json!({ "type": "enabled", "budget_tokens": tokens }));
        }
        out.extend_from_slice(b",\"max_tokens\":");
        put(out, &limit);
        out.push(b'}');
    }
}

/// An opaque block of this wire without its closing brace, and whether it may carry a breakpoint. Blocks of
/// other wires have no `type` and are left out.
fn own_block(opaque: &str) -> Option<(&str, bool)> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
    }
    let typed: Typed<'_> = serde_json::from_str(opaque).ok()?;
    let body = opaque.trim().strip_suffix('}')?;
    Some((body, !matches!(&*typed.r#type, "thinking" | "redacted_thinking")))
}

/// An id in the characters that this wire takes: ids of other vendors hold dots and colons.
fn id(id: &str) -> Cow<'_, str> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.chars().all(fine) {
        id.into()
    } else {
        let mut out: String = id.chars().map(|c| if fine(c) { c } else { '_' }).collect();
        if out.is_empty() {
            out.push('_');
        }
        out.into()
    }
}
