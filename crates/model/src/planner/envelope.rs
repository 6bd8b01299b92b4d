//! The JSON that a planner answers with.

use provost_core::transcript::Usage;
use serde_json::Value;

use crate::{Failure, FailureClass};

/// An answer as it came. Its parts are looked at leniently: an odd `usage` must not spoil a decision that is paid for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Envelope(Value);

impl Envelope {
    /// Reads one envelope; surrounding white space is no part of it.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Failure> {
        if text.trim_ascii().is_empty() {
            return Err(Failure::new(FailureClass::Malformed, "the planner printed nothing"));
        }
        let value: Value = serde_json::from_slice(text).map_err(|error| {
            let begin = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
            let what = format!("the planner's answer is not one JSON object: {error}; it begins `{begin}`");
            Failure::new(FailureClass::Malformed, what)
        })?;
        if value.is_object() {
            return Ok(Self(value));
        }
        Err(Failure::new(FailureClass::Malformed, "the planner's answer is JSON and not an object"))
    }

    /// What is in an event `result`: the same as in an envelope.
    pub(super) fn of_result(result: Value) -> Self {
        Self(result)
    }

    /// Tokens as it counts them; `None` when it says nothing that can be read.
    pub(super) fn usage(&self) -> Option<Usage> {
        let count = |name| self.0.pointer(name).and_then(Value::as_u64);
        let (input, output) = (count("/usage/input_tokens"), count("/usage/output_tokens"));
        if input.is_none() && output.is_none() {
            return None;
        }
        Some(Usage {
            input: input.unwrap_or_default(),
            output: output.unwrap_or_default(),
            ..Usage::default()
        })
    }

    /// The usage object as JSON text.
    pub(super) fn raw_usage(&self) -> Option<String> {
        self.0.get("usage").filter(|usage| !usage.is_null()).map(Value::to_string)
    }

    /// The decision, as JSON.
    pub(super) fn decision(&self) -> Option<&Value> {
        self.0.get("structured_output").filter(|value| !value.is_null())
    }

    /// The failure that it tells of, if it does.
    pub(super) fn failure(&self) -> Option<Failure> {
        match self.0.get("status").and_then(Value::as_str) {
            Some("SUCCESS") => None,
            Some(status) => {
                let words = ["/error/message", "/error", "/message", "/response"];
                let words = words.into_iter().find_map(|at| self.0.pointer(at).and_then(Value::as_str));
                let words = words.map(|words| format!(": {words}")).unwrap_or_default();
                let told = format!("the planner's status is `{status}`{words}");
                Some(Failure::new(class(status), told).with_usage(self.usage()))
            }
            None => {
                let told = "the planner's answer has no `status`";
                Some(Failure::new(FailureClass::Malformed, told).with_usage(self.usage()))
            }
        }
    }
}

/// The class of a status. Only whole, known words count: the words around it may be the model's own.
fn class(status: &str) -> FailureClass {
    match status {
        "RESOURCE_EXHAUSTED" => FailureClass::RateLimited,
        "UNAVAILABLE" => FailureClass::Overloaded,
        "DEADLINE_EXCEEDED" | "TIMEOUT" => FailureClass::Timeout,
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => FailureClass::Auth,
        "INVALID_ARGUMENT" | "NOT_FOUND" => FailureClass::BadRequest,
        // Any other, `ERROR` among them, may be better the next time.
        _ => FailureClass::Server,
    }
}
