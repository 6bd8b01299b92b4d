//! Record and replay: a cassette holds what was asked of a model and what it answered, so that a run can be had again
//! without one.
//!
//! A file of JSON lines, one for each attempt. What was asked is kept in the neutral form of the dialogue, whole, so a request
//! that is not on the cassette can be told apart from the nearest that is. No key and no header is in it.

mod record;
mod replay;

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::transcript::{Assistant, Call, Message, Stop, Usage};
use serde::{Deserialize, Serialize};

pub use record::Recorder;
pub use replay::Replay;

use crate::rate_limits::Window;
use crate::{Answer, Billed, Failure, FailureClass, Prelude, RateLimits};

/// The first line of a cassette.
const HEAD: &str = r#"{"provost_cassette":1}"#;

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// There is such a file already.
    #[error("{}: there is such a file already, and a cassette is never written over: name another, or remove it", .0.display())]
    Exists(PathBuf),
    /// There is no such file, or no folder for it.
    #[error("{}: there is no such file or folder", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no cassette, or one of a newer program.
    #[error("{}: it does not begin like a cassette that this program can read", .0.display())]
    NoCassette(PathBuf),
    /// A line is not understood.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

impl CassetteError {
    fn file(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::AlreadyExists => Self::Exists(path.to_owned()),
            std::io::ErrorKind::NotFound => Self::Missing(path.to_owned()),
            _ => Self::File { path: path.to_owned(), source },
        }
    }
}

/// One attempt. Its parts are the prelude, then each message, then the output limit, each as JSON text.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    /// How many parts are those of the line before.
    shared: usize,
    /// The other parts.
    parts: Vec<String>,
    /// What was heard while it streamed.
    heard: Vec<Heard>,
    /// What came of it.
    end: End,
}

/// A piece of a streaming answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Heard {
    Text(String),
    Reasoning(String),
    Call(Call),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Answered(Told),
    Failed(Broke),
}

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Told {
    assistant: Assistant,
    stop: Stop,
    usage: Option<Usage>,
    raw_usage: Option<String>,
    latency_ms: u64,
    ttft_ms: Option<u64>,
    model: String,
    #[serde(default, skip_serializing_if = "Said::is_none")]
    rate_limits: Said,
}

/// What the vendor said of its limits.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    windows: Vec<SaidWindow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extras: Vec<(String, String)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidWindow {
    counts: String,
    limit: Option<u64>,
    remaining: Option<u64>,
    resets_in_ms: Option<u64>,
}

impl Said {
    fn of(limits: &RateLimits) -> Self {
        let windows = limits.windows.iter().map(|window| SaidWindow {
            counts: window.counts.clone(),
            limit: window.limit,
            remaining: window.remaining,
            resets_in_ms: window.resets_in.map(millis),
        });
        Self { windows: windows.collect(), extras: limits.extras.clone() }
    }

    fn is_none(&self) -> bool {
        self.windows.is_empty() && self.extras.is_empty()
    }

    fn limits(self) -> RateLimits {
        let windows = self.windows.into_iter().map(|window| Window {
            counts: window.counts,
            limit: window.limit,
            remaining: window.remaining,
            resets_in: window.resets_in_ms.map(Duration::from_millis),
        });
        RateLimits { windows: windows.collect(), extras: self.extras }
    }
}

/// Longest that an answer can have taken, in milliseconds.
const LONGEST_MS: u64 = 1 << 40;

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

/// A failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Broke {
    class: String,
    status: Option<u16>,
    retry_after_ms: Option<u64>,
    message: String,
    bytes_received: u64,
    usage: Option<Usage>,
    /// Bytes of an answer that broke off, where it may be charged beyond `usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<u32>,
    #[serde(default, skip_serializing_if = "Said::is_none")]
    rate_limits: Said,
}

impl End {
    fn of(result: &Result<Answer, Failure>) -> Self {
        match result {
            Ok(answer) => Self::Answered(Told {
                assistant: answer.assistant.clone(),
                stop: answer.stop,
                usage: answer.usage,
                raw_usage: answer.raw_usage.clone(),
                latency_ms: answer.latency_ms,
                ttft_ms: answer.ttft_ms,
                model: answer.model.clone(),
                rate_limits: Said::of(&answer.rate_limits),
            }),
            Err(failure) => Self::Failed(Broke {
                class: failure.class.word().to_owned(),
                status: failure.status,
                retry_after_ms: failure.retry_after.map(millis),
                message: failure.message.clone(),
                bytes_received: failure.bytes_received,
                usage: failure.usage,
                unfinished: match failure.billed {
                    Billed::AsCounted => None,
                    Billed::Perhaps { answer_bytes } => Some(answer_bytes),
                },
                rate_limits: failure.rate_limits.as_deref().map(Said::of).unwrap_or_default(),
            }),
        }
    }

    fn result(self) -> Result<Answer, Failure> {
        match self {
            Self::Answered(told) => Ok(Answer {
                assistant: told.assistant,
                stop: told.stop,
                usage: told.usage,
                raw_usage: told.raw_usage,
                // A journal holds no number that JSON does not hold exactly.
                latency_ms: told.latency_ms.min(LONGEST_MS),
                ttft_ms: told.ttft_ms.map(|ms| ms.min(LONGEST_MS)),
                model: told.model,
                rate_limits: told.rate_limits.limits(),
            }),
            Self::Failed(broke) => {
                let class = FailureClass::from_word(&broke.class).unwrap_or(FailureClass::Setup);
                let mut failure = Failure::new(class, &broke.message).with_usage(broke.usage);
                failure.status = broke.status;
                failure.retry_after = broke.retry_after_ms.map(Duration::from_millis);
                failure.bytes_received = broke.bytes_received;
                if let Some(answer_bytes) = broke.unfinished {
                    failure.billed = Billed::Perhaps { answer_bytes };
                }
                if !broke.rate_limits.is_none() {
                    failure.rate_limits = Some(Box::new(broke.rate_limits.limits()));
                }
                Err(failure)
            }
        }
    }
}

/// The part that a dialogue begins with.
fn prelude_part(model: &str, prelude: &Prelude) -> String {
    let mut part = serde_json::json!({
        "model": model, "system": prelude.system, "tools": prelude.tools, "max_output": prelude.max_output,
    });
    if let Some(effort) = prelude.effort {
        part["effort"] = effort.word().into();
    }
    if let Some(schema) = &prelude.schema {
        part["schema"] = schema.schema.clone();
    }
    part.to_string()
}

fn message_part(message: &Message) -> String {
    serde_json::json!(message).to_string()
}

fn limit_part(max_output: u64) -> String {
    serde_json::json!({ "max_output": max_output }).to_string()
}
