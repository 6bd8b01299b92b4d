//! What scripts read from standard output, byte for byte; and nothing else can be read from it.
//!
//! Text that somebody else wrote (a model's summary, a task's id) has its hidden characters written out: a line feed in a
//! summary begins no line of its own, and an escape sequence in an id reaches no terminal. What holds none comes out as it
//! is.

use std::fmt::Write as _;

use provost_core::text::{Lines, visible};

use super::events_log::{State, Task};

/// What became of an `enqueue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// The task is new.
    New,
    /// There is such a task already.
    Known,
}

/// `enqueued=true` or `enqueued=false`.
pub fn enqueued(what: Enqueued) -> &'static str {
    match what {
        Enqueued::New => "enqueued=true\n",
        Enqueued::Known => "enqueued=false\n",
    }
}

/// `cancelled=ID`.
pub fn cancelled(id: &str) -> String {
    format!("cancelled={}\n", shown(id))
}

/// One row of `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The task's id.
    pub id: &'a str,
    /// Its state.
    pub state: State,
    /// Its attempts.
    pub attempts: u32,
    /// The program that ran last, and its milliseconds.
    pub last: Option<(&'a str, u64)>,
}

impl<'a> Row<'a> {
    /// The row of a task of a log.
    pub fn of(id: &'a str, task: &'a Task) -> Self {
        let last = task.last_trace().map(|trace| (trace.program.as_str(), trace.duration_ms));
        Self { id, state: task.state, attempts: task.attempts, last }
    }
}

/// The table of `status`: fields separated by tabs, in the order given (it is sorted by id where the tasks of a log are).
pub fn status<'a>(rows: impl IntoIterator<Item = Row<'a>>) -> String {
    let mut out = String::from("TASK\tSTATE\tATTEMPTS\tLAST_TOOL\tLAST_MS\n");
    for Row { id, state, attempts, last } in rows {
        let _ = write!(out, "{}\t{state}\t{attempts}\t", shown(id));
        let _ = match last {
            Some((program, ms)) => writeln!(out, "{}\t{ms}", shown(program)),
            None => writeln!(out, "-\t-"),
        };
    }
    out
}

/// Tokens of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Into the model.
    pub input: u64,
    /// Out of it.
    pub output: u64,
}

/// Whether the verification passed after the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// It did.
    AfterChange,
    /// It did not.
    No,
}

/// A run that was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed<'a> {
    /// What was done, in the model's words.
    pub summary: &'a str,
    /// Decisions.
    pub steps: u64,
    /// Commands that ran.
    pub tool_runs: u64,
    /// How many files changed.
    pub changed_files: u64,
    /// Whether that was verified.
    pub verified: Verified,
    /// Tokens.
    pub tokens: Tokens,
    /// Milliseconds that the model took.
    pub provider_duration_ms: u64,
}

/// `outcome=completed` and the rest.
pub fn completed(run: &Completed<'_>) -> String {
    format!(
        "outcome=completed\nsummary={}\nsteps={}\ntool_runs={}\nchanged_files={}\nverified_after_change={}\n\
         input_tokens={}\noutput_tokens={}\nprovider_duration_ms={}\n",
        shown(run.summary),
        run.steps,
        run.tool_runs,
        run.changed_files,
        run.verified == Verified::AfterChange,
        run.tokens.input,
        run.tokens.output,
        run.provider_duration_ms
    )
}

/// Why a run failed: the names that scripts know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The limit of steps, or of time.
    TimedOut,
    /// A program that is not allowed, or a path that must not be used.
    PermissionDenied,
    /// Something is not there.
    NotFound,
    /// An answer that is not understood.
    InvalidData,
    /// An order that cannot be carried out.
    InvalidInput,
    /// It was cancelled.
    Interrupted,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// The name.
    pub fn word(self) -> &'static str {
        match self {
            Self::TimedOut => "TimedOut",
            Self::PermissionDenied => "PermissionDenied",
            Self::NotFound => "NotFound",
            Self::InvalidData => "InvalidData",
            Self::InvalidInput => "InvalidInput",
            Self::Interrupted => "Interrupted",
            Self::Other => "Other",
        }
    }
}

/// A run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed<'a> {
    /// Why.
    pub kind: FailureKind,
    /// In words.
    pub failure: &'a str,
    /// Tokens, in two lines behind those that there always were; `None` leaves them out.
    pub tokens: Option<Tokens>,
}

/// `outcome=failed` and the rest.
pub fn failed(run: &Failed<'_>) -> String {
    let mut out =
        format!("outcome=failed\nfailure_kind={}\nfailure={}\n", run.kind.word(), shown(run.failure));
    if let Some(Tokens { input, output }) = run.tokens {
        let _ = write!(out, "input_tokens={input}\noutput_tokens={output}\n");
    }
    out
}

fn shown(text: &str) -> String {
    visible(text, Lines::Escape)
}
