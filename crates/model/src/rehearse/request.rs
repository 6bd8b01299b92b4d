//! Reading a request without building it: only roles and ids are looked at, everything else is skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a request tells.
#[derive(Deserialize)]
pub(super) struct Request<'a> {
    #[serde(default, borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) stream: bool,
    #[serde(default)]
    pub(super) max_tokens: Option<u64>,
    #[serde(borrow)]
    pub(super) messages: Vec<Message<'a>>,
    #[serde(default)]
    pub(super) stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
pub(super) struct StreamOptions {
    #[serde(default)]
    pub(super) include_usage: bool,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(default, borrow)]
    tool_use_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
}

impl Message<'_> {
    fn blocks(&self) -> Vec<Block<'_>> {
        self.content
            .filter(|raw| raw.get().starts_with('['))
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default()
    }

    /// The step whose call this message answers.
    fn answered_step(&self) -> Option<u64> {
        if let Some(id) = &self.tool_call_id {
            return step_of(id);
        }
        if self.role != "user" {
            return None;
        }
        self.blocks().iter().rev().find_map(|block| step_of(block.tool_use_id.as_deref()?))
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

impl Request<'_> {
    /// Number of the answer that is wanted. Looks from the end, so a long history costs no more.
    pub(super) fn step(&self) -> u64 {
        let mut said = 0;
        for message in self.messages.iter().rev() {
            if message.role == "assistant" {
                said += 1;
            } else if let Some(step) = message.answered_step() {
                // The assistant message that made this call is counted by the step itself.
                return step + 1 + said;
            }
        }
        said
    }

    /// Text of the first user message.
    pub(super) fn first(&self) -> String {
        self.messages.iter().find(|message| message.role == "user").map(Message::text).unwrap_or_default()
    }
}
