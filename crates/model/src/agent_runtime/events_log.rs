//! `DIR/events.log`: one event a line, fields separated by tabs, and nothing that says whether a line is whole.
//!
//! Records are appended with one write and no check of what stands before. So a write that was cut off leaves a torn
//! record, and the next record is glued to it: two events in one line, of which the writer was told that the second is
//! durable. Here every line that is not exactly a record is named; a record that is glued to a torn one is taken where it
//! can be told for certain which task it is of.

mod line;

use std::collections::BTreeMap;
use std::fmt;

use line::{Glued, Line, StateLine, TraceLine};

/// Most problems that are kept one by one; all are counted.
const KEPT: usize = 1000;

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It waits.
    Queued,
    /// A worker has, or had, it.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// The word in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more happens to a task by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// As `status` prints it: `Queued`.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "Queued",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        })
    }
}

/// One command that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// In which attempt.
    pub attempt: u32,
    /// The program.
    pub program: String,
    /// How many arguments it had.
    pub argc: u64,
    /// Its exit status; `None` when it had none.
    pub status: Option<i32>,
    /// Whether it ran into its limit.
    pub timed_out: bool,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// Whether its output was cut.
    pub output_truncated: bool,
    /// Bytes of standard output, as counted after decoding.
    pub stdout_bytes: u64,
    /// Bytes of standard error.
    pub stderr_bytes: u64,
    /// Milliseconds.
    pub duration_ms: u64,
}

/// What the log says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its state by the last record.
    pub state: State,
    /// Attempts by the last record.
    pub attempts: u32,
    /// Why that record was written: `enqueue`, `start`, `complete`, …
    pub reason: String,
    /// Line of that record, from 1.
    pub line: u64,
    /// The last command that its agent ran.
    pub last_tool: Option<Trace>,
    /// The last command that was the task itself.
    pub last_task: Option<Trace>,
    /// What is odd about its history.
    pub warnings: Vec<Warning>,
}

impl Task {
    /// The trace that `status` shows: a tool's before the task's own.
    pub fn last_trace(&self) -> Option<&Trace> {
        self.last_tool.as_ref().or(self.last_task.as_ref())
    }
}

/// Something odd in a task's history, each with the line that shows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// An acknowledged cancel was overwritten.
    #[error(
        "line {line}: it was cancelled in line {cancelled}, which was acknowledged, and then written as {by}"
    )]
    CancelOverwritten {
        /// Where.
        line: u64,
        /// Line of the cancel.
        cancelled: u64,
        /// What it became.
        by: State,
    },
    /// A task that was over went on without a retry.
    #[error("line {line}: it was {was} and then written as {by} without a retry")]
    EndOverwritten {
        /// Where.
        line: u64,
        /// What it had come to.
        was: State,
        /// What it became.
        by: State,
    },
    /// It was enqueued again.
    #[error("line {line}: it was enqueued again: two processes enqueued it at the same time")]
    EnqueuedAgain {
        /// Where.
        line: u64,
    },
    /// The attempts fell.
    #[error(
        "line {line}: its attempts fell from {from} to {to}: two processes wrote to the log, or a digit was lost"
    )]
    AttemptsFell {
        /// Where.
        line: u64,
        /// From.
        from: u32,
        /// To.
        to: u32,
    },
    /// Its first record does not enqueue it.
    #[error(
        "line {line}: its history begins as {state}: a record is missing, or its name is what two torn names make"
    )]
    NoBeginning {
        /// Where.
        line: u64,
        /// How it begins.
        state: State,
    },
}

/// A line that is not exactly a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Problem {
    /// Number of the line, from 1.
    pub line: u64,
    /// What is the matter with it.
    pub what: What,
}

/// What is the matter with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// It is not UTF-8.
    #[error("it is not UTF-8 from byte {at} on; nothing of it was taken")]
    NotUtf8 {
        /// Good bytes before.
        at: usize,
    },
    /// It is not a record.
    #[error("it is no record: {why}; nothing of it was taken")]
    NoRecord {
        /// Why not.
        why: &'static str,
    },
    /// The last line has no end and is no record: a write was cut off.
    #[error("it is torn: the write was cut off; nothing of it was taken")]
    Torn,
    /// The last line has no end and is a record all the same.
    #[error("it has no line feed: the write was cut off behind a record that is whole; it was taken")]
    NoLineFeed,
    /// A torn record with a whole one behind it.
    #[error("a torn record, and behind it a whole one of {}", of(task.as_deref(), *candidates))]
    Glued {
        /// The task of the whole record; `None` when it cannot be told for certain, and then it was not taken.
        task: Option<String>,
        /// How many tasks it may be of.
        candidates: usize,
    },
    /// A trace names a task that no record of state names.
    #[error("it is a trace of a task that the log does not know; it was not taken")]
    NoTask,
    /// The reason is not a known one.
    #[error("its reason is not a known one; the record was taken")]
    Reason,
}

fn of(task: Option<&str>, candidates: usize) -> String {
    match (task, candidates) {
        (Some(task), _) => {
            let task = provost_core::text::visible(task, provost_core::text::Lines::Escape);
            format!("task `{task}`, which was taken")
        }
        (None, 0) => "a task that cannot be told; it was not taken".to_owned(),
        (None, count) => format!("one of {count} tasks; it was not taken"),
    }
}

/// What a log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    /// The tasks, by id. An id may be any text without tab and line feed; it may be empty.
    pub tasks: BTreeMap<String, Task>,
    /// Lines in the log.
    pub lines: u64,
    /// The lines that are not exactly records, in order; the first thousand of them.
    pub problems: Vec<Problem>,
    /// How many there are.
    pub problem_count: u64,
}

