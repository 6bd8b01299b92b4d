//! What a vendor said of its limits with an answer or a failure.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Most windows of one event.
pub const MOST_WINDOWS: usize = 24;

/// The limits that one response told of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitFact {
    /// What was understood, by what it counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowFact>,
    /// Headers about limits that were not understood, as they came: a JSON list of name and value (blob).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extras: Option<Digest>,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowFact {
    /// What it counts, in the vendor's words: `requests`, `input-tokens`; empty where it has none.
    pub counts: String,
    /// How much there is in a full window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// Milliseconds from the response until it is full again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_in_ms: Option<u64>,
}
