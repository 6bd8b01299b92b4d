//! Dishonest journals: whoever drops, reorders, repeats or alters an event, and puts a good chain over it, still has to
//! get past the state machine. What it cannot see is said here too: a journal that simply ends early is a good journal
//! (the signed head finds that, I7), and so is one without its drifts, failed requests and takeovers.

mod agents;
mod caps;
mod counted;
mod drivers;
mod folds;
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
fn i1_an_act_that_is_denied_cannot_start_or_end_otherwise() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![write("guarded/key")]);
    let changes = vec![creates("guarded/key", 50)];
    hand.cannot(started(act, Intent::Write { changes: changes.clone() }), "neither the policy nor a person");
    hand.cannot(finished(act, ActEnd::Done, changes.clone(), None), "exactly when it was refused");
    hand.cannot(finished(act, ActEnd::Refused, changes, None), "changed files without having started");
    let yes = ActApproved { act, verdict: Verdict::Approved, by: "x".into() };
    hand.cannot(Body::ActApproved(yes), "does not ask");
    assert_eq!(hand.0.next(), Next::Refuse(act));
    hand.does(finished(act, ActEnd::Refused, vec![], None));
}

/// A read has no start; it must not slip past the person for that.
#[test]
fn i1_a_read_that_policy_asks_about_cannot_be_done_before_somebody_answers() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("asked/file")]);
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "neither the policy nor a person");
    hand.cannot(finished(act, ActEnd::Failed, vec![], None), "neither the policy nor a person");
    let no = ActApproved { act, verdict: Verdict::Denied, by: "x".into() };
    hand.does(Body::ActApproved(no.clone()));
    hand.cannot(Body::ActApproved(ActApproved { verdict: Verdict::Approved, ..no }), "answered already");
    let Body::ActFinished(mut shows) = finished(act, ActEnd::Refused, vec![], None) else { unreachable!() };
    shows.seen.push(provost_core::event::Seen { path: path("asked/file"), content: digest(1) });
    hand.cannot(Body::ActFinished(shows), "it showed a file");
    hand.does(finished(act, ActEnd::Refused, vec![], None));
}

/// What was allowed because it would be contained is not performed by a driver that cannot contain it.
#[test]
fn i5_a_weaker_driver_does_not_inherit_what_containment_allowed() {
    let mut hand = Hand::workspace(2);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    assert_eq!(hand.0.next(), Next::Perform(act));
    hand.attach(Rung::R1);
    assert_eq!(hand.0.next(), Next::Approve(act), "under R1 the same policy asks");
    hand.cannot(started(act, command("make all")), "neither the policy nor a person");
    hand.attach(Rung::R3);
    assert_eq!(hand.0.next(), Next::Approve(act), "a stricter decision stays");
    let yes = ActApproved { act, verdict: Verdict::Approved, by: "x".into() };
    hand.does(Body::ActApproved(yes));
    hand.does(started(act, command("make all")));
    hand.cannot(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R0))), "contained less");
    // Its driver dies and the next one is weaker: the command ran under the first one all the same.
    hand.attach(Rung::R1);
    hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
}

#[test]
fn i5_a_driver_contains_at_least_what_the_policy_takes() {
    let mut policy = Policy::preset(Preset::Workspace);
    policy.at_least = Rung::R2;
    let mut hand = Hand::new(policy, Rung::R2, 0);
    let weak = DriverAttached { generation: 9, host: "h".into(), pid: 1, containment: receipt(Rung::R1) };
    hand.cannot(Body::DriverAttached(weak.clone()), "weaker than the policy takes");
    let stale = DriverAttached { generation: 1, containment: receipt(Rung::R3), ..weak };
    hand.cannot(Body::DriverAttached(stale), "not newer");
}

