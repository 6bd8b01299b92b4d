//! Properties of the state machine over valid journals. What a dishonest journal looks like is in `forgery`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use provost_core::act::{ActEnd, Intent, Touch};
use provost_core::budget::Bound;
use provost_core::event::{Body, Event, GateVerdict, Settlement, Verdict};
use provost_core::id::{ActId, RunId};
use provost_core::outcome::Outcome;
use provost_core::policy::{Effect, Ordered};
use provost_core::state::{Next, RunState};
use provost_core::transcript::Usage;

use crate::cases;
use provost_core::changes::Changes;

use crate::world::{self, Choices, World, bound_of, choices, good_run, journals};

fn stream(events: &[Event]) -> RunId {
    events[0].stream.clone()
}

fn fold(events: &[Event]) -> RunState {
    RunState::fold(stream(events), events).unwrap()
}

/// Folds the events, looking at the state behind each.
fn walk(
    events: &[Event],
    mut look: impl FnMut(&Event, &RunState) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut state = RunState::new(stream(events));
    for event in events {
        state.apply(event).unwrap();
        look(event, &state)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn i3_folding_is_the_same_whole_in_halves_and_from_json(events in journals(), cut in any::<prop::sample::Index>()) {
        let whole = fold(&events);
        let (first, second) = events.split_at(cut.index(events.len() + 1));
        let mut halves = RunState::fold(stream(&events), first).unwrap();
        for event in second {
            // What the journal keeps is text.
            let read = Event::from_json(&serde_json::to_vec(event).unwrap()).unwrap();
            prop_assert_eq!(&read, event);
            halves.apply(&read).unwrap();
        }
        prop_assert_eq!(&halves, &whole);
        prop_assert_eq!(halves.next(), whole.next());
    }

    #[test]
    fn every_run_ends_and_its_outcome_is_borne_out(events in journals()) {
        let state = fold(&events);
        let finished = state.outcome().unwrap();
        prop_assert_eq!(state.next(), Next::Over(finished.clone()));
        let refused = events.iter().any(|event| matches!(
            &event.body, Body::ActFinished(body) if body.end == ActEnd::Refused));
        match finished.outcome {
            Outcome::Done => {
                let gated = state.created().unwrap().gate.is_some();
                prop_assert!(!gated || finished.verified);
            }
            Outcome::GateFailed => prop_assert!(!finished.verified),
            Outcome::Refused => prop_assert!(refused),
            Outcome::BudgetSpent { .. } | Outcome::Stopped { .. } | Outcome::Unauthorized { .. } => {}
        }
    }

    #[test]
    fn i6_a_run_never_spends_past_its_ledger(events in journals()) {
        walk(&events, |_, state| {
            let ledger = state.ledger();
            let budget = &ledger.budget;
            prop_assert!(budget.steps.is_none_or(|limit| ledger.steps <= limit));
            prop_assert!(budget.tokens.is_none_or(|limit| ledger.usage.total() <= limit));
            prop_assert!(budget.cost_micros.is_none_or(|limit| ledger.cost_micros <= limit));
            Ok(())
        })?;
        let state = fold(&events);
        if bound_of(state.outcome().unwrap().outcome) == Some(Bound::Steps) {
            prop_assert_eq!(Some(state.ledger().steps), state.ledger().budget.steps);
        }
    }

    #[test]
    fn i6_steps_tokens_and_money_are_counted_exactly_once(events in journals()) {
        let state = fold(&events);
        let (mut steps, mut usage, mut cost, mut estimated) = (0, Usage::default(), 0, 0);
        let mut known = true;
        for event in &events {
            let counted = match &event.body {
                Body::ModelAnswered(body) => {
                    steps += 1;
                    estimated += u32::from(body.estimated);
                    Some((body.route, body.usage))
                }
                Body::ModelFailed(body) => body.usage.map(|usage| (body.route, usage)),
                _ => None,
            };
            let Some((route, counted)) = counted else { continue };
            usage.input += counted.input;
            usage.output += counted.output;
            usage.cache_read += counted.cache_read;
            usage.cache_write += counted.cache_write;
            cost += state.price_of(route).map_or(0, |price| price.of(&counted));
            known &= state.price_of(route).is_some();
        }
        let ledger = state.ledger();
        prop_assert_eq!((ledger.steps, ledger.usage, ledger.cost_micros), (steps, usage, cost));
        prop_assert_eq!(ledger.estimated_calls, estimated);
        prop_assert_eq!(ledger.cost(), (known && ledger.price.is_some()).then_some(cost));
        let span = events.last().unwrap().at_ms - events[0].at_ms;
        prop_assert!(ledger.time_ms <= span);
    }

    /// Written against the events alone: the last judgement passed, and nothing changed after its command started.
    #[test]
    fn verified_means_that_the_gate_passed_on_the_tree_at_the_end(events in journals()) {
        let state = fold(&events);
        let finished = state.outcome().unwrap();
        let place = |wanted: &dyn Fn(&Body) -> bool| events.iter().rposition(|event| wanted(&event.body));
        let judged = place(&|body| matches!(body, Body::GateJudged(_)));
        let passed = judged.and_then(|at| match &events[at].body {
            Body::GateJudged(body) => (body.verdict == GateVerdict::Passed).then_some(body.clone()),
            _ => None,
        });
        let mut changes = Changes::default();
        let each: Vec<bool> = events.iter().map(|event| !changes.by(event).is_empty()).collect();
        let changed = each.iter().rposition(|changed| *changed);
        let honest = passed.as_ref().is_some_and(|passed| {
            let started = place(&|body| matches!(body, Body::ActStarted(body) if body.act == passed.act));
            passed.tree == finished.tree && changed.is_none_or(|changed| Some(changed) < started)
        });
        prop_assert_eq!(finished.verified, honest);
    }

    /// A crash at any point, a new driver and any other world behind it: the run still ends, and no finished act is
    /// finished again.
    #[test]
    fn i4_any_prefix_can_be_resumed_and_ends(
        events in journals(),
        cut in any::<prop::sample::Index>(),
        choices in choices(120),
    ) {
        let cut = cut.index(events.len() + 1);
        let resumed = World::resume(&events[..cut], choices).run();
        prop_assert_eq!(&resumed[..cut], &events[..cut]);
        let mut finished = BTreeSet::new();
        for event in &resumed {
            if let Body::ActFinished(body) = &event.body {
                prop_assert!(finished.insert(body.act), "act {} finished twice", body.act);
            }
        }
        prop_assert!(fold(&resumed).outcome().is_some());
    }

    #[test]
    fn i1_next_performs_only_what_policy_or_a_person_allows(events in journals()) {
        let mut verdicts = BTreeMap::new();
        let mut touches: BTreeMap<ActId, Vec<Touch>> = BTreeMap::new();
        walk(&events, |event, state| {
            match &event.body {
                Body::ActDecided(body) => drop(touches.insert(body.act, body.touches.clone())),
                Body::ActApproved(body) => drop(verdicts.insert(body.act, body.verdict)),
                _ => {}
            }
            if let Next::Perform(act) = state.next() {
                let open = &state.open_acts()[&act];
                let policy = &state.created().unwrap().policy;
                // Decided again for the containment of the driver that would perform it.
                let decision = match open.call {
                    Some(_) => policy.decide(&touches[&act], state.rung()),
                    None => policy.decide_ordered(&touches[&act], state.rung(), Ordered::by(&open.tool)),
                };
                let allowed = match decision.effect {
                    Effect::Allow => true,
                    Effect::Ask => verdicts.get(&act) == Some(&Verdict::Approved),
                    Effect::Deny => false,
                };
                prop_assert!(allowed, "act {act} is offered against {decision}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn i4_a_finished_act_is_never_offered_again(events in journals()) {
        let mut over = BTreeSet::new();
        let mut started = BTreeSet::new();
        walk(&events, |event, state| {
            match &event.body {
                Body::ActFinished(body) => drop(over.insert(body.act)),
                Body::ActStarted(body) => drop(started.insert(body.act)),
                // A person wants it done again.
                Body::ActSettled(body) if body.how == Settlement::Again => drop(started.remove(&body.act)),
                _ => {}
            }
            match state.next() {
                Next::Perform(act) => {
                    prop_assert!(!over.contains(&act) && !started.contains(&act));
                }
                Next::Recover(act) => prop_assert!(started.contains(&act) && !over.contains(&act)),
                Next::Approve(act) | Next::Refuse(act) => prop_assert!(!over.contains(&act)),
                _ => {}
            }
            Ok(())
        })?;
    }

    /// Undo and patches rest on it: the net of all changes, applied to the files at the start, gives the files now.
    #[test]
    fn net_changes_lead_from_the_start_to_the_end(choices in choices(220)) {
        let mut world = World::new(choices);
        while world.step() {}
        let mut files = world::start();
        for (path, change) in world.state.net_changes() {
            prop_assert_eq!(files.get(path), change.before.as_ref());
            prop_assert!(change.before != change.after);
            match &change.after {
                Some(fact) => drop(files.insert(path.clone(), fact.clone())),
                None => drop(files.remove(path)),
            }
        }
        prop_assert_eq!(files, world.files);
    }

    #[test]
    fn no_change_lies_where_policy_denies_writing_unless_it_drifted(events in journals()) {
        let mut changes = Changes::default();
        for event in &events {
            let changed = changes.by(event);
            if let Body::ActFinished(_) = &event.body {
                prop_assert!(changed.iter().all(|change| change.path.as_str() != world::PROTECTED));
            }
        }
    }
}

/// Every crash point of one good run, and of what follows it with other choices.
#[test]
fn i4_every_crash_point_of_the_good_run_is_resumed_to_its_end() {
    let events = good_run();
    for cut in 0..events.len() {
        let resumed = World::resume(&events[..cut], Choices::new(Vec::new())).run();
        let state = fold(&resumed);
        assert!(state.outcome().is_some(), "cut at {cut}");
        if cut >= 6 {
            // The write had started: its change is there exactly once, whoever finished it.
            assert!(state.net_changes().contains_key(&world::path("a")), "cut at {cut}");
        }
    }
}

/// The generator is worth its name only if it reaches what the tests speak of.
#[test]
fn the_worlds_reach_every_kind_of_event_and_every_outcome() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeMap::<String, u32>::new();
    for _ in 0..600 {
        let events = journals().new_tree(&mut runner).unwrap().current();
        for event in &events {
            *seen.entry(event.body.kind().to_owned()).or_default() += 1;
            match &event.body {
                Body::RunFinished(body) => {
                    *seen.entry(format!("{:?} verified={}", body.outcome, body.verified)).or_default() += 1;
                }
                Body::GateJudged(body) => *seen.entry(format!("{:?}", body.verdict)).or_default() += 1,
                Body::Note(body) => *seen.entry(format!("{:?}", body.why)).or_default() += 1,
                Body::ServerListed(body) if !body.changed.is_empty() => {
                    *seen.entry("a server that changed".to_owned()).or_default() += 1;
                }
                Body::ActStarted(body) if matches!(body.intent, Intent::Call { .. }) => {
                    *seen.entry("a call".to_owned()).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    let wanted = provost_core::event::KINDS.into_iter().chain([
        "Done verified=true",
        "Done verified=false",
        "GateFailed verified=false",
        "Refused verified=false",
        "BudgetSpent { bound: Steps } verified=false",
        "BudgetSpent { bound: Tokens } verified=false",
        "BudgetSpent { bound: Cost } verified=false",
        "BudgetSpent { bound: Time } verified=false",
        "Stopped { why: Stalled } verified=false",
        "Passed",
        "Failed",
        "Errored",
        "CutOff",
        "Empty",
        "GateFailed",
        "Repeating",
        "ProcessEnded",
        "a server that changed",
        "a call",
    ]);
    for what in wanted {
        assert!(seen.contains_key(what), "no world reached `{what}`: {seen:#?}");
    }
}
