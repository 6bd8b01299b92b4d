//! Whom to ask is no choice of the driver's: the contract's rules say, and what became of those who were asked.

use provost_core::event::{CacheMissed, PromptBroke};
use provost_core::prompt::{Break, MissWhy};
use provost_core::route::{Begin, Downshift, Escalate, Route, Routing, Unresolved};
use provost_core::state::UNKNOWN_OUTCOME;

use super::*;

/// A first model, a fallback (1), a stronger one (2) and a cheaper one (3).
fn routing() -> Routing {
    let Body::RunCreated(created) = good_run().remove(0).body else { unreachable!() };
    let route = || Route { model: created.model.clone(), price: None };
    Routing { others: vec![route(), route(), route()], fallback: vec![RouteId(1)], ..Routing::default() }
}

fn hand(routing: Routing) -> Hand {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.policy = Policy::preset(Preset::Workspace);
    created.budget = Budget::default();
    created.gate.as_mut().unwrap().attempts = 3;
    created.routing = routing.kept();
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    hand
}

fn failed(hand: &Hand, route: u16, class: &str, retry_in_ms: Option<u64>) -> Body {
    Body::ModelFailed(ModelFailed {
        step: StepId(hand.0.ledger().steps),
        route: RouteId(route),
        attempt: 1,
        class: class.to_owned(),
        status: None,
        message: digest(8),
        usage: None,
        estimated: false,
        rate_limits: None,
        retry_in_ms,
    })
}

fn answered(hand: &Hand, route: u16, usage: Usage) -> Body {
    let Body::ModelAnswered(mut body) = forged_answer(&hand.0, usage).body else { unreachable!() };
    body.route = RouteId(route);
    Body::ModelAnswered(ModelAnswered { calls: 0, text: false, ..body })
}

/// An answer that says nothing, and the note that follows.
fn silent(hand: &mut Hand, route: u16, usage: Usage) {
    hand.does(answered(hand, route, usage));
    if let Some(missed) = hand.0.cache_miss() {
        hand.does(Body::CacheMissed(missed));
    }
    hand.does(Body::Note(Note { why: NoteWhy::Empty, text: digest(7) }));
}

