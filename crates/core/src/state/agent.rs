//! The agents of the run's tree: what belongs to each of them alone.
//!
//! One works at a time, depth first: a child until it ends, then whoever started it goes on. That is said in one place
//! ([`RunState::acting`]); everything else is kept and checked agent by agent.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{Checked, must};
use super::{Next, OpenAct, RunState, Step, cache, decided, fold};
use crate::act::Intent;
use crate::agents::{self, AgentEnd, AgentEnded, MOST_DENIED, Spawn};
use crate::digest::Digest;
use crate::event::{ActFinished, ActStarted, Body, MOST_RULES, RunCreated};
use crate::id::{ActId, AgentId, StepId};
use crate::outcome::Outcome;
use crate::path::RelPath;
use crate::policy::{Layer, Policy};
use crate::route::RouteId;

/// An agent of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agent {
    /// Where it stands; `None` for the root.
    pub(super) place: Option<Place>,
    /// Answers that it and those beneath it had.
    pub(super) steps: u32,
    pub(super) step: Option<Step>,
    /// The step of its newest answer.
    pub(super) answered: Option<StepId>,
    pub(super) fold: fold::Fold,
    pub(super) submit_call: bool,
    pub(super) last_failure: Option<(String, Digest)>,
    pub(super) repeats: u32,
    pub(super) steered: u32,
    pub(super) empties: u32,
    /// Content as its model last saw it.
    pub(super) seen: BTreeMap<RelPath, Digest>,
    /// Files that were put back since its model was last told of it.
    pub(super) put_back: BTreeSet<RelPath>,
    /// Who was sent a request of its of which nobody knows what became, if no answer has come since.
    pub(super) unresolved: Option<RouteId>,
    pub(super) cache: cache::Cache,
    pub(super) decided: decided::Decided,
}

/// Where an agent that was started stands in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    name: String,
    parent: AgentId,
    depth: u32,
    max_steps: Option<u32>,
    policy: Policy,
    goal: Digest,
    briefing: Digest,
    since_ms: u64,
    end: Option<AgentEnded>,
}

impl Agent {
    /// Its name; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.name.as_str())
    }

    /// Who started it; `None` for the root.
    pub fn parent(&self) -> Option<AgentId> {
        self.place.as_ref().map(|place| place.parent)
    }

    /// Its newest step.
    pub fn step(&self) -> Option<StepId> {
        self.answered
    }

    /// Answers of a model that it and those beneath it had.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// What it is to do (blob); `None` for the root, whose goal the contract names.
    pub fn goal(&self) -> Option<Digest> {
        self.place.as_ref().map(|place| place.goal)
    }

    /// What it is told behind what the root's system prompt says (blob); `None` for the root.
    pub fn briefing(&self) -> Option<Digest> {
        self.place.as_ref().map(|place| place.briefing)
    }

    /// When it was started, in milliseconds since the Unix epoch; `None` for the root.
    pub fn since_ms(&self) -> Option<u64> {
        self.place.as_ref().map(|place| place.since_ms)
    }

    /// How it ended, if it did. The root ends with the run.
    pub fn end(&self) -> Option<&AgentEnded> {
        self.place.as_ref().and_then(|place| place.end.as_ref())
    }
}

impl Agent {
    /// A call of its came to nothing.
    pub(super) fn failed_like(&mut self, tool: &str, what: Digest) {
        let failure = (tool.to_owned(), what);
        if self.last_failure.as_ref() == Some(&failure) {
            self.repeats += 1;
        } else {
            self.repeats = 1;
            self.steered = 0;
            self.last_failure = Some(failure);
        }
    }
}

impl Place {
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// What an agent may do: the contract's policy, or its own.
pub(super) fn policy_of<'a>(created: &'a RunCreated, agent: &'a Agent) -> &'a Policy {
    agent.place.as_ref().map_or(&created.policy, |place| &place.policy)
}

/// The next call may not fit into what is left, so tokens and money can be spent a little early.
pub(super) fn may_end_by_budget(due: &Next) -> bool {
    matches!(
        due,
        Next::Ask { .. }
            | Next::Leave
            | Next::Finish(Outcome::BudgetSpent { .. })
            | Next::EndAgent(AgentEnd::BudgetSpent { .. })
    )
}

impl RunState {
    /// The agents, the root first. An agent's id is its place among them.
    pub fn agents(&self) -> impl Iterator<Item = (AgentId, &Agent)> {
        (0..).map(AgentId).zip(&self.agents)
    }

