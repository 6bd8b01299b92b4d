//! OpenAI Responses: the answer, from a stream of events or from one whole response.

use std::borrow::Cow;

use provost_core::transcript::{Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::assembly::Assembly;
use super::json::{arguments_text, is_json, present};
use super::{Decode, Decoded, Progress, malformed};
use crate::sse::SseEvent;
use crate::{Failure, FailureClass, Sink, classify};

/// Every event, and a whole response, in one flat form.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default, borrow)]
    r#type: Option<Cow<'a, str>>,
    /// `response`, of a whole response.
    #[serde(default, borrow)]
    object: Option<Cow<'a, str>>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(default, borrow)]
    delta: Option<&'a RawValue>,
    #[serde(default, borrow)]
    item: Option<&'a RawValue>,
    #[serde(default, borrow)]
    response: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(default, borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: Option<String>,
}

/// What is read first of a response, whether or not the rest of it is understood: it is paid for.
#[derive(Deserialize)]
struct Counted<'a> {
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(default, borrow)]
    r#type: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    call_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    summary: Option<&'a RawValue>,
    #[serde(default, borrow)]
    encrypted_content: Option<Cow<'a, str>>,
}

/// A part of a message or of a summary.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    refusal: Option<Cow<'a, str>>,
}

/// An item that is to be sent back, as an opaque block of the transcript.
#[derive(Serialize, Deserialize)]
pub(super) struct KeptItem {
    /// How many calls came before it.
    pub(super) before_call: usize,
    /// The item as it came.
    #[serde(rename = "responses_item")]
    pub(super) item: Box<RawValue>,
}

impl KeptItem {
    /// The item in an opaque block of this wire; blocks of other wires are none.
    pub(super) fn read(opaque: &str) -> Option<Self> {
        serde_json::from_str(opaque).ok()
    }
}

/// An item being assembled.
struct Slot {
    index: u64,
    content: Content,
}

enum Content {
    /// Text and refusals, as shown so far.
    Said(String),
    /// A call, by its place among the calls.
    Call(usize),
    Reasoning {
        shown: String,
        /// The whole item, where it is worth sending back.
        item: Option<Box<RawValue>>,
    },
    /// An item of a kind that is not read.
    Other,
}

