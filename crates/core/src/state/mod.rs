//! The run as a state machine: [`RunState::apply`] folds events, [`RunState::next`] says what to do.
//!
//! No I/O, no clock, no randomness: the same events give the same state on any machine (I3). `apply` refuses what
//! could not have happened, so folding a journal is also the check that a verifier makes: each transition is legal,
//! each policy decision is the one that the policy gives.

mod agent;
mod apply;
mod cache;
mod check;
mod decided;
mod fold;
mod net;
mod next;
mod process;
mod rewind;
mod route;
mod server;
mod staged;
mod violation;
mod window;

use std::collections::{BTreeMap, BTreeSet};

pub use agent::Agent;
pub use next::Next;
pub use process::{Process, ProcessEnd};
pub use route::{AskedFor, UNKNOWN_OUTCOME, leaves_open};
pub use violation::Violation;

use crate::act::{Change, CommandFact, FileFact, Intent, Recovery, Touch};
use crate::budget::Ledger;
use crate::containment::{Receipt, Rung};
use crate::contract::Counted;
use crate::digest::Digest;
use crate::event::{
    ActStaged, CallRef, DriverDetached, Event, GateJudged, GateVerdict, RateLimitFact, RunCancelled,
    RunCreated, RunFinished, RunHeld, RunQueued, Settlement, Submitted, Verdict,
};
use crate::id::{ActId, AgentId, RunId, StepId};
use crate::lifecycle::Stage;
use crate::path::RelPath;
use crate::policy::{Decision, Effect};
use crate::route::RouteId;
use crate::tests_ran::{Compared, TestsRan};
use crate::transcript::Stop;

/// How often the gate is run again when it could not judge, before the run ends without it.
pub const GATE_RETRIES: u32 = 3;
/// How often in a row the same failing call, or an answer that holds nothing, is put up with.
pub const STALL_LIMIT: u32 = 5;

/// An act that has no end yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAct {
    /// Whose it is.
    pub agent: AgentId,
    /// The call it answers; `None` for the gate.
    pub call: Option<CallRef>,
    /// Tool.
    pub tool: String,
    /// Arguments (blob).
    pub args: Digest,
    /// What it touches.
    pub touches: Vec<Touch>,
    /// How it recovers.
    pub recovery: Recovery,
    /// Policy's decision.
    pub decision: Decision,
    /// The person's word, where policy asks.
    pub verdict: Option<Verdict>,
    /// What it set out to do, once it started.
    pub started: Option<Intent>,
    /// What its command changed in a layer, once that is about to be put into the workspace.
    pub staged: Option<Box<ActStaged>>,
    /// What a person says became of it, after nobody else could tell.
    pub settled: Option<Settlement>,
    /// What contained commands when it started; until then, what contains them now.
    pub rung: Rung,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    Pending,
    Open,
    Settled,
}

/// The step under way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    id: StepId,
    calls: Vec<CallState>,
    text: bool,
    stop: Stop,
    /// The runtime has answered for an answer without calls (by a note or a submission).
    followed_up: bool,
}

/// The gate's command, run and not yet judged.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GateRun {
    act: ActId,
    command: Option<CommandFact>,
    changed: bool,
    refused: bool,
    /// It could not be started at all: trying again changes nothing.
    unrunnable: bool,
}

/// The gate's run on the files at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BaseRun {
    tests: Option<TestsRan>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct GateState {
    base: Option<BaseRun>,
    run: Option<GateRun>,
    /// How many tests the newest run that was judged ran.
    last_tests: Option<TestsRan>,
    last: Option<GateJudged>,
    /// Verdict on the submission under way.
    verdict: Option<GateVerdict>,
    rejections: u32,
    errors: u32,
    refused: bool,
    /// The workspace drifted since the gate's newest run started.
    disturbed: bool,
    /// The workspace changed after the last gate that passed.
    debt: bool,
}

/// Whether the files are those that the gate judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameTree {
    /// They are.
    Yes,
    /// They changed while its command ran, or since.
    No,
}

/// Counts that reports show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acts decided on.
    pub acts: u32,
    /// Acts that policy or a person refused.
    pub refused: u32,
    /// Commands that ran, the gate's included.
    pub commands: u32,
    /// Acts that set out to write files.
    pub writes: u32,
    /// Calls that were not acts.
    pub invalid_calls: u32,
    /// Requests to the model that failed.
    pub failed_requests: u32,
    /// Drivers that took the run.
    pub drivers: u32,
    /// Commands of which nothing was kept ([`Unclean`](crate::staged::Unclean)).
    pub rolled_back: u32,
}

