//! The content that each step of a session's run left. With it a recipient can do the steps again, one by one, where the
//! net change alone would leave gaps.

use std::collections::BTreeSet;

use provost_core::act::{Change, Intent};
use provost_core::digest::Digest;
use provost_core::event::{Body, Event};

/// The salted digests of content that an event says was left, as far as the journal keeps it.
pub fn left_by(event: &Event) -> impl Iterator<Item = Digest> + '_ {
    let changes: &[Change] = match &event.body {
        Body::ActStarted(started) => match &started.intent {
            Intent::Write { changes } => changes,
            _ => &[],
        },
        Body::ActFinished(finished) => &finished.changes,
        Body::ProcessChanged(changed) => &changed.changes,
        Body::ProcessEnded(ended) => &ended.changes,
        Body::WorkspaceDrifted(drifted) => &drifted.changes,
        _ => &[],
    };
    changes
        .iter()
        .filter_map(|change| change.after.as_ref())
        .filter(|file| file.kept)
        .map(|file| file.content)
}

/// What a session's bundle holds beside the content of its net change; nothing of a run that nobody authorized.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    is_session: bool,
    left: BTreeSet<Digest>,
}

impl Steps {
    /// Takes the next event in.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Body::RunCreated(created) = &event.body {
            self.is_session = created.authorized.is_some();
        }
        if self.is_session {
            self.left.extend(left_by(event));
        }
    }

    /// The content that was left at any step.
    pub(crate) fn contents(&self) -> &BTreeSet<Digest> {
        &self.left
    }
}
