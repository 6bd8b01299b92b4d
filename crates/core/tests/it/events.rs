//! Events: a closed set, read only as it is written.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use provost_core::event::{BadEvent, Body, Event, KINDS};
use serde_json::{Value, json};

use crate::cases;
use crate::world::journals;

/// One event of every kind, from the worlds.
fn one_of_each() -> Vec<Event> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut found: Vec<Option<Event>> = vec![None; KINDS.len()];
    for _ in 0..600 {
        for event in journals().new_tree(&mut runner).unwrap().current() {
            let place = KINDS.iter().position(|kind| *kind == event.body.kind()).unwrap();
            // The one that says most.
            let size = |event: &Event| serde_json::to_vec(event).unwrap().len();
            if found[place].as_ref().is_none_or(|held| size(held) < size(&event)) {
                found[place] = Some(event);
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found.into_iter().map(Option::unwrap).collect()
}

fn read(value: &Value) -> Result<Event, BadEvent> {
    Event::from_json(&serde_json::to_vec(value).unwrap())
}

#[test]
fn every_kind_comes_back_as_it_was_written() {
    for event in one_of_each() {
        let value = serde_json::to_value(&event).unwrap();
        assert_eq!(value["kind"], event.body.kind());
        assert_eq!(value["v"], event.body.version());
        assert_eq!(read(&value).unwrap(), event);
    }
}

/// A kind that is added to `Body` does not compile here until it is in this list, and the list is `KINDS`.
#[test]
fn kinds_are_all_kinds() {
    let place = |body: &Body| match body {
        Body::RunQueued(_) => 0,
        Body::RunCreated(_) => 1,
        Body::DriverAttached(_) => 2,
        Body::DriverDetached(_) => 3,
        Body::ModelAnswered(_) => 4,
        Body::ModelFailed(_) => 5,
        Body::PromptBroke(_) => 6,
        Body::CacheMissed(_) => 7,
        Body::CallInvalid(_) => 8,
        Body::ActDecided(_) => 9,
        Body::ActApproved(_) => 10,
        Body::ActStarted(_) => 11,
        Body::NetDecided(_) => 12,
        Body::ActSettled(_) => 13,
        Body::ActStaged(_) => 14,
        Body::ActFinished(_) => 15,
        Body::ProcessChanged(_) => 16,
        Body::ProcessEnded(_) => 17,
        Body::WorkspaceDrifted(_) => 18,
        Body::WorkspaceRewound(_) => 19,
        Body::WorkspaceRestored(_) => 20,
        Body::Note(_) => 21,
        Body::ContextFolded(_) => 22,
        Body::Submitted(_) => 23,
        Body::GateJudged(_) => 24,
        Body::RunHeld(_) => 25,
        Body::RunCancelled(_) => 26,
        Body::RunFinished(_) => 27,
    };
    let places: Vec<usize> = one_of_each().iter().map(|event| place(&event.body)).collect();
    assert_eq!(places, (0..KINDS.len()).collect::<Vec<_>>());
}

#[test]
fn i9_a_kind_or_version_of_the_future_is_named() {
    for event in one_of_each() {
        let mut newer = serde_json::to_value(&event).unwrap();
        newer["v"] = json!(2);
        let error = read(&newer).unwrap_err();
        assert!(
            matches!(&error, BadEvent::Unknown { kind, v: 2, .. } if kind == event.body.kind()),
            "{error}"
        );
        let mut other = serde_json::to_value(&event).unwrap();
        other["kind"] = json!("run.dreamt");
        let error = read(&other).unwrap_err();
        assert!(matches!(&error, BadEvent::Unknown { kind, .. } if kind == "run.dreamt"), "{error}");
    }
}

/// Every object, however deep, takes its own fields and no other; nothing that was left out is made up.
#[test]
fn i9_a_field_too_many_is_an_error_at_every_depth() {
    fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.push(at.to_owned());
                for (name, inner) in fields {
                    objects(inner, &format!("{at}/{name}"), found);
                }
            }
            Value::Array(items) => {
                for (index, inner) in items.iter().enumerate() {
                    objects(inner, &format!("{at}/{index}"), found);
                }
            }
            _ => {}
        }
    }
    for event in one_of_each() {
        let value = serde_json::to_value(&event).unwrap();
        let mut places = Vec::new();
        objects(&value, "", &mut places);
        for place in places {
            let mut extra = value.clone();
            extra.pointer_mut(&place).unwrap()["surplus"] = json!(1);
            let kind = event.body.kind();
            match read(&extra) {
                Err(BadEvent::Body { .. } | BadEvent::Shape(_)) => {}
                other => panic!("`{kind}` takes a surplus field at `{place}`: {other:?}"),
            }
        }
    }
}

/// A second spelling of the same event has another hash; it is no event.
#[test]
fn i7_an_event_has_one_spelling() {
    let events = one_of_each();
    let with = |kind: &str, place: &str, spelled: Value| {
        let event = events.iter().find(|event| event.body.kind() == kind).unwrap();
        let mut value = serde_json::to_value(event).unwrap();
        value["body"][place] = spelled;
        assert!(
            matches!(read(&value), Err(BadEvent::Body { .. })),
            "`{kind}` takes another spelling of `{place}`"
        );
    };
    with("act.finished", "seen", json!([]));
    with("driver.detached", "act", Value::Null);
    let mut twice =
        serde_json::to_string(events.iter().find(|event| event.body.kind() == "note").unwrap()).unwrap();
    twice = twice.replacen("\"why\":", "\"why\":\"empty\",\"why\":", 1);
    assert!(Event::from_json(twice.as_bytes()).is_err(), "a field stands twice: {twice}");
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z.*\\[\\]{}/ ]{0,12}".prop_map(Value::from),
        prop::sample::select(&KINDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn i9_arbitrary_json_is_an_error_and_no_panic(
        body in json_values(),
        kind in prop::sample::select(&KINDS[..]),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let _ = Event::from_json(&bytes);
        let _ = read(&body);
        let zero = "0".repeat(64);
        let event = json!({
            "v": 1, "stream": "r-world", "seq": 0, "at_ms": 0, "agent": 0, "kind": kind, "body": body,
            "prev": zero, "hash": zero,
        });
        // Nothing more is to be said of a rewind that came to its end.
        let is_one = kind == "workspace.restored" && body == json!({});
        prop_assert_eq!(read(&event).is_ok(), is_one);
    }

    /// A known event with one value replaced: read as it then is, or refused, and never a panic.
    #[test]
    fn i9_a_damaged_event_is_read_as_it_is_or_refused(
        events in journals(),
        (which, place) in any::<(prop::sample::Index, prop::sample::Index)>(),
        put in json_values(),
    ) {
        fn places(value: &Value, at: &str, found: &mut Vec<String>) {
            found.push(at.to_owned());
            match value {
                Value::Object(fields) => {
                    fields.iter().for_each(|(name, inner)| places(inner, &format!("{at}/{name}"), found));
                }
                Value::Array(items) => {
                    items.iter().enumerate().for_each(|(n, inner)| places(inner, &format!("{at}/{n}"), found));
                }
                _ => {}
            }
        }
        let mut value = serde_json::to_value(which.get(&events)).unwrap();
        let mut found = Vec::new();
        places(&value, "", &mut found);
        *value.pointer_mut(&found[place.index(found.len())]).unwrap() = put;
        if let Ok(event) = read(&value) {
            prop_assert_eq!(serde_json::to_value(&event).unwrap(), value);
        }
    }
}