#[test]
fn i5_a_driver_enforces_what_the_policy_requires() {
    let policy = Policy::preset(Preset::Workspace).requiring([Guarantee::Net, Guarantee::KillTree]);
    let mut hand = Hand::unattached(policy);
    let attached = |held: &[(Guarantee, Strength)]| {
        let containment = Receipt { guarantees: held.iter().copied().collect(), ..receipt(Rung::R3) };
        Body::DriverAttached(DriverAttached { generation: 9, host: "h".into(), pid: 1, containment })
    };
    let net = (Guarantee::Net, Strength::Enforced);
    for kill_tree in [None, Some(Strength::Absent), Some(Strength::Sampled)] {
        let held: Vec<_> = [net].into_iter().chain(kill_tree.map(|how| (Guarantee::KillTree, how))).collect();
        hand.cannot(attached(&held), "does not enforce what the policy requires");
    }
    let kill_tree = (Guarantee::KillTree, Strength::Enforced);
    hand.does(attached(&[net, kill_tree]));
    // Nor is there a command for which it did not hold.
    hand.answer(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    let held_by = |held: &[(Guarantee, Strength)]| {
        let receipt = Receipt { guarantees: held.iter().copied().collect(), ..receipt(Rung::R3) };
        Some(CommandFact { containment: Some(receipt), ..ran(0, Rung::R3) })
    };
    hand.cannot(
        finished(act, ActEnd::Done, vec![], held_by(&[net])),
        "does not enforce what the policy requires",
    );
    hand.does(finished(act, ActEnd::Done, vec![], held_by(&[net, kill_tree])));
}

#[test]
fn i2_effects_without_their_start_are_refused() {
    let mut hand = Hand::workspace(2);
    let act = hand.decides(Some(0), vec![write("a/b")]);
    let change = creates("a/b", 50);
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "has effects and never started");
    hand.cannot(finished(act, ActEnd::Failed, vec![change.clone()], None), "without having started");
    hand.cannot(finished(act, ActEnd::Failed, vec![], Some(ran(1, Rung::R3))), "without having started");
    hand.cannot(started(act, command("make all")), "not put before the policy");
    let elsewhere = Intent::Write { changes: vec![creates("c", 50)] };
    hand.cannot(started(act, elsewhere), "not put before the policy");
    let intent = Intent::Write { changes: vec![change.clone()] };
    hand.does(started(act, intent.clone()));
    hand.cannot(started(act, intent), "started already");
    hand.cannot(finished(act, ActEnd::Done, vec![creates("a/b", 51)], None), "set out to change");
    // A failure is no cover for changes elsewhere, nor for a command.
    hand.cannot(
        finished(act, ActEnd::Failed, vec![creates("asked/file2", 52)], None),
        "not put before the policy",
    );
    hand.cannot(finished(act, ActEnd::Failed, vec![], Some(ran(1, Rung::R3))), "set out to write");
    hand.does(finished(act, ActEnd::Done, vec![], None));
}

/// An act that only reads cannot start as a write of nothing and thereby change things.
#[test]
fn i1_an_empty_intent_opens_no_door() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.cannot(started(act, Intent::Write { changes: vec![] }), "not put before the policy");
    hand.cannot(finished(act, ActEnd::Done, vec![creates("b", 50)], None), "without having started");
}

#[test]
fn i1_a_protected_file_cannot_be_among_a_commands_changes() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    let changes = vec![creates("free", 50), creates("guarded/new", 51)];
    hand.cannot(finished(act, ActEnd::Done, changes, Some(ran(0, Rung::R3))), "the policy protects");
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "does not say how that ended");
    hand.cannot(
        finished(act, ActEnd::Done, vec![], Some(ran(1, Rung::R3))),
        "did not end as its command did",
    );
    hand.does(finished(act, ActEnd::Done, vec![creates("free", 50)], Some(ran(0, Rung::R3))));
}

#[test]
fn i4_what_runs_a_program_is_never_declared_replayable() {
    let mut hand = Hand::workspace(1);
    for touch in
        [exec("make all"), Touch::Call { tool: "mail".into() }, Touch::Net { host: "h".into(), port: 1 }]
    {
        let body = hand.decided(Some(0), "tool", vec![touch], Recovery::Replayable);
        hand.cannot(body, "declared replayable");
    }
}

