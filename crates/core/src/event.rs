//! Events: all that happened in a run, in order. A closed set.
//!
//! An event holds numbers, names and digests. Words and bytes lie in blobs, named by their salted digest.

mod read;

use serde::{Deserialize, Serialize};

pub use read::BadEvent;

use crate::act::{ActEnd, Change, CommandFact, ExitFact, Intent, Recovery, Touch};
pub use crate::agents::AgentEnded;
use crate::brief::BriefFact;
use crate::budget::{Budget, Price};
use crate::containment::Receipt;
use crate::contract::{Gate, Limits, Source};
use crate::digest::{Digest, TreeDigest};
pub use crate::fold::{ContextFolded, FoldedBy};
use crate::fork::Forked;
use crate::id::{ActId, AgentId, RunId, StepId};
pub use crate::net::NetDecided;
use crate::outcome::{Outcome, Pause};
use crate::path::RelPath;
use crate::policy::{Decision, Policy};
pub use crate::process::{ProcessChanged, ProcessEnded, Published, Told};
pub use crate::prompt::{CacheMissed, PromptBroke, PromptFact};
pub use crate::queue::{Questions, RunCancelled, RunHeld, RunQueued};
pub use crate::rate_limits::{RateLimitFact, WindowFact};
use crate::route::{RouteId, Routing};
use crate::server::Server;
pub use crate::server::{ServerAccepted, ServerListed};
use crate::session::Authorized;
pub use crate::staged::{ActStaged, Unapplied, WhyUnapplied};
use crate::tests_ran::Compared;
use crate::transcript::{Stop, Usage};

/// An event as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Version of the kind's body.
    pub v: u32,
    /// The run.
    pub stream: RunId,
    /// Place in the stream, dense from 0.
    pub seq: u64,
    /// Milliseconds since the Unix epoch, by the driver's clock.
    pub at_ms: u64,
    /// Who.
    pub agent: AgentId,
    /// What.
    #[serde(flatten)]
    pub body: Body,
    /// Hash of the event before; [`Digest::ZERO`] for the first.
    pub prev: Digest,
    /// SHA-256 of the canonical JSON (RFC 8785) of this event without this field.
    pub hash: Digest,
}

/// An event before the journal gives it a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Who.
    pub agent: AgentId,
    /// What.
    pub body: Body,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body")]
