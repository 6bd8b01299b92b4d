//! Folds of the context: what makes room in a model's window when a dialogue has grown to fill it.
//!
//! The runtime asks the model for a summary, under the next invocation as for any answer. What was said before then stands
//! in the dialogue as that summary. The goal stays word for word, and so do the newest steps. The journal keeps all of it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::StepId;
use crate::route::RouteId;

/// How often a model is asked for a summary before the runtime makes do without one.
pub const FOLD_TRIES: u32 = 2;

/// Whose words stand for what was folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldedBy {
    /// The model's, asked for a summary.
    Model,
    /// The runtime's, from the journal: the model gave none, or there was no room to ask it.
    Runtime,
}

/// The dialogue was folded: what is older than `from` is no longer said to the model, and `text` stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextFolded {
    /// The first step that is still said word for word.
    pub from: StepId,
    /// Whose words stand for the steps before it.
    pub by: FoldedBy,
    /// Those words (blob).
    pub text: Digest,
    /// For whose window.
    #[serde(default, skip_serializing_if = "RouteId::is_first")]
    pub route: RouteId,
    /// Tokens that the next prompt would have had, by estimate.
    pub tokens: u64,
    /// Tokens that the model's window holds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}