#[test]
fn a_command_has_no_more_time_than_the_contract_gives() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    let Intent::Command { argv, cwd, .. } = command("make all") else { unreachable!() };
    let limit_ms = hand.0.created().unwrap().limits.command_ms + 1;
    hand.cannot(started(act, Intent::Command { argv, cwd, limit_ms }), "more time than the contract");
}

/// Each change begins where the one before it ended, also for a file that was back where it started meanwhile.
#[test]
fn a_change_begins_with_what_the_file_was() {
    let mut hand = Hand::workspace(1);
    let made = creates("f", 50);
    let gone = Change { path: made.path.clone(), before: made.after.clone(), after: None };
    hand.cannot(drifted(vec![Change { after: None, ..made.clone() }]), "changes nothing");
    hand.does(drifted(vec![made.clone()]));
    hand.cannot(drifted(vec![made.clone()]), "content that the file did not have");
    hand.does(drifted(vec![gone.clone()]));
    assert!(hand.0.net_changes().is_empty(), "back where it started");
    hand.cannot(drifted(vec![gone.clone()]), "content that the file did not have");
    let other = Change { before: creates("f", 99).after, ..made.clone() };
    hand.cannot(drifted(vec![other]), "content that the file did not have");
    hand.does(drifted(vec![made.clone(), gone]));
    hand.cannot(drifted(vec![made.clone(), made.clone()]), "content that the file did not have");
    let mut odd = made.clone();
    odd.path = path("g");
    odd.after.as_mut().unwrap().mode = "040000".to_owned();
    hand.cannot(drifted(vec![odd]), "a mode that git does not have");
    hand.cannot(
        drifted(vec![Change { path: provost_core::path::RelPath::root(), ..made }]),
        "workspace itself",
    );
}

/// A gate that judged one tree does not verify another: files that change while it runs, or between its end and its
/// judgement, leave it with nothing to say.
#[test]
fn a_tree_that_drifts_under_the_gate_is_not_verified() {
    for drift_while_it_runs in [true, false] {
        let mut hand = Hand::workspace(0);
        hand.submit();
        let act = hand.decides(None, vec![gate()]);
        hand.does(started(act, command("check all")));
        if drift_while_it_runs {
            hand.does(drifted(vec![creates("f", 50)]));
        }
        hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
        if !drift_while_it_runs {
            hand.does(drifted(vec![creates("f", 50)]));
        }
        hand.cannot(judged(act, GateVerdict::Passed), "the gate says nothing");
        hand.does(judged(act, GateVerdict::Errored));
        hand.cannot(hand.end(Outcome::Done, true), "verified exactly when");
        assert_eq!(hand.0.next(), Next::RunGate);
    }
    // Drift before it starts is part of what it judges.
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.decides(None, vec![gate()]);
    hand.does(drifted(vec![creates("f", 50)]));
    hand.does(started(act, command("check all")));
    hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
    hand.does(judged(act, GateVerdict::Passed));
    hand.does(hand.end(Outcome::Done, true));
}

#[test]
fn a_change_behind_the_gate_makes_it_due_again() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.run_gate(0);
    hand.does(judged(act, GateVerdict::Passed));
    hand.does(drifted(vec![creates("f", 50)]));
    hand.cannot(hand.end(Outcome::Done, true), "verified exactly when");
    hand.cannot(hand.end(Outcome::Done, false), "does not stand so");
    assert_eq!(hand.0.next(), Next::RunGate);
}

/// A failed gate is answered for: the model is told, or the run ends. It is not run again until it passes.
#[test]
fn a_failed_gate_is_not_simply_run_again() {
    let mut hand = Hand::workspace(0);
    hand.cannot(hand.decided(None, "gate", vec![gate()], Recovery::Supervised), "not due");
    hand.submit();
    hand.cannot(
        hand.decided(None, "gate", vec![exec("true")], Recovery::Supervised),
        "not the contract's gate",
    );
    let act = hand.run_gate(1);
    hand.cannot(hand.decided(None, "gate", vec![gate()], Recovery::Supervised), "not due");
    hand.cannot(judged(act, GateVerdict::Errored), "did not exit with 0");
    hand.cannot(judged(act, GateVerdict::Passed), "did not exit with 0");
    hand.does(judged(act, GateVerdict::Failed));
    hand.cannot(hand.decided(None, "gate", vec![gate()], Recovery::Supervised), "not due");
    assert_eq!(hand.0.next(), Next::Finish(Outcome::GateFailed), "the contract gives it no attempt more");
    let note = Note { why: NoteWhy::GateFailed, text: digest(7) };
    hand.cannot(Body::Note(note), "no such note is due");
    hand.does(hand.end(Outcome::GateFailed, false));
}

