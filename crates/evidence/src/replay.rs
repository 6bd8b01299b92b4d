//! Reading a journal file back: each line an event, each event in its one spelling, each chained to the one before.

use provost_core::digest::Digest;
use provost_core::event::{BadEvent, Event};

use crate::canonical::{first_difference, sha256, to_canonical};
use crate::chain::{Head, unseal};

/// A journal file that is not an unbroken chain of events.
#[derive(Debug, thiserror::Error)]
pub enum BrokenJournal {
    /// No event at all.
    #[error("it holds no event")]
    Empty,
    /// The last line has no end.
    #[error("line {line}: it does not end with a line feed: the file was cut off")]
    CutOff {
        /// Line number, from 1.
        line: u64,
    },
    /// Not JSON.
    #[error("line {line}: not JSON: {source}")]
    Json {
        /// Line number, from 1.
        line: u64,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Not the canonical JSON of what it says.
    #[error("line {line}: not canonical JSON (RFC 8785): it differs from its canonical form at byte {at}")]
    NotCanonical {
        /// Line number, from 1.
        line: u64,
        /// First differing byte of the line.
        at: usize,
    },
    /// Not an event that this program knows.
    #[error("line {line}: {source}")]
    Event {
        /// Line number, from 1.
        line: u64,
        /// What is wrong.
        source: BadEvent,
    },
    /// The event is out of place.
    #[error("line {line}: expected event {expected}, found event {found}")]
    Sequence {
        /// Line number, from 1.
        line: u64,
        /// The place that is due.
        expected: u64,
        /// The place that the event claims.
        found: u64,
    },
    /// The event does not name the hash of the one before.
    #[error("line {line}: event {seq} names {found} as its predecessor; expected {expected}")]
    Link {
        /// Line number, from 1.
        line: u64,
        /// The event's place.
        seq: u64,
        /// Hash of the event before.
        expected: Digest,
        /// What it names.
        found: Digest,
    },
    /// The event's hash is not that of its bytes.
    #[error("line {line}: event {seq} claims the hash {found}; its bytes have {expected}")]
    Hash {
        /// Line number, from 1.
        line: u64,
        /// The event's place.
        seq: u64,
        /// Hash of the bytes of the line.
        expected: Digest,
        /// What it claims.
        found: Digest,
    },
}

/// Reads `journal.jsonl` and checks its chain from the first event on.
///
/// A hash is recomputed from the bytes of the line, not from what this program understood of them.
pub fn read_journal(bytes: &[u8]) -> Result<(Vec<Event>, Head), BrokenJournal> {
    let mut events = Vec::new();
    let head = each_event(bytes, |event| events.push(event))?;
    Ok((events, head))
}

/// The same, one event in memory at a time. What was handed out before an error is not to be relied on.
pub fn each_event(bytes: &[u8], mut take: impl FnMut(Event)) -> Result<Head, BrokenJournal> {
    let mut head = Head::empty();
    for (line, raw) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let Some(raw) = raw.strip_suffix(b"\n") else {
            return Err(BrokenJournal::CutOff { line });
        };
        take(read_line(line, raw, &mut head)?);
    }
    if head.next == 0 {
        return Err(BrokenJournal::Empty);
    }
    Ok(head)
}

fn read_line(line: u64, raw: &[u8], head: &mut Head) -> Result<Event, BrokenJournal> {
    if let Some(event) = unseal(raw)
        && event.seq == head.next
        && event.prev == head.hash
    {
        *head = Head { next: event.seq + 1, hash: event.hash };
        return Ok(event);
    }
    // It is none: what is wrong with it.
    let json = |source| BrokenJournal::Json { line, source };
    let mut value: serde_json::Value = serde_json::from_slice(raw).map_err(json)?;
    // Fails only for what `serde_json::Value` cannot hold; an empty text then differs from any line.
    let canonical = to_canonical(&value).unwrap_or_default();
    if let Some(at) = first_difference(raw, &canonical) {
        return Err(BrokenJournal::NotCanonical { line, at });
    }
    let event = Event::from_json(raw).map_err(|source| BrokenJournal::Event { line, source })?;
    let seq = event.seq;
    if seq != head.next {
        return Err(BrokenJournal::Sequence { line, expected: head.next, found: seq });
    }
    if event.prev != head.hash {
        return Err(BrokenJournal::Link { line, seq, expected: head.hash, found: event.prev });
    }
    // Taking the field out of canonical JSON leaves the canonical JSON of the rest.
    if let Some(object) = value.as_object_mut() {
        object.remove("hash");
    }
    let hash = sha256(&to_canonical(&value).unwrap_or_default());
    if event.hash != hash {
        return Err(BrokenJournal::Hash { line, seq, expected: hash, found: event.hash });
    }
    *head = Head { next: seq + 1, hash };
    Ok(event)
}
