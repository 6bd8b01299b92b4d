//! The tree of agents: whose turn it is, what each says to its model, and how one that was started begins and ends.
//!
//! One works at a time; whose turn it is the state says. What belongs to an agent's dialogue is put aside while another
//! works, and read back from the journal where this driver never had it.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::act::Intent;
use provost_core::agents::{AgentEnd, AgentEnded, Spawn};
use provost_core::event::{Body, SubmitVia};
use provost_core::id::{ActId, AgentId};
use provost_core::policy::Policy;
use provost_core::state::Agent;
use provost_core::text::{Lines, visible};
use provost_core::transcript::{self, Assistant};
use provost_model::Prelude;
use provost_sandbox::{Profile, WorkspaceAccess};
use provost_tools::Delegation;

use crate::ahead::Ahead;
use crate::driver::{Driver, last_answer};
use crate::error::RunError;
use crate::files::Files;
use crate::guard::{Guard, Guarded};
use crate::talk::{Asked, Talk};

/// An agent's side of its dialogue.
pub(crate) struct Side {
    pub(crate) talk: Talk,
    pub(crate) prelude: Prelude,
    pub(crate) answer: Option<Arc<Assistant>>,
    pub(crate) stop: transcript::Stop,
    pub(crate) ahead: Ahead,
}

/// The agents that wait for another, and what the journal says of each one's prompts.
#[derive(Default)]
pub(crate) struct Aside {
    sides: BTreeMap<AgentId, Side>,
    pub(crate) asked: BTreeMap<AgentId, Asked>,
}

impl Driver<'_> {
    /// Turns to the agent whose turn it is.
    pub(crate) async fn turn(&mut self) -> Result<(), RunError> {
        let agent = self.recorder.state().acting();
        if agent == self.agent {
            return Ok(());
        }
        // What another is shown is durable, as what it is shown itself.
        self.recorder.commit().await?;
        if let Some(side) = self.aside.sides.remove(&agent) {
            self.exchange(agent, side);
            return Ok(());
        }
        let side = self.open_side(agent).await?;
        self.exchange(agent, side);
        self.read_back().await
    }

    fn exchange(&mut self, agent: AgentId, side: Side) {
        let before = Side {
            talk: std::mem::replace(&mut self.talk, side.talk),
            prelude: std::mem::replace(&mut self.prelude, side.prelude),
            answer: std::mem::replace(&mut self.answer, side.answer),
            stop: std::mem::replace(&mut self.stop, side.stop),
            ahead: std::mem::replace(&mut self.ahead, side.ahead),
        };
        let left = std::mem::replace(&mut self.agent, agent);
        let is_over = self.recorder.state().agent(left).is_none_or(|agent| agent.end().is_some());
        // One that waits does so in the middle of an answer. Without one its dialogue was never read back.
        if !is_over && before.answer.is_some() {
            self.aside.sides.insert(left, before);
        }
    }

    async fn open_side(&self, agent: AgentId) -> Result<Side, RunError> {
        let mut prelude = self.root_prelude.clone();
        let briefing = self.recorder.state().agent(agent).and_then(Agent::briefing);
        if let Some(briefing) = briefing {
            // The answer that the contract asks for is the root's to give.
            prelude.schema = None;
            prelude.system.push_str(&String::from_utf8_lossy(&self.recorder.bytes(&briefing).await?));
        }
        let route = self.recorder.state().route().unwrap_or_default();
        let provider = self.runtime.asked(route)?;
        let talk = Talk::open(route, provider.as_ref(), prelude.clone(), self.recorder.salt());
        Ok(Side { talk, prelude, answer: None, stop: transcript::Stop::End, ahead: Ahead::default() })
    }

    /// Says again what was said to the model of the agent at hand, and takes up its newest answer.
    pub(crate) async fn read_back(&mut self) -> Result<(), RunError> {
        let messages = self.recorder.messages(self.agent).await?;
        self.answer = last_answer(&messages).map(Arc::new);
        self.stop = self.recorder.last_stop(self.agent);
        let asked = self.aside.asked.remove(&self.agent).unwrap_or_default();
        self.say_again(&messages, &asked)
    }

    /// Starts an agent. That it exists is in the journal, so there is never a second one for the same act.
    pub(crate) async fn delegate(&mut self, act: ActId, work: Delegation) -> Result<(), RunError> {
        if let Err(why) = self.recorder.state().may_spawn(self.agent) {
            return self.fail(act, &format!("No agent was started: {why}. Do the work yourself."));
        }
        let spawn = Spawn {
            agent: self.recorder.state().next_agent(),
            goal: self.recorder.content(work.goal.as_bytes()),
            briefing: self.recorder.content(briefing(&work)),
            name: work.name,
            deny: work.deny,
            max_steps: work.max_steps,
        };
        self.start(act, Intent::Spawn(Box::new(spawn))).await
    }

    /// Ends the agent at hand.
    pub(crate) fn end_agent(&mut self, end: AgentEnd) -> Result<(), RunError> {
        let said = self.last_words();
        let text = match end {
            AgentEnd::Done if said.trim().is_empty() => "It is done, and said nothing.".to_owned(),
            AgentEnd::Done => said,
            _ => {
                let why = match end {
                    AgentEnd::StepsSpent => "its steps are spent".to_owned(),
                    AgentEnd::BudgetSpent { bound } => format!("the run's budget of {bound} is spent"),
                    AgentEnd::Cancelled => "the run is cancelled".to_owned(),
                    AgentEnd::Stalled | AgentEnd::Done => "it made no progress".to_owned(),
                };
                let said =
                    if said.trim().is_empty() { String::new() } else { format!(" It said last:\n{said}") };
                format!("The agent ended before it was done: {why}. What it changed stays.{said}")
            }
        };
        let result = self.recorder.content(text);
        self.recorder.record(Body::AgentEnded(AgentEnded { end, result }))
    }

    /// What the agent says in its newest answer: in the summary of `submit`, or in words.
    pub(crate) fn last_words(&self) -> String {
        let Some(answer) = &self.answer else { return String::new() };
        match self.recorder.state().submission(self.agent) {
            Some(SubmitVia::Tool) => summary(answer),
            Some(SubmitVia::FinalAnswer) | None => answer.text.clone(),
        }
    }

    /// Ends the act that started an agent which is over, with what that said.
    pub(crate) fn end_spawn(&mut self, act: ActId, spawn: &Spawn) -> Result<(), RunError> {
        let now = self.recorder.now_ms();
        let agent = self.recorder.state().agent(spawn.agent);
        let ended = agent.and_then(|agent| Some((agent.end()?.clone(), agent.since_ms()?)));
        let Some((AgentEnded { end, result }, since)) = ended else {
            return Err(RunError::Internal(format!("agent {} is still at work", spawn.agent)));
        };
        self.end_saying(act, end.of_act(), result, now.saturating_sub(since))
    }
}

