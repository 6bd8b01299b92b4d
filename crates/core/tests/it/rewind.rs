//! Files that a person had put back: what is refused, what follows, and that what a run came to stays as it was.

use proptest::prelude::*;
use provost_core::act::{Change, FileFact};
use provost_core::digest::Digest;
use provost_core::event::{
    Body, DriverAttached, Event, ModelAnswered, Note, NoteWhy, WorkspaceDrifted, WorkspaceRewound,
};
use provost_core::fork::Forked;
use provost_core::history;
use provost_core::path::RelPath;
use provost_core::state::{Next, OpenAct, RunState};

use crate::cases;
use crate::world::{digest, good_run, journals, past, path};

fn fold(events: &[Event]) -> RunState {
    RunState::fold(events[0].stream.clone(), events).unwrap()
}

fn event(state: &RunState, body: Body) -> Event {
    Event {
        v: 1,
        stream: state.stream().clone(),
        seq: state.next_seq(),
        at_ms: state.span_ms().1 + 1_000_000,
        agent: state.agent_of(&body),
        body,
        prev: Digest::ZERO,
        hash: Digest::ZERO,
    }
}

fn rewound(changes: Vec<Change>) -> Body {
    Body::WorkspaceRewound(WorkspaceRewound { changes, by: "test".to_owned() })
}

/// Every file back to what it was at the start.
fn to_the_start(events: &[Event], state: &RunState) -> Vec<Change> {
    let start = history::files_at(events, 1);
    let now = state.files();
    let back = start.into_iter().map(|(path, after)| Change { before: now[&path].clone(), path, after });
    back.filter(|change| change.before != change.after).collect()
}

/// An agent that was started is no change of its own: its acts are.
fn may_change(act: &OpenAct) -> bool {
    act.is_under_way()
}

fn is_refused(state: &RunState, body: Body) -> bool {
    let mut tried = state.clone();
    let refused = tried.apply(&event(state, body)).is_err();
    if refused {
        assert_eq!(tried, *state, "a refused event left its mark");
    }
    refused
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn what_is_put_back_is_told_before_the_model_is_asked(events in journals(), cut in any::<prop::sample::Index>()) {
        let events = &events[..=cut.index(events.len() - 1)];
        let mut state = fold(events);
        let changes = to_the_start(events, &state);
        // The model of a run that is cancelled is not asked any more.
        prop_assume!(!changes.is_empty() && state.cancelled().is_none());
        let under_way = !state.open_processes().is_empty()
            || state.open_acts().values().any(may_change);
        let before = state.clone();
        let applied = state.apply(&event(&before, rewound(changes.clone())));
        prop_assert_eq!(applied.is_err(), under_way, "not under an act that may be changing files");
        if under_way {
            return Ok(());
        }
        prop_assert_eq!(state.ledger(), before.ledger(), "nobody drove meanwhile");
        prop_assert!(state.net_changes().is_empty(), "all is as it was: {:?}", state.net_changes());
        prop_assert_eq!(state.drifted().count(), 0);
        prop_assert!(!state.gate_holds());
        prop_assert!(changes.iter().all(|change| state.seen(&change.path).is_none()));
        let is_asked = matches!(state.next(), Next::Ask { .. } | Next::Submit(_) | Next::RunGate | Next::Finish(_));
        prop_assert!(!is_asked, "{:?}", state.next());
        if state.next() == Next::Note(NoteWhy::Rewound) {
            let note = Body::Note(Note { why: NoteWhy::Rewound, text: digest(1) });
            state.apply(&event(&state, note)).unwrap();
            prop_assert!(!matches!(state.next(), Next::Note(NoteWhy::Rewound)), "once");
            prop_assert!(state.submitted().is_none(), "that it was done it said of other files");
        }
    }

    #[test]
    fn files_go_back_only_from_what_they_are_to_what_they_were(events in journals(), cut in any::<prop::sample::Index>()) {
        let events = &events[..=cut.index(events.len())];
        let state = fold(events);
        for (path, facts) in past(events) {
            let now = state.files()[&path].clone();
            let change = |before: &Option<FileFact>, after: &Option<FileFact>| {
                Change { path: path.clone(), before: before.clone(), after: after.clone() }
            };
            let under_way = !state.open_processes().is_empty()
            || state.open_acts().values().any(may_change);
            for fact in &facts {
                let stays = *fact == now;
                prop_assert_eq!(is_refused(&state, rewound(vec![change(&now, fact)])), stays || under_way);
                if !stays {
                    prop_assert!(is_refused(&state, rewound(vec![change(fact, &now)])), "it is not so now");
                }
            }
            let never = Some(FileFact { mode: "100644".to_owned(), size: 1, content: digest(9_999_999), kept: true });
            prop_assert!(is_refused(&state, rewound(vec![change(&now, &never)])));
        }
        let other = Change { path: path("never/changed"), before: None, after: None };
        prop_assert!(is_refused(&state, rewound(vec![other])));
        prop_assert!(is_refused(&state, rewound(vec![])));
    }

    #[test]
    fn after_the_end_what_the_run_came_to_stays(events in journals()) {
        let before = fold(&events);
        let changes = to_the_start(&events, &before);
        prop_assume!(!changes.is_empty());
        let mut state = before.clone();
        let back = event(&state, rewound(changes.clone()));
        state.apply(&back).unwrap();
        prop_assert_eq!(state.net_changes(), before.net_changes());
        prop_assert_eq!(state.outcome(), before.outcome());
        prop_assert_eq!(state.next(), before.next());
        prop_assert_eq!(state.ledger(), before.ledger());
        prop_assert_eq!(state.drifted().collect::<Vec<_>>(), before.drifted().collect::<Vec<_>>());
        prop_assert!(is_refused(&state, rewound(changes.clone())), "they are so already");
        // The control: and back again.
        let again = changes.into_iter().map(|change| Change { before: change.after, after: change.before, ..change });
        prop_assert!(!is_refused(&state, rewound(again.collect())));
    }

    #[test]
    fn the_files_of_each_step_are_those_that_the_next_begins_with(events in journals()) {
        let whole = fold(&events);
        prop_assert_eq!(&history::files_at(&events, events.len()), whole.files());
        let steps = history::steps(&events);
        prop_assert!(history::settled_after(&events, steps + 1).is_none());
        prop_assert!(history::changed_in(&events, 0).is_none());
        let mut before = 0;
        for step in 1..=steps {
            let end = history::settled_after(&events, step).unwrap();
            prop_assert!(end > before);
            before = end;
            let change = history::changed_in(&events, step).unwrap();
            let after = history::files_at(&events, end);
            let begun = events[..end].iter().rposition(|event| matches!(event.body, Body::ModelAnswered(_))).unwrap();
            let first = history::files_at(&events, begun);
            for change in &change.changes {
                prop_assert_eq!(&first[&change.path], &change.before);
                prop_assert_eq!(&after[&change.path], &change.after);
            }
            let differ = after.iter().filter(|(path, fact)| first[*path] != **fact).count();
            prop_assert_eq!(differ, change.changes.len());
        }
    }
}

