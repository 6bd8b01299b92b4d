//! OpenAI Responses: the answer, from a stream of events or from one whole response.

use std::borrow::Cow;

use provost_core::transcript::{Assistant, Call, Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::Ids;
use super::json::{arguments_text, is_json};
use super::{ANSWER_LIMIT, Decode, Decoded, Progress, cut_off, malformed, settle, too_large};
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
    Call {
        server_id: String,
        name: String,
        arguments: String,
        /// The id given out, once the call was shown.
        id: Option<String>,
    },
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
    ids: Ids,
    text: String,
    slots: Vec<Slot>,
    size: usize,
    refused: bool,
    stop: Option<Stop>,
    usage: Option<Box<RawValue>>,
    model: Option<String>,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self {
            ids: Ids::new(turn),
            text: String::new(),
            slots: Vec::new(),
            size: 0,
            refused: false,
            stop: None,
            usage: None,
            model: None,
        }
    }

    fn grow(&mut self, by: usize) -> Result<(), Failure> {
        self.size += by;
        if self.size > ANSWER_LIMIT || self.slots.len() > 4_096 { Err(too_large()) } else { Ok(()) }
    }

    /// The slot of `index`, made for `content` if nothing announced it: some servers send deltas alone.
    fn slot(&mut self, index: u64, content: impl FnOnce() -> Content) -> &mut Content {
        let at = self.slots.iter().rposition(|slot| slot.index == index).unwrap_or_else(|| {
            self.slots.push(Slot { index, content: content() });
            self.slots.len() - 1
        });
        &mut self.slots[at].content
    }

    fn said(&mut self, index: u64, piece: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        if let Content::Said(text) = self.slot(index, || Content::Said(String::new())) {
            text.push_str(piece);
            self.text.push_str(piece);
            sink.text(piece);
        }
        self.grow(piece.len())
    }

    fn thought(&mut self, index: u64, piece: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        let fresh = || Content::Reasoning { shown: String::new(), item: None };
        if let Content::Reasoning { shown, .. } = self.slot(index, fresh) {
            shown.push_str(piece);
            sink.reasoning(piece);
        }
        self.grow(piece.len())
    }

    fn argument(&mut self, index: u64, piece: &str) -> Result<(), Failure> {
        let slot = self.slots.iter_mut().rfind(|slot| slot.index == index);
        let Some(Slot { content: Content::Call { arguments, .. }, .. }) = slot else {
            return Err(Failure::new(
                FailureClass::Malformed,
                format!("arguments for output {index}, which is no call that began"),
            ));
        };
        arguments.push_str(piece);
        self.grow(piece.len())
    }

    /// Takes an item as it begins or, `whole`, as it ended: what deltas left out is put in from it.
    fn item(&mut self, index: u64, raw: &RawValue, whole: bool, sink: &mut dyn Sink) -> Result<(), Failure> {
        let item: Item<'_> =
            serde_json::from_str(raw.get()).map_err(|e| malformed("an item of the answer", &e))?;
        match &*item.r#type {
            "message" => {
                let (text, refused) = content_text(item.content)?;
                self.refused |= refused;
                let Content::Said(shown) = self.slot(index, || Content::Said(String::new())) else {
                    return Ok(());
                };
                let rest = text.strip_prefix(shown.as_str()).unwrap_or_default().to_owned();
                self.said(index, &rest, sink)
            }
            "function_call" => {
                let given = item.arguments.map(arguments_text).transpose()?.unwrap_or_default();
                let grown = given.len();
                let content = self.slot(index, || Content::Call {
                    server_id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    id: None,
                });
                if let Content::Call { server_id, name, arguments, id: None } = content {
                    if let Some(id) = item.call_id.or(item.id).filter(|id| !id.is_empty()) {
                        *server_id = id.into_owned();
                    }
                    if let Some(given) = item.name.filter(|name| !name.is_empty()) {
                        *name = given.into_owned();
                    }
                    if arguments.is_empty() || whole && !given.is_empty() {
                        *arguments = given;
                    }
                }
                if whole {
                    self.show(Some(index), false, sink);
                }
                self.grow(grown)
            }
            "reasoning" => {
                let summary = texts(item.summary)?;
                let text = if summary.is_empty() { texts(item.content)? } else { summary };
                // What holds neither is a name in the vendor's store, where nothing was put.
                let worth = whole
                    && (item.encrypted_content.is_some_and(|sealed| !sealed.is_empty())
                        || item.content.is_some_and(|content| !matches!(content.get(), "null" | "[]")));
                // It is sent back as it came, so it must be what a server can read.
                let keep = (worth && is_json(raw.get())).then(|| raw.to_owned());
                let fresh = || Content::Reasoning { shown: String::new(), item: None };
                let Content::Reasoning { shown, item } = self.slot(index, fresh) else { return Ok(()) };
                *item = keep.or(item.take());
                let unseen = shown.is_empty();
                if unseen {
                    self.thought(index, &text, sink)?;
                }
                self.grow(raw.get().len())
            }
            _ => {
                self.slot(index, || Content::Other);
                self.grow(0)
            }
        }
    }

    /// Shows the calls not yet shown, of output `only` or of all. Before the end, only those with whole arguments.
    fn show(&mut self, only: Option<u64>, ended: bool, sink: &mut dyn Sink) {
        for slot in &mut self.slots {
            let Content::Call { server_id, name, arguments, id } = &mut slot.content else { continue };
            if id.is_some()
                || only.is_some_and(|index| index != slot.index)
                || name.is_empty()
                || !ended && !is_json(arguments)
            {
                continue;
            }
            let given = self.ids.take(server_id);
            *id = Some(given.clone());
            sink.call(&Call { id: given, name: name.clone(), arguments: arguments.clone() });
        }
    }

    fn take_usage(&mut self, response: &str) {
        let counted = serde_json::from_str::<Counted<'_>>(response).ok();
        if let Some(usage) = counted.and_then(|c| c.usage).filter(|usage| usage.get() != "null") {
            self.usage = Some(usage.to_owned());
        }
    }

    /// Takes a response as it stands at its beginning or at its end.
    fn response(&mut self, raw: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        self.take_usage(raw);
        let response: Response<'_> = serde_json::from_str(raw).map_err(|e| malformed("the response", &e))?;
        if let Some(error) = response.error.filter(|error| error.get() != "null") {
            return Err(classify::failure(None, &format!("{{\"error\":{}}}", error.get())));
        }
        if self.model.is_none() {
            self.model = response.model.filter(|model| !model.is_empty()).map(Cow::into_owned);
        }
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
        if self.stop.is_none() {
            self.stop = Some(stop);
        }
        if stop == Stop::End {
            self.show(None, true, sink);
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        if self.stop.is_some() { Progress::Done } else { Progress::Open }
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data == "[DONE]" {
            return if self.stop.is_some() { Ok(Progress::Done) } else { Err(cut_off()) };
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
        if kind == "error" || read.error.is_some_and(|error| error.get() != "null") {
            return Err(classify::failure(None, data));
        }
        match kind {
            "response.output_text.delta" => self.said(index, &delta(read.delta)?, sink)?,
            "response.refusal.delta" => {
                self.refused = true;
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

    fn finish(mut self: Box<Self>) -> Result<Decoded, Failure> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        let usage = self.usage();
        let stop = if self.refused { Stop::Refused } else { stop };
        let mut assistant = Assistant { text: self.text, ..Assistant::default() };
        for slot in self.slots {
            match slot.content {
                Content::Call { server_id, name, arguments, id } => assistant.calls.push(Call {
                    id: id.unwrap_or_else(|| self.ids.take(&server_id)),
                    name,
                    arguments,
                }),
                Content::Reasoning { item: Some(item), .. } => {
                    let kept = KeptItem { before_call: assistant.calls.len(), item };
                    assistant.opaque.extend(serde_json::to_string(&kept));
                }
                Content::Said(_) | Content::Reasoning { .. } | Content::Other => {}
            }
        }
        let (assistant, stop) = settle(assistant, stop)?;
        Ok(Decoded {
            assistant,
            stop,
            usage,
            raw_usage: self.usage.map(|raw| raw.get().to_owned()),
            model: self.model,
        })
    }

    fn begun(&self) -> bool {
        !self.slots.is_empty()
    }

    fn size(&self) -> usize {
        self.size
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.as_deref().and_then(|raw| read_usage(raw.get()))
    }
}

fn delta(raw: Option<&RawValue>) -> Result<String, Failure> {
    let text: Option<String> =
        serde_json::from_str(raw.map_or("null", RawValue::get)).map_err(|e| malformed("a delta", &e))?;
    Ok(text.unwrap_or_default())
}

fn parts(raw: Option<&RawValue>) -> Result<Vec<Part<'_>>, Failure> {
    match raw.map_or("null", RawValue::get) {
        "null" => Ok(Vec::new()),
        text => serde_json::from_str(text).map_err(|e| malformed("the content", &e)),
    }
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
