//! Reads that begin while the answer that asks for them is still coming.
//!
//! A call whose arguments are complete is looked at as soon as it is heard: where it only reads, and policy allows that
//! outright, it is read then. What it saw is used if the whole answer asks for exactly this in this place; otherwise nobody
//! ever learns of it. Nothing is recorded before the answer is whole, so the journal is the same either way.

use std::collections::BTreeMap;
use std::path::PathBuf;

use provost_core::act::{Recovery, Touch};
use provost_core::contract::Limits;
use provost_core::path::RelPath;
use provost_core::policy::Effect as Decided;
use provost_core::transcript::Call;
use provost_sandbox::image::Image;
use provost_tools::{Context, Effect, Observation, Registry, SeenState};

use crate::files::Files;
use crate::recorder::Recorder;

/// A tool's view of the run.
pub(crate) struct Sight<'a> {
    recorder: &'a Recorder,
    files: &'a Files,
    limits: &'a Limits,
    environment: &'a BTreeMap<String, String>,
    image: Option<&'a Image>,
    /// What was put before the policy for the act at hand, and is allowed by it or by a person.
    cleared: &'a [Touch],
}

impl<'a> Sight<'a> {
    pub(crate) fn new(
        (recorder, files): (&'a Recorder, &'a Files),
        limits: &'a Limits,
        environment: &'a BTreeMap<String, String>,
        image: Option<&'a Image>,
    ) -> Self {
        Self { recorder, files, limits, environment, image, cleared: &[] }
    }

    /// With touches that a person has allowed.
    pub(crate) fn cleared(self, cleared: &'a [Touch]) -> Self {
        Self { cleared, ..self }
    }

    pub(crate) fn look<R>(&self, f: impl FnOnce(&Context<'_>) -> R) -> R {
        let state = self.recorder.state();
        let salt = self.recorder.salt();
        let seen = |path: &RelPath, bytes: &[u8]| match state.seen(path) {
            None => SeenState::Unseen,
            Some(digest) if *digest == salt.digest(bytes) => SeenState::Same,
            Some(_) => SeenState::Different { last: None },
        };
        let decide = |touch: Touch| Some(state.policy_of(state.acting())?.decide(&[touch], state.rung()));
        let cleared: Vec<_> = self.cleared.iter().filter_map(|touch| decide(touch.clone())).collect();
        // A file that a rule of its own asks about is not read because a search of the folder above it may be.
        let readable = |path: &RelPath| {
            let decided = decide(Touch::Read { path: path.clone() });
            decided.is_some_and(|decided| match decided.effect {
                Decided::Allow => true,
                Decided::Ask => cleared.contains(&decided),
                Decided::Deny => false,
            })
        };
        let image: Option<PathBuf> = self.image.map(Image::root);
        f(&Context {
            workspace: self.files.workspace(),
            limits: self.limits,
            seen: &seen,
            readable: &readable,
            environment: self.environment,
            image: image.as_deref(),
        })
    }
}

/// What was read ahead for the answer that is coming: for its first calls, as long as each of them only reads.
#[derive(Default)]
pub(crate) struct Ahead {
    read: Vec<(Call, Vec<Touch>, Observation)>,
    /// Bytes that are held.
    held: usize,
    over: bool,
}

/// Most reads of one answer that are made ahead, and most bytes that are held of them: an answer may ask for thousands.
const MOST_READS: usize = 32;
const MOST_HELD: usize = 8 << 20;

impl Ahead {
    /// Hears the next call of the answer.
    pub(crate) fn hear(&mut self, call: Call, tools: &Registry, sight: &Sight<'_>) {
        if self.over || self.read.len() >= MOST_READS || self.held >= MOST_HELD {
            self.over = true;
            return;
        }
        match read(&call, tools, sight) {
            Some((touches, observation)) => {
                let seen = observation.seen.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                self.held += observation.text.len() + seen;
                self.read.push((call, touches, observation));
            }
            // What stands behind it may read what it changes.
            None => self.over = true,
        }
    }

    /// What was read for the call in this place, if it was exactly this one.
    pub(crate) fn take(&mut self, place: u32, call: &Call, touches: &[Touch]) -> Option<Observation> {
        let (heard, touched, observation) = self.read.get_mut(place as usize)?;
        let same = heard.name == call.name && heard.arguments == call.arguments && touched == touches;
        same.then(|| std::mem::take(observation))
    }
}

fn read(call: &Call, tools: &Registry, sight: &Sight<'_>) -> Option<(Vec<Touch>, Observation)> {
    let (tool, args) = tools.decode(&call.name, &call.arguments).ok()?;
    if tool.recovery() != Recovery::Replayable {
        return None;
    }
    let touches = sight.look(|ctx| tool.touches(&args, ctx)).ok()?;
    let reads = !touches.is_empty() && touches.iter().all(|touch| matches!(touch, Touch::Read { .. }));
    let state = sight.recorder.state();
    let allowed = |policy: &provost_core::policy::Policy| {
        policy.decide(&touches, state.rung()).effect == Decided::Allow
    };
    if !reads || !state.policy_of(state.acting()).is_some_and(allowed) {
        return None;
    }
    match sight.look(|ctx| tool.prepare(&args, ctx)).ok()? {
        Effect::Observe(observation) => Some((touches, observation)),
        _ => None,
    }
}
