//! Names of runs, agents, acts and steps.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// Names a run and its stream of events: 4 to 64 characters of `[a-z0-9-]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct RunId(String);

/// The text is not a run's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a run id: expected 4 to 64 characters of a-z, 0-9 and `-`")]
pub struct BadRunId(String);

impl RunId {
    /// Makes a name that sorts by creation time: `at_ms` (milliseconds since the Unix epoch) and 40 random bits.
    ///
    /// ```
    /// use provost_core::id::RunId;
    /// let id = RunId::from_parts(1_796_000_000_000, [1, 2, 3, 4, 5]);
    /// assert_eq!(id.as_str(), "r01a229f12800-0102030405");
    /// ```
    pub fn from_parts(at_ms: u64, random: [u8; 5]) -> Self {
        let mut id = format!("r{at_ms:012x}-");
        for byte in random {
            let _ = write!(id, "{byte:02x}");
        }
        Self(id)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = BadRunId;
    fn from_str(text: &str) -> Result<Self, BadRunId> {
        let fits = (4..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits { Ok(Self(text.to_owned())) } else { Err(BadRunId(text.chars().take(80).collect())) }
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl TryFrom<String> for RunId {
    type Error = BadRunId;
    fn try_from(text: String) -> Result<Self, BadRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

numbered! {
    /// An agent of the run's tree; 0 is the root.
    AgentId
}
impl AgentId {
    /// The agent that the contract orders.
    pub const ROOT: Self = Self(0);
}
numbered! {
    /// An act of the run, dense from 0 in the order in which acts were decided.
    ActId
}
numbered! {
    /// A step: one answer of the model and what came of it. Dense from 0.
    StepId
}
