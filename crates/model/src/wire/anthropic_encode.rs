//! Anthropic messages: the request.

use std::borrow::Cow;

use provost_core::transcript::Message;
use serde::Deserialize;

use super::json::{arguments_object, put};
use super::{Encode, EncodeOptions, Prefix};
use crate::Prelude;

/// This wire demands an output limit; this one is used where nobody named any.
const DEFAULT_MAX_OUTPUT: u64 = 8_192;

const CACHE: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// `{"model":…,"stream":true,…,"tools":[…],"system":[…],"messages":[…`.
///
/// The last block of the last message stays open in the prefix (no closing brace): the tail closes it with a
/// cache breakpoint, a later push closes it without one. So the breakpoint moves while the prefix never changes.
pub(super) struct Encoder {
    prefix: Prefix,
    /// A message is open, and whether its open block may carry a breakpoint.
    open: Option<bool>,
    max_output: u64,
}

impl Encoder {
    pub(super) fn new(options: &EncodeOptions, prelude: &Prelude) -> Self {
        let mut out = Prefix::default();
        out.extend_from_slice(b"{\"model\":");
        put(&mut out, &options.model);
        out.extend_from_slice(b",\"stream\":true");
        for (key, value) in &options.extra {
            out.push(b',');
            put(&mut out, key);
            out.push(b':');
            put(&mut out, value);
        }
        let tools = prelude.tools.len();
        for (n, tool) in prelude.tools.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b",\"tools\":[{\"name\":" } else { b",{\"name\":" });
            put(&mut out, &tool.name);
            out.extend_from_slice(b",\"description\":");
            put(&mut out, &tool.description);
            out.extend_from_slice(b",\"input_schema\":");
            put(&mut out, &tool.schema);
            if n + 1 == tools {
                // One breakpoint behind tools and system; it stands here only if there is no system block.
                if prelude.system.is_empty() {
                    out.extend_from_slice(CACHE);
                }
                out.extend_from_slice(b"}]");
            } else {
                out.push(b'}');
            }
        }
        if !prelude.system.is_empty() {
            out.extend_from_slice(b",\"system\":[{\"type\":\"text\",\"text\":");
            put(&mut out, &prelude.system);
            out.extend_from_slice(CACHE);
            out.extend_from_slice(b"}]");
        }
        out.extend_from_slice(b",\"messages\":[");
        Self { prefix: out, open: None, max_output: prelude.max_output }
    }

    /// Begins a message; `blocks` writes its blocks.
    fn message(&mut self, role: &str) {
        if self.open.is_some() {
            self.prefix.extend_from_slice(b"}]},");
        }
        self.prefix.extend_from_slice(b"{\"role\":");
        put(&mut self.prefix, role);
        self.prefix.extend_from_slice(b",\"content\":[");
        self.open = None;
    }

    /// Appends a block given without its closing brace.
    fn block(&mut self, cacheable: bool, write: impl FnOnce(&mut Prefix)) {
        if self.open.is_some() {
            self.prefix.extend_from_slice(b"},");
        }
        write(&mut self.prefix);
        self.open = Some(cacheable);
    }

    fn text(&mut self, text: &str) {
        self.block(true, |out| {
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            put(out, text);
        });
    }
}

impl Encode for Encoder {
    fn push(&mut self, message: &Message) {
        match message {
            Message::User { text } => {
                self.message("user");
                // This wire refuses blank text.
                self.text(if text.trim().is_empty() { "(empty)" } else { text });
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
                    self.block(cacheable, |out| out.extend_from_slice(body.as_bytes()));
                }
                if !blank {
                    self.text(&assistant.text);
                }
                for call in &assistant.calls {
                    self.block(true, |out| {
                        out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
                        put(out, &*id(&call.id));
                        out.extend_from_slice(b",\"name\":");
                        put(out, &call.name);
                        out.extend_from_slice(b",\"input\":");
                        out.extend_from_slice(arguments_object(&call.arguments).as_bytes());
                    });
                }
            }
            Message::Results { results } if results.is_empty() => {}
            Message::Results { results } => {
                self.message("user");
                for result in results {
                    self.block(true, |out| {
                        out.extend_from_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
                        put(out, &*id(&result.call_id));
                        out.extend_from_slice(b",\"content\":");
                        put(out, &result.text);
                        if result.is_error {
                            out.extend_from_slice(b",\"is_error\":true");
                        }
                    });
                }
            }
        }
    }

    fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    fn tail(&self, max_output: u64, out: &mut Vec<u8>) {
        match self.open {
            Some(true) => {
                out.extend_from_slice(CACHE);
                out.extend_from_slice(b"}]}");
            }
            Some(false) => out.extend_from_slice(b"}]}"),
            None => {}
        }
        let limit = [max_output, self.max_output].into_iter().find(|n| *n > 0).unwrap_or(DEFAULT_MAX_OUTPUT);
        out.extend_from_slice(b"],\"max_tokens\":");
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
