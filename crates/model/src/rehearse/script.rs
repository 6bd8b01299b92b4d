//! The script: what the rehearsed model says and calls, and what goes wrong on the way.

use std::collections::BTreeMap;
use std::path::Path;

use provost_core::transcript::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a script was refused. Names the file, and line and column where the text itself is at fault.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no script.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file, or `script` for a script given as text.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// There is nothing to play.
    #[error("{file}: the script is empty: it needs `steps` or `final`")]
    Empty {
        /// The file, or `script`.
        file: String,
    },
}

/// A script.
///
/// ```json
/// {
///   "model": "rehearsal",
///   "steps": [
///     { "call": { "name": "read_file", "arguments": { "path": "a.txt" } }, "say": "Let me look." },
///     { "calls": [ { "name": "list", "arguments": {} }, { "name": "read_file", "arguments": "{\"path\": \"a" } ] },
///     { "say": "Working.", "usage": { "input": 100, "output": 5, "cache_read": 90 } },
///     { "call": { "name": "exec", "arguments": { "command": "echo {{i}}" } }, "repeat": 1000 },
///     { "say": "x", "fault": { "status": 429, "times": 2, "headers": { "retry-after": "1" } } }
///   ],
///   "final": "Done."
/// }
/// ```
///
/// A step answers one request. Arguments that are a string are sent as they stand, JSON or not; any other
/// value is sent in the script's own characters. `{{i}}` in `say` and in arguments is the number of the
/// repetition, from 0. After the last step every request is answered with `final` (default `done`).
///
/// Which step: one past the step of the last call id in the request (ids are `call_<step>_<n>`), plus one for
/// each assistant message after that. So a client that shortens its history still goes on where it was.
///
/// Other dialogues: `"dialogues": [{ "when": "text", "steps": […], "final": "…" }]`. The first whose `when`
/// occurs in the first user message plays instead of the script's own steps (for agents' children).
#[derive(Debug, Clone)]
pub struct Script {
    model: String,
    main: Part,
    others: Vec<(String, Part)>,
}

/// One dialogue's steps.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Each step with the number of its first play.
    steps: Vec<(u64, Step)>,
    length: u64,
    last: Step,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default = "default_model")]
    model: String,
    steps: Option<Vec<Step>>,
    r#final: Option<String>,
    #[serde(default)]
    dialogues: Vec<RawDialogue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDialogue {
    when: String,
    #[serde(default)]
    steps: Vec<Step>,
    r#final: Option<String>,
}

fn default_model() -> String {
    "rehearsal".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    say: Option<String>,
    think: Option<String>,
    call: Option<ScriptCall>,
    calls: Option<Vec<ScriptCall>>,
    usage: Option<UsageSaid>,
    stop: Option<StopSaid>,
    fault: Option<Fault>,
    repeat: Option<u64>,
}

/// One answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "RawStep")]
pub(super) struct Step {
    pub(super) say: Option<String>,
    pub(super) think: Option<String>,
    pub(super) calls: Vec<ScriptCall>,
    pub(super) usage: Option<UsageSaid>,
    pub(super) stop: Option<StopSaid>,
    pub(super) fault: Option<Fault>,
    repeat: u64,
}

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Self, String> {
        let calls = match (raw.call, raw.calls) {
            (Some(_), Some(_)) => return Err("a step has either `call` or `calls`, not both".to_owned()),
            (Some(call), None) => vec![call],
            (None, calls) => calls.unwrap_or_default(),
        };
        if raw.say.is_none() && calls.is_empty() {
            return Err("a step needs `say`, `call` or `calls`".to_owned());
        }
        if raw.repeat == Some(0) {
            return Err("`repeat` must be at least 1".to_owned());
        }
        Ok(Self {
            say: raw.say,
            think: raw.think,
            calls,
            usage: raw.usage,
            stop: raw.stop,
            fault: raw.fault,
            repeat: raw.repeat.unwrap_or(1),
        })
    }
}

/// A tool call as the script has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCall {
    pub(super) name: String,
    /// Raw, so that duplicate keys and spacing reach the client as written.
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

impl ScriptCall {
    pub(super) fn arguments(&self, i: u64) -> String {
        let text = match self.arguments.as_deref().map(RawValue::get) {
            None => "{}".to_owned(),
            Some(raw) if raw.starts_with('"') => serde_json::from_str(raw).unwrap_or_default(),
            Some(raw) => raw.to_owned(),
        };
        fill(&text, i)
    }
}

