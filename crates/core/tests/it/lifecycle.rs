//! The table of stages: what it says is what the state machine does, and it has no dead ends but the ends.

use std::collections::BTreeSet;

use proptest::prelude::*;
use provost_core::event::{Body, Event};
use provost_core::id::AgentId;
use provost_core::lifecycle::{Move, Stage, TRANSITIONS, markdown};
use provost_core::state::{Next, RunState};

use crate::cases;
use crate::world::{World, cancelled, choices, held, queued};

#[test]
fn words_are_read_back() {
    for stage in Stage::ALL {
        assert_eq!(Stage::of_key(stage.key()), Some(stage));
    }
    let words: BTreeSet<&str> = Stage::ALL.iter().map(|stage| stage.key()).collect();
    assert_eq!(words.len(), Stage::ALL.len());
    assert_eq!(Stage::of_key("stopped"), Some(Stage::Stalled), "what a store of format 1 or 2 has");
    assert_eq!(Stage::of_key("dreaming"), None);
}

#[test]
fn from_every_stage_an_end_is_reached_and_every_stage_is_reached_from_the_beginning() {
    let reach = |from: Stage| {
        let mut found = BTreeSet::from([from]);
        loop {
            let next: BTreeSet<Stage> = TRANSITIONS
                .iter()
                .filter(|row| row.from.iter().any(|stage| found.contains(stage)))
                .map(|row| row.to)
                .collect();
            let size = found.len();
            found.extend(next);
            if found.len() == size {
                return found;
            }
        }
    };
    assert_eq!(reach(Stage::New), Stage::ALL.into_iter().collect());
    for stage in Stage::ALL {
        assert!(reach(stage).into_iter().any(Stage::is_over), "{stage} has no way out");
        // A person can end whatever is not over.
        assert!(stage.is_over() || reach(stage).contains(&Stage::Cancelled), "{stage}");
    }
}

#[test]
fn no_row_contradicts_another() {
    for (index, row) in TRANSITIONS.iter().enumerate() {
        for other in &TRANSITIONS[..index] {
            let both = row.from.iter().any(|stage| other.from.contains(stage));
            assert!(!(both && row.by == other.by), "{row:?} and {other:?}");
        }
    }
}

#[test]
fn the_table_in_the_documents_is_this_one() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md")).unwrap();
    assert!(text.contains(&markdown()), "put this into ARCHITECTURE.md:\n\n{}", markdown());
}

/// The journal of a run, with the stage that the table gives after each event.
fn staged(events: &[Event]) -> Vec<Stage> {
    let mut stage = Stage::New;
    let step = |event: &Event| {
        if let Some(by) = Move::of(&event.body) {
            stage = stage.after(by).unwrap();
        }
        stage
    };
    events.iter().map(step).collect()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn i3_the_state_machine_follows_the_table(choices in choices(400)) {
        let events = World::new(choices).run();
        let mut state = RunState::new(events[0].stream.clone());
        for (event, stage) in events.iter().zip(staged(&events)) {
            state.apply(event).unwrap();
            prop_assert_eq!(state.stage(), stage);
            prop_assert_eq!(
                matches!(event.body, Body::RunFinished(_)),
                stage.is_over()
            );
        }
    }

    /// What is refused by the table is refused by the state machine, at every place of a journal.
    #[test]
    fn a_move_that_is_not_in_the_table_is_refused(choices in choices(200)) {
        let events = World::new(choices).run();
        let Some(created) = events.iter().find_map(|event| match &event.body {
            Body::RunCreated(created) => Some(created.clone()),
            _ => None,
        }) else { return Ok(()) };
        let mut state = RunState::new(events[0].stream.clone());
        for event in &events {
            let moves = [
                Body::RunQueued(Box::new(queued(&created))),
                Body::RunCreated(created.clone()),
                held(),
                cancelled(),
            ];
            for body in moves {
                let by = Move::of(&body).unwrap();
                let forged = Event { body, agent: AgentId::ROOT, ..event.clone() };
                let allowed = state.stage().after(by).is_some();
                prop_assert_eq!(state.clone().apply(&forged).is_ok(), allowed, "{} while {}", by.kind(), state.stage());
            }
            state.apply(event).unwrap();
        }
    }
}

