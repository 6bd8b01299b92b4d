//! Anthropic messages: the answer, from a stream of events or from one whole message.

use std::borrow::Cow;

use provost_core::transcript::{Assistant, Call, Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::Ids;
use super::json::is_json;
use super::{ANSWER_LIMIT, Decode, Decoded, Progress, cut_off, malformed, settle, too_large};
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
    Call {
        server_id: String,
        name: String,
        /// Input given whole with the block's start.
        whole: String,
        /// Input in pieces.
        pieces: String,
        id: Option<String>,
    },
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
    ids: Ids,
    text: String,
    blocks: Vec<Block>,
    size: usize,
    stop: Option<Stop>,
    usage: RawUsage,
    raw_usage: Vec<String>,
    model: Option<String>,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self {
            ids: Ids::new(turn),
            text: String::new(),
            blocks: Vec::new(),
            size: 0,
            stop: None,
            usage: RawUsage::default(),
            raw_usage: Vec::new(),
            model: None,
        }
    }

    fn start(&mut self, index: u64, raw: &RawValue, sink: &mut dyn Sink) -> Result<(), Failure> {
        let start: Start<'_> =
            serde_json::from_str(raw.get()).map_err(|e| malformed("a content block", &e))?;
        let content = match &*start.r#type {
            "text" => {
                self.show_text(&start.text.unwrap_or_default(), sink);
                Content::Text
            }
            "tool_use" => Content::Call {
                server_id: start.id.unwrap_or_default().into_owned(),
                name: start.name.unwrap_or_default().into_owned(),
                whole: start.input.map_or("{}", RawValue::get).to_owned(),
                pieces: String::new(),
                id: None,
            },
            "thinking" => {
                let thinking = start.thinking.unwrap_or_default().into_owned();
                if !thinking.is_empty() {
                    sink.reasoning(&thinking);
                }
                Content::Thinking { thinking, signature: start.signature.unwrap_or_default().into_owned() }
            }
            // It is sent back as it came, so it must be what a server can read.
            _ if !is_json(raw.get()) => {
                return Err(Failure::new(FailureClass::Malformed, "a block of the answer is not valid JSON"));
            }
            _ => Content::Other { start: raw.get().to_owned(), pieces: String::new() },
        };
        self.blocks.push(Block { index, content });
        self.grow(raw.get().len())
    }

    fn grow(&mut self, by: usize) -> Result<(), Failure> {
        self.size += by;
        if self.size > ANSWER_LIMIT || self.blocks.len() > 4_096 { Err(too_large()) } else { Ok(()) }
    }

    fn show_text(&mut self, text: &str, sink: &mut dyn Sink) {
        if !text.is_empty() {
            self.text.push_str(text);
            sink.text(text);
        }
    }

    fn piece(&mut self, index: u64, delta: &Delta<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let Some(at) = self.blocks.iter().rposition(|block| block.index == index) else {
            return Err(Failure::new(
                FailureClass::Malformed,
                format!("a delta for block {index}, which never began"),
            ));
        };
        let mut grown = 0;
        if let Some(text) = &delta.text {
            grown += text.len();
            self.show_text(text, sink);
        }
        match &mut self.blocks[at].content {
            Content::Text => {}
            Content::Call { pieces, .. } | Content::Other { pieces, .. } => {
                let piece = delta.partial_json.as_deref().unwrap_or_default();
                grown += piece.len();
                pieces.push_str(piece);
            }
            Content::Thinking { thinking, signature } => {
                if let Some(text) = delta.thinking.as_deref().filter(|text| !text.is_empty()) {
                    grown += text.len();
                    thinking.push_str(text);
                    sink.reasoning(text);
                }
                if let Some(text) = &delta.signature {
                    grown += text.len();
                    signature.push_str(text);
                }
            }
        }
        self.grow(grown)
    }

    /// Shows the calls not yet shown, of block `only` or of all. Before the end, only those with whole arguments.
    fn show_calls(&mut self, only: Option<u64>, ended: bool, sink: &mut dyn Sink) {
        for block in &mut self.blocks {
            let Content::Call { server_id, name, whole, pieces, id } = &mut block.content else { continue };
            let arguments = if pieces.is_empty() { whole } else { pieces };
            if id.is_some()
                || only.is_some_and(|index| index != block.index)
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

    fn ended(&mut self, reason: &str, sink: &mut dyn Sink) {
        let stop = match reason {
            "tool_use" => Stop::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            // `end_turn`, `stop_sequence`, `pause_turn` (only with the vendor's own tools, which are not used).
            _ => Stop::End,
        };
        self.stop = Some(stop);
        if matches!(stop, Stop::ToolCalls | Stop::End) {
            self.show_calls(None, true, sink);
        }
    }

    fn take_usage(&mut self, raw: Option<&RawValue>) {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return };
        if let Ok(newer) = serde_json::from_str::<RawUsage>(raw.get()) {
            self.usage.update(&newer);
        }
        // One object at the start and one at the end; a server that sends more keeps only the last of them.
        if self.raw_usage.len() >= 2 {
            self.raw_usage.pop();
        }
        self.raw_usage.push(raw.get().to_owned());
    }

    fn take_message(&mut self, message: Message<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        if self.model.is_none() {
            self.model = message.model.filter(|model| !model.is_empty()).map(Cow::into_owned);
        }
        self.take_usage(message.usage);
        for (index, block) in message.content.unwrap_or_default().into_iter().enumerate() {
            self.start(index as u64, block, sink)?;
        }
        if let Some(reason) = message.stop_reason {
            self.ended(&reason, sink);
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        if self.stop.is_some() { Progress::Complete } else { Progress::Open }
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(self.progress());
        }
        let read: Event<'_> =
            serde_json::from_str(data).map_err(|e| malformed("an event of the answer", &e))?;
        let kind = read.r#type.as_deref().unwrap_or(&event.event);
        let index = read.index.unwrap_or(0);
        match kind {
            "error" => return Err(classify::failure(None, data)),
            _ if read.error.is_some_and(|error| error.get() != "null") => {
                return Err(classify::failure(None, data));
            }
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
                return Ok(if self.stop.is_some() { Progress::Done } else { Progress::Open });
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
            "content_block_stop" => self.show_calls(Some(index), false, sink),
            "message_delta" => {
                self.take_usage(read.usage);
                if let Some(reason) = read.delta.and_then(|delta| delta.stop_reason) {
                    self.ended(&reason, sink);
                }
            }
            "message_stop" => {
                return if self.stop.is_some() { Ok(Progress::Done) } else { Err(cut_off()) };
            }
            // `ping`, and kinds that are to come.
            _ => {}
        }
        Ok(self.progress())
    }

    fn finish(mut self: Box<Self>) -> Result<Decoded, Failure> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        let mut assistant = Assistant { text: self.text, ..Assistant::default() };
        for block in self.blocks {
            match block.content {
                Content::Text => {}
                Content::Call { server_id, name, whole, pieces, id } => assistant.calls.push(Call {
                    id: id.unwrap_or_else(|| self.ids.take(&server_id)),
                    name,
                    arguments: if pieces.is_empty() { whole } else { pieces },
                }),
                Content::Thinking { thinking, signature } => {
                    let block = Thinking { r#type: "thinking", text: &thinking, signature: &signature };
                    assistant.opaque.extend(serde_json::to_string(&block));
                }
                Content::Other { start, pieces } => assistant.opaque.push(with_input(start, &pieces)),
            }
        }
        let (assistant, stop) = settle(assistant, stop)?;
        Ok(Decoded {
            assistant,
            stop,
            usage: self.usage.read(),
            raw_usage: match self.raw_usage.len() {
                0 => None,
                1 => self.raw_usage.pop(),
                _ => Some(format!("[{}]", self.raw_usage.join(","))),
            },
            model: self.model,
        })
    }

    fn begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn size(&self) -> usize {
        self.size
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
