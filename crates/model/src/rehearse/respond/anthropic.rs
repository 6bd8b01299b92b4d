//! A step as Anthropic messages.

use bytes::Bytes;
use serde_json::json;

use super::{Turn, pieces, quoted};
use crate::rehearse::script::StopSaid;

impl Turn<'_> {
    fn anthropic_stop(&self) -> &'static str {
        match self.stop {
            Some(StopSaid::Length) => "max_tokens",
            Some(StopSaid::Refused) => "refusal",
            None if self.calls.is_empty() => "end_turn",
            None => "tool_use",
        }
    }

    /// Usage at the start and at the end.
    fn anthropic_usage(&self) -> (serde_json::Value, serde_json::Value) {
        let Some(usage) = self.usage else { return (json!({}), json!({})) };
        let start = json!({
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": 1,
        });
        (start, json!({ "output_tokens": usage.output }))
    }

    pub(super) fn anthropic_events(&self) -> Vec<Bytes> {
        let event = |kind: &str, rest: &str| {
            Bytes::from(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n"))
        };
        let (start, end) = self.anthropic_usage();
        let mut out = vec![
            event(
                "message_start",
                &format!(
                    ",\"message\":{{\"id\":\"msg_{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{start}}}",
                    self.step,
                    quoted(self.model)
                ),
            ),
            event("ping", ""),
        ];
        let mut index = 0;
        let mut block = |begin: String, deltas: Vec<String>| {
            out.push(event("content_block_start", &format!(",\"index\":{index},\"content_block\":{begin}")));
            for delta in deltas {
                out.push(event("content_block_delta", &format!(",\"index\":{index},\"delta\":{delta}")));
            }
            out.push(event("content_block_stop", &format!(",\"index\":{index}")));
            index += 1;
        };
        let delta = |kind: &str, key: &str, piece: &str| {
            format!("{{\"type\":\"{kind}\",\"{key}\":{}}}", quoted(piece))
        };
        if let Some(think) = &self.think {
            let mut deltas: Vec<String> =
                pieces(think).map(|piece| delta("thinking_delta", "thinking", piece)).collect();
            deltas.push(delta("signature_delta", "signature", "c2lnbmVk"));
            block("{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}".to_owned(), deltas);
        }
        if !self.say.is_empty() {
            let deltas = pieces(&self.say).map(|piece| delta("text_delta", "text", piece)).collect();
            block("{\"type\":\"text\",\"text\":\"\"}".to_owned(), deltas);
        }
        for call in &self.calls {
            let deltas =
                pieces(&call.arguments).map(|p| delta("input_json_delta", "partial_json", p)).collect();
            let begin = format!(
                "{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{{}}}}",
                quoted(&call.id),
                quoted(&call.name)
            );
            block(begin, deltas);
        }
        out.push(event(
            "message_delta",
            &format!(
                ",\"delta\":{{\"stop_reason\":\"{}\",\"stop_sequence\":null}},\"usage\":{end}",
                self.anthropic_stop()
            ),
        ));
        out.push(event("message_stop", ""));
        out
    }

    pub(super) fn anthropic_whole(&self) -> Bytes {
        let mut content = Vec::new();
        if let Some(think) = &self.think {
            content
                .push(json!({ "type": "thinking", "thinking": think, "signature": "c2lnbmVk" }).to_string());
        }
        if !self.say.is_empty() {
            content.push(json!({ "type": "text", "text": self.say }).to_string());
        }
        for call in &self.calls {
            // This form has no room for arguments that are no JSON.
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
            content.push(format!(
                "{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{}}}",
                quoted(&call.id),
                quoted(&call.name),
                if valid { &call.arguments } else { "{}" }
            ));
        }
        let (mut usage, end) = self.anthropic_usage();
        if let (Some(all), Some(output)) = (usage.as_object_mut(), end.get("output_tokens")) {
            all.insert("output_tokens".to_owned(), output.clone());
        }
        format!(
            "{{\"id\":\"msg_{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{},\"content\":[{}],\"stop_reason\":\"{}\",\"stop_sequence\":null,\"usage\":{usage}}}",
            self.step,
            quoted(self.model),
            content.join(","),
            self.anthropic_stop()
        )
        .into()
    }
}
