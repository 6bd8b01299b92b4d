//! Agents that others start in simulated runs: what they do, and what must hold of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use provost_core::act::Intent;
use provost_core::event::{Body, Event};
use provost_core::id::AgentId;
use provost_core::state::RunState;
use provost_core::transcript::Call;
use provost_model::Answer;
use serde_json::{Value, json};

use super::scenario::{Draw, GOAL, Scripts, answer};
use super::world::State;
use crate::support::call;

/// Gives the root a child, two in turn, or one that has a child itself.
pub(crate) fn add(draw: &mut Draw, root: &mut Vec<Answer>, scripts: &mut Scripts) {
    let calls = match draw.below(4) {
        0 => vec![child(draw, scripts, 1), child(draw, scripts, 2)],
        1 => {
            let above = child(draw, scripts, 1);
            let beneath = child(draw, scripts, 2);
            let script = scripts.entry(goal(1)).or_default();
            script.insert(0, Answer::calls(vec![beneath]));
            vec![above]
        }
        _ => vec![child(draw, scripts, 1)],
    };
    let at = draw.below(root.len() as u64) as usize;
    root.insert(at, Answer::calls(calls));
}

fn goal(n: u64) -> String {
    format!("child {n}")
}

/// A call that has a child do something, and what its model then answers.
fn child(draw: &mut Draw, scripts: &mut Scripts, n: u64) -> Call {
    let steps = 1 + draw.below(2);
    // Numbers that nobody else's files and calls have.
    let mut script: Vec<Answer> = (0..steps).map(|step| answer(draw, 100 * n + step)).collect();
    let mut orders = json!({ "goal": goal(n), "name": format!("helper-{n}") });
    let mut order = |name: &str, value: Value| orders[name] = value;
    match draw.below(6) {
        // It says so in words; it calls `submit`; its steps are too few; it may not write, or run anything.
        0 => {}
        1 => order("max_steps", json!(1)),
        2 => order("deny", json!(["write **"])),
        3 => order("deny", json!(["exec sh*", "write asked/"])),
        // It makes the same failing call again and again.
        4 => script = (0..8).map(|step| Answer::calls(vec![lost(step)])).collect(),
        _ => {
            let mut submit = call("submit", json!({ "summary": "the child is done" }));
            submit.id = format!("submit-{n}");
            script.push(Answer::calls(vec![submit]));
        }
    }
    scripts.insert(goal(n), script);
    let mut delegate = call("delegate", orders);
    delegate.id = format!("delegate-{n}");
    delegate
}

fn lost(step: u64) -> Call {
    let mut lost = call("exec", json!({ "argv": ["sh", "-c", "fail"] }));
    lost.id = format!("lost-{step}");
    lost
}

/// Whose dialogue is about this.
pub(crate) fn of_goal(state: &State, goal: &str) -> AgentId {
    if goal == GOAL {
        return AgentId::ROOT;
    }
    let spawned = |event: &Event| match &event.body {
        Body::ActStarted(body) => match &body.intent {
            Intent::Spawn(spawn) if *state.blobs[&spawn.goal] == goal.as_bytes() => Some(spawn.agent),
            _ => None,
        },
        _ => None,
    };
    state.events.iter().find_map(|event| spawned(event)).expect("whoever is told a goal is in the journal")
}

/// Folds the journal of a run that is over.
///
/// I4, I5: each agent was started by one act and never again, and ended before whoever started it went on; none was let
/// do what its parent would not have been.
pub(crate) fn fold(events: &[Arc<Event>]) -> RunState {
    let mut goals = BTreeSet::new();
    let mut state = RunState::new(events[0].stream.clone());
    for event in events {
        match &event.body {
            Body::ActStarted(body) => {
                if let Intent::Spawn(spawn) = &body.intent {
                    assert!(goals.insert(spawn.goal), "a second agent for the same work");
                }
            }
            Body::ActDecided(body) => {
                if let Some(parent) = state.agent(event.agent).unwrap().parent() {
                    let parents = state.policy_of(parent).unwrap().decide(&body.touches, state.rung());
                    assert!(body.decision.effect >= parents.effect, "{} and {parents}", body.decision);
                }
            }
            _ => {}
        }
        state.apply(event).unwrap();
    }
    assert_eq!(state.acting(), AgentId::ROOT);
    state
}