pub enum Body {
    /// The run waits for a worker: its contract, frozen.
    #[serde(rename = "run.queued")]
    RunQueued(Box<RunQueued>),
    /// The run exists: its contract, frozen.
    #[serde(rename = "run.created")]
    RunCreated(Box<RunCreated>),
    /// A driver took the run.
    #[serde(rename = "driver.attached")]
    DriverAttached(DriverAttached),
    /// A driver left a run that is not over.
    #[serde(rename = "driver.detached")]
    DriverDetached(DriverDetached),
    /// The model answered.
    #[serde(rename = "model.answered")]
    ModelAnswered(ModelAnswered),
    /// A request to the model failed.
    #[serde(rename = "model.failed")]
    ModelFailed(ModelFailed),
    /// The next prompt does not begin as the one before it did.
    #[serde(rename = "prompt.broke")]
    PromptBroke(PromptBroke),
    /// The vendor read less from its cache than was there.
    #[serde(rename = "cache.missed")]
    CacheMissed(CacheMissed),
    /// A call could not be read as an act.
    #[serde(rename = "call.invalid")]
    CallInvalid(CallInvalid),
    /// Policy decided on an act.
    #[serde(rename = "act.decided")]
    ActDecided(ActDecided),
    /// A person or an approver decided on an act that policy asks about.
    #[serde(rename = "act.approved")]
    ActApproved(ActApproved),
    /// An act with effects is about to be carried out.
    #[serde(rename = "act.started")]
    ActStarted(ActStarted),
    /// Policy decided on a host that a running command dials.
    #[serde(rename = "net.decided")]
    NetDecided(NetDecided),
    /// A person said what became of an act of which nobody else can tell.
    #[serde(rename = "act.settled")]
    ActSettled(ActSettled),
    /// What a command changed is about to be put into the workspace.
    #[serde(rename = "act.staged")]
    ActStaged(Box<ActStaged>),
    /// An act is over.
    #[serde(rename = "act.finished")]
    ActFinished(Box<ActFinished>),
    /// A background command changed files.
    #[serde(rename = "process.changed")]
    ProcessChanged(ProcessChanged),
    /// A background command is over.
    #[serde(rename = "process.ended")]
    ProcessEnded(Box<ProcessEnded>),
    /// An agent that an act started is over.
    #[serde(rename = "agent.ended")]
    AgentEnded(AgentEnded),
    /// A server said what tools it has.
    #[serde(rename = "server.listed")]
    ServerListed(ServerListed),
    /// A person takes a server's tools as they are now.
    #[serde(rename = "server.accepted")]
    ServerAccepted(ServerAccepted),
    /// Files changed that no act changed.
    #[serde(rename = "workspace.drifted")]
    WorkspaceDrifted(WorkspaceDrifted),
    /// A person had files put back to what they were.
    #[serde(rename = "workspace.rewound")]
    WorkspaceRewound(WorkspaceRewound),
    /// The files stand as the rewind before it has them.
    #[serde(rename = "workspace.restored")]
    WorkspaceRestored(WorkspaceRestored),
    /// The runtime said something to the model.
    #[serde(rename = "note")]
    Note(Note),
    /// What was said so far was folded, to make room in the model's window.
    #[serde(rename = "context.folded")]
    ContextFolded(ContextFolded),
    /// The agent says that it is done.
    #[serde(rename = "run.submitted")]
    Submitted(Submitted),
    /// The gate was judged.
    #[serde(rename = "gate.judged")]
    GateJudged(GateJudged),
    /// No worker takes the run until somebody resumes it.
    #[serde(rename = "run.held")]
    RunHeld(RunHeld),
    /// The run is to end without its work.
    #[serde(rename = "run.cancelled")]
    RunCancelled(RunCancelled),
    /// The run is over.
    #[serde(rename = "run.finished")]
    RunFinished(RunFinished),
}

impl Body {
    /// The kind's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RunQueued(_) => "run.queued",
            Self::RunCreated(_) => "run.created",
            Self::DriverAttached(_) => "driver.attached",
            Self::DriverDetached(_) => "driver.detached",
            Self::ModelAnswered(_) => "model.answered",
            Self::ModelFailed(_) => "model.failed",
            Self::PromptBroke(_) => "prompt.broke",
            Self::CacheMissed(_) => "cache.missed",
            Self::CallInvalid(_) => "call.invalid",
            Self::ActDecided(_) => "act.decided",
            Self::ActApproved(_) => "act.approved",
            Self::ActStarted(_) => "act.started",
            Self::NetDecided(_) => "net.decided",
            Self::ActSettled(_) => "act.settled",
            Self::ActStaged(_) => "act.staged",
            Self::ActFinished(_) => "act.finished",
            Self::ProcessChanged(_) => "process.changed",
            Self::ProcessEnded(_) => "process.ended",
            Self::AgentEnded(_) => "agent.ended",
            Self::ServerListed(_) => "server.listed",
            Self::ServerAccepted(_) => "server.accepted",
            Self::WorkspaceDrifted(_) => "workspace.drifted",
            Self::WorkspaceRewound(_) => "workspace.rewound",
            Self::WorkspaceRestored(_) => "workspace.restored",
            Self::Note(_) => "note",
            Self::ContextFolded(_) => "context.folded",
            Self::Submitted(_) => "run.submitted",
            Self::GateJudged(_) => "gate.judged",
            Self::RunHeld(_) => "run.held",
            Self::RunCancelled(_) => "run.cancelled",
            Self::RunFinished(_) => "run.finished",
        }
    }

    /// Version of the kind's body that this program writes.
    pub fn version(&self) -> u32 {
        1
    }
}

