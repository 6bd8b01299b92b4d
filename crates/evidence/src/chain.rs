//! The hash chain: each event names the hash of the one before.

use serde::Serialize;

use provost_core::digest::Digest;
use provost_core::event::{Body, Draft, Event};
use provost_core::id::{AgentId, RunId};

use crate::canonical::{NotCanonical, sha256, sha256_of, to_canonical};

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
    Ok(seal_to_json(stream, head, draft)?.0)
}

/// [`seal`]s, and gives the event's canonical JSON too, which is made on the way.
pub fn seal_to_json(stream: &RunId, head: &mut Head, draft: Draft) -> Result<(Event, Vec<u8>), NotCanonical> {
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
    let mut json = to_canonical(&unhashed)?;
    let hash = sha256(&json);
    // `hash` sorts right before `kind`, and behind the event's own `kind` stand only names and numbers.
    if let Some(at) = last(&json, KIND) {
        json.splice(at..at, format!("{HASH}{hash}\"").into_bytes());
    }
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
    Ok((event, json))
}

/// What the hash and the kind of an event stand behind, in its canonical JSON.
const HASH: &str = ",\"hash\":\"";
const KIND: &str = ",\"kind\":\"";

/// Where `text` stands last. It is never far from the end.
fn last(json: &[u8], text: &str) -> Option<usize> {
    json.windows(text.len()).rposition(|window| window == text.as_bytes())
}

/// Reads a line of a journal, if it is exactly what [`seal_to_json`] gives for some event: canonical, of a kind and in a
/// spelling that this program writes, and with the right hash. Its place in the stream is for the caller to look at.
/// `None` says nothing of what is wrong: whoever needs to know looks at the line piece by piece.
pub fn unseal(json: &[u8]) -> Option<Event> {
    let event = unseal_own(json)?;
    (to_canonical(&event).ok()? == json).then_some(event)
}

/// The same for a line of one's own store, which was written by [`seal_to_json`] or is damaged: its hash tells. Whether the
/// spelling is the one is not looked at again, so this is nothing for lines from elsewhere.
pub fn unseal_own(json: &[u8]) -> Option<Event> {
    // Taking the member `hash` out of canonical JSON leaves the canonical JSON of the rest.
    let (event, hash) = Event::from_canonical(json)?;
    (sha256_of(&[&json[..hash.start], &json[hash.end..]]) == event.hash).then_some(event)
}