/// The summary of an answer's last call of `submit`.
pub(crate) fn summary(answer: &Assistant) -> String {
    let submit = answer.calls.iter().rev().find(|call| call.name == "submit");
    submit
        .and_then(|call| serde_json::from_str::<serde_json::Value>(&call.arguments).ok())
        .and_then(|args| Some(args.get("summary")?.as_str()?.to_owned()))
        .unwrap_or_default()
}

/// What an agent is told behind what the root is told. It stands at the end, so that a vendor's cache of the root's prompt
/// serves it as well.
fn briefing(work: &Delegation) -> String {
    let mut text = format!(
        "\nYou are the agent `{}`: another agent gave you a part of its work, and waits. What you say in `submit`, or in an \
         answer without calls, is all that it hears of you: tell it what you found and did. No verification is run for \
         you.\n",
        work.name
    );
    if !work.deny.is_empty() {
        let rules = work.deny.iter().map(|rule| format!("`{}`", visible(rule.as_str(), Lines::Escape)));
        text.push_str(&format!("You may not: {}.\n", rules.collect::<Vec<_>>().join(", ")));
    }
    text
}

/// What keeps the commands of an agent to less than the run's containment does: names of the workspace that its own rules
/// guard. The run's guard stays what it is, since it knows which names were there before any command ran.
pub(crate) struct Narrow {
    /// Whose rules.
    of: AgentId,
    guard: Guard,
    found: Guarded,
    all_writes: Writes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    AsTheRun,
    None,
}

impl Narrow {
    /// As the run's policy says.
    pub(crate) fn root() -> Self {
        Self {
            of: AgentId::ROOT,
            guard: Guard::default(),
            found: Guarded::default(),
            all_writes: Writes::AsTheRun,
        }
    }

    /// Looks again. Says whether commands have to be contained anew.
    pub(crate) fn look(&mut self, of: AgentId, policy: &Policy, files: &Files) -> Result<bool, RunError> {
        let turned = self.of != of;
        if turned {
            *self = Self { of, ..Self::root() };
        }
        if of == AgentId::ROOT {
            return Ok(turned);
        }
        self.all_writes = if policy.denies_all_writes() { Writes::None } else { Writes::AsTheRun };
        let scanned = self.guard.scan(files.workspace(), policy);
        let found = scanned.map_err(|error| RunError::Workspace {
            path: files.root().to_owned(),
            reason: error.to_string(),
        })?;
        let changed = found != self.found;
        self.found = found;
        Ok(turned || changed)
    }

    /// Narrows a profile.
    pub(crate) fn apply(&self, profile: &mut Profile, files: &Files) {
        if self.all_writes == Writes::None {
            profile.workspace_access = WorkspaceAccess::ReadOnly;
        }
        let absolute = |path| files.root().join(provost_core::path::RelPath::to_os(path));
        for (list, names) in
            [(&mut profile.protected, &self.found.protected), (&mut profile.hidden, &self.found.hidden)]
        {
            let new: Vec<_> = names.iter().map(absolute).filter(|path| !list.contains(path)).collect();
            list.extend(new);
        }
    }
}
