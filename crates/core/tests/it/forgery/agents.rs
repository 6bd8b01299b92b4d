//! Agents that others start: who may start one, under which orders, and what it hands back.

use provost_core::agents::{AgentEnd, AgentEnded, AgentLimits, Spawn};

use super::*;

fn spawn_touch(name: &str) -> Touch {
    Touch::Spawn { agent: name.to_owned() }
}

fn orders(agent: u32, deny: &[&str]) -> Spawn {
    Spawn {
        agent: AgentId(agent),
        name: "helper".to_owned(),
        goal: digest(14),
        briefing: digest(15),
        deny: deny.iter().map(|rule| rule.parse().unwrap()).collect(),
        max_steps: None,
    }
}

fn spawns(act: ActId, spawn: Spawn) -> Body {
    started(act, Intent::Spawn(Box::new(spawn)))
}

fn ended(end: AgentEnd) -> Body {
    Body::AgentEnded(AgentEnded { end, result: digest(11) })
}

/// A run whose root has called for an agent, which policy allows.
fn hand(calls: u32, agents: AgentLimits) -> (Hand, ActId) {
    let mut hand =
        Hand::limited(Policy::preset(Preset::Workspace), calls, Limits { agents, ..Limits::default() });
    let act = hand.decides(Some(0), vec![spawn_touch("helper")]);
    (hand, act)
}

const FEW: AgentLimits = AgentLimits { total: 2, depth: 1 };

#[test]
fn i1_an_agent_is_started_as_it_was_put_before_the_policy() {
    let (mut hand, act) = hand(1, FEW);
    hand.cannot(
        spawns(act, Spawn { name: "other".to_owned(), ..orders(1, &[]) }),
        "not put before the policy",
    );
    hand.cannot(spawns(act, orders(2, &[])), "not the next one");
    hand.cannot(spawns(act, orders(0, &[])), "not the next one");
    hand.cannot(spawns(act, Spawn { max_steps: Some(0), ..orders(1, &[]) }), "may not take a step");
    hand.cannot(
        spawns(act, Spawn { deny: vec!["read x".parse().unwrap(); 65], ..orders(1, &[]) }),
        "decided on in time",
    );
    hand.cannot(started(act, command("make all")), "not put before the policy");
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "never started");
    hand.does(spawns(act, orders(1, &[])));
    hand.cannot(spawns(act, orders(2, &[])), "started already");
    assert_eq!(hand.0.acting(), AgentId(1));
}

#[test]
fn i5_the_contract_says_how_many_agents_there_are_and_how_deep() {
    let (mut alone, act) = hand(1, AgentLimits::NONE);
    alone.cannot(spawns(act, orders(1, &[])), "work alone");

    let (mut hand, act) = hand(3, FEW);
    hand.does(spawns(act, orders(1, &[])));
    hand.answer(1);
    let deeper = hand.decides(Some(0), vec![spawn_touch("helper")]);
    hand.cannot(spawns(deeper, orders(2, &[])), "at most 1 deep");
    hand.does(finished(deeper, ActEnd::Failed, vec![], None));
    hand.answer(0);
    hand.does(ended(AgentEnd::Done));
    hand.does(finished(act, ActEnd::Done, vec![], None));
    let second = hand.decides(Some(1), vec![spawn_touch("helper")]);
    hand.does(spawns(second, orders(2, &[])));
    hand.answer(0);
    hand.does(ended(AgentEnd::Done));
    hand.does(finished(second, ActEnd::Done, vec![], None));
    let third = hand.decides(Some(2), vec![spawn_touch("helper")]);
    hand.cannot(spawns(third, orders(3, &[])), "all of the 2 agents");
}

#[test]
fn i5_what_an_agent_is_denied_is_denied_by_its_layer() {
    let (mut hand, act) = hand(1, FEW);
    hand.does(spawns(act, orders(1, &["write **"])));
    hand.answer(2);
    // What its parent would be told is not what it is told.
    let touches = vec![write("a")];
    let mut forged = hand.decided(Some(0), "write", touches.clone(), Recovery::Replayable);
    let Body::ActDecided(body) = &mut forged else { unreachable!() };
    assert_eq!((body.decision.effect, body.decision.layer.as_str()), (Effect::Deny, "agent helper"));
    body.decision = Policy::preset(Preset::Workspace).decide(&touches, Rung::R3);
    assert_eq!(body.decision.effect, Effect::Allow);
    hand.cannot(forged, "where the policy decides `deny: rule `deny write **` of layer `agent helper`");
    // What a command of its changed there is undone, and no part of what it did.
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    hand.cannot(finished(act, ActEnd::Done, vec![creates("new", 40)], Some(ran(0, Rung::R3))), "protects");
    hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
}

#[test]
fn i4_an_agents_act_ends_with_it_and_says_what_it_said() {
    let (mut hand, act) = hand(1, FEW);
    hand.does(spawns(act, orders(1, &[])));
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "still at work");
    hand.cannot(hand.end(Outcome::Done, false), "an act is not over");
    hand.cannot(ended(AgentEnd::Done), "does not stand so that it ends");
    hand.cannot(ended(AgentEnd::Stalled), "does not stand so that it ends");
    hand.cannot(ended(AgentEnd::BudgetSpent { bound: Bound::Tokens }), "that bound is not reached");
    hand.answer(0);
    hand.cannot(ended(AgentEnd::Cancelled), "does not stand so that it ends");
    hand.does(ended(AgentEnd::Done));
    hand.cannot(finished(act, ActEnd::Failed, vec![], None), "did not end as its agent did");
    let mut other = finished(act, ActEnd::Done, vec![], None);
    let Body::ActFinished(body) = &mut other else { unreachable!() };
    body.result = digest(12);
    hand.cannot(other, "does not say what its agent said");
    hand.cannot(finished(act, ActEnd::Done, vec![creates("new", 40)], None), "its agent's doing");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.cannot(ended(AgentEnd::Done), "the root ends with the run");
}

