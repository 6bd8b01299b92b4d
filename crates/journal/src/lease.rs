//! The right to drive a run.

use provost_core::id::RunId;

use crate::owner::Owner;

/// The right to append to a run, until somebody else acquires it.
///
/// Time alone does not end it: an expired lease that nobody took still writes, since there is nobody to conflict with.
/// The generation is the fencing token: it rises with every acquisition, and only the newest one writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// Fencing token; the first lease of a run has 1, that of a fork one more than its parent's newest driver had there.
    pub generation: u64,
    /// Who holds it.
    pub owner: Owner,
    /// When others may take it, in milliseconds since the Unix epoch.
    pub expires_ms: u64,
}
