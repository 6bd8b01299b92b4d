//! What each event of a journal changed in the workspace.

use std::collections::BTreeMap;

use crate::act::{ActEnd, Change, Intent};
use crate::event::{Body, Event};
use crate::id::ActId;
use crate::path::RelPath;

/// Follows a journal, event by event. A write that is done does not say again what it set out to change, so its end is
/// read together with its start.
///
/// ```
/// use provost_core::changes::Changes;
/// # let events: Vec<provost_core::event::Event> = Vec::new();
/// let mut changes = Changes::default();
/// let touched: usize = events.iter().map(|event| changes.by(event).len()).sum();
/// assert_eq!(touched, 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Changes {
    sets_out: BTreeMap<ActId, Vec<Change>>,
}

impl Changes {
    /// What `event` changed. Events must be given in their order, from the first on.
    pub fn by(&mut self, event: &Event) -> Vec<Change> {
        match &event.body {
            Body::ActStarted(started) => {
                if let Intent::Write { changes } = &started.intent {
                    self.sets_out.insert(started.act, changes.clone());
                }
                Vec::new()
            }
            Body::ActFinished(finished) => match self.sets_out.remove(&finished.act) {
                Some(changes) if finished.end == ActEnd::Done => changes,
                _ => finished.changes.clone(),
            },
            Body::ProcessChanged(changed) => changed.changes.clone(),
            Body::ProcessEnded(ended) => ended.changes.clone(),
            Body::WorkspaceDrifted(drifted) => drifted.changes.clone(),
            Body::WorkspaceRewound(rewound) => rewound.changes.clone(),
            _ => Vec::new(),
        }
    }
}

/// Adds a change to the net of all changes: first before and last after. Back where it started is no change.
pub(crate) fn merge(net: &mut BTreeMap<RelPath, Change>, change: &Change) {
    let held = net.entry(change.path.clone()).or_insert_with(|| change.clone());
    held.after.clone_from(&change.after);
    if held.before == held.after {
        net.remove(&change.path);
    }
}
