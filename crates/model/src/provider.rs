//! What the loop knows of a model: open a dialogue, push messages, ask.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use provost_core::brief::Effort;
use provost_core::transcript::{Assistant, Call, Message, Stop, ToolSpec, Usage};

use crate::{Failure, RateLimits};

/// A boxed future: it keeps the traits here dyn-compatible.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model behind some wire.
pub trait Provider: Send + Sync {
    /// Name of the provider, for people and journals.
    fn name(&self) -> &str;
    /// The model asked for.
    fn model(&self) -> &str;
    /// Origin (`scheme://host[:port]`) that requests go to; never with credentials. Empty when in process.
    fn endpoint(&self) -> &str;
    /// Whether it passes this on to the model. One that does not say so passes on nothing but words.
    fn carries(&self, what: Beside) -> bool {
        let _ = what;
        false
    }
    /// Begins a dialogue. Encodes the prelude once.
    fn open(&self, prelude: Prelude) -> Box<dyn Dialogue>;
}

/// What a model may be told beside words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// How much it is to reason.
    Effort,
    /// Images.
    Images,
}

/// What every request of a dialogue starts with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prelude {
    /// System prompt; empty for none.
    pub system: String,
    /// Tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// Output limit in tokens where an [`Invocation`] names none; 0 leaves it to the wire (the vendor's own
    /// default, or 8192 where the vendor demands a number).
    pub max_output: u64,
    /// What the answer's text must be; `None` for free text.
    pub schema: Option<OutputSchema>,
    /// How much the model is to reason; `None` leaves it to the vendor.
    pub effort: Option<Effort>,
    /// One opaque word for all requests of a dialogue, so that a vendor who takes such a word sends them where its cache
    /// is warm. At most 64 characters `[a-z0-9-]`.
    pub affinity: Option<String>,
}

/// The JSON that an answer's text must be. Each wire asks in its vendor's words, and the vendor sees to it: what comes
/// back is to be checked all the same, since some servers ignore it, and an answer that is cut off is cut off.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSchema {
    /// A name for it, `[a-zA-Z0-9_-]{1,64}`. Some vendors show it to the model.
    pub name: String,
    /// JSON Schema. OpenAI's wires ask for it strictly, and then refuse one in which an object has optional members or
    /// does not say `"additionalProperties": false`.
    pub schema: serde_json::Value,
}

/// A dialogue: append-only. What was pushed is encoded once and its bytes never change.
pub trait Dialogue: Send {
    /// Appends one message.
    fn push(&mut self, message: &Message);
    /// Size in bytes of the request that [`ask`](Self::ask) would send now, for estimates.
    fn prompt_bytes(&self) -> usize;
    /// Shows what the next request begins with, from byte `from` on: all of it but the few bytes at its end that differ
    /// from one request to the next. No later push changes these bytes. One that sends no bytes has none to show.
    fn prompt(&self, from: u64, see: &mut dyn FnMut(&[u8])) {
        let _ = (from, see);
    }
    /// One attempt. The answer is not pushed: that is the caller's act, once it is durable.
    ///
    /// Dropping the future cancels the attempt and closes its connection.
    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>>;
}

/// The particulars of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Sent as an idempotency header. The same for every attempt at the same step.
    pub id: String,
    /// Output limit in tokens; 0 takes the prelude's.
    pub max_output: u64,
    /// Limit for the whole call, from connecting to the last byte.
    pub timeout: Duration,
    /// Longest silence: before the response begins, and between any two pieces of it.
    pub idle: Duration,
}

impl Invocation {
    /// An attempt with the default limits: 15 minutes in all, 3 minutes of silence.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), max_output: 0, timeout: Duration::from_mins(15), idle: Duration::from_mins(3) }
    }
}

/// Receives an answer while it streams. All of it is provisional until `ask` returns `Ok`.
pub trait Sink: Send {
    /// More visible text.
    fn text(&mut self, delta: &str) {
        let _ = delta;
    }
    /// More reasoning text, where the vendor shows it.
    fn reasoning(&mut self, delta: &str) {
        let _ = delta;
    }
    /// A call whose arguments are complete. May come before the answer ends, so that reads can start early;
    /// a partial call never comes.
    fn call(&mut self, call: &Call) {
        let _ = call;
    }
}

/// A sink that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl Sink for Discard {}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Text, calls and opaque blocks.
    pub assistant: Assistant,
    /// Why the model stopped.
    pub stop: Stop,
    /// Tokens as the vendor reported them; `None` when it never said (which is not zero).
    pub usage: Option<Usage>,
    /// The vendor's own usage object(s), as JSON text.
    pub raw_usage: Option<String>,
    /// Milliseconds from sending to the end.
    pub latency_ms: u64,
    /// Milliseconds from sending to the first text, reasoning or call.
    pub ttft_ms: Option<u64>,
    /// The model that the vendor says answered; the one asked for when it does not say.
    pub model: String,
    /// What the vendor said of its limits; empty where it said nothing.
    pub rate_limits: RateLimits,
}

impl Answer {
    /// An answer of text alone, for tests and scripts.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(Assistant { text: text.into(), ..Assistant::default() }, Stop::End)
    }

    /// An answer of calls, for tests and scripts.
    pub fn calls(calls: Vec<Call>) -> Self {
        Self::of(Assistant { calls, ..Assistant::default() }, Stop::ToolCalls)
    }

    fn of(assistant: Assistant, stop: Stop) -> Self {
        Self {
            assistant,
            stop,
            usage: Some(Usage { input: 1, output: 1, ..Usage::default() }),
            raw_usage: None,
            latency_ms: 0,
            ttft_ms: None,
            model: "scripted".to_owned(),
            rate_limits: RateLimits::default(),
        }
    }
}