#[test]
fn the_gate_runs_where_and_as_long_as_the_contract_says() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.decides(None, vec![gate()]);
    let Intent::Command { argv, cwd, limit_ms } = command("check all") else { unreachable!() };
    let long = Intent::Command { argv: argv.clone(), cwd, limit_ms: limit_ms + 1 };
    hand.cannot(started(act, long), "more time than the contract");
    let beside = Intent::Command { argv, cwd: path("easy"), limit_ms };
    hand.cannot(started(act, beside), "workspace's root");
}

/// A gate that passed says nothing about a later submission on another tree.
#[test]
fn an_old_pass_does_not_verify_new_work() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![write("f")]);
    let changes = vec![creates("f", 50)];
    hand.does(started(act, Intent::Write { changes: changes.clone() }));
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.cannot(hand.end(Outcome::Done, false), "does not stand so");
    hand.cannot(hand.end(Outcome::Done, true), "verified exactly when");
    hand.cannot(hand.end(Outcome::GateFailed, false), "does not stand so");
    hand.cannot(hand.end(Outcome::Refused, false), "does not stand so");
    hand.cannot(hand.end(Outcome::BudgetSpent { bound: Bound::Tokens }, false), "not reached");
    hand.cannot(hand.end(Outcome::BudgetSpent { bound: Bound::Steps }, false), "not reached");
    hand.does(world::cancelled());
    hand.cannot(world::cancelled(), "does not follow while the run is cancelling");
    hand.does(hand.end(CANCELLED, false));
    hand.cannot(
        Body::ModelAnswered(match forged_answer(&hand.0, Usage::default()).body {
            Body::ModelAnswered(body) => body,
            _ => unreachable!(),
        }),
        "the run is over",
    );
}

#[test]
fn the_model_is_asked_and_spoken_to_only_when_that_is_due() {
    let mut hand = Hand::workspace(1);
    let early = forged_answer(&hand.0, Usage::default()).body;
    hand.cannot(early.clone(), "the step before it is not over");
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.cannot(early, "the step before it is not over");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    for why in [NoteWhy::CutOff, NoteWhy::Empty, NoteWhy::GateFailed, NoteWhy::Repeating] {
        hand.cannot(Body::Note(Note { why, text: digest(7) }), "no such note is due");
    }
    let submitted = Submitted { step: StepId(0), via: SubmitVia::Tool, summary: digest(5), wrong: None };
    hand.cannot(Body::Submitted(submitted.clone()), "did not say so");
    hand.answer(0);
    let answer = forged_answer(&hand.0, Usage::default()).body;
    hand.cannot(answer, "not to be asked now");
    hand.cannot(Body::Submitted(submitted.clone()), "did not say so");
    let of_step_0 = Submitted { via: SubmitVia::FinalAnswer, ..submitted };
    hand.cannot(Body::Submitted(of_step_0.clone()), "not of the step under way");
    let wrong = Submitted { step: StepId(1), wrong: Some(digest(6)), ..of_step_0 };
    hand.cannot(Body::Submitted(wrong), "by a schema that the contract does not name");
}