    /// An agent of the run.
    pub fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(id.0 as usize)
    }

    /// The id of the next agent.
    pub fn next_agent(&self) -> AgentId {
        AgentId(self.agents.len() as u32)
    }

    /// Whose turn it is: the youngest that has no end.
    pub fn acting(&self) -> AgentId {
        let at = self.agents.iter().rposition(|agent| agent.end().is_none());
        AgentId(at.unwrap_or_default() as u32)
    }

    /// What an agent may do; `None` before the run exists, and for one that it does not have.
    pub fn policy_of(&self, id: AgentId) -> Option<&Policy> {
        Some(policy_of(self.created.as_deref()?, self.agent(id)?))
    }

    /// Whose rules say all that an agent may do: its own, or those of the nearest above it whose orders deny anything.
    pub fn bound_as(&self, id: AgentId) -> AgentId {
        let denied = |id: &AgentId| {
            let place = self.of(*id).place.as_ref();
            place.and_then(|place| place.policy.layers.last()).is_none_or(|layer| !layer.rules.is_empty())
        };
        self.line(id).find(denied).unwrap_or(AgentId::ROOT)
    }

    /// Whose an event is. The run's own are the root's.
    pub fn agent_of(&self, body: &Body) -> AgentId {
        let of_act = |act: &ActId| self.agent_of_command(*act);
        match body {
            Body::ModelAnswered(_)
            | Body::ModelFailed(_)
            | Body::PromptBroke(_)
            | Body::CacheMissed(_)
            | Body::CallInvalid(_)
            | Body::Note(_)
            | Body::ContextFolded(_)
            | Body::AgentEnded(_) => self.acting(),
            // What the contract orders is the root's, whoever's turn it is.
            Body::ActDecided(body) => body.call.map_or(AgentId::ROOT, |_| self.acting()),
            Body::ActApproved(body) => of_act(&body.act),
            Body::ActStarted(body) => of_act(&body.act),
            Body::NetDecided(body) => of_act(&body.act),
            Body::ActSettled(body) => of_act(&body.act),
            Body::ActStaged(body) => of_act(&body.act),
            Body::ActFinished(body) => of_act(&body.act),
            Body::ProcessEnded(body) => of_act(&body.act),
            Body::RunQueued(_)
            | Body::RunCreated(_)
            | Body::DriverAttached(_)
            | Body::DriverDetached(_)
            | Body::ProcessChanged(_)
            | Body::ServerListed(_)
            | Body::ServerAccepted(_)
            | Body::WorkspaceDrifted(_)
            | Body::WorkspaceRewound(_)
            | Body::WorkspaceRestored(_)
            | Body::Submitted(_)
            | Body::GateJudged(_)
            | Body::RunHeld(_)
            | Body::RunCancelled(_)
            | Body::RunFinished(_) => AgentId::ROOT,
        }
    }

    /// Whose act it is that is open, or that started a background command.
    pub fn agent_of_command(&self, act: ActId) -> AgentId {
        let open = self.open.get(&act).map(|act| act.agent);
        open.or_else(|| self.processes.get(&act).map(|process| process.agent)).unwrap_or(AgentId::ROOT)
    }

    pub(super) fn of(&self, id: AgentId) -> &Agent {
        &self.agents[id.0 as usize]
    }

    pub(super) fn of_mut(&mut self, id: AgentId) -> &mut Agent {
        &mut self.agents[id.0 as usize]
    }

    /// The agent and all above it, the root last.
    fn line(&self, id: AgentId) -> impl Iterator<Item = AgentId> {
        std::iter::successors(Some(id), |id| self.of(*id).parent())
    }

    /// Whether an answer more would be one more than its orders, or those of an agent above it, allow.
    pub(super) fn steps_spent(&self, id: AgentId) -> bool {
        self.line(id).map(|id| self.of(id)).any(|agent| {
            let most = agent.place.as_ref().and_then(|place| place.max_steps);
            most.is_some_and(|most| agent.steps >= most)
        })
    }

