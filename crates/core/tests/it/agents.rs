//! Properties of the tree of agents, over valid journals.

use std::collections::BTreeMap;

use proptest::prelude::*;
use provost_core::act::Intent;
use provost_core::event::{Body, Event};
use provost_core::id::{ActId, AgentId};
use provost_core::policy::Effect;
use provost_core::state::RunState;

use crate::cases;
use crate::world::journals;

fn empty(events: &[Event]) -> RunState {
    RunState::new(events[0].stream.clone())
}

proptest! {
    #![proptest_config(cases(200))]

    /// What an agent is let do, its parent would be let do: by the same word, or by one that is less strict.
    #[test]
    fn i5_no_decision_for_a_child_is_wider_than_its_parents(events in journals()) {
        let mut state = empty(&events);
        for event in &events {
            // What no call asks for, the contract orders: a server of tools starts for all of them.
            if let Body::ActDecided(body) = &event.body
                && body.call.is_some()
                && let Some(parent) = state.agent(event.agent).unwrap().parent()
            {
                let parents = state.policy_of(parent).unwrap().decide(&body.touches, state.rung());
                prop_assert!(body.decision.effect >= parents.effect, "{} and {parents}", body.decision);
            }
            if let Body::NetDecided(body) = &event.body
                && let Some(parent) = state.agent(event.agent).unwrap().parent()
            {
                let parents = state.policy_of(parent).unwrap().decide_dial(&body.host, body.port, state.rung());
                prop_assert!(body.decision.effect >= parents.effect);
            }
            state.apply(event).unwrap();
        }
    }

    /// A subtree has no more answers than the orders of its head allow, and the run's count is that of its root.
    #[test]
    fn i6_a_subtree_stays_within_its_steps(events in journals()) {
        let mut state = empty(&events);
        let (mut most, mut had): (BTreeMap<AgentId, u32>, BTreeMap<AgentId, u32>) = Default::default();
        for event in &events {
            state.apply(event).unwrap();
            match &event.body {
                Body::ActStarted(body) => {
                    if let Intent::Spawn(spawn) = &body.intent {
                        most.extend(spawn.max_steps.map(|steps| (spawn.agent, steps)));
                    }
                }
                Body::ModelAnswered(_) => {
                    let mut agent = Some(event.agent);
                    while let Some(id) = agent {
                        *had.entry(id).or_default() += 1;
                        agent = state.agent(id).unwrap().parent();
                    }
                }
                _ => {}
            }
        }
        for (agent, most) in most {
            prop_assert!(had.get(&agent).copied().unwrap_or_default() <= most);
        }
        let root = state.agent(AgentId::ROOT).unwrap();
        prop_assert_eq!(root.steps(), state.ledger().steps);
    }

    /// Each has one start, one end, and one act whose result is what it said last.
    #[test]
    fn i4_an_agent_begins_once_and_ends_once(events in journals()) {
        let mut acts: BTreeMap<AgentId, ActId> = BTreeMap::new();
        let mut ended = BTreeMap::new();
        let mut state = empty(&events);
        for event in &events {
            match &event.body {
                Body::ActStarted(body) => {
                    if let Intent::Spawn(spawn) = &body.intent {
                        prop_assert!(acts.insert(spawn.agent, body.act).is_none());
                        prop_assert_ne!(spawn.agent, AgentId::ROOT);
                    }
                }
                Body::AgentEnded(body) => {
                    prop_assert!(ended.insert(event.agent, (body.end, body.result)).is_none());
                    prop_assert!(state.open_processes_of(event.agent).is_empty());
                }
                Body::ActFinished(body) => {
                    if let Some((agent, _)) = acts.iter().find(|(_, act)| **act == body.act) {
                        let (end, result) = ended[agent];
                        prop_assert_eq!((body.end, body.result), (end.of_act(), result));
                    }
                }
                _ => {}
            }
            state.apply(event).unwrap();
        }
        let children: Vec<AgentId> = state.agents().map(|(id, _)| id).skip(1).collect();
        prop_assert!(children.iter().eq(ended.keys()));
        let limits = state.created().unwrap().limits.agents;
        prop_assert!(children.len() as u32 <= limits.total);
        prop_assert!(state.acting() == AgentId::ROOT);
    }

    /// An event that says that it is somebody else's is refused.
    #[test]
    fn i1_nobody_acts_in_anothers_name(events in journals(), at in any::<prop::sample::Index>(), other in 0_u32..4) {
        let at = at.index(events.len());
        let mut state = RunState::fold(events[0].stream.clone(), &events[..at]).unwrap();
        let agent = AgentId(other);
        prop_assume!(agent != events[at].agent);
        let before = state.clone();
        let forged = Event { agent, ..events[at].clone() };
        prop_assert!(state.apply(&forged).is_err());
        prop_assert_eq!(&state, &before, "a refused event left its mark");
        prop_assert!(state.apply(&events[at]).is_ok());
    }
}

/// The worlds do have agents, and of every depth and end: the properties above are about something.
#[test]
fn the_worlds_have_agents_of_every_kind() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut ends, mut deepest, mut denied) = (std::collections::BTreeSet::new(), 0, 0);
    for _ in 0..4000 {
        let events = journals().new_tree(&mut runner).unwrap().current();
        let state = RunState::fold(events[0].stream.clone(), &events).unwrap();
        for (id, agent) in state.agents() {
            let line = std::iter::successors(Some(id), |id| state.agent(*id)?.parent());
            deepest = deepest.max(line.count() - 1);
            ends.extend(agent.end().map(|ended| ended.end.word()));
        }
        denied += events
            .iter()
            .filter(|event| matches!(&event.body, Body::ActDecided(body)
                if event.agent != AgentId::ROOT && body.decision.effect == Effect::Deny && body.decision.layer == "agent helper"))
            .count();
    }
    assert_eq!(
        ends.into_iter().collect::<Vec<_>>(),
        ["budget_spent", "cancelled", "done", "stalled", "steps_spent"]
    );
    assert!(deepest >= 2, "{deepest}");
    assert!(denied > 0);
}