/// What a worker makes is what was queued, and nothing wider (I5).
#[test]
fn i5_a_run_that_was_queued_is_made_as_it_was_queued() {
    let events = World::new(crate::world::Choices::new(Vec::new())).run();
    let Body::RunCreated(created) = &events[0].body else { panic!("it begins with its run") };
    let order = queued(created);
    let first = |body: Body| Event { body, ..events[0].clone() };
    let mut state = RunState::new(events[0].stream.clone());
    state.apply(&first(Body::RunQueued(Box::new(order)))).unwrap();

    let mut wider = created.clone();
    wider.budget.steps = None;
    let mut other_goal = created.clone();
    other_goal.goal = crate::world::digest(77);
    let mut elsewhere = created.clone();
    elsewhere.root = "/elsewhere".to_owned();
    let mut other_model = created.clone();
    other_model.model.endpoint = "http://elsewhere".to_owned();
    let mut ungated = created.clone();
    ungated.gate = None;
    ungated.limits.command_ms += 1;
    for forged in [wider, other_goal, elsewhere, other_model, ungated] {
        let event = Event { seq: 1, ..first(Body::RunCreated(forged)) };
        let refused = state.apply(&event).unwrap_err().to_string();
        assert!(refused.contains("another run than the one that was queued"), "{refused}");
    }
    state.apply(&Event { seq: 1, ..first(Body::RunCreated(created.clone())) }).unwrap();
}

/// A name that was taken and then cancelled is over before there was a contract.
#[test]
fn a_run_that_is_cancelled_before_it_was_queued_is_over() {
    let events = World::new(crate::world::Choices::new(Vec::new())).run();
    let Body::RunCreated(created) = &events[0].body else { panic!("it begins with its run") };
    let event = |seq: u64, body: Body| Event { seq, body, ..events[0].clone() };
    let mut state = RunState::new(events[0].stream.clone());
    let refused = state.clone().apply(&event(0, held())).unwrap_err().to_string();
    assert!(refused.contains("the run does not exist yet"), "{refused}");
    state.apply(&event(0, cancelled())).unwrap();
    assert_eq!((state.stage(), state.next()), (Stage::Cancelled, Next::Dropped));
    for body in [Body::RunQueued(Box::new(queued(created))), Body::RunCreated(created.clone()), cancelled()] {
        let refused = state.apply(&event(1, body)).unwrap_err().to_string();
        assert!(refused.contains("the run is over"), "{refused}");
    }
}

/// Cancelled in the queue, a run is over: nobody makes it, nobody drives it.
#[test]
fn a_run_that_is_cancelled_before_it_began_is_over() {
    let events = World::new(crate::world::Choices::new(Vec::new())).run();
    let Body::RunCreated(created) = &events[0].body else { panic!("it begins with its run") };
    let event = |seq: u64, body: Body| Event { seq, body, ..events[0].clone() };
    let mut state = RunState::new(events[0].stream.clone());
    state.apply(&event(0, Body::RunQueued(Box::new(queued(created))))).unwrap();
    assert_eq!((state.stage(), state.next()), (Stage::Queued, Next::Create));
    state.apply(&event(1, held())).unwrap();
    assert_eq!((state.stage(), state.next()), (Stage::Withdrawn, Next::Create));
    state.apply(&event(2, cancelled())).unwrap();
    assert_eq!((state.stage(), state.next()), (Stage::Cancelled, Next::Dropped));
    for body in [Body::RunCreated(created.clone()), held(), cancelled(), events[1].body.clone()] {
        let refused = state.apply(&event(3, body)).unwrap_err().to_string();
        assert!(refused.contains("the run is over"), "{refused}");
    }
}
