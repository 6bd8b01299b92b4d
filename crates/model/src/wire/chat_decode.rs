//! Chat completions: the answer, from a stream of chunks or from one whole completion.

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
struct Chunk<'a> {
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
    /// Where one vendor puts the usage of a stream.
    #[serde(default, borrow)]
    x_groq: Option<Groq<'a>>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    /// Where one vendor says, with status 200, that it failed.
    #[serde(default)]
    base_resp: Option<BaseResp>,
}

#[derive(Deserialize)]
struct BaseResp {
    #[serde(default)]
    status_code: Option<i64>,
}

#[derive(Deserialize)]
struct Groq<'a> {
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

/// What is read of a chunk that is not understood.
#[derive(Deserialize)]
struct Counted<'a> {
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    /// Of a chunk.
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    /// Of a whole completion.
    #[serde(default, borrow)]
    message: Option<Delta<'a>>,
    #[serde(default, borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    refusal: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    /// The same under another name.
    #[serde(default, borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
}

/// A call being assembled.
#[derive(Default)]
struct Slot {
    /// The server's index; `None` when it gave none.
    index: Option<u64>,
    server_id: String,
    name: String,
    arguments: String,
    /// The id given out, once the call was shown or the answer ended.
    id: Option<String>,
}

/// Assembles one answer.
pub(super) struct Decoder {
    ids: Ids,
    text: String,
    reasoning: String,
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
            reasoning: String::new(),
            slots: Vec::new(),
            size: 0,
            refused: false,
            stop: None,
            usage: None,
            model: None,
        }
    }

    fn delta(&mut self, delta: Delta<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        if let Some(text) = delta.content.map(content_text).transpose()?.filter(|text| !text.is_empty()) {
            self.text.push_str(&text);
            sink.text(&text);
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            self.text.push_str(&text);
            sink.text(&text);
        }
        let reasoning = match delta.reasoning_content {
            Some(text) => Some(text),
            // Some servers put an object of settings here.
            None => delta.reasoning.and_then(|raw| serde_json::from_str(raw.get()).ok()).map(Cow::Owned),
        };
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            self.reasoning.push_str(&text);
            sink.reasoning(&text);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, sink)?;
        }
        self.size = self.text.len() + self.reasoning.len();
        self.size += self.slots.iter().map(|slot| slot.arguments.len()).sum::<usize>();
        if self.size > ANSWER_LIMIT || self.slots.len() > 4_096 { Err(too_large()) } else { Ok(()) }
    }

    fn call(&mut self, call: CallDelta<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let id = call.id.unwrap_or_default();
        let (name, arguments) = match call.function {
            Some(function) => {
                (function.name.unwrap_or_default(), function.arguments.map(arguments_text).transpose()?)
            }
            None => (Cow::default(), None),
        };
        let at = self.place(call.index, &id, &name).unwrap_or_else(|| {
            // A new call begins, so the ones before it are whole.
            self.show(sink, false);
            self.slots.push(Slot { index: call.index, ..Slot::default() });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        if slot.server_id.is_empty() {
            slot.server_id = id.into_owned();
        }
        // Names come whole, in pieces, or again with every chunk.
        if slot.name != name && slot.arguments.is_empty() {
            slot.name.push_str(&name);
        }
        slot.arguments.push_str(&arguments.unwrap_or_default());
        Ok(())
    }

    /// The slot that a delta continues, or `None` if it begins a call.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.slots.iter().rposition(|slot| slot.index == index)?,
            None => self.slots.len().checked_sub(1)?,
        };
        let slot = &self.slots[at];
        let other_id = !id.is_empty() && !slot.server_id.is_empty() && id != slot.server_id;
        // Servers that give every parallel call index 0, or none: a name with another id, or a second name
        // after whole arguments where there are no ids, begins a call. Parsing stands last: it is the cost.
        let begins = !name.is_empty()
            && match index {
                None if !id.is_empty() => other_id,
                None => is_json(&slot.arguments),
                Some(_) => other_id && is_json(&slot.arguments),
            };
        (!begins).then_some(at)
    }

    /// Shows the calls not yet shown. Before the end, only those whose arguments are whole.
    fn show(&mut self, sink: &mut dyn Sink, ended: bool) {
        for slot in &mut self.slots {
            if slot.id.is_some() || slot.name.is_empty() || !ended && !is_json(&slot.arguments) {
                continue;
            }
            let id = self.ids.take(&slot.server_id);
            slot.id = Some(id.clone());
            sink.call(&Call { id, name: slot.name.clone(), arguments: slot.arguments.clone() });
        }
    }

    fn ended(&mut self, reason: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        let stop = match reason {
            "tool_calls" | "function_call" => Stop::ToolCalls,
            "length" | "max_tokens" | "model_length" => Stop::Length,
            "content_filter" | "refusal" => Stop::Refused,
            "insufficient_system_resource" => {
                return Err(Failure::new(
                    FailureClass::Overloaded,
                    "the server ran out of capacity in mid-answer",
                ));
            }
            "error" | "abort" => {
                return Err(Failure::new(FailureClass::Server, "the server gave up in mid-answer"));
            }
            _ => Stop::End,
        };
        if self.stop.is_none() {
            self.stop = Some(stop);
        }
        if matches!(stop, Stop::ToolCalls | Stop::End) {
            self.show(sink, true);
        }
        Ok(())
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data == "[DONE]" {
            // A gateway may send this also when its upstream broke: only a finish reason ends an answer.
            return if self.stop.is_some() { Ok(Progress::Done) } else { Err(cut_off()) };
        }
        if data.is_empty() {
            return Ok(self.progress());
        }
        if event.event == "error" {
            return Err(classify::failure(None, data));
        }
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                self.take_usage(serde_json::from_str::<Counted<'_>>(data).ok().and_then(|chunk| chunk.usage));
                return Err(malformed("a chunk of the answer", &error));
            }
        };
        // First, since what was counted is paid for whatever else the chunk holds.
        self.take_usage(chunk.usage.or(chunk.x_groq.and_then(|groq| groq.usage)));
        let broke = chunk.base_resp.and_then(|told| told.status_code).is_some_and(|code| code != 0);
        if broke || chunk.error.is_some_and(|error| error.get() != "null") {
            return Err(classify::failure(None, data));
        }
        if self.model.is_none() {
            self.model = chunk.model.filter(|model| !model.is_empty()).map(Cow::into_owned);
        }
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, sink)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.ended(&reason, sink)?;
            }
        }
        Ok(self.progress())
    }

    fn finish(mut self: Box<Self>) -> Result<Decoded, Failure> {
        let Some(stop) = self.stop else { return Err(cut_off()) };
        let usage = self.usage();
        let stop = if self.refused { Stop::Refused } else { stop };
        let calls = self
            .slots
            .into_iter()
            .map(|slot| Call {
                id: slot.id.unwrap_or_else(|| self.ids.take(&slot.server_id)),
                name: slot.name,
                arguments: slot.arguments,
            })
            .collect();
        let opaque =
            if self.reasoning.is_empty() { Vec::new() } else { vec![opaque_reasoning(self.reasoning)] };
        let (assistant, stop) = settle(Assistant { text: self.text, calls, opaque }, stop)?;
        Ok(Decoded {
            assistant,
            stop,
            usage,
            raw_usage: self.usage.map(|raw| raw.get().to_owned()),
            model: self.model,
        })
    }

    fn begun(&self) -> bool {
        !self.text.is_empty() || !self.reasoning.is_empty() || !self.slots.is_empty()
    }

    fn size(&self) -> usize {
        self.size
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.as_deref().and_then(|raw| read_usage(raw.get()))
    }
}

