//! The tree of agents: an agent may have others do a part of its work, each with orders of its own.
//!
//! A child is started by an act ([`Intent::Spawn`](crate::act::Intent::Spawn)), which is open as long as it works. It
//! draws on the run's one ledger, and may do what its parent may, less what its orders deny it.

use serde::{Deserialize, Serialize};

use crate::act::ActEnd;
use crate::budget::Bound;
use crate::digest::Digest;
use crate::id::AgentId;
use crate::policy::Pattern;

/// How many agents a run may have beside its root, and how deep they may stand. The root stands at depth 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLimits {
    /// All that are ever started, those that ended included.
    pub total: u32,
    /// How deep the deepest may stand.
    pub depth: u32,
}

impl AgentLimits {
    /// The root works alone.
    pub const NONE: Self = Self { total: 0, depth: 0 };
    /// 16, at most 3 deep.
    pub const STANDARD: Self = Self { total: 16, depth: 3 };

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// What is wrong with them, in words, if anything is.
    pub fn check(&self) -> Result<(), String> {
        if self.total > MOST_AGENTS || self.depth > MOST_DEPTH {
            return Err(format!(
                "a run has at most {MOST_AGENTS} agents beside its root, and they stand at most {MOST_DEPTH} deep"
            ));
        }
        Ok(())
    }
}

/// Most agents beside the root that any contract allows.
pub const MOST_AGENTS: u32 = 256;

/// How deep any contract lets agents stand.
pub const MOST_DEPTH: u32 = 16;

/// Most rules that an agent's orders deny it. Each is tried on each touch of it and of those beneath it.
pub const MOST_DENIED: usize = 64;

/// Longest name of an agent, in bytes.
const LONGEST_NAME: usize = 32;

/// Whether `name` is one for an agent: 1 to 32 characters of `[a-z0-9_-]`.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(fits)
}

/// The orders of an agent that is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// Its id.
    pub agent: AgentId,
    /// What to call it. Not unique: policy speaks of it, and people read it.
    pub name: String,
    /// What it is to do, in words (blob).
    pub goal: Digest,
    /// What it is told behind what the root's system prompt says (blob).
    pub briefing: Digest,
    /// What it may not do, of all that its parent may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Pattern>,
    /// Most answers of a model that it and those beneath it may have; without a bound, what the run's budget leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
}

/// How an agent that was started ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", deny_unknown_fields)]
pub enum AgentEnd {
    /// It says that it is done.
    Done,
    /// The same failing call again and again, or answers that hold nothing.
    Stalled,
    /// Its own steps are spent, or those of an agent above it.
    StepsSpent,
    /// The run's budget is spent.
    BudgetSpent {
        /// Which bound.
        bound: Bound,
    },
    /// The run was cancelled.
    Cancelled,
}

impl AgentEnd {
    /// How the act ends that started it.
    pub fn of_act(self) -> ActEnd {
        match self {
            Self::Done => ActEnd::Done,
            Self::Stalled | Self::StepsSpent | Self::BudgetSpent { .. } => ActEnd::Failed,
            Self::Cancelled => ActEnd::Interrupted,
        }
    }

    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stalled => "stalled",
            Self::StepsSpent => "steps_spent",
            Self::BudgetSpent { .. } => "budget_spent",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An agent that was started is over. The event is its own, so it does not say which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEnded {
    /// How.
    pub end: AgentEnd,
    /// What whoever started it is told (blob).
    pub result: Digest,
}
