//! The dialogue as a projection of the events: which blobs make up which message, in which order.

use crate::act::ActEnd;
use crate::brief::ImageFact;
use crate::digest::Digest;
use crate::event::{Body, CallRef, Event, MOST_CALLS};
use crate::id::ActId;
use std::collections::BTreeMap;

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

/// Folds events into messages. A call and its result are never apart: the results of an answer come out as one item
/// once all are there.
#[derive(Debug, Default)]
pub struct Dialogue {
    acts: BTreeMap<ActId, CallRef>,
    results: Vec<Option<ItemResult>>,
}

impl Dialogue {
    /// The messages that `event` completes, at most one.
    pub fn apply(&mut self, event: &Event) -> Option<Item> {
        match &event.body {
            Body::RunCreated(body) => Some(match &body.brief {
                Some(brief) if !brief.images.is_empty() => Item::Shown(body.goal, brief.images.clone()),
                _ => Item::User(body.goal),
            }),
            Body::Note(body) => Some(Item::User(body.text)),
            Body::ModelAnswered(body) => {
                self.results = vec![None; body.calls.min(MOST_CALLS) as usize];
                Some(Item::Assistant(body.answer))
            }
            Body::CallInvalid(body) => {
                self.settle(body.call, ItemResult { text: body.result, is_error: true })
            }
            Body::ActDecided(body) => {
                if let Some(call) = body.call {
                    self.acts.insert(body.act, call);
                }
                None
            }
            Body::ActFinished(body) => {
                let call = self.acts.remove(&body.act)?;
                self.settle(call, ItemResult { text: body.result, is_error: body.end != ActEnd::Done })
            }
            _ => None,
        }
    }

    fn settle(&mut self, call: CallRef, result: ItemResult) -> Option<Item> {
        *self.results.get_mut(call.index as usize)? = Some(result);
        let all: Option<Vec<ItemResult>> = self.results.iter().copied().collect();
        let all = all?;
        self.results.clear();
        Some(Item::Results(all))
    }
}
