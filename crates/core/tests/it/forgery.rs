//! Dishonest journals: whoever drops, reorders, repeats or alters an event, and puts a good chain over it, still has to
//! get past the state machine. What it cannot see is said here too: a journal that simply ends early is a good journal
//! (the signed head finds that, I7), and so is one without its drifts, failed requests and takeovers.

mod acts;
mod agents;
mod answers;
mod caps;
mod counted;
mod drivers;
mod folds;
mod gates;
mod hand;
mod images;
mod net;
mod processes;
mod rollback;
mod routes;
mod servers;
mod staged;
mod window;

use std::collections::BTreeMap;

use proptest::prelude::*;
use provost_core::act::{ActEnd, Change, CommandFact, ExitFact, Intent, Recovery, Touch};
use provost_core::brief::BriefFact;
use provost_core::budget::{Bound, Budget};
use provost_core::containment::{Guarantee, Receipt, Rung, Strength};
use provost_core::contract::Limits;
use provost_core::digest::Digest;
use provost_core::event::{
    ActApproved, ActDecided, ActFinished, ActSettled, ActStarted, Body, CallInvalid, CallRef, DriverAttached,
    DriverDetached, Event, GateJudged, GateVerdict, InvalidCall, MOST_TOUCHES, ModelAnswered, ModelFailed,
    Note, NoteWhy, RunCancelled, RunFinished, RunHeld, Settlement, SubmitVia, Submitted, Verdict,
    WorkspaceDrifted,
};
use provost_core::id::{ActId, AgentId, StepId};
use provost_core::outcome::{Outcome, Pause, StopWhy};
use provost_core::policy::{Effect, Layer, Ordered, Policy, Preset};
use provost_core::route::RouteId;
use provost_core::state::{Next, RunState, Violation, invocation_id};
use provost_core::transcript::{Stop, Usage};

use self::hand::*;
use crate::cases;
use crate::world::{self, digest, good_run, journals, path, receipt};

/// Puts the events into order again, as a forger would: dense places, times that do not run backwards.
fn renumbered(mut events: Vec<Event>) -> Vec<Event> {
    let mut last = 0;
    for (seq, event) in (0..).zip(&mut events) {
        event.seq = seq;
        event.at_ms = event.at_ms.max(last);
        last = event.at_ms;
    }
    events
}

/// The first refusal, which must leave the state as it was.
fn refusal(events: &[Event]) -> Option<Violation> {
    let mut state = RunState::new(events.first()?.stream.clone());
    let at = events.iter().position(|event| state.apply(event).is_err())?;
    let before = RunState::fold(events[0].stream.clone(), &events[..at]).unwrap();
    assert_eq!(state, before, "a refused event left its mark");
    Some(state.apply(&events[at]).unwrap_err())
}

fn out_of_place(events: &[Event]) -> bool {
    matches!(refusal(events), Some(Violation::Sequence { .. }))
}

/// The same without the check on the state, for journals that are folded many times.
fn refused(events: &[Event]) -> bool {
    RunState::fold(events[0].stream.clone(), events).is_err()
}

const CANCELLED: Outcome = Outcome::Stopped { why: StopWhy::Cancelled };

fn act_of(body: &Body) -> Option<ActId> {
    match body {
        Body::ActDecided(body) => Some(body.act),
        Body::ActApproved(body) => Some(body.act),
        Body::ActStarted(body) => Some(body.act),
        Body::NetDecided(body) => Some(body.act),
        Body::ActSettled(body) => Some(body.act),
        Body::ActStaged(body) => Some(body.act),
        Body::ActFinished(body) => Some(body.act),
        Body::ProcessEnded(body) => Some(body.act),
        Body::GateJudged(body) => Some(body.act),
        _ => None,
    }
}

/// Whether files are put back before anything is done or asked.
fn is_rewound_at_once(after: &[Event]) -> bool {
    let first = after.iter().find(|event| {
        !matches!(event.body, Body::DriverAttached(_) | Body::DriverDetached(_) | Body::WorkspaceDrifted(_))
    });
    first.is_some_and(|event| matches!(event.body, Body::WorkspaceRewound(_)))
}