/// Assembles one answer.
pub(super) struct Decoder {
    answer: Assembly,
    slots: Vec<Slot>,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self { answer: Assembly::new(turn), slots: Vec::new() }
    }

    fn at(&self, index: u64) -> Option<usize> {
        self.slots.iter().rposition(|slot| slot.index == index)
    }

    /// The item `index`; `content` if nothing announced it: some servers send deltas alone.
    fn slot(&mut self, index: u64, content: Content) -> Result<&mut Content, Failure> {
        let at = if let Some(at) = self.at(index) {
            at
        } else {
            self.answer.kept(0)?;
            self.slots.push(Slot { index, content });
            self.slots.len() - 1
        };
        Ok(&mut self.slots[at].content)
    }

    fn said(&mut self, index: u64, piece: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        match self.slot(index, Content::Said(String::new()))? {
            Content::Said(text) => text.push_str(piece),
            _ => return Ok(()),
        }
        self.answer.said(piece, sink)
    }

    fn thought(&mut self, index: u64, piece: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        match self.slot(index, Content::Reasoning { shown: String::new(), item: None })? {
            Content::Reasoning { shown, .. } => shown.push_str(piece),
            _ => return Ok(()),
        }
        self.answer.thought(piece, sink)
    }

    fn argument(&mut self, index: u64, piece: &str) -> Result<(), Failure> {
        let Some(Content::Call(at)) = self.at(index).map(|at| &self.slots[at].content) else {
            return Err(Failure::new(
                FailureClass::Malformed,
                format!("arguments for output {index}, which is no call that began"),
            ));
        };
        self.answer.call(*at).pieces.push_str(piece);
        self.answer.grow(piece.len())
    }

    /// Takes a call as it begins or, `whole`, as it ended.
    fn call(&mut self, index: u64, item: Item<'_>, whole: bool, sink: &mut dyn Sink) -> Result<(), Failure> {
        let given = item.arguments.map(arguments_text).transpose()?.unwrap_or_default();
        let grown = given.len();
        let at = match self.at(index).map(|at| &self.slots[at].content) {
            Some(Content::Call(at)) => *at,
            Some(_) => return Ok(()),
            None => {
                let at = self.answer.begin_call()?;
                self.slots.push(Slot { index, content: Content::Call(at) });
                at
            }
        };
        let call = self.answer.call(at);
        if !call.is_shown() {
            if let Some(id) = item.call_id.or(item.id).filter(|id| !id.is_empty()) {
                call.server_id = id.into_owned();
            }
            if let Some(name) = item.name.filter(|name| !name.is_empty()) {
                call.name = name.into_owned();
            }
            if call.pieces.is_empty() || whole && !given.is_empty() {
                call.pieces = given;
            }
        }
        if whole {
            self.answer.show_call(at, sink);
        }
        self.answer.grow(grown)
    }

    /// Takes an item as it begins or, `whole`, as it ended: what deltas left out is put in from it.
    fn item(&mut self, index: u64, raw: &RawValue, whole: bool, sink: &mut dyn Sink) -> Result<(), Failure> {
        let item: Item<'_> =
            serde_json::from_str(raw.get()).map_err(|e| malformed("an item of the answer", &e))?;
        match &*item.r#type {
            "message" => {
                let (text, refused) = content_text(item.content)?;
                if refused {
                    self.answer.refused();
                }
                let Content::Said(shown) = self.slot(index, Content::Said(String::new()))? else {
                    return Ok(());
                };
                let rest = text.strip_prefix(shown.as_str()).unwrap_or_default().to_owned();
                self.said(index, &rest, sink)
            }
            "function_call" => self.call(index, item, whole, sink),
            "reasoning" => {
                let summary = texts(item.summary)?;
                let text = if summary.is_empty() { texts(item.content)? } else { summary };
                // What holds neither is a name in the vendor's store, where nothing was put.
                let worth = whole
                    && (item.encrypted_content.is_some_and(|sealed| !sealed.is_empty())
                        || present(item.content).is_some_and(|content| content.get() != "[]"));
                // It is sent back as it came, so it must be what a server can read.
                let keep = (worth && is_json(raw.get())).then(|| raw.to_owned());
                let fresh = Content::Reasoning { shown: String::new(), item: None };
                let Content::Reasoning { shown, item } = self.slot(index, fresh)? else { return Ok(()) };
                *item = keep.or(item.take());
                let unseen = shown.is_empty();
                if unseen {
                    self.thought(index, &text, sink)?;
                }
                self.answer.grow(raw.get().len())
            }
            _ => self.slot(index, Content::Other).map(|_| ()),
        }
    }

    /// Takes a response as it stands at its beginning or at its end.
    fn response(&mut self, raw: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        self.answer
            .counted(serde_json::from_str::<Counted<'_>>(raw).ok().and_then(|response| response.usage));
        let response: Response<'_> = serde_json::from_str(raw).map_err(|e| malformed("the response", &e))?;
        if let Some(error) = present(response.error) {
            return Err(classify::failure(None, &format!("{{\"error\":{}}}", error.get())));
        }
        self.answer.model(response.model);
        let stop = match response.status.as_deref() {
            Some("completed") => Stop::End,
            Some("incomplete") => match response.incomplete_details.and_then(|why| why.reason).as_deref() {
                Some("content_filter") => Stop::Refused,
                _ => Stop::Length,
            },
            Some("failed") => {
                let message = "the server gave up without saying why";
                return Err(Failure::new(FailureClass::Server, message));
            }
            Some("cancelled") => {
                return Err(Failure::new(
                    FailureClass::Server,
                    "the server says that the response was cancelled",
                ));
            }
            // It goes on.
            _ => return Ok(()),
        };
        for (index, item) in response.output.unwrap_or_default().into_iter().enumerate() {
            self.item(index as u64, item, true, sink)?;
        }
        self.answer.ended(stop, sink);
        Ok(())
    }

    /// A response that has ended counts itself.
    fn progress(&self) -> Progress {
        self.answer.closed().unwrap_or(Progress::Open)
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data == "[DONE]" {
            return self.answer.closed();
        }
        if data.is_empty() {
            return Ok(self.progress());
        }
        let read: Event<'_> =
            serde_json::from_str(data).map_err(|e| malformed("an event of the answer", &e))?;
        if read.object.as_deref() == Some("response") {
            self.response(data, sink)?;
            return Ok(self.progress());
        }
        let kind = read.r#type.as_deref().unwrap_or(&event.event);
        let index = read.output_index.unwrap_or(0);
        if kind == "error" || present(read.error).is_some() {
            return Err(classify::failure(None, data));
        }
        match kind {
            "response.output_text.delta" => self.said(index, &delta(read.delta)?, sink)?,
            "response.refusal.delta" => {
                self.answer.refused();
                self.said(index, &delta(read.delta)?, sink)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought(index, &delta(read.delta)?, sink)?;
            }
            "response.function_call_arguments.delta" => self.argument(index, &delta(read.delta)?)?,
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(item) = read.item {
                    self.item(index, item, kind.ends_with("done"), sink)?;
                }
            }
            // `created`, `in_progress`, `completed`, `incomplete`, `failed`: each holds the response as it then is.
            _ => {
                if let Some(response) = read.response {
                    self.response(response.get(), sink)?;
                }
            }
        }
        Ok(self.progress())
    }

    fn finish(self: Box<Self>) -> Result<Decoded, Failure> {
        let usage = self.usage();
        let (mut opaque, mut before_call) = (Vec::new(), 0);
        for slot in self.slots {
            match slot.content {
                Content::Call(_) => before_call += 1,
                Content::Reasoning { item: Some(item), .. } => {
                    opaque.extend(serde_json::to_string(&KeptItem { before_call, item }));
                }
                Content::Said(_) | Content::Reasoning { .. } | Content::Other => {}
            }
        }
        self.answer.finish(opaque, usage)
    }

    fn begun(&self) -> bool {
        self.answer.begun()
    }

    fn usage(&self) -> Option<Usage> {
        self.answer.count().and_then(read_usage)
    }
}

