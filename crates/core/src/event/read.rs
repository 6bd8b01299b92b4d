//! Reading an event from its JSON, strictly.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;
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
        Self::read(json, read_body)
    }

    /// Reads an event without looking whether it is spelled as this program spells it. Only for a caller that writes it
    /// again and compares the bytes: that is the same check, and cheaper.
    pub fn from_json_unchecked(json: &[u8]) -> Result<Self, BadEvent> {
        Self::read(json, parse_body)
    }

    fn read(json: &[u8], body: impl Fn(&str, &str) -> serde_json::Result<Body>) -> Result<Self, BadEvent> {
        let raw: Raw = serde_json::from_slice(json).map_err(BadEvent::Shape)?;
        if raw.v != 1 || !KINDS.contains(&raw.kind.as_ref()) {
            return Err(BadEvent::Unknown { seq: raw.seq, kind: raw.kind.into_owned(), v: raw.v });
        }
        let body = body(&raw.kind, raw.body.get()).map_err(|source| BadEvent::Body {
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
}

/// Parses a body of a known kind.
fn parse_body(kind: &str, json: &str) -> serde_json::Result<Body> {
    // The kind is one of `KINDS`, so it needs no escaping. The text is parsed as it stands: a field that stands twice
    // is seen here, and would not be in a `Value`.
    let mut text = String::with_capacity(kind.len() + json.len() + 32);
    for part in ["{\"kind\":\"", kind, "\",\"body\":", json, "}"] {
        text.push_str(part);
    }
    serde_json::from_str(&text)
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
