//! Gemini: the answer, from a stream of partial responses, from a list of them or from one whole response.

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
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(default, borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default, borrow)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(default, borrow)]
    model_version: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// What is read first of a response, whether or not the rest of it is understood: it is paid for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted<'a> {
    #[serde(default, borrow)]
    usage_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(default, borrow)]
    block_reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    block_reason_message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, borrow)]
    content: Option<Content<'a>>,
    #[serde(default, borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    finish_message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(default, borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(default, borrow)]
    function_call: Option<FunctionCall<'a>>,
    #[serde(default, borrow)]
    thought_signature: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
}

/// A thought signature, as an opaque block of the transcript: it must go back with the part that it came with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptSignature {
    #[serde(rename = "gemini_signature")]
    pub(super) signature: String,
    pub(super) signed: Signed,
}

/// Which part of the answer a signature came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Signed {
    /// A call, by its place among the calls.
    Call { call: usize },
    /// Text, by its bytes in the whole text; none where an empty part carried it.
    Text { from: usize, to: usize },
}

impl KeptSignature {
    /// The signature in an opaque block of this wire; blocks of other wires hold none.
    pub(super) fn read(opaque: &str) -> Option<Self> {
        serde_json::from_str(opaque).ok()
    }
}

/// Assembles one answer.
pub(super) struct Decoder {
    answer: Assembly,
    signatures: Vec<KeptSignature>,
}

impl Decoder {
    pub(super) fn new(turn: u64) -> Self {
        Self { answer: Assembly::new(turn), signatures: Vec::new() }
    }

    fn response(&mut self, raw: &str, sink: &mut dyn Sink) -> Result<(), Failure> {
        // Each piece counts all so far.
        let counted = serde_json::from_str::<Counted<'_>>(raw).ok();
        self.answer.counted(counted.and_then(|response| response.usage_metadata));
        let response: Response<'_> =
            serde_json::from_str(raw).map_err(|e| malformed("a piece of the answer", &e))?;
        if present(response.error).is_some() {
            return Err(classify::failure(None, raw));
        }
        self.answer.model(response.model_version);
        let candidates = response.candidates.unwrap_or_default();
        if let Some(reason) = response.prompt_feedback.as_ref().and_then(|all| all.block_reason.as_deref())
            && candidates.is_empty()
        {
            let words = response.prompt_feedback.as_ref().and_then(|all| all.block_reason_message.as_deref());
            let message = format!("the vendor blocked the prompt ({reason}) {}", words.unwrap_or_default());
            return Err(Failure::new(FailureClass::Refused, message.trim_end()));
        }
        for candidate in candidates {
            if candidate.index.unwrap_or(0) != 0 {
                continue;
            }
            for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
                self.part(part, sink)?;
            }
            if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
                self.ended(&reason, candidate.finish_message.as_deref(), sink)?;
            }
        }
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let text = part.text.unwrap_or_default();
        let from = self.answer.text_bytes();
        if part.thought == Some(true) {
            self.answer.thought(&text, sink)?;
        } else {
            self.answer.said(&text, sink)?;
        }
        let mut signed = Signed::Text { from, to: self.answer.text_bytes() };
        if let Some(call) = part.function_call {
            let arguments = call.args.map(arguments_text).transpose()?;
            signed = Signed::Call { call: self.answer.whole_call(call.id, call.name, arguments, sink)? };
        }
        if let Some(signature) = part.thought_signature.filter(|signature| !signature.is_empty()) {
            self.answer.kept(signature.len())?;
            self.signatures.push(KeptSignature { signature: signature.into_owned(), signed });
        }
        Ok(())
    }

    fn ended(&mut self, reason: &str, words: Option<&str>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let stop = match reason {
            "FINISH_REASON_UNSPECIFIED" => return Ok(()),
            "MAX_TOKENS" => Stop::Length,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" => Stop::Refused,
            // The vendor's own parser did not understand what the model wrote, and keeps the call to itself.
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "MALFORMED_RESPONSE"
            | "TOO_MANY_TOOL_CALLS" => {
                let message =
                    format!("the model's call is malformed ({reason}) {}", words.unwrap_or_default());
                return Err(Failure::new(FailureClass::Malformed, message.trim_end()));
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let message = "the vendor misses a thought signature in the dialogue";
                return Err(Failure::new(FailureClass::BadRequest, message));
            }
            // `STOP`, `OTHER`, and reasons that are to come.
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
        if data.starts_with('[') {
            // What a server sends that was not asked for server-sent events, or does not know them.
            let all: Vec<&RawValue> = serde_json::from_str(data).map_err(|e| malformed("the answer", &e))?;
            for piece in all {
                self.response(piece.get(), sink)?;
            }
        } else if !data.is_empty() {
            if event.event == "error" {
                return Err(classify::failure(None, data));
            }
            self.response(data, sink)?;
        }
        Ok(self.answer.progress())
    }

    fn finish(self: Box<Self>) -> Result<Decoded, Failure> {
        let usage = self.usage();
        let opaque = self.signatures.iter().filter_map(|kept| serde_json::to_string(kept).ok()).collect();
        self.answer.finish(opaque, usage)
    }

    fn begun(&self) -> bool {
        self.answer.begun()
    }

    fn usage(&self) -> Option<Usage> {
        self.answer.count().and_then(read_usage)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawUsage {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
    #[serde(rename = "toolUsePromptTokenCount")]
    tools: Option<u64>,
    #[serde(rename = "totalTokenCount")]
    total: Option<u64>,
}

/// Disjoint counts: this vendor counts cached tokens in the prompt, and thoughts apart from the candidates.
fn read_usage(raw: &str) -> Option<Usage> {
    let raw: RawUsage = serde_json::from_str(raw).ok()?;
    let prompt = raw.prompt?;
    let candidates = raw.candidates.unwrap_or(0);
    let reasoning = raw.thoughts.unwrap_or(0);
    if prompt == 0 && candidates == 0 && reasoning == 0 {
        return None;
    }
    let tools = raw.tools.unwrap_or(0);
    let cache_read = raw.cached.unwrap_or(0).min(prompt);
    // Some gateways count thoughts among the candidates; the total tells.
    let within = reasoning > 0
        && reasoning <= candidates
        && raw.total == prompt.checked_add(candidates).and_then(|n| n.checked_add(tools));
    let output = if within { candidates } else { candidates.saturating_add(reasoning) };
    Some(Usage {
        input: (prompt - cache_read).saturating_add(tools),
        output,
        cache_read,
        cache_write: 0,
        reasoning: reasoning.min(output),
    })
}
