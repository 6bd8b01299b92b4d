//! The stages of a run's life and what leads from one to the next: one table. The state machine refuses what is not in
//! it, lists show its words, and the table in `ARCHITECTURE.md` is printed from it.

use std::fmt;

use crate::budget::Bound;
use crate::event::Body;
use crate::outcome::{Outcome, Pause, StopWhy, Unauthorized};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Its name is taken; nothing has happened.
    New,
    /// It waits for a worker.
    Queued,
    /// It was queued and no worker takes it, until somebody resumes it.
    Withdrawn,
    /// Its contract and its workspace are on record; nobody has driven it.
    Created,
    /// A driver has it. Whether that driver still lives, the lease tells.
    Running,
    /// An act waits for a person's yes or no.
    WaitingForApproval,
    /// An act may or may not have happened: a person says which.
    WaitingForDecision,
    /// The model could not be asked.
    ProviderFailed,
    /// Its driver was told to stop.
    Interrupted,
    /// No worker takes it until somebody resumes it.
    Held,
    /// It was cancelled, and the driver that closes it has not done so.
    Cancelling,
    /// The agent submitted, and the gate passed where there is one.
    Done,
    /// The agent submitted, and the gate did not pass.
    GateFailed,
    /// Policy left no way on.
    Refused,
    /// A budget was spent.
    BudgetSpent,
    /// It made no progress.
    Stalled,
    /// Its answer never satisfied the schema.
    SchemaFailed,
    /// Too many of its commands had to be rolled back.
    RolledBack,
    /// Its authorization holds no longer.
    Unauthorized,
    /// It was cancelled.
    Cancelled,
}

/// What moves a run from stage to stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// `run.queued`
    Queued,
    /// `run.created`
    Created,
    /// `driver.attached`
    Attached,
    /// `driver.detached`
    Detached(Pause),
    /// `run.held`
    Held,
    /// `run.cancelled`
    Cancelled,
    /// `run.finished`
    Finished(Outcome),
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Any of these.
    pub from: &'static [Stage],
    /// What happens.
    pub by: Move,
    /// Where that leads.
    pub to: Stage,
    /// What it means, in a few words.
    pub when: &'static str,
}

/// Not over, not held, and no driver has it as far as the journal knows.
const IDLE: &[Stage] = &[
    Stage::Created,
    Stage::WaitingForApproval,
    Stage::WaitingForDecision,
    Stage::ProviderFailed,
    Stage::Interrupted,
];

const fn row(from: &'static [Stage], by: Move, to: Stage, when: &'static str) -> Transition {
    Transition { from, by, to, when }
}

const RUNNING: &[Stage] = &[Stage::Running];
const CANCELLING: &[Stage] = &[Stage::Cancelling];
const UNBEGUN: &[Stage] = &[Stage::New, Stage::Queued, Stage::Withdrawn];
const CANCELLED: Outcome = Outcome::Stopped { why: StopWhy::Cancelled };
const SCHEMA_FAILED: Outcome = Outcome::Stopped { why: StopWhy::Schema };
const ROLLED_BACK: Outcome = Outcome::Stopped { why: StopWhy::RolledBack };
const UNAUTHORIZED: Outcome = Outcome::Unauthorized { why: Unauthorized::Expired };

