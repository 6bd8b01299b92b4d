//! What changes hands with a driver: time, decisions, a gate that was under way.

use provost_core::event::RunQueued;

use super::*;

/// Applies `body` so many milliseconds after the event before it.
fn later(state: &mut RunState, ms: u64, body: Body) {
    let mut event = event_after(state, body);
    event.at_ms += ms;
    state.apply(&event).unwrap();
}

/// Only what passes between a driver's events is driven time: not a queue, not a night in which nobody drove, not the
/// time since a driver died.
#[test]
fn i6_time_in_which_nobody_drives_is_not_charged() {
    let Body::RunCreated(created) = good_run().remove(0).body else { unreachable!() };
    let queued: RunQueued = world::queued(&created);
    let attached = |generation| {
        let containment = receipt(Rung::R3);
        Body::DriverAttached(DriverAttached { generation, host: "h".into(), pid: 1, containment })
    };
    let mut state = RunState::new("r-hand".parse().unwrap());
    later(&mut state, 0, Body::RunQueued(Box::new(queued)));
    later(&mut state, 60_000, Body::RunCreated(created));
    let begun = state.span_ms().0;
    assert_eq!(begun, state.span_ms().1, "it begins when it is made, not when it was queued");
    later(&mut state, 7_000, attached(1));
    let detached = Body::DriverDetached(DriverDetached { why: Pause::Interrupted, act: None });
    later(&mut state, 30, detached);
    later(&mut state, 50_000, world::held());
    later(&mut state, 80_000, attached(2));
    // It dies; another comes, and then somebody cancels what that one left.
    later(&mut state, 90_000, attached(3));
    later(&mut state, 70_000, world::cancelled());
    assert_eq!(state.ledger().time_ms, 30);
}

/// A gate whose driver dies again and again is due each time.
#[test]
fn a_gate_cut_short_with_its_driver_is_not_held_against_it() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    for _ in 0..5 {
        let act = hand.decides(None, vec![gate()]);
        hand.does(started(act, command("check all")));
        let lost = CommandFact { exit: ExitFact::DriverLost, ..ran(0, Rung::R3) };
        hand.does(finished(act, ActEnd::Interrupted, vec![], Some(lost)));
        hand.does(judged(act, GateVerdict::Errored));
        assert_eq!(hand.0.next(), Next::RunGate);
    }
    let act = hand.run_gate(0);
    hand.does(judged(act, GateVerdict::Passed));
    assert_eq!(hand.0.next(), Next::Finish(Outcome::Done));
}

/// What is to be done again may be under a driver that contains less than the one under which it began.
#[test]
fn i5_what_is_done_again_is_decided_on_again() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    assert!(matches!(hand.0.next(), Next::Perform(_)), "allowed, since it is contained");
    hand.does(started(act, command("make all")));
    hand.does(Body::DriverDetached(DriverDetached { why: Pause::Indeterminate, act: Some(act) }));
    hand.attach(Rung::R1);
    hand.does(Body::ActSettled(ActSettled { act, how: Settlement::Again, by: "hand".into() }));
    assert_eq!(hand.0.next(), Next::Approve(act));
    hand.cannot(started(act, command("make all")), "neither the policy nor a person allows it");
}

/// What a person has said of an act stands: no driver asks again.
#[test]
fn an_act_is_settled_once() {
    for how in [Settlement::Happened, Settlement::DidNot] {
        let mut hand = Hand::workspace(1);
        let act = hand.decides(Some(0), vec![exec("make all")]);
        hand.does(started(act, command("make all")));
        let asks = Body::DriverDetached(DriverDetached { why: Pause::Indeterminate, act: Some(act) });
        hand.does(asks.clone());
        hand.attach(Rung::R3);
        let said = Body::ActSettled(ActSettled { act, how, by: "hand".into() });
        hand.does(said.clone());
        hand.cannot(asks, "nobody has settled");
        hand.cannot(said, "cannot tell");
        hand.does(finished(act, ActEnd::Interrupted, vec![], None));
    }
}