/// What the events so far amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunState {
    stream: RunId,
    next_seq: u64,
    first_at_ms: u64,
    last_at_ms: u64,
    stage: Stage,
    queued: Option<Box<RunQueued>>,
    created: Option<Box<RunCreated>>,
    held: Option<RunHeld>,
    cancelled: Option<RunCancelled>,
    /// Drivers in a row that died and left no answer of the model behind.
    deaths: u32,
    /// Files are being put back, and not all may be.
    rewinding: bool,
    rung: Rung,
    containment: Option<Receipt>,
    /// The weakest rung that any command had.
    weakest: Option<Rung>,
    generation: u64,
    attached: bool,
    /// Place of the event that comes first under a driver that took the run up.
    first_of_driver: u64,
    pause: Option<DriverDetached>,
    ledger: Ledger,
    /// What the vendor last said of its limits, and when: milliseconds since the Unix epoch.
    limits: Option<(u64, RateLimitFact)>,
    /// Class of the newest request that failed, if no answer has come since.
    unanswered: Option<String>,
    /// Who gave up answering under this driver.
    given_up: BTreeSet<RouteId>,
    /// By id.
    agents: Vec<Agent>,
    open: BTreeMap<ActId, OpenAct>,
    /// Commands that run under the driver that has the run, and what was decided of the hosts that they dial.
    running: BTreeMap<ActId, net::Dials>,
    /// Commands in the background, by the act that starts each.
    processes: BTreeMap<ActId, Process>,
    /// The open act of which a driver could not tell whether it happened.
    indeterminate: Option<ActId>,
    servers: server::Servers,
    net: BTreeMap<RelPath, Change>,
    /// Bytes of the files that differ from the start.
    changed_bytes: u64,
    /// Each file that ever changed, as it is now.
    files: BTreeMap<RelPath, Option<FileFact>>,
    /// Each file that ever changed by no act.
    drifted: BTreeSet<RelPath>,
    /// All that each file that ever changed has been, and whether it was so by acts alone.
    history: BTreeMap<RelPath, BTreeMap<Option<FileFact>, rewind::Doing>>,
    submitted: Option<Submitted>,
    /// Submissions that did not satisfy the schema.
    wrong_answers: u32,
    gate: GateState,
    finished: Option<RunFinished>,
    counts: Counts,
    approvals: BTreeMap<String, u32>,
}

impl RunState {
    /// The state of a run with no events.
    pub fn new(stream: RunId) -> Self {
        Self {
            stream,
            next_seq: 0,
            first_at_ms: 0,
            last_at_ms: 0,
            stage: Stage::New,
            queued: None,
            created: None,
            held: None,
            cancelled: None,
            deaths: 0,
            rewinding: false,
            rung: Rung::R0,
            containment: None,
            weakest: None,
            generation: 0,
            attached: false,
            first_of_driver: 0,
            pause: None,
            ledger: Ledger::new(crate::budget::Budget::default(), None),
            limits: None,
            unanswered: None,
            given_up: BTreeSet::new(),
            agents: vec![Agent::default()],
            open: BTreeMap::new(),
            running: BTreeMap::new(),
            processes: BTreeMap::new(),
            indeterminate: None,
            servers: server::Servers::default(),
            net: BTreeMap::new(),
            changed_bytes: 0,
            files: BTreeMap::new(),
            drifted: BTreeSet::new(),
            history: BTreeMap::new(),
            submitted: None,
            wrong_answers: 0,
            gate: GateState::default(),
            finished: None,
            counts: Counts::default(),
            approvals: BTreeMap::new(),
        }
    }

