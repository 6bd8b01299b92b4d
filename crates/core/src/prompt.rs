//! Prompts: what was sent, by number and digest, and what a vendor's cache made of it.
//!
//! A prompt only grows: each request begins with the bytes of the one before. That is what makes a vendor's cache of
//! prompts work, and what these facts hold on to.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::StepId;
use crate::route::RouteId;

/// What a request began with: all of it but the few bytes at its end that differ from one request to the next (limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptFact {
    /// Bytes.
    pub bytes: u64,
    /// Salted digest of them.
    pub digest: Digest,
}

/// Why a prompt does not begin with the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause", deny_unknown_fields)]
pub enum Break {
    /// What stands before the first answer: options of the model, tools, system prompt, goal. Another version of Provost
    /// puts them otherwise, or the resumed run was given other options.
    Prelude,
    /// The first byte that differs stands behind the prompt of the step before `step`, and not behind its own.
    Message {
        /// The step.
        step: StepId,
    },
}

/// The next prompt does not begin as the one before it did: what the vendor has in its cache is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptBroke {
    /// The step that is asked for next.
    pub step: StepId,
    /// Whose prompt it is.
    #[serde(default, skip_serializing_if = "RouteId::is_first")]
    pub route: RouteId,
    /// So many bytes from the beginning are certainly the same.
    pub same_bytes: u64,
    /// Where the first byte that differs stands.
    pub at: Break,
}

/// Why a vendor read less from its cache than it had there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissWhy {
    /// The prompt does not begin as the one before it did.
    PromptBroke,
    /// The last answer is so long ago that the vendor may have dropped it.
    Expired,
    /// Nothing on this side explains it: the vendor dropped it early, or asked another machine of its own.
    Vendor,
}

/// The vendor read less from its cache than the answer before it had put or found there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheMissed {
    /// The step that was answered.
    pub step: StepId,
    /// Tokens that were there.
    pub expected: u64,
    /// Tokens that were read.
    pub read: u64,
    /// Why.
    pub why: MissWhy,
}
