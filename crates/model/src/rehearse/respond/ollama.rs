//! A step as Ollama's lines.

use std::fmt::Write as _;

use bytes::Bytes;

use super::{Turn, argument_object, pieces, quoted};
use crate::rehearse::script::StopSaid;

impl Turn<'_> {
    /// A line or a whole answer. This server has no word for a refusal.
    fn ollama_line(&self, content: &str, more: &str, ended: bool) -> String {
        let end = if ended {
            let reason = if self.stop == Some(StopSaid::Length) { "length" } else { "stop" };
            // It counts the whole prompt, wherever it had it from.
            let counts = self.usage.map_or_else(String::new, |usage| {
                let prompt = usage.input + usage.cache_read + usage.cache_write;
                format!(",\"prompt_eval_count\":{prompt},\"eval_count\":{}", usage.output)
            });
            format!("true,\"done_reason\":\"{reason}\",\"total_duration\":1{counts}")
        } else {
            "false".to_owned()
        };
        format!(
            "{{\"model\":{},\"created_at\":\"1970-01-01T00:00:00Z\",\"message\":{{\"role\":\"assistant\",\"content\":{}{more}}},\"done\":{end}}}\n",
            quoted(self.model),
            quoted(content)
        )
    }

    fn ollama_call(&self, n: usize) -> String {
        let call = &self.calls[n];
        format!(
            "{{\"id\":{},\"function\":{{\"index\":{n},\"name\":{},\"arguments\":{}}}}}",
            quoted(&call.id),
            quoted(&call.name),
            argument_object(&call.arguments)
        )
    }

    pub(super) fn ollama_events(&self) -> Vec<Bytes> {
        let mut out: Vec<Bytes> = Vec::new();
        for piece in self.think.as_deref().map(pieces).into_iter().flatten() {
            out.push(self.ollama_line("", &format!(",\"thinking\":{}", quoted(piece)), false).into());
        }
        for piece in pieces(&self.say) {
            out.push(self.ollama_line(piece, "", false).into());
        }
        for n in 0..self.calls.len() {
            let calls = format!(",\"tool_calls\":[{}]", self.ollama_call(n));
            out.push(self.ollama_line("", &calls, false).into());
        }
        out.push(self.ollama_line("", "", true).into());
        out
    }

    pub(super) fn ollama_whole(&self) -> Bytes {
        let mut more = String::new();
        if let Some(think) = &self.think {
            let _ = write!(more, ",\"thinking\":{}", quoted(think));
        }
        if !self.calls.is_empty() {
            let calls: Vec<String> = (0..self.calls.len()).map(|n| self.ollama_call(n)).collect();
            let _ = write!(more, ",\"tool_calls\":[{}]", calls.join(","));
        }
        self.ollama_line(&self.say, &more, true).into()
    }
}
