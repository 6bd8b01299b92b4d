//! What the files of a run were at each of its steps.
//!
//! Steps are counted as people see them: step 1 is the first answer of the model and all that came of it. The state
//! after step N is what step N + 1 began with, or what there is where none has begun; what a person had put back after
//! step N is no part of it, so that a rewind can itself be taken back. Step 0 is the start of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::act::{Change, FileFact};
use crate::changes::{Changes, merge};
use crate::event::{Body, Event};
use crate::path::RelPath;

/// What one step changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepChange {
    /// Each file that is another after it, by path.
    pub changes: Vec<Change>,
    /// Those that also changed by no act meanwhile: somebody else worked there, or had them put back.
    pub drifted: BTreeSet<RelPath>,
}

/// How many steps a run has begun.
pub fn steps(events: &[Event]) -> u32 {
    events.iter().filter(|event| matches!(event.body, Body::ModelAnswered(_))).count() as u32
}

/// The places of the events of step `step`, counted from 1; `None` where the run has no such step.
fn span(events: &[Event], step: u32) -> Option<Range<usize>> {
    let mut answers = (0..events.len()).filter(|at| matches!(events[*at].body, Body::ModelAnswered(_)));
    let begin = answers.nth(step.checked_sub(1)? as usize)?;
    let end = answers.next().unwrap_or(events.len());
    let last_act = (begin..end).rev().find(|at| matches!(events[*at].body, Body::ActFinished(_)));
    let is_rewind = |at: &usize| matches!(events[*at].body, Body::WorkspaceRewound(_));
    let end = (last_act.unwrap_or(begin)..end).find(is_rewind).unwrap_or(end);
    Some(begin..end)
}

/// How many of the events happened up to the end of step `step`; `None` where the run has not begun that step.
pub fn settled_after(events: &[Event], step: u32) -> Option<usize> {
    if step == 0 {
        let made = events.iter().position(|event| matches!(event.body, Body::RunCreated(_)));
        return Some(made.map_or(0, |at| at + 1));
    }
    span(events, step).map(|span| span.end)
}

/// Each file that ever changed in the run, as it was when the first `count` events had happened; `None` for one that was
/// not there.
pub fn files_at(events: &[Event], count: usize) -> BTreeMap<RelPath, Option<FileFact>> {
    let mut changes = Changes::default();
    let mut files = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        for change in changes.by(event) {
            if at < count {
                files.insert(change.path, change.after);
            } else {
                files.entry(change.path).or_insert(change.before);
            }
        }
    }
    files
}

/// What step `step` alone changed, by acts or without one: what leads from the files before it to those after it. `None` where the run has no such step.
pub fn changed_in(events: &[Event], step: u32) -> Option<StepChange> {
    let span = span(events, step)?;
    let mut changes = Changes::default();
    let mut net = BTreeMap::new();
    let mut drifted = BTreeSet::new();
    for (at, event) in events[..span.end].iter().enumerate() {
        let made = changes.by(event);
        if at < span.start {
            continue;
        }
        if matches!(event.body, Body::WorkspaceDrifted(_) | Body::WorkspaceRewound(_)) {
            drifted.extend(made.iter().map(|change| change.path.clone()));
        }
        for change in &made {
            merge(&mut net, change);
        }
    }
    drifted.retain(|path| net.contains_key(path));
    Some(StepChange { changes: net.into_values().collect(), drifted })
}
