//! Letters: what somebody says to whoever drives a run, from another process. They wait beside the run until its driver
//! reads them and makes events of them; nothing is true because a letter says it.

use provost_core::event::Verdict;
use provost_core::id::ActId;
use serde::{Deserialize, Serialize};

/// A letter to a run's driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Who wrote it.
    pub by: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What it says.
    pub says: Word,
}

/// What a letter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "says")]
pub enum Word {
    /// End the run without its work.
    Cancel,
    /// Leave the run, and let no worker take it.
    Hold,
    /// Whether an act that waits may happen.
    Verdict {
        /// The act.
        act: ActId,
        /// Yes or no.
        verdict: Verdict,
    },
}

impl Word {
    /// What it is about. Of each subject a run has one letter: the first.
    pub(crate) fn subject(self) -> String {
        match self {
            Self::Cancel => "cancel".to_owned(),
            Self::Hold => "hold".to_owned(),
            Self::Verdict { act, .. } => format!("act-{act}"),
        }
    }
}

/// What became of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// It waits for the driver.
    Waits,
    /// Another about the same waits already, and this one was not taken.
    TooLate(Letter),
}
