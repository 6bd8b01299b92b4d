//! What cannot have happened.

use crate::policy::Decision;
use crate::session::Outside;

/// An event that does not follow from those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It is out of place.
    #[error("event {found} stands where event {expected} belongs")]
    Sequence {
        /// The place that is due.
        expected: u64,
        /// The place it claims.
        found: u64,
    },
    /// It is of another run.
    #[error("event {seq} belongs to another run, `{stream}`")]
    Stream {
        /// Its place.
        seq: u64,
        /// The run it names.
        stream: String,
    },
    /// It records a decision that the policy does not give.
    #[error("event {seq} records `{recorded}` where the policy decides `{decided}`")]
    Decision {
        /// Its place.
        seq: u64,
        /// What it records.
        recorded: Box<Decision>,
        /// What the policy gives.
        decided: Box<Decision>,
    },
    /// It begins something at a time at which the run is not authorized to.
    #[error("event {seq} ({kind}) cannot follow: it begins something {}", outside.words())]
    Window {
        /// Its place.
        seq: u64,
        /// Its kind.
        kind: &'static str,
        /// On which side of the authorization's time it lies.
        outside: Outside,
    },
    /// It cannot follow.
    #[error("event {seq} ({kind}) cannot follow: {why}")]
    Transition {
        /// Its place.
        seq: u64,
        /// Its kind.
        kind: &'static str,
        /// Why not.
        why: String,
    },
}