#[test]
fn a_wrong_answer_is_told_twice_and_ends_the_run_the_third_time() {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.budget = Budget::default();
    created.brief = Some(Box::new(BriefFact { schema: Some(digest(4)), ..BriefFact::default() }));
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    let submits = |hand: &mut Hand, wrong: Option<Digest>| {
        hand.answer(0);
        let step = StepId(hand.0.ledger().steps - 1);
        let via = SubmitVia::FinalAnswer;
        hand.does(Body::Submitted(Submitted { step, via, summary: digest(5), wrong }));
    };
    for _ in 0..2 {
        submits(&mut hand, Some(digest(6)));
        assert_eq!(hand.0.next(), Next::Note(NoteWhy::WrongAnswer));
        hand.does(Body::Note(Note { why: NoteWhy::WrongAnswer, text: digest(7) }));
    }
    // The control: one that is right goes on to the gate.
    let mut right = Hand(hand.0.clone());
    submits(&mut right, None);
    assert_eq!(right.0.next(), Next::RunGate);
    submits(&mut hand, Some(digest(6)));
    assert_eq!(hand.0.next(), Next::Finish(Outcome::Stopped { why: StopWhy::Schema }));
}

#[test]
fn an_answer_with_more_calls_than_can_be_is_refused_without_making_room_for_them() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.does(finished(act, ActEnd::Done, vec![], None));
    let Body::ModelAnswered(mut body) = forged_answer(&hand.0, Usage::default()).body else { unreachable!() };
    body.calls = u32::MAX;
    hand.cannot(Body::ModelAnswered(body.clone()), "more calls than an answer can");
    body.calls = 0;
    body.invocation = "other".to_owned();
    hand.cannot(Body::ModelAnswered(body), "invocation id");
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

/// W10: a bound on money that cannot be reckoned is no bound. Such a run does not begin.
#[test]
fn w10_a_cost_bound_without_a_price_is_refused() {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.budget.cost_micros = Some(1);
    created.price = None;
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.cannot(Body::RunCreated(created), "price is not known");
}

/// A second kind of failing call is steered away from as the first was.
#[test]
fn each_repeated_failure_is_steered_once() {
    let mut hand = Hand::workspace(1);
    for round in 0..2 {
        for time in 0..3 {
            if (round, time) != (0, 0) {
                hand.answer(1);
            }
            let act = hand.decides(Some(0), vec![read("a")]);
            hand.does(finished(act, ActEnd::Failed, vec![], None));
        }
        let note = Note { why: NoteWhy::Repeating, text: digest(7) };
        assert_eq!(hand.0.next(), Next::Note(NoteWhy::Repeating), "round {round}");
        hand.does(Body::Note(note));
        hand.answer(1);
        let act = hand.decides(Some(0), vec![read("a")]);
        hand.does(finished(act, ActEnd::Done, vec![], None));
    }
}

/// The calls of an answer that was cut off are answered as such and are nothing else; no other call is.
#[test]
fn i1_calls_of_an_answer_that_was_cut_off_are_not_acts() {
    let invalid = |why| {
        let call = CallRef { step: StepId(0), index: 0 };
        Body::CallInvalid(CallInvalid { call, why, result: digest(20) })
    };
    let mut hand = Hand::workspace(1);
    hand.cannot(invalid(InvalidCall::CutOff), "exactly when its answer is");

    let Body::RunCreated(created) = good_run().remove(0).body else { unreachable!() };
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    let Body::ModelAnswered(mut body) = forged_answer(&hand.0, Usage::default()).body else { unreachable!() };
    (body.calls, body.stop) = (1, Stop::Length);
    hand.does(Body::ModelAnswered(body));
    hand.cannot(hand.decided(Some(0), "tool", vec![read("a")], Recovery::Replayable), "are not acts");
    hand.cannot(invalid(InvalidCall::BadArguments), "exactly when its answer is");
    hand.does(invalid(InvalidCall::CutOff));
    assert_eq!(hand.0.next(), Next::Note(NoteWhy::CutOff));
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

/// The gate passed, and the run then ends on another tree without a word of how it came about.
#[test]
fn a_pass_on_one_tree_is_not_done_on_another() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.run_gate(0);
    hand.cannot(judged(ActId(7), GateVerdict::Passed), "judges another act");
    hand.does(judged(act, GateVerdict::Passed));
    let Body::RunFinished(mut end) = hand.end(Outcome::Done, true) else { unreachable!() };
    end.tree = world::tree(&BTreeMap::new());
    hand.cannot(Body::RunFinished(end.clone()), "verified exactly when");
    end.verified = false;
    hand.cannot(Body::RunFinished(end), "the gate did not pass");
}

