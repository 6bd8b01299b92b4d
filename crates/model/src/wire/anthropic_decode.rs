//! Anthropic messages: the answer, from a stream of events or from one whole message.

use std::borrow::Cow;

use provost_core::transcript::{Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::assembly::Assembly;
use super::json::{is_json, present};
use super::{Decode, Decoded, Progress, malformed};
use crate::sse::SseEvent;
use crate::{Failure, FailureClass, Sink, classify};

/// Every event, and a whole message, in one flat form.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default, borrow)]
    r#type: Option<Cow<'a, str>>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default, borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// Of `message_start`, or the whole answer.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    input: Option<&'a RawValue>,
}

/// A thinking block as it must be sent back.
#[derive(Serialize)]
struct Thinking<'a> {
    r#type: &'a str,
    #[serde(rename = "thinking")]
    text: &'a str,
    signature: &'a str,
}

enum Content {
    Text,
    /// A call, by its place among the calls.
    Call(usize),
    Thinking {
        thinking: String,
        signature: String,
    },
    /// A block of a kind we do not read, kept as it came.
    Other {
        start: String,
        pieces: String,
    },
}

struct Block {
    index: u64,
    content: Content,
}

/// Assembles one answer.
pub(super) struct Decoder {
    answer: Assembly,
    blocks: Vec<Block>,
    usage: RawUsage,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self { answer: Assembly::new(turn), blocks: Vec::new(), usage: RawUsage::default() }
    }

    fn start(&mut self, index: u64, raw: &RawValue, sink: &mut dyn Sink) -> Result<(), Failure> {
        let start: Start<'_> =
            serde_json::from_str(raw.get()).map_err(|e| malformed("a content block", &e))?;
        let content = match &*start.r#type {
            "text" => {
                self.answer.said(&start.text.unwrap_or_default(), sink)?;
                Content::Text
            }
            "tool_use" => {
                let at = self.answer.begin_call()?;
                let call = self.answer.call(at);
                call.server_id = start.id.unwrap_or_default().into_owned();
                call.name = start.name.unwrap_or_default().into_owned();
                start.input.map_or("{}", RawValue::get).clone_into(&mut call.given);
                Content::Call(at)
            }
            "thinking" => {
                let thinking = start.thinking.unwrap_or_default().into_owned();
                self.answer.thought(&thinking, sink)?;
                Content::Thinking { thinking, signature: start.signature.unwrap_or_default().into_owned() }
            }
            // It is sent back as it came, so it must be what a server can read.
            _ if !is_json(raw.get()) => {
                return Err(Failure::new(FailureClass::Malformed, "a block of the answer is not valid JSON"));
            }
            _ => Content::Other { start: raw.get().to_owned(), pieces: String::new() },
        };
        self.blocks.push(Block { index, content });
        self.answer.kept(raw.get().len())
    }

    fn piece(&mut self, index: u64, delta: &Delta<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let Some(at) = self.blocks.iter().rposition(|block| block.index == index) else {
            return Err(Failure::new(
                FailureClass::Malformed,
                format!("a delta for block {index}, which never began"),
            ));
        };
        if let Some(text) = &delta.text {
            self.answer.said(text, sink)?;
        }
        let piece = delta.partial_json.as_deref().unwrap_or_default();
        match &mut self.blocks[at].content {
            Content::Text => {}
            Content::Call(at) => self.answer.call(*at).pieces.push_str(piece),
            Content::Other { pieces, .. } => pieces.push_str(piece),
            Content::Thinking { thinking, signature } => {
                let more = delta.thinking.as_deref().unwrap_or_default();
                thinking.push_str(more);
                self.answer.thought(more, sink)?;
                let more = delta.signature.as_deref().unwrap_or_default();
                signature.push_str(more);
                self.answer.grow(more.len())?;
            }
        }
        self.answer.grow(piece.len())
    }

    fn ended(&mut self, reason: &str, sink: &mut dyn Sink) {
        let stop = match reason {
            "" => return,
            "tool_use" => Stop::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            // `end_turn`, `stop_sequence`, `pause_turn` (only with the vendor's own tools, which are not used).
            _ => Stop::End,
        };
        self.answer.ended(stop, sink);
    }

    fn take_usage(&mut self, raw: Option<&RawValue>) {
        let Some(raw) = present(raw) else { return };
        if let Ok(newer) = serde_json::from_str::<RawUsage>(raw.get()) {
            self.usage.update(&newer);
        }
        // One object at the start and one at the end.
        self.answer.counted_again(raw);
    }

    fn take_message(&mut self, message: Message<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        self.answer.model(message.model);
        self.take_usage(message.usage);
        for (index, block) in message.content.unwrap_or_default().into_iter().enumerate() {
            self.start(index as u64, block, sink)?;
        }
        if let Some(reason) = message.stop_reason {
            self.ended(&reason, sink);
        }
        Ok(())
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(self.answer.progress());
        }
        let read: Event<'_> =
            serde_json::from_str(data).map_err(|e| malformed("an event of the answer", &e))?;
        let kind = read.r#type.as_deref().unwrap_or(&event.event);
        let index = read.index.unwrap_or(0);
        match kind {
            "error" => return Err(classify::failure(None, data)),
            _ if present(read.error).is_some() => return Err(classify::failure(None, data)),
            "message_start" => {
                if let Some(message) = read.message {
                    self.take_message(message, sink)?;
                }
            }
            "message" => {
                let message = match serde_json::from_str(data) {
                    Ok(message) => message,
                    Err(error) => {
                        self.take_usage(read.usage);
                        return Err(malformed("the message", &error));
                    }
                };
                self.take_message(message, sink)?;
                return Ok(self.answer.closed().unwrap_or(Progress::Open));
            }
            "content_block_start" => {
                if let Some(block) = read.content_block {
                    self.start(index, block, sink)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = &read.delta {
                    self.piece(index, delta, sink)?;
                }
            }
            "content_block_stop" => {
                let block = self.blocks.iter().rfind(|block| block.index == index);
                if let Some(Block { content: Content::Call(at), .. }) = block {
                    self.answer.show_call(*at, sink);
                }
            }
            "message_delta" => {
                self.take_usage(read.usage);
                if let Some(reason) = read.delta.and_then(|delta| delta.stop_reason) {
                    self.ended(&reason, sink);
                }
            }
            "message_stop" => return self.answer.closed(),
            // `ping`, and kinds that are to come.
            _ => {}
        }
        Ok(self.answer.progress())
    }

    fn finish(self: Box<Self>) -> Result<Decoded, Failure> {
        let mut opaque = Vec::new();
        for block in self.blocks {
            match block.content {
                Content::Text | Content::Call(_) => {}
                Content::Thinking { thinking, signature } => {
                    let block = Thinking { r#type: "thinking", text: &thinking, signature: &signature };
                    opaque.extend(serde_json::to_string(&block));
                }
                Content::Other { start, pieces } => opaque.push(with_input(start, &pieces)),
            }
        }
        self.answer.finish(opaque, self.usage.read())
    }

    fn begun(&self) -> bool {
        self.answer.begun()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.read()
    }
}

/// A block whose `input` came in pieces, with the pieces put in; the block as it was if they are no JSON.
fn with_input(start: String, pieces: &str) -> String {
    let Ok(input) = serde_json::from_str::<serde_json::Value>(pieces) else { return start };
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&start) {
        Ok(mut block) => {
            block.insert("input".to_owned(), input);
            serde_json::Value::Object(block).to_string()
        }
        Err(_) => start,
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawUsage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
}

impl RawUsage {
    /// Later counts are cumulative, so they replace earlier ones.
    fn update(&mut self, newer: &Self) {
        self.input = newer.input.or(self.input);
        self.output = newer.output.or(self.output);
        self.cache_read = newer.cache_read.or(self.cache_read);
        self.cache_write = newer.cache_write.or(self.cache_write);
    }

    /// This vendor's counts are disjoint already. All zeros count as not said.
    fn read(&self) -> Option<Usage> {
        let usage = Usage {
            input: self.input?,
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write: self.cache_write.unwrap_or(0),
            reasoning: 0,
        };
        (usage.total() > 0).then_some(usage)
    }
}
