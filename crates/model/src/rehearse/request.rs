//! Reading a request without building it: only roles and ids are looked at, everything else is skipped.
//!
//! A client resends its history with every request, so most of a body was read before. The reader keeps where
//! it stood in the last few bodies and goes on from there if the bytes before are the same: comparing them is
//! some thirty times cheaper than parsing them (400 kB: 13 µs against half a millisecond).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How many dialogues are remembered: more than run at once in most tests.
const REMEMBERED: usize = 16;

/// What a request tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Request {
    pub(super) model: Option<String>,
    /// Whether the body asks for a stream, or not for one; on some wires it says nothing.
    pub(super) stream: Option<bool>,
    pub(super) max_tokens: Option<u64>,
    pub(super) include_usage: bool,
    pub(super) history: History,
}

/// What the messages come to, one after another.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct History {
    /// How many there are.
    pub(super) messages: usize,
    /// Number of the answer that is wanted next.
    pub(super) step: u64,
    /// Text of the first user message.
    pub(super) first: Option<Arc<str>>,
}

/// The request with its messages still closed.
#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default, alias = "max_output_tokens")]
    max_tokens: Option<u64>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// Gemini's.
    #[serde(default, rename = "generationConfig")]
    generation: Option<Generation>,
    /// Ollama's.
    #[serde(default)]
    options: Option<Options>,
    #[serde(borrow, alias = "input", alias = "contents")]
    messages: &'a RawValue,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct Generation {
    #[serde(default, rename = "maxOutputTokens")]
    max: Option<u64>,
}

#[derive(Deserialize)]
struct Options {
    #[serde(default, rename = "num_predict")]
    max: Option<u64>,
}

#[derive(Deserialize)]
struct Message<'a> {
    /// Items of Responses that are no messages have none.
    #[serde(default, borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow, alias = "parts")]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_call_id: Option<Cow<'a, str>>,
    /// Of an item of Responses.
    #[serde(default, borrow)]
    r#type: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    call_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(default, borrow)]
    tool_use_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "functionResponse")]
    response: Option<FunctionResponse<'a>>,
}

#[derive(Deserialize)]
struct FunctionResponse<'a> {
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
}

impl Block<'_> {
    /// The call that it answers.
    fn answers(&self) -> Option<&str> {
        let id = || self.response.as_ref()?.id.as_deref();
        self.tool_use_id.as_deref().or_else(id)
    }
}

impl Message<'_> {
    fn blocks(&self) -> Vec<Block<'_>> {
        self.content
            .filter(|raw| raw.get().starts_with('['))
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }

    /// The step whose call this message answers, or is.
    fn answered_step(&self) -> Option<u64> {
        if let Some(id) = &self.tool_call_id {
            return step_of(id);
        }
        // On this wire a call is an item of its own, which follows the text that it came with.
        if matches!(self.r#type.as_deref(), Some("function_call" | "function_call_output")) {
            return step_of(self.call_id.as_deref()?);
        }
        if self.role != "user" {
            return None;
        }
        self.blocks().iter().rev().find_map(|block| step_of(block.answers()?))
    }

    fn text(&self) -> String {
        let Some(raw) = self.content else { return String::new() };
        if raw.get().starts_with('"') {
            return serde_json::from_str(raw.get()).unwrap_or_default();
        }
        self.blocks().iter().filter_map(|block| block.text.as_deref()).collect::<Vec<_>>().join("\n")
    }
}

/// `call_<step>_<n>`, as this server gives them out.
fn step_of(id: &str) -> Option<u64> {
    id.strip_prefix("call_")?.split_once('_')?.0.parse().ok()
}

impl History {
    fn add(&mut self, message: &Message<'_>) {
        self.messages += 1;
        if self.first.is_none() && message.role == "user" {
            self.first = Some(message.text().into());
        }
        if matches!(&*message.role, "assistant" | "model") {
            self.step = self.step.saturating_add(1);
        } else if let Some(step) = message.answered_step() {
            self.step = step.saturating_add(1);
        }
    }
}

/// A body that was read.
struct Known {
    body: Bytes,
    /// Where the last message begins (its comma included): a client may yet change that one.
    upto: usize,
    /// The messages before it.
    history: History,
    /// Where the array ends, with its bracket.
    end: usize,
    request: Request,
}

/// Reads requests.
#[derive(Default)]
pub(super) struct Reader {
    known: Mutex<VecDeque<Arc<Known>>>,
}

impl Reader {
    /// Reads `body`; an error is a sentence for the client.
    pub(super) fn read(&self, body: &Bytes) -> Result<Request, serde_json::Error> {
        let known: Vec<Arc<Known>> = {
            let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().cloned().collect()
        };
        let old = known.iter().filter(|old| old.begins(body)).max_by_key(|old| old.upto);
        let new = match old.and_then(|old| old.go_on(body)) {
            Some(new) => new,
            None => Known::read(body)?,
        };
        let request = new.request.clone();
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = old {
            all.retain(|other| !Arc::ptr_eq(old, other));
        }
        all.push_front(Arc::new(new));
        all.truncate(REMEMBERED);
        Ok(request)
    }
}

impl Known {
    fn begins(&self, body: &[u8]) -> bool {
        self.history.messages > 0 && body.starts_with(&self.body[..self.upto])
    }

