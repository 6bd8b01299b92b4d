//! Ollama: the answer, from a stream of lines or from one whole object.

use std::borrow::Cow;

use provost_core::transcript::{Assistant, Call, Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::Ids;
use super::json::{arguments_text, is_json};
use super::{ANSWER_LIMIT, Decode, Decoded, Progress, cut_off, malformed, settle, too_large};
use crate::sse::SseEvent;
use crate::{Failure, FailureClass, Sink, classify};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default)]
    done: Option<bool>,
    #[serde(default, borrow)]
    done_reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    /// Of newer servers.
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// What the server counted: numbers of the last line, times in nanoseconds.
#[derive(Default, Serialize, Deserialize)]
struct Counts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt_eval_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eval_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total_duration: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    load_duration: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt_eval_duration: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    eval_duration: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Thinking<'a> {
    #[serde(borrow)]
    ollama_thinking: Cow<'a, str>,
}

/// The thinking in an opaque block of this wire; blocks of other wires hold none.
pub(super) fn thinking_of(opaque: &str) -> Option<String> {
    serde_json::from_str::<Thinking<'_>>(opaque).ok().map(|block| block.ollama_thinking.into_owned())
}

/// A call, and whether it was shown.
struct Slot {
    call: Call,
    shown: bool,
}

/// Assembles one answer.
pub(super) struct Decoder {
    ids: Ids,
    text: String,
    thinking: String,
    slots: Vec<Slot>,
    stop: Option<Stop>,
    counts: Counts,
    model: Option<String>,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self {
            ids: Ids::new(turn),
            text: String::new(),
            thinking: String::new(),
            slots: Vec::new(),
            stop: None,
            counts: Counts::default(),
            model: None,
        }
    }

    fn message(&mut self, message: Message<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        if let Some(text) = message.thinking.filter(|text| !text.is_empty()) {
            self.thinking.push_str(&text);
            sink.reasoning(&text);
        }
        if let Some(text) = message.content.filter(|text| !text.is_empty()) {
            self.text.push_str(&text);
            sink.text(&text);
        }
        for call in message.tool_calls.unwrap_or_default() {
            let function = call.function.unwrap_or(Function { name: None, arguments: None });
            let arguments = match function.arguments.map(arguments_text).transpose()? {
                // A function without parameters is called without arguments.
                None => "{}".to_owned(),
                Some(text) => text,
            };
            let id = self.ids.take(&call.id.unwrap_or_default());
            let name = function.name.unwrap_or_default().into_owned();
            self.slots.push(Slot { call: Call { id, name, arguments }, shown: false });
            self.show(sink, false);
        }
        if self.size() > ANSWER_LIMIT || self.slots.len() > 4_096 { Err(too_large()) } else { Ok(()) }
    }

    /// Shows the calls not yet shown. Before the end, only those whose arguments are whole.
    fn show(&mut self, sink: &mut dyn Sink, ended: bool) {
        for slot in &mut self.slots {
            if slot.shown || slot.call.name.is_empty() || !ended && !is_json(&slot.call.arguments) {
                continue;
            }
            slot.shown = true;
            sink.call(&slot.call);
        }
    }

    fn progress(&self) -> Progress {
        if self.stop.is_some() { Progress::Done } else { Progress::Open }
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(self.progress());
        }
        // First, since what was counted is paid for whatever else the line holds.
        if let Ok(counts) = serde_json::from_str::<Counts>(data)
            && (counts.prompt_eval_count.is_some() || counts.eval_count.is_some())
        {
            self.counts = counts;
        }
        let line: Line<'_> = serde_json::from_str(data).map_err(|e| malformed("a line of the answer", &e))?;
        if line.error.is_some_and(|error| error.get() != "null") {
            return Err(classify::failure(None, data));
        }
        if self.model.is_none() {
            self.model = line.model.filter(|model| !model.is_empty()).map(Cow::into_owned);
        }
        if let Some(message) = line.message {
            self.message(message, sink)?;
        }
        if line.done == Some(true) && self.stop.is_none() {
            let stop = match line.done_reason.as_deref() {
                Some("length") => Stop::Length,
                Some("load" | "unload") => {
                    let message = "the server loaded or unloaded the model and answered nothing";
                    return Err(Failure::new(FailureClass::Server, message));
                }
                // `stop`, none (older servers), and reasons that are to come.
                _ => Stop::End,
            };
            self.stop = Some(stop);
            if stop == Stop::End {
                self.show(sink, true);
            }
        }
        Ok(self.progress())
    }

    fn finish(self: Box<Self>) -> Result<Decoded, Failure> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        let usage = self.usage();
        let calls = self.slots.into_iter().map(|slot| slot.call).collect();
        let mut opaque = Vec::new();
        if !self.thinking.is_empty() {
            opaque.extend(serde_json::to_string(&Thinking { ollama_thinking: self.thinking.into() }));
        }
        let (assistant, stop) = settle(Assistant { text: self.text, calls, opaque }, stop)?;
        let raw_usage = serde_json::to_string(&self.counts).ok().filter(|raw| raw != "{}");
        Ok(Decoded { assistant, stop, usage, raw_usage, model: self.model })
    }

    fn begun(&self) -> bool {
        !self.text.is_empty() || !self.thinking.is_empty() || !self.slots.is_empty()
    }

    /// A prompt that older servers found whole in their cache is not counted at all: then nothing is known.
    fn size(&self) -> usize {
        let calls: usize = self.slots.iter().map(|slot| slot.call.arguments.len()).sum();
        self.text.len() + self.thinking.len() + calls
    }

    fn usage(&self) -> Option<Usage> {
        let input = self.counts.prompt_eval_count?;
        let output = self.counts.eval_count.unwrap_or(0);
        (input > 0 || output > 0).then_some(Usage { input, output, ..Usage::default() })
    }
}
