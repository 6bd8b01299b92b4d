//! Chat completions: the answer, from a stream of chunks or from one whole completion.

use std::borrow::Cow;

use provost_core::transcript::{Stop, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::assembly::Assembly;
use super::json::{arguments_text, is_json, present};
use super::{Decode, Decoded, Progress, malformed};
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

/// Assembles one answer.
pub(super) struct Decoder {
    answer: Assembly,
    reasoning: String,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self { answer: Assembly::new(turn), reasoning: String::new() }
    }

    fn delta(&mut self, delta: Delta<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        if let Some(text) = delta.content.map(content_text).transpose()? {
            self.answer.said(&text, sink)?;
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.answer.refused();
            self.answer.said(&text, sink)?;
        }
        let reasoning = match delta.reasoning_content {
            Some(text) => Some(text),
            // Some servers put an object of settings here.
            None => delta.reasoning.and_then(|raw| serde_json::from_str(raw.get()).ok()).map(Cow::Owned),
        };
        if let Some(text) = reasoning {
            self.reasoning.push_str(&text);
            self.answer.thought(&text, sink)?;
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, sink)?;
        }
        Ok(())
    }

    fn call(&mut self, call: CallDelta<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let id = call.id.unwrap_or_default();
        let (name, arguments) = match call.function {
            Some(function) => {
                (function.name.unwrap_or_default(), function.arguments.map(arguments_text).transpose()?)
            }
            None => (Cow::default(), None),
        };
        let at = if let Some(at) = self.place(call.index, &id, &name) {
            at
        } else {
            // A new call begins, so the ones before it are whole.
            self.answer.show_whole(sink);
            let at = self.answer.begin_call()?;
            self.answer.call(at).index = call.index;
            at
        };
        let call = self.answer.call(at);
        if call.server_id.is_empty() {
            call.server_id = id.into_owned();
        }
        // Names come whole, in pieces, or again with every chunk.
        if call.name != name && call.pieces.is_empty() {
            call.name.push_str(&name);
        }
        let arguments = arguments.unwrap_or_default();
        call.pieces.push_str(&arguments);
        self.answer.grow(arguments.len())
    }

    /// The call that a delta continues, or `None` if it begins one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let calls = self.answer.calls();
        let at = match index {
            Some(_) => calls.iter().rposition(|call| call.index == index)?,
            None => calls.len().checked_sub(1)?,
        };
        let call = &calls[at];
        let other_id = !id.is_empty() && !call.server_id.is_empty() && id != call.server_id;
        // Servers that give every parallel call index 0, or none: a name with another id, or a second name
        // after whole arguments where there are no ids, begins a call. Parsing stands last: it is the cost.
        let begins = !name.is_empty()
            && match index {
                None if !id.is_empty() => other_id,
                None => is_json(call.arguments()),
                Some(_) => other_id && is_json(call.arguments()),
            };
        (!begins).then_some(at)
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
        self.answer.ended(stop, sink);
        Ok(())
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: SseEvent, sink: &mut dyn Sink) -> Result<Progress, Failure> {
        let data = event.data.trim();
        if data == "[DONE]" {
            return self.answer.closed();
        }
        if data.is_empty() {
            return Ok(self.answer.progress());
        }
        if event.event == "error" {
            return Err(classify::failure(None, data));
        }
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                self.answer
                    .counted(serde_json::from_str::<Counted<'_>>(data).ok().and_then(|chunk| chunk.usage));
                return Err(malformed("a chunk of the answer", &error));
            }
        };
        // First, since what was counted is paid for whatever else the chunk holds.
        self.answer.counted(chunk.usage.or(chunk.x_groq.and_then(|groq| groq.usage)));
        let broke = chunk.base_resp.and_then(|told| told.status_code).is_some_and(|code| code != 0);
        if broke || present(chunk.error).is_some() {
            return Err(classify::failure(None, data));
        }
        self.answer.model(chunk.model);
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
        Ok(self.answer.progress())
    }

    fn finish(self: Box<Self>) -> Result<Decoded, Failure> {
        let usage = self.usage();
        let opaque =
            if self.reasoning.is_empty() { Vec::new() } else { vec![opaque_reasoning(self.reasoning)] };
        self.answer.finish(opaque, usage)
    }

    fn begun(&self) -> bool {
        self.answer.begun()
    }

    fn usage(&self) -> Option<Usage> {
        self.answer.count().and_then(read_usage)
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