    /// Reads all of `body`.
    fn read(body: &Bytes) -> Result<Self, serde_json::Error> {
        let whole: Whole<'_> = serde_json::from_slice(body)?;
        let messages = whole.messages.get();
        // That it is an array of messages is checked by reading it as one.
        let start =
            messages.as_ptr() as usize - body.as_ptr() as usize + usize::from(messages.starts_with('['));
        let request = Request {
            model: whole.model.map(Cow::into_owned),
            stream: whole.stream,
            max_tokens: whole
                .max_tokens
                .or(whole.generation.and_then(|generation| generation.max))
                .or(whole.options.and_then(|options| options.max)),
            include_usage: whole.stream_options.is_some_and(|options| options.include_usage),
            history: History::default(),
        };
        let mut known =
            Self { body: body.clone(), upto: start, history: History::default(), end: start, request };
        known.messages(start)?;
        Ok(known)
    }

    /// Reads what `body` has beyond this one, if what follows its messages is the same too.
    fn go_on(&self, body: &Bytes) -> Option<Self> {
        let request = Request { history: self.history.clone(), ..self.request.clone() };
        let mut known = Self {
            body: body.clone(),
            upto: self.upto,
            history: self.history.clone(),
            end: self.upto,
            request,
        };
        known.messages(self.upto).ok()?;
        (body[known.end..] == self.body[self.end..]).then_some(known)
    }

    /// Reads the messages from `at` to the end of the array.
    fn messages(&mut self, mut at: usize) -> Result<(), serde_json::Error> {
        let body = self.body.clone();
        let space = |mut at: usize| {
            while body.get(at).is_some_and(u8::is_ascii_whitespace) {
                at += 1;
            }
            at
        };
        loop {
            let before = at;
            at = space(at);
            if self.request.history.messages > 0 && body.get(at) == Some(&b',') {
                at = space(at + 1);
            }
            if body.get(at) == Some(&b']') {
                self.end = at;
                return Ok(());
            }
            let mut rest = serde_json::Deserializer::from_slice(&body[at..]).into_iter::<Message<'_>>();
            let message = match rest.next() {
                Some(message) => message?,
                None => return Err(serde::de::Error::custom("`messages` is no array")),
            };
            self.upto = before;
            self.history = self.request.history.clone();
            self.request.history.add(&message);
            at += rest.byte_offset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{EncodeOptions, WireKind};
    use crate::{Answer, Prelude};
    use provost_core::transcript::{Call, CallResult, Message as Said};

    fn body(wire: WireKind, said: &[Said], max: u64) -> Bytes {
        let mut encoder = wire.encoder(&EncodeOptions::default(), &Prelude::default());
        for message in said {
            encoder.push(message);
        }
        let mut body = encoder.prefix().to_vec();
        encoder.tail(max, &mut body);
        body.into()
    }

    /// A dialogue of `n` messages: calls, every fifth answer text alone.
    fn dialogue(n: usize, name: &str) -> Vec<Said> {
        let mut said = vec![Said::user(format!("go {name}, {{\"role\":\"assistant\"}}"))];
        for k in 0.. {
            if said.len() >= n {
                break;
            }
            if k % 5 == 4 {
                said.push(Said::Assistant(Answer::text("well").assistant));
                said.push(Said::user("and?"));
            } else {
                let id = format!("call_{k}_0");
                let call = Call { id: id.clone(), name: name.to_owned(), arguments: "{}".to_owned() };
                said.push(Said::Assistant(Answer::calls(vec![call]).assistant));
                let result = CallResult {
                    call_id: id,
                    text: "\\\"]},".to_owned(),
                    is_error: false,
                    images: Vec::new(),
                };
                said.push(Said::Results { results: vec![result] });
            }
        }
        said.truncate(n);
        said
    }

    #[test]
    fn going_on_reads_the_same_as_reading_all() {
        for wire in WireKind::ALL {
            let reader = Reader::default();
            for n in 1..60 {
                // Two dialogues take turns; the limit changes now and then; sometimes history is shortened.
                for name in ["a", "b"] {
                    let n = if n % 17 == 0 { n / 2 + 1 } else { n };
                    let bytes = body(wire, &dialogue(n, name), 100 + (n as u64 / 20));
                    let fresh = Known::read(&bytes).map(|known| known.request);
                    let read = reader.read(&bytes);
                    assert_eq!(read.as_ref().ok(), fresh.as_ref().ok());
                    let read = read.unwrap_or_default();
                    assert_eq!(read.history.step, n as u64 / 2, "{wire:?} {n}");
                    assert_eq!(read.max_tokens, Some(100 + (n as u64 / 20)));
                }
            }
        }
    }

    #[test]
    fn bad_bodies_are_errors() {
        let reader = Reader::default();
        for bad in ["", "{}", "{\"messages\": 1}", "{\"messages\": [1]}", "{\"messages\": [}", "[]"] {
            assert!(reader.read(&Bytes::from(bad)).is_err(), "{bad}");
        }
        let spaced =
            "{ \"messages\" : [ { \"role\" : \"user\" } , { \"role\":\"assistant\" } ] , \"stream\":true }";
        let read = reader.read(&Bytes::from(spaced)).unwrap_or_default();
        assert_eq!((read.history.messages, read.history.step, read.stream), (2, 1, Some(true)));
        let empty = reader.read(&Bytes::from("{\"messages\":[]}")).unwrap_or_default();
        assert_eq!(empty.history.messages, 0);
    }
}