/// Whether the events behind `at` cannot do without it.
fn is_missed(events: &[Event], at: usize) -> bool {
    let after = &events[at + 1..];
    match &events[at].body {
        Body::RunCreated(_) => true,
        // A run can be made without a queue.
        Body::RunQueued(_) => matches!(after.first().map(|event| &event.body), Some(Body::RunHeld(_))),
        Body::RunHeld(_) | Body::WorkspaceRestored(_) => false,
        // The end that it gives to the run is no other's.
        Body::RunCancelled(_) => after.iter().any(|event| matches!(event.body, Body::RunFinished(_))),
        // A rewind makes them void where nothing came of them by then.
        Body::ModelAnswered(_) | Body::Submitted(_) | Body::Note(_) | Body::GateJudged(_)
            if is_rewound_at_once(after) =>
        {
            false
        }
        Body::ModelAnswered(_)
        | Body::CallInvalid(_)
        | Body::ActDecided(_)
        | Body::ActFinished(_)
        | Body::Submitted(_) => {
            // A run that is cancelled may leave its last step as it is.
            let cancelled = after.iter().any(|event| matches!(event.body, Body::RunCancelled(_)));
            let goes_on = |event: &Event| matches!(event.body, Body::ModelAnswered(_));
            !after.is_empty() && (!cancelled || after.iter().any(goes_on))
        }
        Body::DriverAttached(_) => {
            // A takeover may be hidden; the first driver and one after a pause may not.
            let before = events[..at].iter().rev().map(|event| &event.body).find(|body| {
                matches!(body, Body::DriverAttached(_) | Body::DriverDetached(_) | Body::RunHeld(_))
            });
            let needs_none = |body: &Body| {
                matches!(body, Body::DriverAttached(_) | Body::RunHeld(_) | Body::RunCancelled(_))
            };
            !after.is_empty()
                && !needs_none(&after[0].body)
                && !matches!(before, Some(Body::DriverAttached(_)))
        }
        // One that may begin and did nothing could have failed before it began.
        Body::ActApproved(body) => after.iter().any(|event| match &event.body {
            Body::ActStarted(other) => other.act == body.act,
            Body::ActFinished(other) => other.act == body.act && other.end != ActEnd::Interrupted,
            _ => false,
        }),
        Body::ActStarted(body) => after.iter().any(|event| match &event.body {
            Body::ActFinished(other) => {
                other.act == body.act
                    && (other.end == ActEnd::Done || !other.changes.is_empty() || other.command.is_some())
            }
            Body::DriverDetached(other) => other.why == Pause::Indeterminate && other.act == Some(body.act),
            Body::ActStaged(other) => other.act == body.act,
            _ => false,
        }),
        Body::ActStaged(body) => after.iter().any(|event| match &event.body {
            Body::ActFinished(other) => {
                let lost = |command: &CommandFact| command.exit == ExitFact::DriverLost;
                let told = !other.changes.is_empty() || !other.unapplied.is_empty();
                other.act == body.act
                    && (told || other.command.as_ref().is_some_and(|command| !lost(command)))
            }
            _ => false,
        }),
        Body::ActSettled(body) => {
            after.iter().any(|event| matches!(&event.body, Body::ActStarted(other) if other.act == body.act))
        }
        Body::DriverDetached(body) if body.why == Pause::Indeterminate => {
            let of_it = |event: &&Event| match &event.body {
                Body::ActSettled(other) => Some(other.act) == body.act,
                Body::DriverDetached(other) => other.act == body.act,
                _ => false,
            };
            after.iter().find(of_it).is_some_and(|event| matches!(event.body, Body::ActSettled(_)))
        }
        // What answers it may as well answer anything else.
        Body::Note(body) if body.why == NoteWhy::ContextFull => false,
        // Where nothing more was asked of the model it may be as well that it was told nothing.
        Body::Note(_) | Body::GateJudged(_) => after.iter().any(|event| match &event.body {
            Body::ModelAnswered(_) | Body::ActDecided(_) => event.agent == events[at].agent,
            Body::RunFinished(body) => events[at].agent == AgentId::ROOT && body.outcome != CANCELLED,
            _ => false,
        }),
        // That files were put back shows where the model was told of it, and nothing else was put back meanwhile.
        Body::WorkspaceRewound(_) => {
            let told = |event: &Event| match &event.body {
                Body::Note(body) if body.why == NoteWhy::Rewound => Some(true),
                Body::WorkspaceRewound(_) => Some(false),
                _ => None,
            };
            after.iter().find_map(told) == Some(true)
                && events[..at].iter().rev().find_map(told) != Some(false)
        }
        // The end of a journal proves nothing about what came behind it.
        Body::RunFinished(_) | Body::DriverDetached(_) | Body::ModelFailed(_) | Body::WorkspaceDrifted(_) => {
            false
        }
        // A run does not end with one that runs, and nothing is told of one that was not there.
        Body::ProcessEnded(_) => after.iter().any(|event| match &event.body {
            Body::RunFinished(_) | Body::DriverDetached(_) => true,
            Body::Note(body) => body.why == NoteWhy::ProcessEnded,
            _ => false,
        }),
        // Whoever started it is told what it said.
        Body::AgentEnded(_) => !after.is_empty(),
        Body::ProcessChanged(_) => false,
        // Until it is said what a server offers, nothing of it is called.
        Body::ServerListed(body) => {
            let next = after.iter().find_map(|event| match &event.body {
                Body::ActStarted(other) if matches!(other.intent, Intent::Call { .. }) => Some(true),
                Body::ServerListed(_) => Some(false),
                Body::ProcessEnded(other) if other.act == body.act => Some(false),
                _ => None,
            });
            next == Some(true)
        }
        Body::ServerAccepted(_) => false,
        // Missed where traffic names the host, which the worlds have none of.
        Body::NetDecided(_) => false,
        // Without it a prompt is only longer.
        Body::PromptBroke(_) | Body::CacheMissed(_) | Body::ContextFolded(_) => false,
    }
}

