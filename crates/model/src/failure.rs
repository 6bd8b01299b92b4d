//! Why an attempt gave no answer.

use std::fmt;
use std::time::Duration;

use provost_core::transcript::Usage;

use crate::clip;
use crate::rate_limits::{RateLimits, Window};

/// What kind of failure an attempt met. The kind alone decides whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureClass {
    /// No connection came about: the request was not sent.
    Transport,
    /// The request was sent, and no answer came whole: the connection broke, or the stream ended before its terminal
    /// event. The vendor may have answered, and charged for it.
    UnknownOutcome,
    /// A time limit passed: ours (whole call, silence) or the vendor's (408, 504).
    Timeout,
    /// Too many requests or tokens per minute.
    RateLimited,
    /// The vendor is short of capacity.
    Overloaded,
    /// The vendor failed (5xx and its like).
    Server,
    /// The key is missing, wrong or not allowed this.
    Auth,
    /// The account has no money or allowance left: waiting a little does not help.
    Quota,
    /// The prompt, or prompt plus output, does not fit the model.
    ContextOverflow,
    /// The vendor refused the content.
    Refused,
    /// The vendor says the request is wrong (unknown model, bad parameter, redirect, …).
    BadRequest,
    /// The answer could not be understood.
    Malformed,
    /// The caller gave up.
    Cancelled,
    /// This side could not make the request at all (no trust roots, a key that is no header value).
    Setup,
}

impl FailureClass {
    /// Whether the same request may succeed later.
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Self::Transport
                | Self::UnknownOutcome
                | Self::Timeout
                | Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Malformed
        )
    }

    /// The class that has this word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        const ALL: [FailureClass; 14] = [
            FailureClass::Transport,
            FailureClass::UnknownOutcome,
            FailureClass::Timeout,
            FailureClass::RateLimited,
            FailureClass::Overloaded,
            FailureClass::Server,
            FailureClass::Auth,
            FailureClass::Quota,
            FailureClass::ContextOverflow,
            FailureClass::Refused,
            FailureClass::BadRequest,
            FailureClass::Malformed,
            FailureClass::Cancelled,
            FailureClass::Setup,
        ];
        ALL.into_iter().find(|class| class.word() == word)
    }

    /// A stable word for journals and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::UnknownOutcome => provost_core::state::UNKNOWN_OUTCOME,
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::ContextOverflow => "context_overflow",
            Self::Refused => "refused",
            Self::BadRequest => "bad_request",
            Self::Malformed => "malformed",
            Self::Cancelled => "cancelled",
            Self::Setup => "setup",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One failed attempt. Safe to journal: it holds no credential, and its message is bounded and escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub class: FailureClass,
    /// HTTP status, when a response arrived.
    pub status: Option<u16>,
    /// How long the vendor asked to wait, as stated (not capped).
    pub retry_after: Option<Duration>,
    /// For people: at most about 800 characters, control characters escaped.
    pub message: String,
    /// Bytes of response body received before the failure.
    pub bytes_received: u64,
    /// Tokens that the server had counted before the failure: they are paid for, though there is no answer. `None` when
    /// it had said nothing, which is not zero. Output generated after it last counted is not in here: some wires count
    /// the prompt first and the output last.
    pub usage: Option<Usage>,
    /// What the vendor said of its limits, where it said anything.
    pub rate_limits: Option<Box<RateLimits>>,
}

impl Failure {
    /// A failure with a cleaned message and nothing else.
    pub fn new(class: FailureClass, message: impl AsRef<str>) -> Self {
        Self {
            class,
            status: None,
            retry_after: None,
            message: clip::message(message.as_ref()),
            bytes_received: 0,
            usage: None,
            rate_limits: None,
        }
    }

    /// With the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// With the wait that the vendor stated. The message repeats it, so that whoever gives up can say why.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        if let Some(wait) = wait {
            let stated = format!("the server says to retry after {} s", wait.as_secs_f64());
            self.message = format!("{} ({stated})", self.message);
        }
        self.retry_after = wait;
        self
    }

    /// With the limits that the vendor told of. One that is spent explains a refusal, and says when to come back where
    /// nothing else does.
    #[must_use]
    pub fn with_rate_limits(mut self, limits: RateLimits) -> Self {
        if limits.is_empty() {
            return self;
        }
        if self.class == FailureClass::RateLimited {
            let spent: Vec<String> = limits.spent().map(Window::to_string).collect();
            if !spent.is_empty() {
                self.message = clip::message(&format!("{} (spent: {})", self.message, spent.join(", ")));
            }
            if self.retry_after.is_none() {
                self = self.with_retry_after(limits.spent_until());
            }
        }
        self.rate_limits = Some(Box::new(limits));
        self
    }

    /// With what the server had counted by then.
    #[must_use]
    pub fn with_usage(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }

    /// Whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        self.class.retryable()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        if let Some(status) = self.status {
            write!(f, " (HTTP {status})")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Failure {}