/// All there is. What is not here does not happen.
pub const TRANSITIONS: &[Transition] = &[
    row(&[Stage::New], Move::Queued, Stage::Queued, "somebody queues it"),
    row(UNBEGUN, Move::Created, Stage::Created, "a driver or a worker begins it"),
    row(IDLE, Move::Attached, Stage::Running, "a driver takes it"),
    row(&[Stage::Held], Move::Attached, Stage::Running, "somebody resumes it"),
    row(RUNNING, Move::Attached, Stage::Running, "the driver before it died"),
    row(CANCELLING, Move::Attached, Stage::Cancelling, "a driver comes to close it"),
    row(
        RUNNING,
        Move::Detached(Pause::Approval),
        Stage::WaitingForApproval,
        "policy asks and nobody is there",
    ),
    row(
        RUNNING,
        Move::Detached(Pause::Indeterminate),
        Stage::WaitingForDecision,
        "a command's end is not known",
    ),
    row(RUNNING, Move::Detached(Pause::Provider), Stage::ProviderFailed, "the model cannot be asked"),
    row(
        RUNNING,
        Move::Detached(Pause::Interrupted),
        Stage::Interrupted,
        "Ctrl-C, SIGTERM, a worker that stops",
    ),
    row(&[Stage::Queued], Move::Held, Stage::Withdrawn, "it cannot begin, or somebody holds it"),
    row(IDLE, Move::Held, Stage::Held, "somebody holds it"),
    row(RUNNING, Move::Held, Stage::Held, "its drivers died again and again"),
    row(UNBEGUN, Move::Cancelled, Stage::Cancelled, "nothing had begun: there is nothing to close"),
    row(IDLE, Move::Cancelled, Stage::Cancelling, "somebody cancels it"),
    row(&[Stage::Held], Move::Cancelled, Stage::Cancelling, "somebody cancels it"),
    row(RUNNING, Move::Cancelled, Stage::Cancelling, "somebody cancels it"),
    row(CANCELLING, Move::Detached(Pause::Interrupted), Stage::Cancelling, "closing it was interrupted"),
    row(CANCELLING, Move::Finished(CANCELLED), Stage::Cancelled, "what it did is on record"),
    row(
        CANCELLING,
        Move::Finished(UNAUTHORIZED),
        Stage::Unauthorized,
        "its authorization expired or was revoked",
    ),
    row(RUNNING, Move::Finished(Outcome::Done), Stage::Done, "submitted, and the gate passed"),
    row(
        RUNNING,
        Move::Finished(Outcome::GateFailed),
        Stage::GateFailed,
        "submitted, and the gate did not pass",
    ),
    row(RUNNING, Move::Finished(Outcome::Refused), Stage::Refused, "policy left no way on"),
    row(
        RUNNING,
        Move::Finished(Outcome::BudgetSpent { bound: Bound::Steps }),
        Stage::BudgetSpent,
        "a bound is reached",
    ),
    row(RUNNING, Move::Finished(Outcome::Stopped { why: StopWhy::Stalled }), Stage::Stalled, "no progress"),
    row(RUNNING, Move::Finished(SCHEMA_FAILED), Stage::SchemaFailed, "no answer satisfied its schema"),
    row(
        RUNNING,
        Move::Finished(ROLLED_BACK),
        Stage::RolledBack,
        "more commands were rolled back than its authorization puts up with",
    ),
];

impl Move {
    /// What `body` moves, if it moves anything.
    pub fn of(body: &Body) -> Option<Self> {
        match body {
            Body::RunQueued(_) => Some(Self::Queued),
            Body::RunCreated(_) => Some(Self::Created),
            Body::DriverAttached(_) => Some(Self::Attached),
            Body::DriverDetached(body) => Some(Self::Detached(body.why)),
            Body::RunHeld(_) => Some(Self::Held),
            Body::RunCancelled(_) => Some(Self::Cancelled),
            Body::RunFinished(body) => Some(Self::Finished(body.outcome)),
            _ => None,
        }
    }

    /// The event's kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Queued => "run.queued",
            Self::Created => "run.created",
            Self::Attached => "driver.attached",
            Self::Detached(_) => "driver.detached",
            Self::Held => "run.held",
            Self::Cancelled => "run.cancelled",
            Self::Finished(_) => "run.finished",
        }
    }

    /// Whether it is the same for the table, which does not tell one bound of a budget from another, nor why an
    /// authorization holds no longer.
    fn is(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Finished(Outcome::BudgetSpent { .. }), Self::Finished(Outcome::BudgetSpent { .. }))
                | (
                    Self::Finished(Outcome::Unauthorized { .. }),
                    Self::Finished(Outcome::Unauthorized { .. })
                )
        ) || self == other
    }
}

