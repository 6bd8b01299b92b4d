//! The hash chain: each event names the hash of the one before.

use serde::Serialize;

use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, Event};
use provost_core::id::{AgentId, RunId};

use crate::canonical::{NotCanonical, sha256, to_canonical};

/// The newest event of a stream: where the next one goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Place of the next event: the number of events so far.
    pub next: u64,
    /// Hash of the newest event; [`Digest::ZERO`] while there is none.
    pub hash: Digest,
}

impl Head {
    /// The head of an empty stream.
    pub fn empty() -> Self {
        Self { next: 0, hash: Digest::ZERO }
    }
}

#[derive(Serialize)]
struct Unhashed<'a> {
    v: u32,
    stream: &'a RunId,
    seq: u64,
    at_ms: u64,
    agent: AgentId,
    #[serde(flatten)]
    body: &'a Body,
    prev: Digest,
}

/// Gives a draft its place behind `head`, and moves `head` on.
pub fn seal(stream: &RunId, head: &mut Head, draft: Draft) -> Result<Event, NotCanonical> {
    let v = draft.body.version();
    let unhashed = Unhashed {
        v,
        stream,
        seq: head.next,
        at_ms: draft.at_ms,
        agent: draft.agent,
        body: &draft.body,
        prev: head.hash,
    };
    let hash = sha256(&to_canonical(&unhashed)?);
    let event = Event {
        v,
        stream: stream.clone(),
        seq: head.next,
        at_ms: draft.at_ms,
        agent: draft.agent,
        body: draft.body,
        prev: head.hash,
        hash,
    };
    *head = Head { next: head.next + 1, hash };
    Ok(event)
}
