//! `provost diff`, and the patch that other commands print.

use std::collections::BTreeSet;

use provost::agent::Words;
use provost::core::act::Change;
use provost::core::event::RunCreated;
use provost::core::history;
use provost::core::id::RunId;
use provost::core::path::RelPath;
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};
use provost::evidence::recorded::patch_of;
use provost::journal::Store;
use serde_json::{Value, json};

use super::held::Held;
use super::setup::Place;
use crate::args::Diff;
use crate::failure::Failure;
use crate::render::{JsonLines, counted, put_patch, word};
use crate::world::World;

/// Names that one note holds.
const MOST_NAMES: usize = 10;

pub(crate) async fn diff(world: &World, args: Diff) -> Result<u8, Failure> {
    let place = Place::existing(world, args.store.store.as_deref())?;
    let (run, created, state) = place.load(&args.run).await?;
    let (changes, drifted) = match args.step {
        None => {
            let changes: Vec<Change> = state.net_changes().values().cloned().collect();
            (changes, state.drifted().cloned().collect())
        }
        Some(step) => {
            let events = place.store.events(&run, 0).await?;
            let made = history::changed_in(&events, step).ok_or_else(|| {
                let steps = counted(history::steps(&events), "step");
                Failure::usage(format!("the run has {steps}: there is no step {step}"))
            })?;
            (made.changes, made.drifted)
        }
    };
    if args.json {
        for change in &changes {
            let mut object = object(change);
            object["drifted"] = json!(drifted.contains(&change.path));
            JsonLines::say(&object);
        }
        return Ok(0);
    }
    put_patch(&patch(&place, &run, &created, &changes).await?);
    for note in notes(&drifted, &state, args.step) {
        eprintln!("note: {note}");
    }
    Ok(0)
}

/// A changed file for programs.
pub(crate) fn object(change: &Change) -> Value {
    json!({
        "path": change.path,
        "kind": word(change),
        "before": change.before,
        "after": change.after,
    })
}

/// Changes as a patch from the repository's root: all of it, or an error.
pub(crate) async fn patch(
    place: &Place,
    run: &RunId,
    created: &RunCreated,
    changes: &[Change],
) -> Result<Vec<u8>, Failure> {
    if !changes.is_empty() && place.store.salt(run).await?.is_none() {
        return Err(Failure::evidence(format!(
            "the words of `{run}` were dropped: which files changed is known, what was in them is not"
        ))
        .hint("--json names them"));
    }
    let sides = changes.iter().flat_map(|change| [&change.before, &change.after]).flatten();
    let held = Held::of(place, run, sides.filter(|fact| fact.kept).map(|fact| fact.content)).await?;
    patch_of(changes, created.source.scope(), |digest| held.get(digest))
        .map_err(|error| Failure::evidence(error).hint("--json names all that changed"))
}

/// What a patch cannot say.
fn notes(drifted: &BTreeSet<RelPath>, state: &RunState, step: Option<u32>) -> Vec<String> {
    let mut notes = Vec::new();
    if !drifted.is_empty() {
        notes.push(format!("also changed by no act of the run: {}", names(drifted.iter())));
    }
    let since: Vec<&RelPath> = since_the_end(state).collect();
    if step.is_none() && !since.is_empty() {
        notes.push(format!("this is what the run came to; put back since: {}", names(since.into_iter())));
    }
    notes
}

/// Files of the net change that a person had put back after the run was over.
pub(crate) fn since_the_end(state: &RunState) -> impl Iterator<Item = &RelPath> {
    let net = state.net_changes().values();
    net.filter(|change| state.files().get(&change.path).is_some_and(|now| *now != change.after))
        .map(|change| &change.path)
}

pub(crate) fn names<'a>(all: impl ExactSizeIterator<Item = &'a RelPath>) -> String {
    let more = all.len().saturating_sub(MOST_NAMES);
    let mut out: Vec<String> =
        all.take(MOST_NAMES).map(|path| format!("`{}`", visible(path.as_str(), Lines::Escape))).collect();
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    out.join(", ")
}