fn next_route(hand: &Hand) -> Option<RouteId> {
    match hand.0.next() {
        Next::Ask { route, .. } => Some(route),
        Next::Leave => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fallback_is_asked_once_the_model_before_it_gave_up_and_not_before() {
    let mut hand = hand(routing());
    silent(&mut hand, 0, Usage::default());
    hand.cannot(answered(&hand, 1, Usage::default()), "another model is to be asked");
    hand.does(failed(&hand, 0, "overloaded", Some(10)));
    hand.cannot(answered(&hand, 1, Usage::default()), "another model is to be asked");
    hand.does(failed(&hand, 0, "overloaded", None));
    assert_eq!(next_route(&hand), Some(RouteId(1)));
    hand.cannot(answered(&hand, 0, Usage::default()), "another model is to be asked");
    silent(&mut hand, 1, Usage::default());
    assert_eq!(next_route(&hand), Some(RouteId(1)), "it stays: the first gave up under this driver");
    hand.does(failed(&hand, 1, "overloaded", None));
    assert_eq!(next_route(&hand), None);
    hand.cannot(answered(&hand, 1, Usage::default()), "nobody is left");
    // Another driver begins anew.
    hand.does(Body::DriverDetached(DriverDetached { why: Pause::Provider, act: None }));
    hand.attach(Rung::R3);
    assert_eq!(next_route(&hand), Some(RouteId(0)));
}

#[test]
fn a_run_does_not_begin_with_a_fallback_that_nobody_chose() {
    let mut chosen = hand(routing());
    chosen.does(failed(&chosen, 0, "auth", None));
    assert_eq!(next_route(&chosen), None);
    let mut anyone = hand(Routing { begin: Begin::Anyone, ..routing() });
    anyone.does(failed(&anyone, 0, "auth", None));
    assert_eq!(next_route(&anyone), Some(RouteId(1)));
}

#[test]
fn a_lost_answer_is_asked_for_again_where_it_was_lost() {
    let mut again = hand(routing());
    silent(&mut again, 0, Usage::default());
    again.does(failed(&again, 0, UNKNOWN_OUTCOME, Some(10)));
    again.does(failed(&again, 0, "timeout", Some(10)));
    again.does(failed(&again, 0, "overloaded", None));
    assert_eq!(next_route(&again), None, "nobody else is asked while it is not resolved");
    again.does(Body::DriverDetached(DriverDetached { why: Pause::Provider, act: None }));
    again.attach(Rung::R3);
    silent(&mut again, 0, Usage::default());
    // Resolved: what fails now falls back.
    again.does(failed(&again, 0, "overloaded", None));
    assert_eq!(next_route(&again), Some(RouteId(1)));

    let mut on = hand(Routing { unresolved: Unresolved::GoOn, ..routing() });
    silent(&mut on, 0, Usage::default());
    on.does(failed(&on, 0, UNKNOWN_OUTCOME, None));
    assert_eq!(next_route(&on), Some(RouteId(1)));
}

/// I6: what a driver that was killed had asked, as the next charges it.
fn lost(hand: &Hand, route: u16) -> Body {
    let Body::ModelFailed(body) = failed(hand, route, UNKNOWN_OUTCOME, Some(0)) else { unreachable!() };
    let usage = Some(Usage { input: 70, output: 7, ..Usage::default() });
    Body::ModelFailed(ModelFailed { usage, estimated: true, ..body })
}

#[test]
fn a_request_that_was_lost_with_its_driver_is_charged_first_thing_and_made_again_where_it_was_lost() {
    let mut fallen = hand(routing());
    silent(&mut fallen, 0, Usage::default());
    fallen.does(failed(&fallen, 0, "overloaded", None));
    assert_eq!(next_route(&fallen), Some(RouteId(1)));
    // Held, so that the next driver begins anew with the first: the record of the last says that the fallback was asked.
    fallen.does(Body::RunHeld(RunHeld { by: "somebody".to_owned(), why: digest(3) }));
    fallen.attach(Rung::R3);
    assert_eq!(next_route(&fallen), Some(RouteId(0)));
    fallen.cannot(lost(&fallen, 4), "does not name");
    fallen.does(lost(&fallen, 1));
    assert_eq!((fallen.0.ledger().usage.total(), fallen.0.ledger().estimated_calls), (77, 1));
    assert_eq!(next_route(&fallen), Some(RouteId(1)), "the fallback stays: its answer was lost");
    // Once, and first thing.
    fallen.cannot(lost(&fallen, 0), "another model is to be asked");

    // Also where the run was cancelled before anybody took it up again.
    let mut closed = hand(routing());
    closed.does(Body::RunCancelled(RunCancelled::by("somebody")));
    closed.cannot(lost(&closed, 0), "nothing new begins");
    closed.attach(Rung::R3);
    closed.does(lost(&closed, 0));
    assert_eq!(closed.0.ledger().usage.total(), 77);

    // Nothing can have been lost before the first driver, nor of a step that is answered.
    let Body::RunCreated(created) = good_run().remove(0).body else { unreachable!() };
    let mut new = Hand(RunState::new("r-hand".parse().unwrap()));
    new.does(Body::RunCreated(created));
    new.attach(Rung::R3);
    new.cannot(lost(&new, 1), "another model is to be asked");
    let mut hand = hand(routing());
    let before = lost(&hand, 0);
    silent(&mut hand, 0, Usage::default());
    hand.attach(Rung::R3);
    hand.cannot(before, "not of the step that is due");
}

#[test]
fn a_gate_that_fails_escalates_for_good_and_few_changes_shift_down() {
    let shifts = Routing {
        escalate: Some(Escalate { after: 1, to: RouteId(2) }),
        downshift: Some(Downshift { below_bytes: 2, to: RouteId(3) }),
        ..routing()
    };
    let mut hand = hand(shifts);
    assert_eq!(next_route(&hand), Some(RouteId(3)), "nothing is changed yet");
    silent(&mut hand, 3, Usage::default());
    hand.does(drifted(vec![creates("f", 50), creates("g", 51)]));
    assert_eq!(next_route(&hand), Some(RouteId(0)), "two bytes are no longer few");
    let Body::ModelAnswered(answer) = answered(&hand, 0, Usage::default()) else { unreachable!() };
    hand.does(Body::ModelAnswered(ModelAnswered { text: true, ..answer }));
    hand.submit();
    let act = hand.run_gate(1);
    hand.does(judged(act, GateVerdict::Failed));
    hand.does(Body::Note(Note { why: NoteWhy::GateFailed, text: digest(7) }));
    assert_eq!(next_route(&hand), Some(RouteId(2)));
    hand.does(failed(&hand, 2, "overloaded", None));
    assert_eq!(next_route(&hand), Some(RouteId(0)), "the first stands in for it before any fallback");
}

#[test]
fn i6_a_bound_on_money_needs_the_price_of_each_model() {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.budget.cost_micros = Some(1_000);
    created.price = Some(provost_core::price::Price::flat(1, 1));
    created.routing = routing().kept();
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.cannot(Body::RunCreated(created.clone()), "whose price is not known");
    for route in &mut created.routing.as_mut().unwrap().others {
        route.price = created.price.clone();
    }
    hand.does(Body::RunCreated(created));
}

#[test]
fn a_rule_names_a_model_of_the_contract() {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.routing = Routing { fallback: vec![RouteId(4)], ..routing() }.kept();
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.cannot(Body::RunCreated(created), "a rule asks model 4, which the contract does not name");
}

#[test]
fn a_miss_of_the_cache_is_said_with_its_cause_and_only_where_there_was_one() {
    let with = |cache_read, cache_write| Usage { cache_read, cache_write, ..Usage::default() };
    let mut hand = hand(Routing::default());
    let missed = |step, expected, read, why| CacheMissed { step: StepId(step), expected, read, why };
    silent(&mut hand, 0, with(0, 1_000));
    hand.does(answered(&hand, 0, with(950, 200)));
    assert_eq!(hand.0.cache_miss(), None, "vendors round");
    hand.cannot(Body::CacheMissed(missed(1, 1_000, 950, MissWhy::Vendor)), "does not say so");
    hand.does(Body::Note(Note { why: NoteWhy::Empty, text: digest(7) }));
    hand.does(answered(&hand, 0, with(0, 1_300)));
    assert_eq!(hand.0.cache_miss(), Some(missed(2, 1_150, 0, MissWhy::Vendor)));
    hand.does(Body::CacheMissed(missed(2, 1_150, 0, MissWhy::Vendor)));
    hand.cannot(Body::CacheMissed(missed(2, 1_150, 0, MissWhy::Vendor)), "does not say so");
    hand.does(Body::Note(Note { why: NoteWhy::Empty, text: digest(7) }));

    let broke = PromptBroke { step: StepId(3), route: RouteId::FIRST, same_bytes: 9, at: Break::Prelude };
    hand.does(Body::PromptBroke(broke));
    hand.does(answered(&hand, 0, with(0, 1_400)));
    assert_eq!(hand.0.cache_miss(), Some(missed(3, 1_300, 0, MissWhy::PromptBroke)));
    hand.does(Body::Note(Note { why: NoteWhy::Empty, text: digest(7) }));

    let mut late = event_after(&hand.0, answered(&hand, 0, with(0, 1_500)));
    late.at_ms += 5 * 60 * 1000 + 1;
    hand.0.apply(&late).unwrap();
    assert_eq!(hand.0.cache_miss(), Some(missed(4, 1_400, 0, MissWhy::Expired)));
}
