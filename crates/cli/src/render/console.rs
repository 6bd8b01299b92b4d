//! A run as lines for a person, as it happens.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use provost::agent::{Observer, Words};
use provost::core::act::{ActEnd, Change, Intent, show_argv};
use provost::core::changes::Changes;
use provost::core::containment::Receipt;
use provost::core::digest::Digest;
use provost::core::event::{
    ActDecided, ActFinished, ActStarted, Body, Event, FoldedBy, GateVerdict, ModelFact, ModelFailed,
    RunCreated, ServerListed, Settlement, SubmitVia, Verdict,
};
use provost::core::id::{ActId, AgentId};
use provost::core::path::RelPath;
use provost::core::policy::{Effect, LOOKED_UP};
use provost::core::process;
use provost::core::prompt::{Break, MissWhy};
use provost::core::route::RouteId;
use provost::core::server::{came_not_up, started_by};
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};

use super::changes::word;
use super::report::{receipt_lines, routing_lines, standing};
use super::words::{
    act_title, agent_end, behind, clipped, counted, duration, exit, grouped, hosts, policy, price,
};

/// What stands before a line of ours that belongs to no act: as much as step and act take up.
const MARGIN: &str = "         ";
/// What stands before a line of the model's words. No line of ours begins so: whatever it says, it says it as the model.
const WORDS: &str = "  |  ";
/// Characters of an agent's goal.
const GOAL: usize = 100;
/// Characters of an act's title.
const TITLE: usize = 52;

/// Prints lines to standard output; on a terminal also what is under way.
#[derive(Debug)]
pub(crate) struct Console {
    live: Live,
    /// Acts without an end, and whose they are.
    acts: Mutex<BTreeMap<ActId, (AgentId, ActDecided)>>,
    changes: Mutex<Changes>,
    /// Servers of tools, by the acts that started them.
    servers: Mutex<BTreeMap<ActId, String>>,
    /// The tree that a run on this workspace begins with if nothing in it is uncommitted.
    committed: Mutex<Option<String>>,
    /// Where the model is asked, and for which.
    model: Mutex<(String, String)>,
    /// The contract's models.
    models: Mutex<Models>,
    /// The agents that were started, and whose lines are being printed.
    agents: Mutex<Agents>,
    /// What contained the commands of the driver before, if there was one.
    drivers: Mutex<Option<Receipt>>,
    /// How many events a fork has from elsewhere, as long as it has asked nobody itself.
    taken: Mutex<Option<u64>>,
}

/// The contract's models, and which of them was asked last.
#[derive(Debug, Default)]
struct Models {
    of: Vec<ModelFact>,
    asked: RouteId,
}

impl Models {
    fn of(created: &RunCreated) -> Self {
        let others = created.routing.iter().flat_map(|routing| &routing.others).map(|route| &route.model);
        Self { of: [&created.model].into_iter().chain(others).cloned().collect(), asked: RouteId::FIRST }
    }

    fn note(&mut self, event: &Event) {
        match &event.body {
            Body::RunCreated(created) => *self = Self::of(created),
            Body::ModelAnswered(body) => self.asked = body.route,
            Body::ModelFailed(body) => self.asked = body.route,
            _ => {}
        }
    }
}

/// The agents that were started, with whoever started each, and whose lines are being printed.
#[derive(Debug, Default)]
struct Agents {
    started: BTreeMap<AgentId, (String, AgentId)>,
    shown: AgentId,
}

impl Agents {
    fn note(&mut self, event: &Event) {
        match &event.body {
            Body::ActStarted(body) => {
                if let Intent::Spawn(spawn) = &body.intent {
                    self.started.insert(spawn.agent, (spawn.name.clone(), event.agent));
                    self.shown = spawn.agent;
                }
            }
            Body::AgentEnded(_) => {
                self.shown = self.started.get(&event.agent).map_or(AgentId::ROOT, |(_, parent)| *parent);
            }
            _ => {}
        }
    }

    fn name(&self, agent: AgentId) -> String {
        match self.started.get(&agent) {
            Some((name, _)) => format!("agent {agent} `{}`", visible(name, Lines::Escape)),
            None => "the root agent".to_owned(),
        }
    }
}

/// Whether a line may be drawn over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    /// A terminal: what is under way is shown and drawn over.
    Terminal,
    /// A file or a pipe: finished lines only.
    Plain,
}