impl Decoder {
    fn take_usage(&mut self, usage: Option<&RawValue>) {
        if let Some(usage) = usage.filter(|usage| usage.get() != "null") {
            self.usage = Some(usage.to_owned());
        }
    }

    fn progress(&self) -> Progress {
        if self.stop.is_some() { Progress::Complete } else { Progress::Open }
    }
}

/// Text of a `content` member: a string, or an array of parts, or null.
fn content_text(raw: &RawValue) -> Result<Cow<'_, str>, Failure> {
    let text = raw.get();
    if text.starts_with('[') {
        let parts: Vec<Part<'_>> = serde_json::from_str(text).map_err(|e| malformed("a content part", &e))?;
        return Ok(parts.iter().filter_map(|part| part.text.as_deref()).collect::<String>().into());
    }
    let text: Option<String> = serde_json::from_str(text).map_err(|e| malformed("the content", &e))?;
    Ok(text.unwrap_or_default().into())
}

#[derive(Serialize, Deserialize)]
struct OpaqueReasoning<'a> {
    #[serde(borrow)]
    reasoning_content: Cow<'a, str>,
}

fn opaque_reasoning(text: String) -> String {
    serde_json::to_string(&OpaqueReasoning { reasoning_content: text.into() }).unwrap_or_default()
}

/// The reasoning text in an opaque block of this wire.
pub(super) fn reasoning_of(opaque: &str) -> Option<String> {
    serde_json::from_str::<OpaqueReasoning<'_>>(opaque).ok().map(|block| block.reasoning_content.into_owned())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// Disjoint counts. All zeros count as not said: no request has an empty prompt.
fn read_usage(raw: &str) -> Option<Usage> {
    let raw: RawUsage = serde_json::from_str(raw).ok()?;
    let prompt = raw.prompt_tokens?;
    let completion = raw.completion_tokens.unwrap_or(0);
    if prompt == 0 && completion == 0 {
        return None;
    }
    let details = raw.prompt_tokens_details.unwrap_or_default();
    let cache_read = details.cached_tokens.or(raw.prompt_cache_hit_tokens).unwrap_or(0).min(prompt);
    let cache_write = details.cache_write_tokens.unwrap_or(0).min(prompt - cache_read);
    let reasoning = raw.completion_tokens_details.and_then(|d| d.reasoning_tokens).unwrap_or(0);
    // Some vendors count reasoning apart from `completion_tokens`; the total tells.
    let apart = reasoning > 0
        && raw.total_tokens == prompt.checked_add(completion).and_then(|n| n.checked_add(reasoning));
    let output = if apart { completion.saturating_add(reasoning) } else { completion };
    Some(Usage {
        input: prompt - cache_read - cache_write,
        output,
        cache_read,
        cache_write,
        reasoning: reasoning.min(output),
    })
}
