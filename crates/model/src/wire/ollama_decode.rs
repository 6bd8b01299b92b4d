//! Ollama: the answer, from a stream of lines or from one whole object.

use std::borrow::Cow;

use provost_core::transcript::{Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::assembly::Assembly;
use super::json::{arguments_text, present};
use super::{Decode, Decoded, Progress, malformed};
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

/// Assembles one answer.
pub(super) struct Decoder {
    answer: Assembly,
    thinking: String,
    counts: Counts,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self { answer: Assembly::new(turn), thinking: String::new(), counts: Counts::default() }
    }

    fn message(&mut self, message: Message<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        if let Some(text) = message.thinking {
            self.thinking.push_str(&text);
            self.answer.thought(&text, sink)?;
        }
        if let Some(text) = message.content {
            self.answer.said(&text, sink)?;
        }
        for call in message.tool_calls.unwrap_or_default() {
            let function = call.function.unwrap_or(Function { name: None, arguments: None });
            let arguments = function.arguments.map(arguments_text).transpose()?;
            self.answer.whole_call(call.id, function.name, arguments, sink)?;
        }
        Ok(())
    }

    /// The line that ends an answer counts it too.
    fn progress(&self) -> Progress {
        self.answer.closed().unwrap_or(Progress::Open)
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
        if present(line.error).is_some() {
            return Err(classify::failure(None, data));
        }
        self.answer.model(line.model);
        if let Some(message) = line.message {
            self.message(message, sink)?;
        }
        if line.done == Some(true) && self.progress() == Progress::Open {
            let stop = match line.done_reason.as_deref() {
                Some("length") => Stop::Length,
                Some("load" | "unload") => {
                    let message = "the server loaded or unloaded the model and answered nothing";
                    return Err(Failure::new(FailureClass::Server, message));
                }
                // `stop`, none (older servers), and reasons that are to come.
                _ => Stop::End,
            };
            self.answer.ended(stop, sink);
        }
        Ok(self.progress())
    }

    fn finish(self: Box<Self>) -> Result<Decoded, Failure> {
        let usage = self.usage();
        let mut opaque = Vec::new();
        if !self.thinking.is_empty() {
            opaque.extend(serde_json::to_string(&Thinking { ollama_thinking: self.thinking.into() }));
        }
        let mut decoded = self.answer.finish(opaque, usage)?;
        decoded.raw_usage = serde_json::to_string(&self.counts).ok().filter(|raw| raw != "{}");
        Ok(decoded)
    }

    fn begun(&self) -> bool {
        self.answer.begun()
    }

    /// A prompt that older servers found whole in their cache is not counted at all: then nothing is known.
    fn usage(&self) -> Option<Usage> {
        let input = self.counts.prompt_eval_count?;
        let output = self.counts.eval_count.unwrap_or(0);
        (input > 0 || output > 0).then_some(Usage { input, output, ..Usage::default() })
    }
}