/// Whether the second of two neighbours cannot come first.
fn is_bound(first: &Body, second: &Body) -> bool {
    let same_act = act_of(first).is_some() && act_of(first) == act_of(second);
    let ends = matches!(first, Body::RunCreated(_)) || matches!(second, Body::RunFinished(_));
    let asked_for = matches!(first, Body::ModelAnswered(_))
        && matches!(second, Body::CallInvalid(_) | Body::ActDecided(_) | Body::Submitted(_) | Body::Note(_));
    // A summary may be asked for after a request that failed.
    let folds = matches!(first, Body::Note(body) if body.why == NoteWhy::ContextFull);
    let awaited = !folds
        && matches!(first, Body::CallInvalid(_) | Body::ActFinished(_) | Body::Note(_))
        && matches!(second, Body::ModelAnswered(_) | Body::ModelFailed(_));
    // What a driver asked that was killed is charged by the next one, before it says anything or after.
    let charged = matches!((first, second), (Body::Note(_), Body::ModelFailed(_)));
    let awaited = awaited && !charged;
    // A background command dials before the act that starts it is over, and after.
    let dials_on = match (first, second) {
        // Any other command that is done says how it exited.
        (Body::NetDecided(_), Body::ActFinished(body)) => body.end == ActEnd::Done && body.command.is_none(),
        _ => false,
    };
    let same_act = same_act && !dials_on;
    let other = match (first, second) {
        (Body::GateJudged(_), Body::Note(_)) => true,
        (Body::Submitted(_), Body::ActDecided(body)) => body.call.is_none(),
        (Body::ActDecided(one), Body::ActDecided(other)) => one.act != other.act,
        _ => false,
    };
    same_act || ends || asked_for || awaited || other
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn i7_an_event_dropped_is_refused(events in journals()) {
        for at in 0..events.len() {
            let mut dropped = events.clone();
            dropped.remove(at);
            if at < dropped.len() {
                prop_assert!(out_of_place(&dropped), "event {at} dropped: its place stays empty");
            }
            let dropped = renumbered(dropped);
            if is_missed(&events, at) {
                prop_assert!(refused(&dropped), "event {at} ({}) is not missed", events[at].body.kind());
            }
        }
    }

    #[test]
    fn i7_two_events_exchanged_are_refused(events in journals()) {
        for at in 1..events.len() {
            let mut swapped = events.clone();
            swapped.swap(at - 1, at);
            prop_assert!(out_of_place(&swapped));
            let (first, second) = (&events[at - 1].body, &events[at].body);
            if is_bound(first, second) {
                let (a, b) = (first.kind(), second.kind());
                prop_assert!(refused(&renumbered(swapped)), "{a} and {b} may be exchanged at {at}");
            }
        }
    }

    #[test]
    fn i4_an_event_that_happens_twice_is_refused(events in journals()) {
        for at in 0..events.len() {
            // A request may fail twice in a row, and two drivers may find that a prompt is not what it was.
            if matches!(events[at].body, Body::ModelFailed(_) | Body::PromptBroke(_)) {
                continue;
            }
            let mut twice = events.clone();
            twice.insert(at, events[at].clone());
            prop_assert!(out_of_place(&twice));
            prop_assert!(refused(&renumbered(twice)), "{} may happen twice", events[at].body.kind());
        }
    }

    /// An act that is over stays over, however much happened since.
    #[test]
    fn i4_an_act_finished_again_later_is_refused(events in journals(), places in any::<[prop::sample::Index; 2]>()) {
        let ends: Vec<usize> = (0..events.len())
            .filter(|at| matches!(events[*at].body, Body::ActFinished(_) | Body::ActStarted(_) | Body::ActDecided(_)))
            .collect();
        prop_assume!(!ends.is_empty());
        let at = ends[places[0].index(ends.len())];
        let mut again = events.clone();
        again.insert(at + 1 + places[1].index(events.len() - at), events[at].clone());
        prop_assert!(refusal(&renumbered(again)).is_some());
    }

    /// Every decision is made again from what it was made on: no other one is accepted.
    #[test]
    fn i1_a_decision_that_the_policy_does_not_give_is_refused(events in journals()) {
        for at in 0..events.len() {
            let Body::ActDecided(body) = &events[at].body else { continue };
            for effect in [Effect::Allow, Effect::Ask, Effect::Deny] {
                let mut forged = body.clone();
                forged.decision.effect = effect;
                if forged.decision == body.decision {
                    forged.decision.rule.push('*');
                }
                let mut events = events.clone();
                events[at].body = Body::ActDecided(forged);
                let found = matches!(refusal(&events), Some(Violation::Decision { .. }));
                prop_assert!(found, "{effect} instead of {}", body.decision);
            }
        }
    }

    #[test]
    fn the_end_cannot_claim_what_the_gate_did_not_give(events in journals()) {
        let last = events.len() - 1;
        let Body::RunFinished(end) = events[last].body.clone() else { unreachable!() };
        let accepted = |change: &dyn Fn(&mut RunFinished)| {
            let mut forged = end.clone();
            change(&mut forged);
            let mut events = events.clone();
            events[last].body = Body::RunFinished(forged.clone());
            forged != end && !refused(&events)
        };
        prop_assert!(!accepted(&|end| end.verified = !end.verified));
        prop_assert!(!accepted(&|end| (end.verified, end.outcome) = (true, Outcome::Done)));
        if end.verified {
            prop_assert!(!accepted(&|end| end.tree = world::tree(&BTreeMap::new())));
        }
        let stalled = Outcome::Stopped { why: StopWhy::Stalled };
        for outcome in [Outcome::Done, Outcome::GateFailed, Outcome::Refused, stalled] {
            prop_assert!(!accepted(&|end| end.outcome = outcome), "{outcome} instead of {}", end.outcome);
        }
        for bound in [Bound::Steps, Bound::Tokens, Bound::Cost, Bound::Time] {
            let spent = Outcome::BudgetSpent { bound };
            let other = !matches!(end.outcome, Outcome::BudgetSpent { .. });
            prop_assert!(!other || !accepted(&|end| end.outcome = spent), "{spent} instead of {}", end.outcome);
        }
    }

    /// The verdict follows from the run of the gate. One that fails now and then cannot be run until it passes.
    #[test]
    fn a_gate_verdict_is_never_the_drivers_choice(events in journals()) {
        for at in 0..events.len() {
            let Body::GateJudged(body) = &events[at].body else { continue };
            for verdict in [GateVerdict::Passed, GateVerdict::Failed, GateVerdict::Errored] {
                let mut forged = events.clone();
                forged[at].body = Body::GateJudged(GateJudged { verdict, ..body.clone() });
                prop_assert!(verdict == body.verdict || refused(&forged));
            }
        }
    }

    #[test]
    fn i6_an_answer_after_the_budget_is_spent_is_refused(events in journals()) {
        let Body::RunFinished(end) = &events[events.len() - 1].body else { unreachable!() };
        let Outcome::BudgetSpent { bound } = end.outcome else { return Ok(()) };
        let before = RunState::fold(events[0].stream.clone(), &events[..events.len() - 1]).unwrap();
        let spent = matches!(before.next(), Next::Finish(Outcome::BudgetSpent { .. }));
        if bound != Bound::Time && spent {
            let mut forged = events.clone();
            forged.insert(events.len() - 1, forged_answer(&before, Usage::default()));
            prop_assert!(refused(&renumbered(forged)));
        }
    }
}