/// The run exists: its contract, frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCreated {
    /// Version of Provost.
    pub provost: String,
    /// The goal, in words (blob).
    pub goal: Digest,
    /// The system prompt (blob).
    pub system: Digest,
    /// The tools as the model is told of them, a JSON list (blob).
    pub tools: Digest,
    /// Policy.
    pub policy: Policy,
    /// Budget.
    pub budget: Budget,
    /// Price, where one is known.
    pub price: Option<Price>,
    /// Verification gate.
    pub gate: Option<Gate>,
    /// Limits of single acts.
    pub limits: Limits,
    /// The model.
    pub model: ModelFact,
    /// Whom to ask beside it, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Box<Routing>>,
    /// Servers of tools that are somebody else's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// What is asked of the model beside the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<Box<BriefFact>>,
    /// Where the files came from.
    pub source: Source,
    /// Absolute path of the repository that holds the source's objects, on the machine that made the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Absolute path of the workspace on the machine that made the run.
    pub root: String,
    /// The workspace's files at the start, ignored files left out.
    pub tree: TreeDigest,
    /// How many files that is.
    pub files: u64,
    /// The files at the start, one by one (blob).
    pub manifest: Digest,
    /// The run that it was forked from, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Forked>,
    /// What an authority signed, where the run is a governed session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized: Option<Box<Authorized>>,
}

/// A model and where it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFact {
    /// The wire: `openai-chat`, `openai-responses`, `anthropic-messages`, `gemini`, `ollama`.
    pub wire: String,
    /// Model name as sent.
    pub name: String,
    /// Base URL, without credentials.
    pub endpoint: String,
    /// Name of the vendor or local runtime, as `provost providers` lists them, where it is one of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Tokens that prompt and answer may have together, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Whether nobody is asked: the answers come from a cassette, and cost nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl ModelFact {
    /// A model of which no more is known.
    pub fn new(wire: impl Into<String>, name: impl Into<String>, endpoint: impl Into<String>) -> Self {
        let (wire, name, endpoint) = (wire.into(), name.into(), endpoint.into());
        Self { wire, name, endpoint, provider: None, window: None, replayed: false }
    }
}

/// A driver took the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverAttached {
    /// Lease generation (fencing token).
    pub generation: u64,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// What contains commands, as probed by this driver.
    pub containment: Receipt,
}

/// A driver left a run that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverDetached {
    /// Why.
    pub why: Pause,
    /// The act that waits, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<ActId>,
}

/// Most calls of one answer. An answer's limit on tokens lies far below; a journal from elsewhere may say anything.
pub const MOST_CALLS: u32 = 1 << 16;

/// Most rules of a policy. Each is tried on each touch, by a verifier too, so there is a bound.
pub const MOST_RULES: usize = 1024;

/// Most touches of one act.
pub const MOST_TOUCHES: usize = 4096;

/// The model answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelAnswered {
    /// Which step this begins.
    pub step: StepId,
    /// Derived from stream and step: a resend after a crash carries the same.
    pub invocation: String,
    /// Who was asked.
    #[serde(default, skip_serializing_if = "RouteId::is_first")]
    pub route: RouteId,
    /// What was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptFact>,
    /// The answer, a JSON [`Assistant`](crate::transcript::Assistant) (blob).
    pub answer: Digest,
    /// How many calls it holds.
    pub calls: u32,
    /// Whether it holds any visible text.
    pub text: bool,
    /// Why the model stopped.
    pub stop: Stop,
    /// Tokens.
    pub usage: Usage,
    /// Whether `usage` is an estimate because the vendor reported none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The vendor's own account of its usage, as JSON text (blob).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_usage: Option<Digest>,
    /// What the vendor said of its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limits: Option<RateLimitFact>,
    /// Model name as the vendor reported it.
    pub model: String,
    /// Milliseconds from request to end of answer.
    pub latency_ms: u64,
    /// Milliseconds from request to first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
}

