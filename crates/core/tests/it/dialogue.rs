//! The dialogue: a call and its result are never apart, and results come in call order.

use proptest::prelude::*;
use provost_core::act::ActEnd;
use provost_core::dialogue::{Dialogue, Item, ItemResult};
use provost_core::event::{Body, Event};

use crate::cases;
use crate::world::{digest, good_run, journals};

proptest! {
    #![proptest_config(cases(200))]

    /// Worlds read several calls before the first is carried out, and finish them in any order.
    #[test]
    fn every_answer_with_calls_is_followed_by_its_results(events in journals()) {
        let mut dialogue = Dialogue::default();
        let mut calls = 0;
        for event in &events {
            match dialogue.apply(event) {
                Some(Item::Results(results)) => {
                    prop_assert!(calls > 0, "results without calls");
                    prop_assert_eq!(results.len(), calls);
                    calls = 0;
                }
                Some(Item::Assistant(_)) => {
                    prop_assert_eq!(calls, 0, "an answer while results are due");
                    let Body::ModelAnswered(body) = &event.body else { unreachable!() };
                    calls = body.calls as usize;
                }
                Some(Item::User(_) | Item::Shown(..)) => prop_assert_eq!(calls, 0, "words between calls and results"),
                None => {}
            }
        }
        let cancelled = events.iter().any(|event| matches!(event.body, Body::RunCancelled(_)));
        prop_assert!(calls == 0 || cancelled, "the run ended with results due");
    }

    #[test]
    fn the_dialogue_is_the_same_in_two_halves(events in journals(), cut in any::<prop::sample::Index>()) {
        let mut whole = Dialogue::default();
        let all: Vec<Item> = events.iter().filter_map(|event| whole.apply(event)).collect();
        let mut halves = Dialogue::default();
        let (first, second) = events.split_at(cut.index(events.len()));
        let mut items: Vec<Item> = first.iter().filter_map(|event| halves.apply(event)).collect();
        items.extend(second.iter().filter_map(|event| halves.apply(event)));
        prop_assert_eq!(items, all);
    }
}

#[test]
fn results_come_in_call_order_whatever_finishes_first() {
    // The good run has three calls: a read, a write, a refusal. Finish them backwards, each with words of its own.
    let mut events: Vec<Event> = good_run();
    let number = |event: &Event| match &event.body {
        Body::ActFinished(body) => u64::from(body.act.0),
        _ => unreachable!(),
    };
    let mut ends: Vec<Event> = Vec::new();
    events.retain(|event| {
        let of_call = matches!(&event.body, Body::ActFinished(body) if body.act.0 < 3);
        if of_call {
            ends.push(event.clone());
        }
        !of_call
    });
    for end in &mut ends {
        let n = number(end);
        let Body::ActFinished(body) = &mut end.body else { unreachable!() };
        body.result = digest(700 + n);
    }
    ends.reverse();
    let decided =
        events.iter().rposition(|event| matches!(&event.body, Body::ActDecided(body) if body.act.0 == 2));
    let tail = events.split_off(decided.unwrap() + 1);
    events.extend(ends.into_iter().chain(tail));

    let mut dialogue = Dialogue::default();
    let items: Vec<Item> = events.iter().filter_map(|event| dialogue.apply(event)).collect();
    let result = |n: u64, end: ActEnd| ItemResult { text: digest(700 + n), is_error: end != ActEnd::Done };
    let results =
        Item::Results(vec![result(0, ActEnd::Done), result(1, ActEnd::Done), result(2, ActEnd::Refused)]);
    assert_eq!(
        items,
        [Item::User(digest(1)), Item::Assistant(digest(9)), results, Item::Assistant(digest(9))],
    );
}

/// The gate is nobody's call: its result is told by a note, if at all.
#[test]
fn the_gates_result_is_not_a_result_of_a_call() {
    let mut dialogue = Dialogue::default();
    for event in good_run() {
        let item = dialogue.apply(&event);
        if matches!(event.body, Body::GateJudged(_) | Body::RunFinished(_)) {
            assert_eq!(item, None);
        }
    }
}

#[test]
fn a_number_of_calls_out_of_all_reason_takes_no_memory() {
    let mut event =
        good_run().into_iter().find(|event| matches!(event.body, Body::ModelAnswered(_))).unwrap();
    let Body::ModelAnswered(body) = &mut event.body else { unreachable!() };
    body.calls = u32::MAX;
    let mut dialogue = Dialogue::default();
    assert_eq!(dialogue.apply(&event), Some(Item::Assistant(digest(9))));
}