#[test]
fn only_what_started_can_have_undone_changes() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    let Body::ActFinished(mut body) = finished(act, ActEnd::Done, vec![], None) else { unreachable!() };
    body.reverted.push(path("guarded/key"));
    hand.cannot(Body::ActFinished(body), "undid changes without having started");
}

#[test]
fn a_failed_request_is_of_the_step_that_is_due() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    let failed = |step| {
        Body::ModelFailed(ModelFailed {
            usage: None,
            estimated: false,
            rate_limits: None,
            step: StepId(step),
            route: RouteId::FIRST,
            attempt: 1,
            class: "overloaded".to_owned(),
            status: None,
            message: digest(8),
            retry_in_ms: None,
        })
    };
    hand.cannot(failed(1), "the step before it is not over");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.cannot(failed(0), "not of the step that is due");
    hand.does(failed(1));
}

#[test]
fn i5_a_drift_where_a_rule_denies_all_writing_is_refused() {
    let mut hand = Hand::workspace(0);
    hand.cannot(drifted(vec![creates("guarded/key", 50)]), "protects from all writing");
    hand.does(drifted(vec![creates("f", 50)]));
    // A mere default guards nothing by name: whoever works beside a read-only run may write.
    assert!(!Policy::preset(Preset::ReadOnly).denies_writing_by_rule(&path("src/lib.rs")));
    assert!(Policy::preset(Preset::ReadOnly).denies_writing_by_rule(&path("sub/.git/hooks/pre-commit")));
}

#[test]
fn an_act_that_touches_more_than_can_be_decided_on_in_time_is_refused() {
    let mut hand = Hand::workspace(1);
    let act = |hand: &Hand, count: usize| {
        let touches = vec![Touch::Read { path: path("a") }; count];
        let decision = hand.0.created().unwrap().policy.decide(&touches[..1], hand.0.rung());
        Body::ActDecided(ActDecided {
            act: ActId(0),
            call: Some(CallRef { step: StepId(0), index: 0 }),
            tool: "read".to_owned(),
            args: digest(1),
            touches,
            recovery: Recovery::Replayable,
            decision,
        })
    };
    hand.cannot(act(&hand, MOST_TOUCHES + 1), "touches more than");
    hand.does(act(&hand, MOST_TOUCHES));
}

/// What a command starts and opens stands behind it among its touches. None of that is what the act sets out to do.
#[test]
fn a_command_is_the_first_of_its_touches() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("env rm a"), exec("rm a"), write("a")]);
    let why = "not put before the policy";
    hand.cannot(started(act, command("rm a")), why);
    hand.cannot(started(act, Intent::Write { changes: vec![creates("a", 5)] }), why);
    hand.cannot(started(act, Intent::Write { changes: vec![] }), why);
    hand.does(started(act, command("env rm a")));
}

#[test]
fn the_gate_may_start_others_and_is_still_the_contracts_command() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let other = hand.decided(None, "gate", vec![exec("rm a"), gate()], Recovery::Supervised);
    hand.cannot(other, "not the contract's gate");
    let act = hand.decides(None, vec![gate(), exec("rm a")]);
    hand.cannot(started(act, command("rm a")), "not put before the policy");
    hand.does(started(act, command("check all")));
}

/// A shell that runs a line needs no rule that allows it, because each of its commands does. One without commands would
/// be a shell that nobody decided on.
#[test]
fn a_shell_whose_commands_are_kept_back_is_refused() {
    let strict = Layer::named("hand").rule(Effect::Allow, "exec ls*").unwrap();
    let mut hand = Hand::new(Policy::preset(Preset::Strict).with(strict), Rung::R3, 1);
    let bash =
        || Touch::Shell { argv: vec!["bash".into(), "-c".into(), "rm a".into()], known: None, program: None };
    let alone = hand.decided(Some(0), "shell", vec![bash()], Recovery::Supervised);
    hand.cannot(alone, "no command was put before the policy");
    let act = hand.decides(Some(0), vec![bash(), exec("ls"), write("asked")]);
    hand.cannot(started(act, command("bash -c rm")), "neither the policy nor a person allows it");
}