/// A request to the model failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFailed {
    /// Step that was asked for.
    pub step: StepId,
    /// Who was asked.
    #[serde(default, skip_serializing_if = "RouteId::is_first")]
    pub route: RouteId,
    /// Attempt, from 1.
    pub attempt: u32,
    /// Failure class.
    pub class: String,
    /// HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the vendor said (blob).
    pub message: Digest,
    /// Tokens that are charged for it all the same: what the vendor counted before it failed, and by estimate what it may
    /// have counted without saying so. `None` where it cannot have counted any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether `usage` is an estimate, wholly or in part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// What the vendor said of its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limits: Option<RateLimitFact>,
    /// Milliseconds until the next attempt; `None` where there is none: who was asked is not asked again by this driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}

/// Which call of which answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRef {
    /// Step.
    pub step: StepId,
    /// Index among the answer's calls.
    pub index: u32,
}

/// Why a call is not an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidCall {
    /// No such tool.
    UnknownTool,
    /// The arguments are not JSON, or not what the tool takes.
    BadArguments,
    /// It names something outside the workspace.
    Outside,
    /// The answer was cut off, by its length or by the vendor's filter: its calls may be incomplete.
    CutOff,
    /// The model was asked for a summary of what was said.
    InsteadOfSummary,
}

/// A call could not be read as an act. Nothing was touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallInvalid {
    /// Which call.
    pub call: CallRef,
    /// Why.
    pub why: InvalidCall,
    /// What the model is told (blob).
    pub result: Digest,
}

/// Policy decided on an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActDecided {
    /// The act.
    pub act: ActId,
    /// The call it answers; `None` for the runtime's own acts (the gate).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
    /// Tool.
    pub tool: String,
    /// Arguments, JSON (blob).
    pub args: Digest,
    /// What it would touch.
    pub touches: Vec<Touch>,
    /// How it recovers.
    pub recovery: Recovery,
    /// What policy says.
    pub decision: Decision,
}

/// A person's or an approver's word on an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActApproved {
    /// The act.
    pub act: ActId,
    /// Yes or no.
    pub verdict: Verdict,
    /// Who: `terminal`, `--yes`, `resume --approve`, an approver's name.
    pub by: String,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may happen.
    Approved,
    /// It does not happen.
    Denied,
}

/// An act with effects is about to be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActStarted {
    /// The act.
    pub act: ActId,
    /// What it is about to do.
    pub intent: Intent,
}

/// What became of an act that started and whose end nobody saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// It happened. What it said is lost.
    Happened,
    /// It did not happen.
    DidNot,
    /// Whatever happened: it is to be carried out again.
    Again,
}

/// A person said what became of an act of which nobody else can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActSettled {
    /// The act.
    pub act: ActId,
    /// What became of it.
    pub how: Settlement,
    /// Who says so.
    pub by: String,
}

/// A file's content as the model last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Which file.
    pub path: RelPath,
    /// Salted digest of its content.
    pub content: Digest,
}

/// An act is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActFinished {
    /// The act.
    pub act: ActId,
    /// How.
    pub end: ActEnd,
    /// What the model is told (blob).
    pub result: Digest,
    /// What changed in the workspace. Empty for a write that is done: it changed what it set out to change, and its
    /// [`ActStarted`] says what that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Changes that were undone because policy denies writing there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<RelPath>,
    /// What a command changed in its layer and that did not come into the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapplied: Vec<Unapplied>,
    /// Files whose content the model has now seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Seen>,
    /// Numbers of the command, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandFact>,
    /// What it showed of a background command's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
    /// Milliseconds the act took.
    pub duration_ms: u64,
}

/// Files changed that no act changed: somebody else works here, or a command's daemon did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDrifted {
    /// What changed.
    pub changes: Vec<Change>,
}