#[test]
fn a_driver_that_waits_names_what_it_waits_for() {
    let mut hand = Hand::workspace(2);
    let free = hand.decides(Some(0), vec![read("a")]);
    let asked = hand.decides(Some(1), vec![read("asked/file")]);
    let detached = |why, act| Body::DriverDetached(DriverDetached { why, act });
    hand.cannot(detached(Pause::Approval, None), "no act that waits");
    hand.cannot(detached(Pause::Approval, Some(free)), "no act that waits");
    hand.cannot(detached(Pause::Approval, Some(ActId(7))), "no such act");
    hand.cannot(detached(Pause::Indeterminate, Some(asked)), "may have happened");
    hand.does(detached(Pause::Approval, Some(asked)));
    hand.cannot(detached(Pause::Interrupted, None), "no driver has the run");
}

/// A person is heard only where nobody else can tell, and is then believed.
#[test]
fn only_what_nobody_can_tell_is_settled_by_a_person() {
    let settled = |act, how| Body::ActSettled(ActSettled { act, how, by: "hand".into() });
    let detached = |act| Body::DriverDetached(DriverDetached { why: Pause::Indeterminate, act: Some(act) });
    for how in [Settlement::Happened, Settlement::DidNot, Settlement::Again] {
        let mut hand = Hand::workspace(1);
        let act = hand.decides(Some(0), vec![exec("make all")]);
        hand.does(started(act, command("make all")));
        hand.cannot(settled(act, how), "cannot tell");
        hand.does(detached(act));
        hand.cannot(settled(act, how), "no driver has the run");
        hand.attach(Rung::R3);
        hand.cannot(settled(ActId(act.0 + 1), how), "cannot tell");
        hand.does(settled(act, how));
        hand.cannot(settled(act, how), "cannot tell");
        if how == Settlement::Again {
            hand.does(started(act, command("make all")));
            hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
        } else {
            let done = finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3)));
            hand.cannot(done, "ends otherwise");
            hand.cannot(started(act, command("make all")), "started already");
            hand.does(finished(act, ActEnd::Interrupted, vec![], None));
        }
    }
}

#[test]
fn time_does_not_run_backwards() {
    let mut hand = Hand::workspace(1);
    let body = hand.decided(Some(0), "tool", vec![read("a")], Recovery::Replayable);
    let mut event = event_after(&hand.0, body);
    event.at_ms = 5;
    hand.0.apply(&event).unwrap();
    event.seq += 1;
    event.at_ms = 4;
    let violation = hand.0.apply(&event).unwrap_err();
    assert!(violation.to_string().contains("dated before"), "{violation}");
}

#[test]
fn a_run_cannot_be_cancelled_over_an_open_act() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    hand.cannot(hand.end(CANCELLED, false), "does not follow while the run is running");
    hand.does(world::cancelled());
    hand.cannot(hand.end(CANCELLED, false), "an act is not over");
    assert_eq!(hand.0.next(), Next::Recover(act));
    hand.does(finished(act, ActEnd::Interrupted, vec![], None));
    hand.cannot(hand.end(Outcome::Done, false), "does not follow while the run is cancelling");
    hand.does(hand.end(CANCELLED, false));
}