/// Somebody's change that is put back is nobody's any more; put forth again it is somebody's.
#[test]
fn what_was_put_back_is_drift_only_where_somebody_else_made_it() {
    let mut events = good_run();
    events.truncate(2);
    let mut state = fold(&events);
    let fact = |n| Some(FileFact { mode: "100644".to_owned(), size: 1, content: digest(n), kept: true });
    let change =
        |before: Option<FileFact>, after: Option<FileFact>| vec![Change { path: path("x"), before, after }];
    let drifted = |state: &RunState| state.drifted().map(RelPath::to_string).collect::<Vec<_>>();
    let mut does = |body: Body| {
        let next = event(&state, body);
        state.apply(&next).unwrap();
        drifted(&state)
    };
    let theirs = Body::WorkspaceDrifted(WorkspaceDrifted { changes: change(None, fact(70)) });
    assert_eq!(does(theirs), ["x"]);
    assert!(does(rewound(change(fact(70), None))).is_empty());
    assert_eq!(does(rewound(change(None, fact(70)))), ["x"]);
}

/// The answers that a fork begins with were asked for under its parent's name, the later ones under its own.
#[test]
fn a_fork_has_its_parents_answers_and_its_own() {
    let events = good_run();
    let answered = events.iter().position(|event| matches!(event.body, Body::ModelAnswered(_))).unwrap();
    let forked = |count: usize| {
        let mut events = events[..=answered].to_vec();
        let parent = events[0].stream.clone();
        for event in &mut events {
            event.stream = "r-fork".parse().unwrap();
        }
        let Body::RunCreated(created) = &mut events[0].body else { unreachable!() };
        created.forked = Some(Forked { run: parent, events: count as u64, head: digest(1), of: None });
        RunState::fold("r-fork".parse().unwrap(), &events)
    };
    assert!(forked(answered + 1).is_ok());
    assert!(forked(answered).is_err(), "it is not among those that the fork begins with");
    let mut own = forked(answered + 1).unwrap();
    let attached = DriverAttached {
        generation: own.generation() + 1,
        host: "h".to_owned(),
        pid: 1,
        containment: own.containment().cloned().unwrap(),
    };
    own.apply(&event(&own, Body::DriverAttached(attached))).unwrap();
    let Next::Call(_) = own.next() else { panic!("{:?}", own.next()) };

    // Before its first answer a fork has its own name to ask under.
    let mut early = events[..answered].to_vec();
    for event in &mut early {
        event.stream = "r-fork".parse().unwrap();
    }
    let Body::RunCreated(created) = &mut early[0].body else { unreachable!() };
    created.forked =
        Some(Forked { run: events[0].stream.clone(), events: answered as u64, head: digest(1), of: None });
    let state = fold(&early);
    let Next::Ask { invocation, .. } = state.next() else { panic!("{:?}", state.next()) };
    assert_eq!(invocation, "r-fork.0");
    let Body::ModelAnswered(answer) = &events[answered].body else { unreachable!() };
    assert!(is_refused(&state, Body::ModelAnswered(answer.clone())), "its parent's answer comes too late");
    assert!(!is_refused(&state, Body::ModelAnswered(ModelAnswered { invocation, ..answer.clone() })));
}
