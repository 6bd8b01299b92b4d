use proptest::prelude::*;
use serde_json::Value;

use provost_evidence::canonical::to_canonical;
use provost_evidence::replay::read_journal;
use provost_evidence::statement::Statement;

/// Any JSON whose integers a double holds exactly: what RFC 8785 speaks of.
fn json() -> impl Strategy<Value = Value> {
    const EXACT: i64 = 1 << 53;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-EXACT..=EXACT).prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_json_is_its_own_canonical_form(value in json()) {
        let once = to_canonical(&value).unwrap();
        let again: Value = serde_json::from_slice(&once).unwrap();
        prop_assert_eq!(to_canonical(&again).unwrap(), once);
    }

    #[test]
    fn reading_random_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(read_journal(&bytes).is_err());
        prop_assert!(Statement::from_json(&bytes).is_err());
    }

    #[test]
    fn reading_random_json_never_panics(value in json()) {
        let mut line = to_canonical(&value).unwrap();
        prop_assert!(Statement::from_json(&line).is_err());
        line.push(b'\n');
        prop_assert!(read_journal(&line).is_err());
    }
}
