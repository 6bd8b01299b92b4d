//! What each event of a journal changed in the workspace.

use std::collections::BTreeMap;

use crate::act::{ActEnd, Change, Intent};
use crate::event::{Body, Event};
use crate::id::ActId;

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
            Body::WorkspaceDrifted(drifted) => drifted.changes.clone(),
            _ => Vec::new(),
        }
    }
}
