//! Reading an event from its JSON, strictly.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess};
use serde_json::value::RawValue;

use super::{Body, Event, KINDS};
use crate::digest::Digest;
use crate::id::{AgentId, RunId};

/// JSON that is not an event of this program's format.
#[derive(Debug, thiserror::Error)]
pub enum BadEvent {
    /// Not an event object at all.
    #[error("not an event: {0}")]
    Shape(#[source] serde_json::Error),
    /// A version or kind that this program does not know.
    #[error(
        "event {seq} is of kind `{kind}` version {v}, which this program does not know: it was written by a newer one"
    )]
    Unknown {
        /// Its place.
        seq: u64,
        /// Its kind.
        kind: String,
        /// Its version.
        v: u32,
    },
    /// A known kind whose body does not fit.
    #[error("event {seq} of kind `{kind}` does not fit its format: {source}")]
    Body {
        /// Its place.
        seq: u64,
        /// Its kind.
        kind: String,
        /// What is wrong.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<'a> {
    v: u32,
    stream: RunId,
    seq: u64,
    at_ms: u64,
    agent: AgentId,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    body: &'a RawValue,
    prev: Digest,
    hash: Digest,
}

impl Event {
    /// Reads an event from its JSON. Unknown kinds and versions are errors that say so, never guesses; so is a body
    /// that is spelled otherwise than this program writes it, since its hash would be another.
    pub fn from_json(json: &[u8]) -> Result<Self, BadEvent> {
        let raw: Raw = serde_json::from_slice(json).map_err(BadEvent::Shape)?;
        if raw.v != 1 || !KINDS.contains(&raw.kind.as_ref()) {
            return Err(BadEvent::Unknown { seq: raw.seq, kind: raw.kind.into_owned(), v: raw.v });
        }
        let body = read_body(&raw.kind, raw.body.get()).map_err(|source| BadEvent::Body {
            seq: raw.seq,
            kind: raw.kind.clone().into_owned(),
            source,
        })?;
        Ok(Self {
            v: raw.v,
            stream: raw.stream,
            seq: raw.seq,
            at_ms: raw.at_ms,
            agent: raw.agent,
            body,
            prev: raw.prev,
            hash: raw.hash,
        })
    }

    /// Reads an event from its canonical JSON, whose members stand in one order, and says which bytes are the member `hash`,
    /// comma included. `None` where anything is not as this program writes it, which says nothing of what that is. Whether
    /// the body is spelled as this program spells it is not looked at: only for a caller who compares the hash or the bytes.
    pub fn from_canonical(json: &[u8]) -> Option<(Self, Range<usize>)> {
        let text = std::str::from_utf8(json).ok()?;
        let (agent, rest) = text.strip_prefix("{\"agent\":")?.split_once(',')?;
        let (at_ms, rest) = rest.strip_prefix("\"at_ms\":")?.split_once(',')?;
        let rest = rest.strip_prefix("\"body\":")?;
        let start = text.len() - rest.len();
        // Everything behind the body is known to the byte, but for a kind, two digests, two numbers and a name.
        let (rest, stream) = rest.strip_suffix("\",\"v\":1}")?.rsplit_once('"')?;
        let (rest, seq) = rest.strip_suffix(",\"stream\":")?.rsplit_once(':')?;
        let (rest, prev) = rest.strip_suffix("\",\"seq\"")?.rsplit_once('"')?;
        let (rest, kind) = rest.strip_suffix("\",\"prev\":")?.rsplit_once('"')?;
        let rest = rest.strip_suffix(",\"kind\":")?;
        let end = start + rest.len();
        let (rest, hash) = rest.strip_suffix('"')?.rsplit_once('"')?;
        let body = rest.strip_suffix(",\"hash\":")?;
        let event = Self {
            v: 1,
            stream: stream.parse().ok()?,
            seq: seq.parse().ok()?,
            at_ms: at_ms.parse().ok()?,
            agent: AgentId(agent.parse().ok()?),
            body: parse_body(kind, body).ok()?,
            prev: prev.parse().ok()?,
            hash: hash.parse().ok()?,
        };
        Some((event, start + body.len()..end))
    }
}

/// Parses a body of a kind. The text is parsed as it stands: a field that stands twice is seen here, and would not be in a
/// `Value`.
fn parse_body(kind: &str, json: &str) -> serde_json::Result<Body> {
    Body::deserialize(MapAccessDeserializer::new(Members::Kind(kind, json)))
}

/// A kind and the JSON of a body, as the two members of an object that they would be.
enum Members<'a> {
    Kind(&'a str, &'a str),
    Body(&'a str),
    None,
}

impl<'a> MapAccess<'a> for Members<'a> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> serde_json::Result<Option<K::Value>> {
        let key = match self {
            Self::Kind(..) => "kind",
            Self::Body(_) => "body",
            Self::None => return Ok(None),
        };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> serde_json::Result<V::Value> {
        match std::mem::replace(self, Self::None) {
            Self::Kind(kind, body) => {
                *self = Self::Body(body);
                seed.deserialize(BorrowedStrDeserializer::new(kind))
            }
            Self::Body(body) => {
                let mut json = serde_json::Deserializer::from_str(body);
                let value = seed.deserialize(&mut json)?;
                json.end()?;
                Ok(value)
            }
            Self::None => Err(serde_json::Error::custom("there are two members")),
        }
    }
}

/// Reads a body of a known kind. What the format does not know, or knows under another spelling, is an error even
/// where serde would skip it.
fn read_body(kind: &str, json: &str) -> serde_json::Result<Body> {
    let body = parse_body(kind, json)?;
    let found: serde_json::Value = serde_json::from_str(json)?;
    let written = serde_json::to_value(&body)?;
    if written.get("body") == Some(&found) {
        Ok(body)
    } else {
        Err(serde_json::Error::custom("it has a field or a spelling that this format does not have"))
    }
}
