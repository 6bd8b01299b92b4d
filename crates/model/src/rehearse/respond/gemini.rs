//! A step as Gemini's partial responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Turn, argument_object, pieces, quoted};
use crate::rehearse::script::StopSaid;

/// The signature of a step that thinks: base64 that says nothing.
const SIGNATURE: &str = ",\"thoughtSignature\":\"c2lnbmVk\"";

impl Turn<'_> {
    fn gemini_stop(&self) -> &'static str {
        match self.stop {
            Some(StopSaid::Length) => "MAX_TOKENS",
            Some(StopSaid::Refused) => "SAFETY",
            None => "STOP",
        }
    }

    /// Usage as it stands in the middle and at the end. This vendor has no word for what was written to a cache.
    fn gemini_usage(&self) -> Option<(Value, Value)> {
        let usage = self.usage?;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let mut end = json!({
            "promptTokenCount": prompt,
            "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
            "totalTokenCount": prompt + usage.output,
        });
        if usage.cache_read > 0 {
            end["cachedContentTokenCount"] = usage.cache_read.into();
        }
        if usage.reasoning > 0 {
            end["thoughtsTokenCount"] = usage.reasoning.into();
        }
        Some((json!({ "promptTokenCount": prompt, "totalTokenCount": prompt }), end))
    }

    /// Parts as JSON texts: thoughts, text, calls, each in `pieces` of so many or whole.
    fn gemini_parts(&self, cut: fn(&str) -> Vec<&str>) -> Vec<String> {
        let mut parts = Vec::new();
        for piece in self.think.as_deref().map(cut).into_iter().flatten() {
            parts.push(format!("{{\"text\":{},\"thought\":true}}", quoted(piece)));
        }
        for piece in cut(&self.say) {
            parts.push(format!("{{\"text\":{}}}", quoted(piece)));
        }
        for (n, call) in self.calls.iter().enumerate() {
            let signature = if n == 0 && self.think.is_some() { SIGNATURE } else { "" };
            parts.push(format!(
                "{{\"functionCall\":{{\"id\":{},\"name\":{},\"args\":{}}}{signature}}}",
                quoted(&call.id),
                quoted(&call.name),
                argument_object(&call.arguments)
            ));
        }
        if self.think.is_some() && self.calls.is_empty() {
            parts.push(format!("{{\"text\":\"\"{SIGNATURE}}}"));
        }
        parts
    }

    fn gemini_response(&self, parts: &str, ended: bool) -> String {
        let reason =
            if ended { format!(",\"finishReason\":\"{}\"", self.gemini_stop()) } else { String::new() };
        let usage = self.gemini_usage().map_or_else(String::new, |(middle, end)| {
            format!(",\"usageMetadata\":{}", if ended { end } else { middle })
        });
        format!(
            "{{\"candidates\":[{{\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}}{reason},\"index\":0}}]{usage},\"modelVersion\":{},\"responseId\":\"resp_{}\"}}",
            quoted(self.model),
            self.step
        )
    }

    pub(super) fn gemini_events(&self) -> Vec<Bytes> {
        let mut out: Vec<Bytes> = self
            .gemini_parts(|text| pieces(text).collect())
            .iter()
            .map(|part| format!("data: {}\r\n\r\n", self.gemini_response(part, false)).into())
            .collect();
        out.push(format!("data: {}\r\n\r\n", self.gemini_response("{\"text\":\"\"}", true)).into());
        out
    }

    pub(super) fn gemini_whole(&self) -> Bytes {
        let parts = self.gemini_parts(|text| if text.is_empty() { Vec::new() } else { vec![text] });
        self.gemini_response(&parts.join(","), true).into()
    }
}
