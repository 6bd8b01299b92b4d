//! Content of a run, looked up ahead: looking it up waits, and who prints does not.

use std::collections::HashMap;

use provost::agent::{Asker, Words};
use provost::core::act::Change;
use provost::core::digest::Digest;
use provost::core::id::{AgentId, RunId};
use provost::core::state::RunState;
use provost::journal::Store;

use super::setup::Place;
use crate::failure::Failure;
use crate::render::Changed;

/// Files whose lines are counted. Of more than these the names say enough.
const MOST_COUNTED: usize = 500;

/// Content by its digest.
#[derive(Default)]
pub(crate) struct Held(HashMap<Digest, Vec<u8>>);

impl Words for Held {
    fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.0.get(digest).cloned()
    }
}

impl Held {
    /// What the store still has of these.
    pub(crate) async fn of(
        place: &Place,
        run: &RunId,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Result<Self, Failure> {
        let mut held = Self::default();
        for digest in digests {
            if let Some(bytes) = place.store.blob(run, digest).await? {
                held.0.insert(digest, bytes);
            }
        }
        Ok(held)
    }
}

/// One content as text.
pub(crate) async fn text(place: &Place, run: &RunId, digest: Digest) -> Result<Option<String>, Failure> {
    let bytes = place.store.blob(run, digest).await?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// An agent that wants something; `None` for the root.
pub(crate) async fn asker(
    place: &Place,
    run: &RunId,
    state: &RunState,
    agent: AgentId,
) -> Result<Option<Asker>, Failure> {
    let found = state.agent(agent).and_then(|found| Some((found.name()?.to_owned(), found.goal()?)));
    let Some((name, goal)) = found else { return Ok(None) };
    let goal = text(place, run, goal).await?.unwrap_or_else(|| "(dropped)".to_owned());
    Ok(Some(Asker { agent, name, goal }))
}

/// What differs from the start.
pub(crate) async fn changed(place: &Place, run: &RunId, state: &RunState) -> Result<Vec<Changed>, Failure> {
    let changes = state.net_changes();
    let mut all = Vec::with_capacity(changes.len());
    for change in changes.values() {
        let held =
            if changes.len() > MOST_COUNTED { Held::default() } else { sides(place, run, change).await? };
        all.push(Changed::of(change, &held));
    }
    Ok(all)
}

async fn sides(place: &Place, run: &RunId, change: &Change) -> Result<Held, Failure> {
    let sides = [&change.before, &change.after].into_iter().flatten();
    Held::of(place, run, sides.filter(|fact| fact.kept).map(|fact| fact.content)).await
}