    pub(super) fn count_step(&mut self, id: AgentId) {
        let line: Vec<AgentId> = self.line(id).collect();
        for id in line {
            let agent = self.of_mut(id);
            agent.steps = agent.steps.saturating_add(1);
        }
    }

    /// Whether an act is the start of an agent that still works.
    pub(super) fn is_at_work(&self, act: &OpenAct) -> bool {
        match &act.started {
            Some(Intent::Spawn(spawn)) => self.of(spawn.agent).end().is_none(),
            _ => false,
        }
    }

    /// Why an agent cannot start another, in words, if it cannot.
    pub fn may_spawn(&self, parent: AgentId) -> Result<(), String> {
        let most = self.created.as_ref().map(|created| created.limits.agents).unwrap_or_default();
        if self.agents.len() as u64 > u64::from(most.total) {
            return Err(match most.total {
                0 => "the contract has the agent work alone".to_owned(),
                total => format!("the run had all of the {total} agents that its contract allows"),
            });
        }
        if self.depth(parent) >= most.depth {
            return Err(format!("agents stand at most {} deep by the contract", most.depth));
        }
        Ok(())
    }

    fn depth(&self, id: AgentId) -> u32 {
        self.agent(id).and_then(|agent| agent.place.as_ref()).map_or(0, |place| place.depth)
    }

    /// An agent may be started: the contract has room for it, and its orders only take away.
    pub(super) fn check_spawn(&self, act: &OpenAct, intent: &Intent) -> Checked {
        let Intent::Spawn(spawn) = intent else { return Ok(()) };
        must(act.call.is_some(), "no call asks for it")?;
        must(spawn.agent == self.next_agent(), "its agent is not the next one")?;
        self.may_spawn(act.agent)?;
        must(agents::is_name(&spawn.name), "its agent's name is none")?;
        must(spawn.max_steps != Some(0), "its agent may not take a step")?;
        must(spawn.deny.len() <= MOST_DENIED, "its orders deny more than can be decided on in time")?;
        let rules = self.policy_of(act.agent).map_or(0, Policy::rules) + spawn.deny.len();
        must(rules <= MOST_RULES, "its policy has more rules than can be decided on in time")
    }

    pub(super) fn agent_started(&mut self, body: &ActStarted, parent: AgentId, at_ms: u64) {
        let Intent::Spawn(spawn) = &body.intent else { return };
        let Spawn { agent: _, goal, name, briefing, deny, max_steps } = spawn.as_ref().clone();
        let Some(policy) = self.policy_of(parent) else { return };
        let place = Place {
            policy: policy.clone().with(Layer::denying(&format!("agent {name}"), deny)),
            name,
            parent,
            depth: self.depth(parent) + 1,
            max_steps,
            goal,
            briefing,
            since_ms: at_ms,
            end: None,
        };
        self.agents.push(Agent { place: Some(place), ..Agent::default() });
    }

    pub(super) fn agent_ended(&mut self, body: &AgentEnded, id: AgentId) -> Checked {
        must(id != AgentId::ROOT, "the root ends with the run")?;
        must(self.open_processes_of(id).is_empty(), "a background command of its still runs")?;
        let due = self.next();
        match (body.end, &due) {
            (AgentEnd::BudgetSpent { bound }, _) if may_end_by_budget(&due) => {
                self.check_bound(bound)?;
            }
            (end, Next::EndAgent(due)) if end == *due => {}
            (end, _) => return Err(format!("the agent does not stand so that it ends: {}", end.word())),
        }
        let agent = self.of_mut(id);
        agent.step = None;
        agent.seen.clear();
        agent.put_back.clear();
        agent.decided = decided::Decided::default();
        if let Some(place) = &mut agent.place {
            place.end = Some(body.clone());
        }
        Ok(())
    }

    /// The act that started an agent ends as the agent did, and says what that said.
    pub(super) fn check_spawn_end(&self, act: &OpenAct, body: &ActFinished) -> Checked {
        let Some(Intent::Spawn(spawn)) = &act.started else { return Ok(()) };
        let Some(ended) = self.of(spawn.agent).end() else {
            return Err("its agent is still at work".to_owned());
        };
        must(body.end == ended.end.of_act(), "it did not end as its agent did")?;
        must(body.result == ended.result, "it does not say what its agent said")
    }
}