    /// Folds a whole journal.
    pub fn fold<'a>(stream: RunId, events: impl IntoIterator<Item = &'a Event>) -> Result<Self, Violation> {
        let mut state = Self::new(stream);
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// The run's name.
    pub fn stream(&self) -> &RunId {
        &self.stream
    }

    /// Place of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Milliseconds since the Unix epoch of the beginning and of the newest event. It begins when it is made; until then,
    /// when it was queued.
    pub fn span_ms(&self) -> (u64, u64) {
        (self.first_at_ms, self.last_at_ms)
    }

    /// Where the run stands.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What was queued, where the run came from a queue.
    pub fn queued(&self) -> Option<&RunQueued> {
        self.queued.as_deref()
    }

    /// Who keeps workers from it, if anybody does.
    pub fn held(&self) -> Option<&RunHeld> {
        self.held.as_ref()
    }

    /// Who cancelled it, if anybody did.
    pub fn cancelled(&self) -> Option<&RunCancelled> {
        self.cancelled.as_ref()
    }

    /// Drivers in a row that died under it without an answer of the model in between. One that still drives it is
    /// not counted.
    pub fn deaths(&self) -> u32 {
        self.deaths
    }

    /// The contract, once the run exists.
    pub fn created(&self) -> Option<&RunCreated> {
        self.created.as_deref()
    }

    /// What contains commands under the driver that has the run.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// What the driver that has the run said contains commands.
    pub fn containment(&self) -> Option<&Receipt> {
        self.containment.as_ref()
    }

    /// The weakest rung that any finished command had; `None` where none ran.
    pub fn weakest_rung(&self) -> Option<Rung> {
        self.weakest
    }

    /// Lease generation of the last driver.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Why the last driver left, if it left and none has come since.
    pub fn pause(&self) -> Option<&DriverDetached> {
        self.pause.as_ref()
    }

    /// The class of the newest request to the model that failed, if no answer has come since.
    pub fn unanswered(&self) -> Option<&str> {
        self.unanswered.as_deref()
    }

    /// What the vendor last said of its limits, and when, in milliseconds since the Unix epoch.
    pub fn rate_limits(&self) -> Option<(u64, &RateLimitFact)> {
        self.limits.as_ref().map(|(at_ms, limits)| (*at_ms, limits))
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Acts without an end.
    pub fn open_acts(&self) -> &BTreeMap<ActId, OpenAct> {
        &self.open
    }

    /// The act of which nobody can tell whether it happened, until a person says so.
    pub fn indeterminate_act(&self) -> Option<ActId> {
        self.indeterminate
    }

    /// Acts that wait for a person's word.
    pub fn waiting_acts(&self) -> impl Iterator<Item = ActId> {
        let waits = |act: &OpenAct| act.decision.effect == Effect::Ask && act.verdict.is_none();
        self.open.iter().filter(move |(_, act)| waits(act)).map(|(id, _)| *id)
    }

    /// The id of the next act.
    pub fn next_act(&self) -> ActId {
        ActId(self.counts.acts)
    }

    /// All that differs from the start: first before and last after of each changed path.
    pub fn net_changes(&self) -> &BTreeMap<RelPath, Change> {
        &self.net
    }

    /// Each file that ever changed, as it is now; `None` where it is gone. After the end of the run it goes on with what
    /// a person had put back, which the net change does not.
    pub fn files(&self) -> &BTreeMap<RelPath, Option<FileFact>> {
        &self.files
    }

    /// Files that a person had put back and of which the model of the agent whose turn it is has not been told.
    pub fn put_back(&self) -> &BTreeSet<RelPath> {
        &self.of(self.acting()).put_back
    }

    /// Paths of the net change that somebody changed who is no act of the run, wholly or in part.
    pub fn drifted(&self) -> impl Iterator<Item = &RelPath> {
        self.drifted.iter().filter(|path| self.net.contains_key(*path))
    }

    /// Salted digest of the content that the model of the agent whose turn it is last saw of a file.
    pub fn seen(&self, path: &RelPath) -> Option<&Digest> {
        self.of(self.acting()).seen.get(path)
    }

    /// The submission under way.
    pub fn submitted(&self) -> Option<&Submitted> {
        self.submitted.as_ref()
    }

    /// The newest judgement of the gate.
    pub fn last_gate(&self) -> Option<&GateJudged> {
        self.gate.last.as_ref()
    }

    /// What the gate says that was run and not yet judged, if the workspace is as it was when it began; and whether it is,
    /// as far as the journal knows.
    pub fn gate_run(&self) -> Option<(GateVerdict, SameTree)> {
        let run = self.gate.run.as_ref()?;
        let command = run.command.as_ref();
        let said = GateVerdict::of(command.map(|command| command.exit));
        let compared = self.compared(command.and_then(|command| command.tests));
        let said = compared.map_or(said, |compared| said.with_tests(compared));
        Some((said, if run.changed { SameTree::No } else { SameTree::Yes }))
    }

    /// The tests of the newest run of the gate that was judged, against those of the base; `None` where they are not counted
    /// or it was not judged.
    pub fn gate_tests(&self) -> Option<Compared> {
        self.gate.last.as_ref()?;
        self.compared(self.gate.last_tests)
    }

    fn compared(&self, now: Option<TestsRan>) -> Option<Compared> {
        let gate = self.created.as_ref().and_then(|created| created.gate.as_ref())?;
        let base = self.gate.base.and_then(|base| base.tests);
        (gate.counted == Counted::AgainstBase).then_some(Compared { base, now })
    }

    /// Whether the gate passed and nothing has changed since.
    pub fn gate_holds(&self) -> bool {
        !self.gate.debt && self.gate.last.as_ref().is_some_and(|judged| judged.verdict == GateVerdict::Passed)
    }

    /// How the run ended, if it did.
    pub fn outcome(&self) -> Option<&RunFinished> {
        self.finished.as_ref()
    }

    /// How many acts that policy asks about were approved, by whose word.
    pub fn approvals(&self) -> &BTreeMap<String, u32> {
        &self.approvals
    }

    /// Counts for reports.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// The id under which a step's answer is asked for: the same after a crash as before it.
pub fn invocation_id(stream: &RunId, step: StepId) -> String {
    format!("{stream}.{step}")
}