#[test]
fn i6_the_steps_of_an_agent_are_those_of_all_beneath_it() {
    let (mut hand, act) = hand(1, AgentLimits { total: 2, depth: 2 });
    hand.does(spawns(act, Spawn { max_steps: Some(2), ..orders(1, &[]) }));
    hand.answer(1);
    let deeper = hand.decides(Some(0), vec![spawn_touch("helper")]);
    hand.does(spawns(deeper, orders(2, &[])));
    hand.answer(1);
    hand.decides(Some(0), vec![read("a")]);
    hand.does(finished(ActId(2), ActEnd::Done, vec![], None));
    // The run has steps left, and the agent above has none.
    let one_more = forged_answer(&hand.0, Usage::default()).body;
    hand.cannot(one_more, "not to be asked now");
    assert_eq!(hand.0.next(), Next::EndAgent(AgentEnd::StepsSpent));
    hand.does(ended(AgentEnd::StepsSpent));
    hand.does(finished(deeper, ActEnd::Failed, vec![], None));
    assert_eq!(hand.0.next(), Next::EndAgent(AgentEnd::StepsSpent));
    hand.does(ended(AgentEnd::StepsSpent));
    hand.does(finished(act, ActEnd::Failed, vec![], None));
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
}

/// What an agent started in the background ends before it does, and is no other agent's to hear of.
#[test]
fn i1_a_background_command_is_its_agents_alone() {
    use provost_core::event::{ProcessEnded, Told};
    let background = |line: &str| Intent::Background {
        argv: line.split(' ').map(str::to_owned).collect(),
        cwd: provost_core::path::RelPath::root(),
        limit_ms: None,
        publish: None,
    };
    let told = |act: ActId, process: ActId| {
        let mut body = finished(act, ActEnd::Done, vec![], None);
        let Body::ActFinished(end) = &mut body else { unreachable!() };
        end.told = Some(Told { process, from: 0, to: 0 });
        body
    };
    let mut hand =
        Hand::limited(Policy::preset(Preset::Workspace), 2, Limits { agents: FEW, ..Limits::default() });
    let roots = hand.decides(Some(0), vec![exec("make serve")]);
    hand.does(started(roots, background("make serve")));
    hand.does(told(roots, roots));
    let act = hand.decides(Some(1), vec![spawn_touch("helper")]);
    hand.does(spawns(act, orders(1, &[])));
    hand.answer(2);
    let poll = hand.decides(Some(0), vec![]);
    hand.cannot(told(poll, roots), "another agent's command");
    hand.does(finished(poll, ActEnd::Failed, vec![], None));
    let childs = hand.decides(Some(1), vec![exec("make watch")]);
    hand.does(started(childs, background("make watch")));
    hand.does(told(childs, childs));
    hand.answer(0);
    assert_eq!(hand.0.next(), Next::EndProcess(childs), "and not the root's");
    hand.cannot(ended(AgentEnd::Done), "still runs");
    hand.does(Body::ProcessEnded(Box::new(ProcessEnded {
        act: childs,
        command: Some(ran(0, Rung::R3)),
        published: None,
        report: digest(12),
        changes: vec![],
        reverted: vec![],
    })));
    hand.does(ended(AgentEnd::Done));
}

/// Whose orders deny anything leaves nothing running, and neither does whoever it starts: so what a background command
/// changed is held against the contract alone, and nothing that an agent may not change is booked on one.
#[test]
fn i5_a_narrowed_agent_starts_nothing_in_the_background() {
    use provost_core::event::ProcessChanged;
    let background = || Intent::Background {
        argv: vec!["make".to_owned(), "watch".to_owned()],
        cwd: provost_core::path::RelPath::root(),
        limit_ms: None,
        publish: None,
    };
    let (mut hand, act) = hand(1, AgentLimits { total: 3, depth: 2 });
    hand.does(spawns(act, orders(1, &["write new"])));
    hand.answer(2);
    let childs = hand.decides(Some(0), vec![exec("make watch")]);
    hand.cannot(started(childs, background()), "its agent's orders deny something");
    // The control: what comes to an end is no matter.
    hand.does(started(childs, command("make watch")));
    hand.does(finished(childs, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
    let changed =
        |name| Body::ProcessChanged(ProcessChanged { changes: vec![creates(name, 40)], reverted: vec![] });
    hand.cannot(changed("new"), "no background command runs");
    let deeper = hand.decides(Some(1), vec![spawn_touch("helper")]);
    hand.does(spawns(deeper, orders(2, &[])));
    hand.answer(1);
    let theirs = hand.decides(Some(0), vec![exec("make watch")]);
    hand.cannot(started(theirs, background()), "its agent's orders deny something");

    // The control: without orders it is as free as the root, and held to what that is.
    let (mut hand, act) = self::hand(1, FEW);
    hand.does(spawns(act, orders(1, &[])));
    hand.answer(1);
    let childs = hand.decides(Some(0), vec![exec("make watch")]);
    hand.does(started(childs, background()));
    hand.does(finished(childs, ActEnd::Done, vec![], None));
    hand.does(changed("new"));
    hand.cannot(changed(".git/hooks/new"), "the policy protects");
}
