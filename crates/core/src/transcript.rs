//! The dialogue with a model, in one vendor-neutral form. Each wire maps it to its vendor's own blocks.

use serde::{Deserialize, Serialize};

/// One message of the dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum Message {
    /// Words from the person or the runtime.
    User {
        /// The text.
        text: String,
    },
    /// What the model answered.
    Assistant(Assistant),
    /// Results of the calls in the assistant message before it, one for each call, in call order.
    Results {
        /// The results.
        results: Vec<CallResult>,
    },
}

/// A model's answer: text, then calls. A wire's reasoning blocks travel opaquely.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assistant {
    /// Visible text; empty when the model only called tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Tool calls in the order the model gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Vendor blocks that must be sent back unchanged (signed thinking, for example), as JSON text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<String>,
}

/// One tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The vendor's id, echoed with the result. Unique within one answer (a wire makes it so).
    pub id: String,
    /// Tool name as the model wrote it.
    pub name: String,
    /// Argument text exactly as received: it may not be JSON. Decoding is the tool layer's work.
    pub arguments: String,
}

/// What a call came back with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// Id of the call that this answers.
    pub call_id: String,
    /// Text for the model.
    pub text: String,
    /// Whether the text tells of a failure or a refusal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name, `[a-z0-9_]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments (an object schema).
    pub schema: serde_json::Value,
}

/// Tokens of one call as the vendor reported them. Counts are disjoint: a cached token is not in `input`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens billed at the full rate.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the vendor's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to the vendor's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Output tokens spent on reasoning (part of `output`).
    #[serde(default)]
    pub reasoning: u64,
}

impl Usage {
    /// Tokens of the prompt, cached ones included.
    pub fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// All tokens that count against a token budget.
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done.
    End,
    /// It wants the results of its calls.
    ToolCalls,
    /// The output limit cut it off: calls in such an answer are not to be run.
    Length,
    /// The vendor's filter cut it off or the model refused.
    Refused,
}