impl Log {
    /// Reads a log. Never fails: what cannot be read is in [`Log::problems`].
    pub fn read(bytes: &[u8]) -> Self {
        let mut log = Self::default();
        // Twice: whether a glued record is of a task can depend on what later lines call tasks.
        let lines = || lines(bytes).zip(1u64..);
        let mut ids: Vec<&str> = Vec::new();
        for ((text, ends), _) in lines() {
            if let Ok(Line::State(found)) = std::str::from_utf8(text).map_err(drop).and_then(read)
                && (ends == Ends::LineFeed || found.known_reason())
            {
                ids.push(found.id);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        let mut traces = Vec::new();
        for ((text, ends), number) in lines() {
            log.lines = number;
            log.line(text, ends, number, &ids, &mut traces);
        }
        for (number, trace) in traces {
            log.trace(number, trace);
        }
        log.problems.sort_by_key(|problem| problem.line);
        log
    }

    fn line<'a>(
        &mut self,
        text: &'a [u8],
        ends: Ends,
        number: u64,
        ids: &[&str],
        traces: &mut Vec<(u64, TraceLine<'a>)>,
    ) {
        let text = match std::str::from_utf8(text) {
            Ok(text) => text,
            // A write that is cut off may end within a character.
            Err(error) if error.error_len().is_none() && ends == Ends::Nowhere => {
                return self.problem(number, What::Torn);
            }
            Err(error) => return self.problem(number, What::NotUtf8 { at: error.valid_up_to() }),
        };
        let read = Line::read(text);
        if ends == Ends::Nowhere {
            let whole = match &read {
                Ok(Line::State(found)) => found.known_reason(),
                // A number may have lost digits: whether it did cannot be told.
                Ok(Line::Trace(_)) | Err(_) => false,
                Ok(Line::Glued(found)) => found.ends_whole(),
            };
            if !whole {
                return self.problem(number, What::Torn);
            }
            self.problem(number, What::NoLineFeed);
        }
        match read {
            Ok(Line::State(found)) => {
                if !found.known_reason() {
                    self.problem(number, What::Reason);
                }
                self.state(number, found.id, &found);
            }
            Ok(Line::Trace(found)) => traces.push((number, found)),
            Ok(Line::Glued(Glued::Trace(found))) => {
                let task = Some(found.id.to_owned());
                self.problem(number, What::Glued { task, candidates: 1 });
                traces.push((number, found));
            }
            Ok(Line::Glued(Glued::State { torn, whole })) => {
                // What is enqueued was not there before: a name that was is the end of another one.
                let new = whole.reason == "enqueue";
                let may_be = |id: &&str| {
                    line::may_be_cut(torn, whole.id, id) && !(new && self.tasks.contains_key(*id))
                };
                let possible: Vec<&str> = ids.iter().copied().filter(may_be).collect();
                match possible.as_slice() {
                    [id] => {
                        let task = Some((*id).to_owned());
                        self.problem(number, What::Glued { task, candidates: 1 });
                        self.state(number, id, &whole);
                    }
                    _ => {
                        self.problem(number, What::Glued { task: None, candidates: possible.len() });
                    }
                }
            }
            Err(why) => self.problem(number, What::NoRecord { why }),
        }
    }

    fn state(&mut self, line: u64, id: &str, found: &StateLine<'_>) {
        let Some(task) = self.tasks.get_mut(id) else {
            let begins = found.state == State::Queued;
            let warning = (!begins).then_some(Warning::NoBeginning { line, state: found.state });
            let task = Task {
                state: found.state,
                attempts: found.attempts,
                reason: found.reason.to_owned(),
                line,
                last_tool: None,
                last_task: None,
                warnings: warning.into_iter().collect(),
            };
            self.tasks.insert(id.to_owned(), task);
            return;
        };
        let retried = task.state == State::Failed && found.state == State::Queued && found.reason == "retry";
        if task.state == State::Cancelled && found.state != State::Cancelled {
            task.warn(Warning::CancelOverwritten { line, cancelled: task.line, by: found.state });
        } else if task.state.is_terminal() && found.state != task.state && !retried {
            task.warn(Warning::EndOverwritten { line, was: task.state, by: found.state });
        } else if found.reason == "enqueue" {
            task.warn(Warning::EnqueuedAgain { line });
        }
        if found.attempts < task.attempts {
            task.warn(Warning::AttemptsFell { line, from: task.attempts, to: found.attempts });
        }
        task.state = found.state;
        task.attempts = found.attempts;
        found.reason.clone_into(&mut task.reason);
        task.line = line;
    }

    fn trace(&mut self, line: u64, found: TraceLine<'_>) {
        match self.tasks.get_mut(found.id) {
            Some(task) if found.kind == line::Kind::Tool => task.last_tool = Some(found.trace),
            Some(task) => task.last_task = Some(found.trace),
            None => self.problem(line, What::NoTask),
        }
    }

    fn problem(&mut self, line: u64, what: What) {
        self.problem_count += 1;
        if self.problems.len() < KEPT {
            self.problems.push(Problem { line, what });
        }
    }
}

impl Task {
    /// Most warnings that are kept of one task: the first ones show what happened.
    const WARNINGS: usize = 20;

    fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < Self::WARNINGS {
            self.warnings.push(warning);
        }
    }
}

fn read(text: &str) -> Result<Line<'_>, ()> {
    Line::read(text).map_err(drop)
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    LineFeed,
    Nowhere,
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], Ends)> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| match line.strip_suffix(b"\n") {
        Some(line) => (line, Ends::LineFeed),
        None => (line, Ends::Nowhere),
    })
}