impl Stage {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 20] = [
        Self::New,
        Self::Queued,
        Self::Withdrawn,
        Self::Created,
        Self::Running,
        Self::WaitingForApproval,
        Self::WaitingForDecision,
        Self::ProviderFailed,
        Self::Interrupted,
        Self::Held,
        Self::Cancelling,
        Self::Done,
        Self::GateFailed,
        Self::Refused,
        Self::BudgetSpent,
        Self::Stalled,
        Self::SchemaFailed,
        Self::RolledBack,
        Self::Unauthorized,
        Self::Cancelled,
    ];

    /// The stage that `by` leads to from here; `None` where it cannot happen.
    pub fn after(self, by: Move) -> Option<Self> {
        TRANSITIONS.iter().find(|row| row.by.is(by) && row.from.contains(&self)).map(|row| row.to)
    }

    /// The stage that `by` leads to, also where it should not have happened: for lists, which do not judge.
    #[must_use]
    pub fn following(self, by: Move) -> Self {
        let anywhere = || TRANSITIONS.iter().find(|row| row.by.is(by)).map(|row| row.to);
        self.after(by).or_else(anywhere).unwrap_or(self)
    }

    /// Whether nothing can happen any more.
    pub fn is_over(self) -> bool {
        !TRANSITIONS.iter().any(|row| row.from.contains(&self))
    }

    /// Its word, as lists and JSON have it. Held is held, begun or not.
    pub fn word(self) -> &'static str {
        if self == Self::Withdrawn { Self::Held.key() } else { self.key() }
    }

    /// Its name in a store: no two have the same.
    pub fn key(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Queued => "queued",
            Self::Withdrawn => "withdrawn",
            Self::Created => "created",
            Self::Running => "running",
            Self::WaitingForApproval => Pause::Approval.word(),
            Self::WaitingForDecision => Pause::Indeterminate.word(),
            Self::ProviderFailed => Pause::Provider.word(),
            Self::Interrupted => Pause::Interrupted.word(),
            Self::Held => "held",
            Self::Cancelling => "cancelling",
            Self::Done => Outcome::Done.word(),
            Self::GateFailed => Outcome::GateFailed.word(),
            Self::Refused => Outcome::Refused.word(),
            Self::BudgetSpent => Outcome::BudgetSpent { bound: Bound::Steps }.word(),
            Self::Stalled => Outcome::Stopped { why: StopWhy::Stalled }.word(),
            Self::SchemaFailed => SCHEMA_FAILED.word(),
            Self::RolledBack => ROLLED_BACK.word(),
            Self::Unauthorized => UNAUTHORIZED.word(),
            Self::Cancelled => CANCELLED.word(),
        }
    }

    /// The stage of that name.
    pub fn of_key(key: &str) -> Option<Self> {
        // What stores of format 1 and 2 say of a run that stalled.
        if key == "stopped" {
            return Some(Self::Stalled);
        }
        Self::ALL.into_iter().find(|stage| stage.key() == key)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The table in Markdown, for the documents.
pub fn markdown() -> String {
    let mut out = String::from("| from | event | to | when |\n| --- | --- | --- | --- |\n");
    for row in TRANSITIONS {
        let name = |stage: Stage| match stage {
            Stage::Withdrawn => "held (not begun)",
            other => other.word(),
        };
        let from: Vec<&str> = row.from.iter().map(|stage| name(*stage)).collect();
        let event = match row.by {
            Move::Detached(why) => format!("`{}`: {}", row.by.kind(), why.word()),
            Move::Finished(outcome) => format!("`{}`: {}", row.by.kind(), outcome.word()),
            _ => format!("`{}`", row.by.kind()),
        };
        out.push_str(&format!("| {} | {event} | {} | {} |\n", from.join(", "), name(row.to), row.when));
    }
    out
}