/// Puts the number of the repetition in.
pub(super) fn fill(text: &str, i: u64) -> String {
    if text.contains("{{i}}") { text.replace("{{i}}", &i.to_string()) } else { text.to_owned() }
}

/// What the server says of tokens: counts, or `false` for nothing at all.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub(super) struct UsageSaid(pub(super) Option<Usage>);

impl TryFrom<serde_json::Value> for UsageSaid {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        if value == false {
            return Ok(Self(None));
        }
        serde_json::from_value(value)
            .map(|usage| Self(Some(usage)))
            .map_err(|e| format!("`usage` is `false` or counts with `input` and `output`: {e}"))
    }
}

/// Why the rehearsed model stops, where the step's content does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StopSaid {
    Length,
    Refused,
}

/// What goes wrong. `latency_ms` holds each time; everything else fires `times` times per step, then the step
/// plays well.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// How often; once where nothing is said.
    #[serde(default = "once")]
    pub(super) times: u64,
    /// Answer with this status.
    pub(super) status: Option<u16>,
    /// Headers of that answer.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// `type` of its error object.
    pub(super) r#type: Option<String>,
    /// `message` of its error object.
    pub(super) message: Option<String>,
    /// Its body, in place of the error object.
    pub(super) body: Option<String>,
    /// Its body begins and never ends.
    #[serde(default)]
    pub(super) endless: bool,
    /// Close the connection after so many events.
    pub(super) drop_after: Option<usize>,
    /// After so many events send an error event (with `type` and `message`) and end.
    pub(super) error_after: Option<usize>,
    /// Cut the arguments in half.
    #[serde(default)]
    pub(super) bad_json: bool,
    /// Think so long before the first byte.
    #[serde(default)]
    pub(super) latency_ms: u64,
    /// After the first event, be silent so long.
    pub(super) stall_ms: Option<u64>,
}

fn once() -> u64 {
    1
}

impl Script {
    /// Reads the script in `path` (JSON).
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse_named(&text, file),
            Err(source) => Err(ScriptError::Read { file, source }),
        }
    }

    /// Reads a script given as JSON text.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        Self::parse_named(text, "script".to_owned())
    }

    fn parse_named(text: &str, file: String) -> Result<Self, ScriptError> {
        if text.trim().is_empty() {
            return Err(ScriptError::Empty { file });
        }
        let raw: RawScript = match serde_json::from_str(text) {
            Ok(raw) => raw,
            Err(e) => {
                let place = format!(" at line {} column {}", e.line(), e.column());
                let message = e.to_string().replace(&place, "");
                return Err(ScriptError::Syntax { file, line: e.line(), column: e.column(), message });
            }
        };
        if raw.steps.as_ref().is_none_or(Vec::is_empty) && raw.r#final.is_none() {
            return Err(ScriptError::Empty { file });
        }
        let others = raw.dialogues.into_iter().map(|d| (d.when, Part::new(d.steps, d.r#final))).collect();
        Ok(Self { model: raw.model, main: Part::new(raw.steps.unwrap_or_default(), raw.r#final), others })
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Number of answers before `final`, repetitions counted.
    pub fn len(&self) -> u64 {
        self.main.length
    }

    /// Whether `final` is all there is.
    pub fn is_empty(&self) -> bool {
        self.main.length == 0
    }

    /// Number and steps of the dialogue that begins with `first` (the first user message).
    pub(super) fn part(&self, first: &str) -> (usize, &Part) {
        match self.others.iter().position(|(when, _)| first.contains(when.as_str())) {
            Some(at) => (at + 1, &self.others[at].1),
            None => (0, &self.main),
        }
    }
}

impl Part {
    fn new(steps: Vec<Step>, last: Option<String>) -> Self {
        let mut length = 0_u64;
        let steps = steps
            .into_iter()
            .map(|step| {
                let first = length;
                length = length.saturating_add(step.repeat);
                (first, step)
            })
            .collect();
        let last = Step { say: Some(last.unwrap_or_else(|| "done".to_owned())), ..Step::default() };
        Self { steps, length, last }
    }

    /// The step of request number `k`, and the number of its repetition.
    pub(super) fn step(&self, k: u64) -> (&Step, u64) {
        if k >= self.length {
            return (&self.last, k - self.length);
        }
        let at = self.steps.partition_point(|(first, _)| *first <= k).saturating_sub(1);
        self.steps.get(at).map_or((&self.last, 0), |(first, step)| (step, k - first))
    }
}
