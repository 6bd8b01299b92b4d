//! The dialogue as a projection of the events: which blobs make up which message, in which order.

use std::collections::BTreeMap;

use crate::act::{ActEnd, Intent};
use crate::brief::ImageFact;
use crate::digest::Digest;
use crate::event::{Body, CallRef, Event, MOST_CALLS, NoteWhy};
use crate::id::{ActId, AgentId, StepId};

/// One message, its words named by digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Words of the person or the runtime (blob: text).
    User(Digest),
    /// The same, with images beside it (blobs: base64).
    Shown(Digest, Vec<ImageFact>),
    /// An answer of the model (blob: JSON of an assistant message).
    Assistant(Digest),
    /// Results of the calls of the answer before it, in call order.
    Results(Vec<ItemResult>),
}

/// One result (blob: text).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemResult {
    /// What the model is told.
    pub text: Digest,
    /// Whether it tells of a failure or a refusal.
    pub is_error: bool,
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// The goal: it survives every fold.
    Goal,
    /// The work at this step. What is said before an answer is about the step that it begins.
    Work(StepId),
    /// What will be answered next, whatever step that begins.
    Next,
    /// A fold: it does not survive the next one.
    Fold,
}

/// Folds events into the messages of one agent, the root where no other is named. A call and its result are never apart:
/// the results of an answer come out as one item once all are there.
#[derive(Debug, Default)]
pub struct Dialogue {
    agent: AgentId,
    items: Vec<Item>,
    about: Vec<About>,
    acts: BTreeMap<ActId, CallRef>,
    results: Vec<Option<ItemResult>>,
    /// The newest answer's.
    step: StepId,
    is_folding: bool,
}

impl Dialogue {
    /// That of an agent. It begins with its goal, and nothing of what others said is in it.
    pub fn of(agent: AgentId) -> Self {
        Self { agent, ..Self::default() }
    }

    /// All that is said to the model, in order. Between folds it only grows.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Takes an event in: it completes at most one message. A fold replaces messages by one.
    pub fn apply(&mut self, event: &Event) {
        if let Body::ActStarted(body) = &event.body
            && let Intent::Spawn(spawn) = &body.intent
            && spawn.agent == self.agent
        {
            self.push(About::Goal, Item::User(spawn.goal));
        }
        if event.agent != self.agent {
            return;
        }
        match &event.body {
            Body::RunCreated(body) => {
                let goal = match &body.brief {
                    Some(brief) if !brief.images.is_empty() => Item::Shown(body.goal, brief.images.clone()),
                    _ => Item::User(body.goal),
                };
                self.push(About::Goal, goal);
            }
            Body::Note(body) => {
                let about = if body.why == NoteWhy::ContextFull {
                    self.is_folding = true;
                    About::Fold
                } else {
                    About::Next
                };
                self.push(about, Item::User(body.text));
            }
            Body::ModelAnswered(body) => {
                self.results = vec![None; body.calls.min(MOST_CALLS) as usize];
                // A summary that was asked for in between is no work.
                let since = |about: &&mut About| matches!(about, About::Next | About::Fold);
                let notes = self.about.iter_mut().rev().take_while(since);
                for about in notes.filter(|about| **about == About::Next) {
                    *about = About::Work(body.step);
                }
                self.step = body.step;
                self.push(self.about_step(), Item::Assistant(body.answer));
            }
            Body::CallInvalid(body) => {
                self.settle(body.call, ItemResult { text: body.result, is_error: true });
            }
            Body::ActDecided(body) => {
                if let Some(call) = body.call {
                    self.acts.insert(body.act, call);
                }
            }
            Body::ActFinished(body) => {
                if let Some(call) = self.acts.remove(&body.act) {
                    self.settle(call, ItemResult { text: body.result, is_error: body.end != ActEnd::Done });
                }
            }
            Body::ContextFolded(body) => self.fold(body.from, body.text),
            _ => {}
        }
    }

    fn push(&mut self, about: About, item: Item) {
        self.about.push(about);
        self.items.push(item);
    }

    fn about_step(&self) -> About {
        if self.is_folding { About::Fold } else { About::Work(self.step) }
    }

    fn settle(&mut self, call: CallRef, result: ItemResult) {
        let Some(slot) = self.results.get_mut(call.index as usize) else { return };
        *slot = Some(result);
        let all: Option<Vec<ItemResult>> = self.results.iter().copied().collect();
        if let Some(all) = all {
            self.results.clear();
            self.push(self.about_step(), Item::Results(all));
        }
    }

    fn fold(&mut self, from: StepId, text: Digest) {
        let kept = std::mem::take(&mut self.about).into_iter().zip(std::mem::take(&mut self.items));
        let mut kept: Vec<(About, Item)> = kept
            .filter(|(about, _)| match about {
                About::Goal | About::Next => true,
                About::Work(step) => *step >= from,
                About::Fold => false,
            })
            .collect();
        let goal = kept.iter().take_while(|(about, _)| *about == About::Goal).count();
        kept.insert(goal, (About::Fold, Item::User(text)));
        (self.about, self.items) = kept.into_iter().unzip();
        self.is_folding = false;
    }
}