/// A person had files put back to what they were at some time of the run. It is durable before the first file is
/// touched; one that was interrupted is carried to its end by whoever takes the run up next.
///
/// It needs no driver, and may come when the run is over: then it is history, and what the run came to stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRewound {
    /// What is put back: from what each file is to what it once was.
    pub changes: Vec<Change>,
    /// By whose word.
    pub by: String,
}

/// A rewind came to its end: what is otherwise from here on is somebody's doing, and not what it had yet to put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRestored {}

/// Why the runtime spoke to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteWhy {
    /// The answer was cut off by its length.
    CutOff,
    /// The answer held nothing, or was refused.
    Empty,
    /// The gate did not pass.
    GateFailed,
    /// The same failing call was made again.
    Repeating,
    /// A person had files put back.
    Rewound,
    /// Background commands ended.
    ProcessEnded,
    /// What was submitted does not satisfy the schema.
    WrongAnswer,
    /// The model's window is nearly full: it is asked for a summary.
    ContextFull,
}

/// The runtime said something to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Why.
    pub why: NoteWhy,
    /// The words (blob).
    pub text: Digest,
}

/// How a run was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitVia {
    /// By the tool `submit`.
    Tool,
    /// By an answer without calls.
    FinalAnswer,
}

/// The agent says that it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submitted {
    /// In which step.
    pub step: StepId,
    /// How.
    pub via: SubmitVia,
    /// Its summary (blob).
    pub summary: Digest,
    /// What is wrong with it by the contract's schema (blob: a line each); `None` where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<Digest>,
}

/// What the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// It passed on `tree`, which it left as it was.
    Passed,
    /// It ran and did not pass.
    Failed,
    /// It could not be run, or changed the tree that it judged: it says nothing.
    Errored,
}

impl GateVerdict {
    /// What the gate says that ended so and left the tree as it was. One that could not be run says nothing.
    pub fn of(exit: Option<ExitFact>) -> Self {
        match exit.map(ExitFact::end) {
            Some(ActEnd::Done) => Self::Passed,
            Some(ActEnd::Failed | ActEnd::TimedOut) => Self::Failed,
            Some(ActEnd::Interrupted | ActEnd::Refused) | None => Self::Errored,
        }
    }

    /// What it says if tests are missing that there were at the start.
    #[must_use]
    pub fn with_tests(self, compared: Compared) -> Self {
        match self {
            Self::Passed if compared.fewer() => Self::Failed,
            Self::Passed | Self::Failed | Self::Errored => self,
        }
    }

    /// What it says if the tree is not the one that it judged.
    #[must_use]
    pub fn on_another_tree(self) -> Self {
        match self {
            Self::Passed => Self::Errored,
            Self::Failed | Self::Errored => self,
        }
    }
}

/// The gate was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateJudged {
    /// The act that ran it.
    pub act: ActId,
    /// The tree that it judged.
    pub tree: TreeDigest,
    /// What it says.
    pub verdict: GateVerdict,
}

/// The run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFinished {
    /// How.
    pub outcome: Outcome,
    /// Whether the gate passed on exactly `tree`.
    pub verified: bool,
    /// The workspace's files at the end.
    pub tree: TreeDigest,
    /// Where a bound on tokens or money did not let the next call be made: what the least call would have needed, in tokens or
    /// millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
}

/// Names of all kinds.
pub const KINDS: [&str; 31] = [
    "run.queued",
    "run.created",
    "driver.attached",
    "driver.detached",
    "model.answered",
    "model.failed",
    "prompt.broke",
    "cache.missed",
    "call.invalid",
    "act.decided",
    "act.approved",
    "act.started",
    "net.decided",
    "act.settled",
    "act.staged",
    "act.finished",
    "process.changed",
    "process.ended",
    "agent.ended",
    "server.listed",
    "server.accepted",
    "workspace.drifted",
    "workspace.rewound",
    "workspace.restored",
    "note",
    "context.folded",
    "run.submitted",
    "gate.judged",
    "run.held",
    "run.cancelled",
    "run.finished",
];
