//! The dialogue: a call and its result are never apart, and results come in call order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use provost_core::act::ActEnd;
use provost_core::dialogue::{Dialogue, Item, ItemResult};
use provost_core::digest::Digest;
use provost_core::event::{
    Body, CallInvalid, CallRef, ContextFolded, Event, FoldedBy, InvalidCall, ModelAnswered, Note, NoteWhy,
};
use provost_core::id::StepId;
use provost_core::route::RouteId;

use crate::cases;
use crate::world::{digest, good_run, journals};

proptest! {
    #![proptest_config(cases(200))]

    /// Worlds read several calls before the first is carried out, finish them in any order, and fold.
    #[test]
    fn every_answer_with_calls_is_followed_by_its_results(events in journals()) {
        let mut dialogue = Dialogue::default();
        let mut calls: BTreeMap<Digest, usize> = BTreeMap::new();
        let cancelled = events.iter().any(|event| matches!(event.body, Body::RunCancelled(_)));
        for mut event in events {
            if let Body::ModelAnswered(body) = &mut event.body {
                // Each answer has words of its own.
                body.answer = digest(1_000 + calls.len() as u64);
                calls.insert(body.answer, body.calls as usize);
            }
            dialogue.apply(&event);
            let items = dialogue.items();
            if let Some(first) = items.first() {
                prop_assert_eq!(first, &Item::User(digest(1)), "the goal comes first, whatever was folded");
            }
            for (place, item) in items.iter().enumerate() {
                let Item::Assistant(answer) = item else { continue };
                match items.get(place + 1) {
                    Some(Item::Results(results)) => prop_assert_eq!(results.len(), calls[answer]),
                    Some(_) => prop_assert_eq!(calls[answer], 0, "results are missing"),
                    None => {}
                }
            }
            let answered = |at: usize| at > 0 && matches!(items[at - 1], Item::Assistant(_));
            let results = items.iter().enumerate().filter(|(_, item)| matches!(item, Item::Results(_)));
            for (at, _) in results {
                prop_assert!(answered(at), "results without their answer");
            }
        }
        let waits = matches!(dialogue.items().last(), Some(Item::Assistant(answer)) if calls[answer] > 0);
        prop_assert!(!waits || cancelled, "the run ended with results due");
    }

    #[test]
    fn the_dialogue_only_grows_between_folds(events in journals()) {
        let mut dialogue = Dialogue::default();
        for event in &events {
            let before = dialogue.items().to_vec();
            dialogue.apply(event);
            let folded = matches!(event.body, Body::ContextFolded(_));
            prop_assert!(folded || dialogue.items().starts_with(&before));
            prop_assert!(folded || dialogue.items().len() <= before.len() + 1);
        }
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
    for event in &events {
        dialogue.apply(event);
    }
    let result = |n: u64, end: ActEnd| ItemResult { text: digest(700 + n), is_error: end != ActEnd::Done };
    let results =
        Item::Results(vec![result(0, ActEnd::Done), result(1, ActEnd::Done), result(2, ActEnd::Refused)]);
    assert_eq!(
        dialogue.items(),
        [Item::User(digest(1)), Item::Assistant(digest(9)), results, Item::Assistant(digest(9))],
    );
}

/// The gate is nobody's call: its result is told by a note, if at all.
#[test]
fn the_gates_result_is_not_a_result_of_a_call() {
    let mut dialogue = Dialogue::default();
    for event in good_run() {
        let before = dialogue.items().len();
        dialogue.apply(&event);
        if matches!(event.body, Body::GateJudged(_) | Body::RunFinished(_)) {
            assert_eq!(dialogue.items().len(), before);
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
    dialogue.apply(&event);
    assert_eq!(dialogue.items(), [Item::Assistant(digest(9))]);
}

#[test]
fn a_fold_leaves_the_goal_and_the_newest_steps_word_for_word() {
    let mut events = Vec::new();
    let mut say = |seq: u64, body: Body| {
        let of = good_run().remove(0);
        events.push(Event { seq, body, ..of });
    };
    let Body::RunCreated(created) = good_run().remove(0).body else { unreachable!() };
    let answer = good_run().into_iter().find_map(|event| match event.body {
        Body::ModelAnswered(body) => Some(body),
        _ => None,
    });
    let answered = |step: u32, calls: u32| {
        let answer = answer.clone().unwrap();
        let words = digest(100 + u64::from(step));
        Body::ModelAnswered(ModelAnswered { step: StepId(step), calls, answer: words, ..answer })
    };
    let invalid = |step: u32| {
        let call = CallRef { step: StepId(step), index: 0 };
        Body::CallInvalid(CallInvalid {
            call,
            why: InvalidCall::UnknownTool,
            result: digest(200 + u64::from(step)),
        })
    };
    let note = |why, n| Body::Note(Note { why, text: digest(n) });
    say(0, Body::RunCreated(created));
    for step in 0..3 {
        say(1, answered(step, 1));
        say(2, invalid(step));
    }
    say(3, note(NoteWhy::ContextFull, 300));
    say(4, answered(3, 1));
    say(5, invalid(3));
    say(6, note(NoteWhy::Rewound, 301));
    say(7, note(NoteWhy::ContextFull, 300));
    say(8, answered(4, 0));
    let fold = |from: u32, n: u64| {
        let (from, text) = (StepId(from), digest(n));
        let route = RouteId::FIRST;
        Body::ContextFolded(ContextFolded {
            from,
            by: FoldedBy::Model,
            text,
            route,
            tokens: 90,
            window: Some(100),
        })
    };
    say(9, fold(2, 400));
    let mut dialogue = Dialogue::default();
    for event in &events {
        dialogue.apply(event);
    }
    let results = |n| Item::Results(vec![ItemResult { text: digest(n), is_error: true }]);
    let kept = [
        Item::User(digest(1)),
        Item::User(digest(400)),
        Item::Assistant(digest(102)),
        results(202),
        // What else was said while a summary was asked for stays.
        Item::User(digest(301)),
    ];
    assert_eq!(dialogue.items(), kept);
    let again = Event { body: fold(5, 401), ..events.pop().unwrap() };
    dialogue.apply(&again);
    assert_eq!(dialogue.items(), [Item::User(digest(1)), Item::User(digest(401))]);
}
