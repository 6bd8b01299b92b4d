//! Agents that others start: how many a world may have, their orders, their ends.

use provost_core::act::{ActEnd, Change, Intent, Touch};
use provost_core::agents::{AgentEnd, AgentEnded, AgentLimits, Spawn};
use provost_core::event::{ActFinished, ActStarted, Body};
use provost_core::id::{ActId, AgentId};
use provost_core::path::RelPath;
use provost_core::policy::Effect;
use provost_core::state::OpenAct;

use super::{Choices, World, digest};

/// None, or few and not deep, so that a world ends.
pub(super) fn limits(choices: &mut Choices) -> AgentLimits {
    let few = |total, depth| AgentLimits { total, depth };
    choices.of(&[few(2, 1), AgentLimits::NONE, few(3, 2), few(4, 3)])
}

impl World {
    /// Open acts that can be taken further: those of agents that wait for another cannot.
    pub(super) fn acts_at_hand(&self) -> Vec<ActId> {
        let waits = |act: &OpenAct| match &act.started {
            Some(Intent::Spawn(spawn)) => self.state.agent(spawn.agent).unwrap().end().is_none(),
            _ => false,
        };
        self.state.open_acts().iter().filter(|(_, act)| !waits(act)).map(|(id, _)| *id).collect()
    }

    /// Starts an agent where the contract has room for one.
    pub(super) fn spawn(&mut self, act: ActId, open: &OpenAct) {
        if self.state.may_spawn(open.agent).is_err() {
            return self.end(act, ActEnd::Failed, vec![], vec![], None);
        }
        let none: &[&str] = &[];
        let deny = self.choices.of(&[none, &["write new/"], &["exec make*"], &["read a", "write **"]]);
        let spawn = Spawn {
            agent: self.state.next_agent(),
            name: "helper".to_owned(),
            goal: digest(14),
            briefing: digest(15),
            deny: deny.iter().map(|rule| rule.parse().unwrap()).collect(),
            max_steps: self.choices.of(&[None, Some(1), Some(3)]),
        };
        self.append(Body::ActStarted(ActStarted { act, intent: Intent::Spawn(Box::new(spawn)) }));
    }

    pub(super) fn end_agent(&mut self, end: AgentEnd) {
        self.append(Body::AgentEnded(AgentEnded { end, result: digest(16) }));
    }

    /// The act that started an agent ends as that did.
    pub(super) fn end_spawn(&mut self, act: ActId, agent: AgentId) {
        let AgentEnded { end, result } = self.state.agent(agent).unwrap().end().unwrap().clone();
        self.append(Body::ActFinished(Box::new(ActFinished {
            act,
            end: end.of_act(),
            told: None,
            result,
            changes: vec![],
            reverted: vec![],
            unapplied: vec![],
            seen: vec![],
            command: None,
            duration_ms: 1,
        })));
    }

    /// Takes back those of a command's changes that its agent may not make.
    pub(super) fn take_back(&self, act: ActId, changes: &mut Vec<Change>) -> Vec<RelPath> {
        let agent = match self.state.open_acts().get(&act) {
            Some(open) => open.agent,
            None => self.state.process(act).unwrap().agent(),
        };
        let policy = self.state.policy_of(agent).unwrap();
        let mut reverted = vec![];
        changes.retain(|change| {
            let touch = Touch::Write { path: change.path.clone() };
            let denied = policy.decide(&[touch], self.state.rung()).effect == Effect::Deny;
            reverted.extend(denied.then(|| change.path.clone()));
            !denied
        });
        reverted
    }
}
