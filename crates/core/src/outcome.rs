//! How a run ends, and the exit code of each end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::Bound;

/// The end of a run. Once one stands in the journal the run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", deny_unknown_fields)]
pub enum Outcome {
    /// The agent submitted; where a gate was asked for it passed on this very tree.
    Done,
    /// The agent submitted and the gate failed, or verified nothing.
    GateFailed,
    /// Policy left the agent no way on.
    Refused,
    /// A budget was spent.
    BudgetSpent {
        /// Which.
        bound: Bound,
    },
    /// It was stopped: see why.
    Stopped {
        /// Why.
        why: StopWhy,
    },
    /// The authorization that it was under holds no longer.
    Unauthorized {
        /// Why not.
        why: Unauthorized,
    },
}

/// Why an authorization holds no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unauthorized {
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl Unauthorized {
    /// In words that follow "its authorization".
    pub fn words(self) -> &'static str {
        match self {
            Self::Expired => "has expired",
            Self::Revoked => "was revoked",
        }
    }
}

/// Why a run was stopped short of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWhy {
    /// The same failing call again and again, or answers that hold nothing.
    Stalled,
    /// A person cancelled it.
    Cancelled,
    /// The last answer never satisfied the schema that the contract names.
    Schema,
    /// More commands had to be rolled back than its authorization puts up with.
    RolledBack,
}

impl Outcome {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::GateFailed => 1,
            Self::Refused | Self::Unauthorized { .. } => 3,
            Self::BudgetSpent { .. } => 4,
            Self::Stopped { .. } => 10,
        }
    }

    /// One word for the last JSON line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::GateFailed => "gate_failed",
            Self::Refused => "refused",
            Self::BudgetSpent { .. } => "budget_spent",
            Self::Stopped { why: StopWhy::Stalled } => "stalled",
            Self::Stopped { why: StopWhy::Cancelled } => "cancelled",
            Self::Stopped { why: StopWhy::Schema } => "schema_failed",
            Self::Stopped { why: StopWhy::RolledBack } => "rolled_back",
            Self::Unauthorized { .. } => "unauthorized",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::GateFailed => f.write_str("the verification gate did not pass"),
            Self::Refused => f.write_str("refused by policy"),
            Self::BudgetSpent { bound } => write!(f, "the budget of {bound} is spent"),
            Self::Stopped { why: StopWhy::Stalled } => f.write_str("stopped: no progress"),
            Self::Stopped { why: StopWhy::Cancelled } => f.write_str("stopped: cancelled"),
            Self::Stopped { why: StopWhy::Schema } => {
                f.write_str("stopped: the answer never satisfied its schema")
            }
            Self::Stopped { why: StopWhy::RolledBack } => {
                f.write_str("stopped: too many commands had to be rolled back")
            }
            Self::Unauthorized { why } => write!(f, "its authorization {}", why.words()),
        }
    }
}

/// Why a driver left a run that is not over. Each can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// An act waits for a person's approval.
    Approval,
    /// An act may or may not have happened: a person decides.
    Indeterminate,
    /// The provider is unavailable or failed.
    Provider,
    /// The person interrupted the driver.
    Interrupted,
}

impl Pause {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Approval | Self::Indeterminate => 5,
            Self::Provider => 6,
            Self::Interrupted => 130,
        }
    }

    /// One word for the last JSON line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approval => "waiting_for_approval",
            Self::Indeterminate => "waiting_for_decision",
            Self::Provider => "provider_failed",
            Self::Interrupted => "interrupted",
        }
    }
}