fn delta(raw: Option<&RawValue>) -> Result<String, Failure> {
    let text: Option<String> =
        serde_json::from_str(raw.map_or("null", RawValue::get)).map_err(|e| malformed("a delta", &e))?;
    Ok(text.unwrap_or_default())
}

fn parts(raw: Option<&RawValue>) -> Result<Vec<Part<'_>>, Failure> {
    let Some(raw) = present(raw) else { return Ok(Vec::new()) };
    serde_json::from_str(raw.get()).map_err(|e| malformed("the content", &e))
}

/// The text of a message, and whether some of it is a refusal.
fn content_text(raw: Option<&RawValue>) -> Result<(String, bool), Failure> {
    if let Some(text) = raw.filter(|raw| raw.get().starts_with('"')) {
        let text = serde_json::from_str(text.get()).map_err(|e| malformed("the content", &e))?;
        return Ok((text, false));
    }
    let parts = parts(raw)?;
    let refused = parts.iter().any(|part| part.refusal.as_deref().is_some_and(|text| !text.is_empty()));
    let text = parts.iter().filter_map(|part| part.text.as_deref().or(part.refusal.as_deref())).collect();
    Ok((text, refused))
}

fn texts(raw: Option<&RawValue>) -> Result<String, Failure> {
    Ok(parts(raw)?.iter().filter_map(|part| part.text.as_deref()).collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawUsage {
    input_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

/// Disjoint counts: this vendor counts cached tokens in `input_tokens`. All zeros count as not said.
fn read_usage(raw: &str) -> Option<Usage> {
    let raw: RawUsage = serde_json::from_str(raw).ok()?;
    let (input, output) = (raw.input_tokens?, raw.output_tokens.unwrap_or(0));
    if input == 0 && output == 0 {
        return None;
    }
    let details = raw.input_tokens_details.unwrap_or_default();
    let cache_read = details.cached_tokens.unwrap_or(0).min(input);
    let cache_write = details.cache_write_tokens.unwrap_or(0).min(input - cache_read);
    let reasoning = raw.output_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0);
    Some(Usage {
        input: input - cache_read - cache_write,
        output,
        cache_read,
        cache_write,
        reasoning: reasoning.min(output),
    })
}