impl Console {
    pub(crate) fn new() -> Self {
        let live = if crate::world::World::stdout_is_terminal() { Live::Terminal } else { Live::Plain };
        Self {
            live,
            acts: Mutex::default(),
            changes: Mutex::default(),
            servers: Mutex::default(),
            committed: Mutex::default(),
            model: Mutex::default(),
            models: Mutex::default(),
            agents: Mutex::default(),
            drivers: Mutex::default(),
            taken: Mutex::default(),
        }
    }

    /// Where the model is asked from now on, and for which.
    pub(crate) fn expect_model(&self, endpoint: &str, name: &str) {
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = (endpoint.to_owned(), name.to_owned());
    }

    /// Warns when the run begins with another tree than this.
    pub(crate) fn expect_tree(&self, tree: Option<String>) {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner) = tree;
    }

    /// Remembers acts that were decided before this process began, so that their ends can be told.
    pub(crate) fn recall(&self, events: &[Event]) {
        let mut acts = self.acts();
        for event in events {
            let _ = self.changes_by(event);
            self.note_fork(event);
            self.models.lock().unwrap_or_else(PoisonError::into_inner).note(event);
            self.agents.lock().unwrap_or_else(PoisonError::into_inner).note(event);
            match &event.body {
                Body::ActDecided(decided) => {
                    acts.insert(decided.act, (event.agent, decided.clone()));
                }
                Body::ActFinished(finished) => {
                    acts.remove(&finished.act);
                }
                Body::ServerListed(listed) => self.serves(listed),
                Body::DriverAttached(attached) => {
                    *self.drivers.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(attached.containment.clone());
                }
                _ => {}
            }
        }
    }

    /// Prints a whole line.
    pub(crate) fn line(&self, text: &str) {
        let clear = if self.live == Live::Terminal { "\r\x1b[2K" } else { "" };
        super::put(&format!("{clear}{text}\n"));
    }

    fn under_way(&self, text: &str) {
        if self.live == Live::Terminal {
            super::put(&format!("\r\x1b[2K{text}"));
        }
    }

    /// Prints what an event says, with the words it names.
    pub(crate) fn show(&self, event: &Event, words: &dyn Words) {
        let changes = self.changes_by(event);
        self.note_fork(event);
        self.whose(event);
        match &event.body {
            Body::AgentEnded(ended) => {
                let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
                self.line(&format!("{MARGIN}{} ended: {}", agents.name(event.agent), agent_end(ended.end)));
                agents.note(event);
            }
            Body::RunQueued(queued) => {
                self.line(&format!(
                    "run {} queued for `{}`",
                    event.stream,
                    visible(&queued.root, Lines::Escape)
                ));
            }
            Body::RunHeld(held) => {
                let why = words.get(&held.why).unwrap_or_default();
                let why = visible(&String::from_utf8_lossy(&why), Lines::Escape);
                self.line(&format!("{MARGIN}held by {}: {why}", visible(&held.by, Lines::Escape)));
            }
            Body::RunCancelled(cancelled) => {
                self.line(&format!("{MARGIN}cancelled by {}", visible(&cancelled.by, Lines::Escape)));
            }
            Body::RunCreated(created) => self.created(event, created),
            Body::DriverAttached(attached) => {
                let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
                if drivers.is_some() {
                    self.line(&format!("  taken up again by process {}", attached.pid));
                }
                // Said again only where it is another.
                if drivers.replace(attached.containment.clone()).as_ref() != Some(&attached.containment) {
                    for (index, line) in receipt_lines(&attached.containment).iter().enumerate() {
                        self.line(&format!("  {}{line}", if index == 0 { "contained by " } else { "  " }));
                    }
                }
            }
            // What was staged is told with the act's end.
            Body::ActStaged(_)
            | Body::DriverDetached(_)
            | Body::RunFinished(_)
            | Body::WorkspaceRestored(_) => {}
            Body::ModelAnswered(answered) => {
                self.routed(answered.route);
                if let Some(text) = text_of(&answered.answer, words) {
                    self.words(event.agent, text.trim());
                }
            }
            Body::ModelFailed(failed) => {
                self.routed(failed.route);
                self.model_failed(failed, words);
            }
            // A fork works in another folder, which the model is told of: nothing of its own was sent before.
            Body::PromptBroke(_) if self.taken().is_some_and(|taken| event.seq >= taken) => {}
            Body::PromptBroke(broke) => {
                let at = match broke.at {
                    Break::Prelude => "what stands before the first answer".to_owned(),
                    Break::Message { step } => format!("what was said before step {}", step.0 + 1),
                };
                self.line(&format!(
                    "{MARGIN}the prompt is not what was sent before: {at} differs (after {} bytes that do not); the \
                     vendor's cache is of no use",
                    grouped(broke.same_bytes)
                ));
            }
            Body::CacheMissed(missed) => {
                let why = match missed.why {
                    MissWhy::PromptBroke => "the prompt is not what was sent before",
                    MissWhy::Expired => "the last answer is more than five minutes ago",
                    MissWhy::Vendor => "the vendor dropped it",
                };
                let (read, expected) = (grouped(missed.read), grouped(missed.expected));
                self.line(&format!("{MARGIN}cache: {read} of {expected} tokens were there ({why})"));
            }
            Body::ContextFolded(folded) => {
                let window = folded.window.map(|window| format!(" of {}", grouped(window)));
                let by = match folded.by {
                    FoldedBy::Model => "the model's summary stands for it",
                    FoldedBy::Runtime => "a list of what was done stands for it",
                };
                self.line(&format!(
                    "{MARGIN}context folded at {}{} tokens: what was said before step {} is taken out, {by}",
                    grouped(folded.tokens),
                    window.unwrap_or_default(),
                    folded.from.0 + 1
                ));
            }
            Body::CallInvalid(invalid) => {
                let why = words.get(&invalid.result).unwrap_or_default();
                let why = visible(&String::from_utf8_lossy(&why), Lines::Escape);
                let mark = mark(event.agent);
                self.line(&format!("{:>3}      {mark}not an act: {why}", invalid.call.step.0 + 1));
            }
            Body::ActDecided(decided) => {
                self.acts().insert(decided.act, (event.agent, decided.clone()));
            }
            Body::ActApproved(approved) => {
                let word = if approved.verdict == Verdict::Approved { "approved" } else { "denied" };
                let by = visible(&approved.by, Lines::Escape);
                self.line(&format!("{MARGIN}act {} {word} by {by}", approved.act));
            }
            Body::NetDecided(decided) => {
                let host = visible(&decided.host, Lines::Escape);
                let port = decided.port;
                let word = match (decided.decision.effect, decided.private.first()) {
                    (_, Some(address)) => format!("not dialled: it leads to {address}"),
                    (Effect::Allow, None) => "may be dialled".to_owned(),
                    (Effect::Ask | Effect::Deny, None) => format!("refused ({})", decided.decision),
                };
                let at = if port == LOOKED_UP { host } else { format!("{host}:{port}") };
                self.line(&format!("{MARGIN}net {at} {word}"));
            }
            Body::ActSettled(settled) => {
                let how = match settled.how {
                    Settlement::Happened => "happened",
                    Settlement::DidNot => "did not happen",
                    Settlement::Again => "is to be done again",
                };
                self.line(&format!("{MARGIN}act {} {how}, says a person", settled.act));
            }
            Body::ActStarted(ActStarted { intent: Intent::Spawn(spawn), .. }) => {
                let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
                agents.note(event);
                let goal = words.get(&spawn.goal).unwrap_or_default();
                let goal = clipped(String::from_utf8_lossy(&goal).trim(), GOAL, false);
                self.line(&format!("{MARGIN}{} begins: {goal}", agents.name(spawn.agent)));
            }
            Body::ActStarted(started) => {
                let acts = self.acts();
                if let Some((agent, decided)) = acts.get(&started.act) {
                    let title = title(*agent, decided);
                    // A title that is cut ends so already.
                    let more = if title.ends_with('…') { "" } else { " …" };
                    self.under_way(&format!("{} {title}{more}", place_of(decided)));
                }
            }
            Body::ActFinished(finished) => self.act_finished(finished, &changes, words),
            Body::ProcessChanged(changed) => {
                let files = counted(changed.changes.len() as u64, "file");
                let which = what_changed(&changed.changes);
                self.line(&format!("{MARGIN}{files} changed by a running command{which}"));
                self.undone(&changed.reverted);
            }
            Body::ProcessEnded(ended) => {
                let how =
                    ended.command.as_ref().map_or("gone with its driver".to_owned(), |it| exit(it.exit));
                let name = self.name_of(ended.act);
                self.line(&format!("{MARGIN}{name} ended: {how}{}", what_changed(&ended.changes)));
                self.undone(&ended.reverted);
            }
            Body::ServerListed(listed) => {
                self.serves(listed);
                let server = visible(&listed.server, Lines::Escape);
                let tools = counted(listed.tools.len() as u64, "tool");
                self.line(&format!("{MARGIN}server {server} offers {tools}"));
                if !listed.changed.is_empty() {
                    let names = listed.changed.iter().map(|name| visible(name, Lines::Escape));
                    self.line(&format!(
                        "{MARGIN}of {server} these are not what they were when the run began, and are not called: {}. \
                         The run goes on without them; a resume with `--accept-drift` takes them as they are then",
                        names.collect::<Vec<_>>().join(", ")
                    ));
                }
            }
            Body::ServerAccepted(accepted) => {
                let server = visible(&accepted.server, Lines::Escape);
                self.line(&format!(
                    "{MARGIN}the tools of server {server} are taken as they are now, by {}",
                    visible(&accepted.by, Lines::Escape)
                ));
            }
            Body::WorkspaceDrifted(drifted) => {
                let files = counted(drifted.changes.len() as u64, "file");
                let which = what_changed(&drifted.changes);
                self.line(&format!("{MARGIN}{files} changed that no act changed{which}"));
            }
            Body::WorkspaceRewound(rewound) => {
                let files = counted(rewound.changes.len() as u64, "file");
                let (by, names) = (visible(&rewound.by, Lines::Escape), what_changed(&changes));
                self.line(&format!("{MARGIN}{files} put back by {by}{names}"));
            }
            Body::Note(note) => {
                if let Some(text) = words.get(&note.text) {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    let first = text.lines().next().unwrap_or_default();
                    self.line(&format!("{MARGIN}told the model: {}", visible(first, Lines::Escape)));
                }
            }
            Body::Submitted(submitted) => {
                let summary = words.get(&submitted.summary).unwrap_or_default();
                let summary = String::from_utf8_lossy(&summary).into_owned();
                match submitted.via {
                    // The answer's text was shown as such.
                    SubmitVia::FinalAnswer => self.line(&format!("{MARGIN}submitted with these words")),
                    SubmitVia::Tool => {
                        let (first, rest) = summary.trim().split_once('\n').unwrap_or((summary.trim(), ""));
                        self.line(&format!(
                            "{MARGIN}submitted: {}",
                            visible(first.trim_end(), Lines::Escape)
                        ));
                        self.words(event.agent, rest);
                    }
                }
                let wrong = submitted.wrong.map(|wrong| words.get(&wrong).unwrap_or_default());
                if let Some(wrong) = wrong {
                    self.line(&format!("{MARGIN}it does not satisfy the schema:"));
                    for line in String::from_utf8_lossy(&wrong).lines() {
                        self.line(&format!("{MARGIN}  {}", visible(line, Lines::Escape)));
                    }
                }
            }
            Body::GateJudged(judged) => {
                let verdict = match judged.verdict {
                    GateVerdict::Passed => "passed",
                    GateVerdict::Failed => "failed",
                    GateVerdict::Errored => "could not judge",
                };
                self.line(&format!("{MARGIN}gate {verdict} on tree {}", judged.tree));
            }
        }
    }

    /// Says whose lines follow, where that is another than before and no line has said so.
    fn whose(&self, event: &Event) {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let of_run = matches!(
            event.body,
            Body::DriverAttached(_)
                | Body::DriverDetached(_)
                | Body::RunHeld(_)
                | Body::RunCancelled(_)
                | Body::ProcessChanged(_)
                | Body::WorkspaceDrifted(_)
                | Body::WorkspaceRewound(_)
                | Body::WorkspaceRestored(_)
        );
        if !of_run && agents.shown != event.agent {
            agents.shown = event.agent;
            self.line(&format!("{MARGIN}{}:", agents.name(event.agent)));
        }
    }

    fn created(&self, event: &Event, created: &RunCreated) {
        let shown = |text: &str| visible(text, Lines::Escape);
        *self.models.lock().unwrap_or_else(PoisonError::into_inner) = Models::of(created);
        let model = &created.model;
        self.expect_model(&model.endpoint, &model.name);
        self.line(&format!("run {} on `{}`", event.stream, shown(&created.root)));
        if let Some(forked) = &created.forked {
            self.line(&format!(
                "  forked from {}, whose first {} it begins with",
                forked.run,
                counted(forked.events, "event")
            ));
        }
        self.line(&format!("  model {}", super::words::model(model)));
        if let Some(known) = &created.price {
            self.line(&format!("  price {}", price(known)));
        }
        for line in created.routing.iter().flat_map(|routing| routing_lines(routing)) {
            self.line(&format!("  {line}"));
        }
        self.line(&format!("  policy {}", policy(&created.policy)));
        for server in &created.servers {
            self.line(&format!("  server {}: {}", shown(&server.name), shown(&show_argv(&server.argv))));
        }
        if created.policy.workspace.is_staged() {
            self.line(
                "  changes of commands are staged: they come into the workspace when the command has ended",
            );
        }
        if let Some(hosts) = hosts(&created.policy) {
            self.line(&format!(
                "  network {hosts}, where commands are contained by R3, by R4, or by R2 with its broker"
            ));
        }
        if let Some(commit) = created.source.commit() {
            let scope = shown(created.source.scope().as_str());
            self.line(&format!("  commit {commit}, scope `{scope}`, tree {}", created.tree));
        }
        let committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        if committed.as_ref().is_some_and(|tree| *tree != created.tree.sha1) {
            self.line("  note: not all of the workspace is committed: the evidence cannot be held against the commit");
        }
    }

    /// The model's words.
    fn words(&self, agent: AgentId, text: &str) {
        let margin = format!("{WORDS}{:<4}", mark(agent));
        for line in behind(&margin, text) {
            self.line(&line);
        }
    }

    /// Says who is asked, where that is another than before.
    fn routed(&self, route: RouteId) {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.asked == route {
            return;
        }
        models.asked = route;
        let Some(model) = models.of.get(usize::from(route.0)) else { return };
        let (name, endpoint) = (visible(&model.name, Lines::Escape), visible(&model.endpoint, Lines::Escape));
        self.line(&format!("{MARGIN}asking {name} ({endpoint}) from here on"));
        self.expect_model(&model.endpoint, &model.name);
    }

    fn model_failed(&self, failed: &ModelFailed, words: &dyn Words) {
        let status = failed.status.map_or(String::new(), |status| format!(" {status}"));
        let next = failed.retry_in_ms.map_or("gave up".to_owned(), |ms| format!("again in {}", duration(ms)));
        self.line(&format!("{MARGIN}model: {}{status}, attempt {}, {next}", failed.class, failed.attempt));
        if let Some(text) = words.get(&failed.message) {
            let text = visible(&String::from_utf8_lossy(&text), Lines::Escape);
            self.line(&format!("{MARGIN}  {text}"));
        }
        if failed.status == Some(404) {
            let (endpoint, name) = &*self.model.lock().unwrap_or_else(PoisonError::into_inner);
            self.line(&format!(
                "{MARGIN}  nothing is there: the base URL `{}` may be wrong, or it has no model `{}`",
                visible(endpoint, Lines::Escape),
                visible(name, Lines::Escape)
            ));
        }
    }

    fn act_finished(&self, finished: &ActFinished, changes: &[Change], words: &dyn Words) {
        let Some((agent, decided)) = self.acts().remove(&finished.act) else {
            return;
        };
        let time = duration(finished.duration_ms);
        let mut line = format!("{} {:<TITLE$} {time:>8}", place_of(&decided), title(agent, &decided));
        let server = started_by(&decided.tool).filter(|_| finished.end == ActEnd::Done);
        let said = server.and_then(|_| words.get(&finished.result)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let came_up = server.is_none_or(|server| !said.starts_with(&came_not_up(server)));
        let end = match (&finished.command, finished.end) {
            (_, ActEnd::Refused) => "REFUSED".to_owned(),
            (Some(command), _) => exit(command.exit),
            (None, ActEnd::Done) if !came_up => "did not come up".to_owned(),
            (None, ActEnd::Done) => "ok".to_owned(),
            (None, ActEnd::Failed) => "failed".to_owned(),
            (None, ActEnd::TimedOut) => "timed out".to_owned(),
            (None, ActEnd::Interrupted) => "interrupted".to_owned(),
        };
        line.push_str(&format!("  {end}"));
        line.push_str(&what_changed(changes));
        self.line(&line);
        // Which tools are left out, and why; of one that did not come up, why.
        for line in said.lines().skip(usize::from(came_up)) {
            self.line(&format!("{MARGIN}  {}", visible(line, Lines::Escape)));
        }
        if finished.end == ActEnd::Refused {
            self.line(&format!("{MARGIN}  {}", visible(&decided.decision.to_string(), Lines::Escape)));
        } else if finished.end == ActEnd::Failed && finished.command.is_none() {
            let why = words.get(&finished.result).unwrap_or_default();
            let why = String::from_utf8_lossy(&why).into_owned();
            let why = visible(why.lines().next().unwrap_or_default(), Lines::Escape);
            self.line(&format!("{MARGIN}  {why}"));
        }
        self.undone(&finished.reverted);
        for left in &finished.unapplied {
            let path = visible(left.path.as_str(), Lines::Escape);
            self.line(&format!("{MARGIN}  left out: `{path}`: {}", left.why.words()));
        }
    }

    fn undone(&self, reverted: &[RelPath]) {
        for path in reverted {
            let path = visible(path.as_str(), Lines::Escape);
            self.line(&format!("{MARGIN}  undone: `{path}` may not be changed"));
        }
    }

    /// Acts of a journal that have no end yet.
    pub(crate) fn open_acts(&self, state: &RunState) {
        for (id, act) in state.open_acts() {
            if let Some((agent, decided)) = self.acts().get(id) {
                let title = title(*agent, decided);
                self.line(&format!("{} {title:<TITLE$} {}", place_of(decided), standing(*id, act, state)));
            }
        }
    }

    fn serves(&self, listed: &ServerListed) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(listed.act, listed.server.clone());
    }

    /// A background command by the name that the model has for it, or as the server that it is.
    fn name_of(&self, act: ActId) -> String {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers
            .get(&act)
            .map_or_else(|| process::name(act), |server| format!("server {}", visible(server, Lines::Escape)))
    }

    fn changes_by(&self, event: &Event) -> Vec<Change> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).by(event)
    }

    /// A fork's first answer is its own from there on.
    fn note_fork(&self, event: &Event) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.body {
            Body::RunCreated(created) => *taken = created.forked.as_ref().map(|forked| forked.events),
            Body::ModelAnswered(_) if taken.is_some_and(|taken| event.seq >= taken) => *taken = None,
            _ => {}
        }
    }

    fn taken(&self) -> Option<u64> {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acts(&self) -> std::sync::MutexGuard<'_, BTreeMap<ActId, (AgentId, ActDecided)>> {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Step and act. The runtime's own acts belong to no step.
fn place_of(decided: &ActDecided) -> String {
    let step = decided.call.map_or("·".to_owned(), |call| (call.step.0 + 1).to_string());
    let act = format!("#{}", decided.act);
    format!("{step:>3} {act:<4}")
}

fn title(agent: AgentId, decided: &ActDecided) -> String {
    clipped(&format!("{}{}", mark(agent), act_title(&decided.tool, &decided.touches)), TITLE, false)
}

/// What stands before what an agent does or says that another one started.
fn mark(agent: AgentId) -> String {
    if agent == AgentId::ROOT { String::new() } else { format!("[{agent}] ") }
}

/// `, changed src/lib.rs, added a.txt, b.txt`: at most three names.
fn what_changed(changes: &[Change]) -> String {
    let mut out = String::new();
    let mut before = "";
    for change in changes.iter().take(3) {
        let word = word(change);
        out.push_str(", ");
        if word != before {
            out.push_str(&format!("{word} "));
        }
        out.push_str(&visible(change.path.as_str(), Lines::Escape));
        before = word;
    }
    if changes.len() > 3 {
        out.push_str(&format!(" and {} more", changes.len() - 3));
    }
    out
}

fn text_of(answer: &Digest, words: &dyn Words) -> Option<String> {
    let bytes = words.get(answer)?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    Some(value.get("text")?.as_str()?.to_owned())
}

impl Observer for Console {
    fn event(&self, event: &Event, words: &dyn Words) {
        self.show(event, words);
    }
}
