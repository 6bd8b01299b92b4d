//! Commands that go on when the act that started them is over: dev servers, watchers.
//!
//! Such a command is named after its act. The journal knows it from `act.started` on, and it is open until
//! `process.ended`. None outlives its driver, none is open when the gate runs or the run ends, and none is started again.

use serde::{Deserialize, Serialize};

use crate::act::{Change, CommandFact};
use crate::digest::Digest;
use crate::id::ActId;
use crate::path::RelPath;

/// Most background commands of a run at once.
pub const MOST_PROCESSES: usize = 8;

const PREFIX: &str = "bg-";

/// The name by which the model knows a background command.
///
/// ```
/// use provost_core::{id::ActId, process};
/// assert_eq!(process::name(ActId(7)), "bg-7");
/// assert_eq!(process::named("bg-7"), Some(ActId(7)));
/// assert_eq!(process::named("bg-07"), None);
/// ```
pub fn name(act: ActId) -> String {
    format!("{PREFIX}{act}")
}

/// The act that started the command of that name, if it is one.
pub fn named(text: &str) -> Option<ActId> {
    let act = ActId(text.strip_prefix(PREFIX)?.parse().ok()?);
    (name(act) == text).then_some(act)
}

/// Which part of a background command's output an act showed to the model: bytes `from` to `to`, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The act that started the command.
    pub process: ActId,
    /// How much had been shown before.
    pub from: u64,
    /// How much there was. What was left out in between is said in the result.
    pub to: u64,
}

/// What went over a port of a background command that the host's loopback leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The port, on 127.0.0.1 and of the command.
    pub port: u16,
    /// Connections that came about.
    pub connections: u64,
    /// Connections that did not: nothing listened there, or there were too many.
    pub refused: u64,
    /// Bytes that the command sent.
    pub sent: u64,
    /// Bytes that it received.
    pub received: u64,
}

/// Files changed between acts while background commands ran: one of those changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessChanged {
    /// What changed.
    pub changes: Vec<Change>,
    /// Changes that were undone because policy denies writing there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<RelPath>,
}

/// A background command is over, with all its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessEnded {
    /// The act that started it.
    pub act: ActId,
    /// How it ended. `None` where it is gone with its driver and left no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandFact>,
    /// What went over its published port, where it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// How it ended and what it wrote since its output was last shown, in words (blob).
    pub report: Digest,
    /// What changed since the journal last looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Changes that were undone because policy denies writing there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<RelPath>,
}
