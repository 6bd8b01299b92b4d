//! The dialogue as a projection of the events: which blobs make up which message, in which order.

use std::collections::BTreeMap;

use crate::act::ActEnd;
use crate::brief::ImageFact;
use crate::digest::Digest;
use crate::event::{Body, CallRef, Event, MOST_CALLS, NoteWhy};
use crate::id::ActId;

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
    /// The work, so many answers into the run.
    Work(u32),
    /// A fold: it does not survive the next one.
    Fold,
}

/// Folds events into messages. A call and its result are never apart: the results of an answer come out as one item
/// once all are there.
#[derive(Debug, Default)]
pub struct Dialogue {
    items: Vec<Item>,
    about: Vec<About>,
    acts: BTreeMap<ActId, CallRef>,
    results: Vec<Option<ItemResult>>,
    answers: u32,
    is_folding: bool,
}

impl Dialogue {
    /// All that is said to the model, in order. Between folds it only grows.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Takes an event in: it completes at most one message. A fold replaces messages by one.
    pub fn apply(&mut self, event: &Event) {
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
                    About::Work(self.answers)
                };
                self.push(about, Item::User(body.text));
            }
            Body::ModelAnswered(body) => {
                self.results = vec![None; body.calls.min(MOST_CALLS) as usize];
                self.push(self.about_answer(self.answers), Item::Assistant(body.answer));
                self.answers += 1;
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
            Body::ContextFolded(body) => self.fold(body.from.0, body.text),
            _ => {}
        }
    }

    fn push(&mut self, about: About, item: Item) {
        self.about.push(about);
        self.items.push(item);
    }

    fn about_answer(&self, step: u32) -> About {
        if self.is_folding { About::Fold } else { About::Work(step) }
    }

    fn settle(&mut self, call: CallRef, result: ItemResult) {
        let Some(slot) = self.results.get_mut(call.index as usize) else { return };
        *slot = Some(result);
        let all: Option<Vec<ItemResult>> = self.results.iter().copied().collect();
        if let Some(all) = all {
            self.results.clear();
            self.push(self.about_answer(self.answers.saturating_sub(1)), Item::Results(all));
        }
    }

    fn fold(&mut self, from: u32, text: Digest) {
        let kept = std::mem::take(&mut self.about).into_iter().zip(std::mem::take(&mut self.items));
        let mut kept: Vec<(About, Item)> = kept
            .filter(|(about, _)| match about {
                About::Goal => true,
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
