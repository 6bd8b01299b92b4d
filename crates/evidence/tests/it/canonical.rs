use proptest::prelude::*;
use serde_json::{Value, json};

use provost_evidence::canonical::to_canonical;
use provost_evidence::replay::read_journal;
use provost_evidence::statement::Statement;

/// Any JSON whose integers a double holds exactly: what RFC 8785 speaks of.
fn any_json() -> impl Strategy<Value = Value> {
    const EXACT: i64 = (1 << 53) - 1;
    let is_exact = |number: &f64| number.abs() <= EXACT as f64 || number.abs() >= 1e21;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-EXACT..=EXACT).prop_map(Value::from),
        prop::num::f64::NORMAL.prop_filter("integers stay exact", is_exact).prop_map(Value::from),
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

#[test]
fn an_integer_that_would_be_rounded_is_refused() {
    for exact in [0, 1, (1_u64 << 53) - 1] {
        assert_eq!(to_canonical(&json!({ "n": exact })).unwrap(), format!(r#"{{"n":{exact}}}"#).into_bytes());
    }
    for rounded in [1_u64 << 53, (1 << 53) + 1, u64::MAX] {
        let error = to_canonical(&json!({ "9007199254740993": [rounded] })).unwrap_err();
        assert!(error.to_string().contains("2^53 - 1"), "{error}");
    }
    assert!(to_canonical(&json!(i64::MIN)).is_err());
    assert!(to_canonical(&json!(r#"in a string: " 9007199254740993"#)).is_ok());
    assert!(to_canonical(&json!([1.5e300, -0.25, 1e21])).is_ok());
}

proptest! {
    #[test]
    fn canonical_json_is_its_own_canonical_form(value in any_json()) {
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
    fn reading_random_json_never_panics(value in any_json()) {
        let mut line = to_canonical(&value).unwrap();
        prop_assert!(Statement::from_json(&line).is_err());
        line.push(b'\n');
        prop_assert!(read_journal(&line).is_err());
    }
}
