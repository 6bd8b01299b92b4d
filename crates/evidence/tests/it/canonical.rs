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

/// What serde can hold besides JSON's own values.
#[derive(serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Unit,
    Newtype(u8),
    Tuple(i64, Option<char>),
    Struct { zeta: (), alpha: [i8; 2], alph: &'static str },
}

#[test]
fn all_that_serde_holds_is_written_as_the_reference_writes_it() {
    let numbers: std::collections::BTreeMap<i32, f32> = [(-3, 0.5), (20, 1e9), (3, -0.0)].into();
    let values = (
        [Shape::Unit, Shape::Newtype(7), Shape::Tuple(-1, Some('\u{1f600}')), Shape::Tuple(0, None)],
        Shape::Struct { zeta: (), alpha: [-128, 127], alph: "\u{1}\u{7f}\"\\/\u{2028}" },
        numbers,
        (u128::from(u32::MAX), i128::from(i32::MIN), 0.1_f64, 1e300),
    );
    assert_eq!(
        String::from_utf8(to_canonical(&values).unwrap()).unwrap(),
        String::from_utf8(serde_json_canonicalizer::to_vec(&values).unwrap()).unwrap()
    );
    assert!(to_canonical(&f64::NAN).is_err() && to_canonical(&f64::INFINITY).is_err());
    assert!(to_canonical(&u128::MAX).is_err() && to_canonical(&9_007_199_254_740_992.0_f64).is_err());
    let keys: std::collections::BTreeMap<Vec<u8>, u8> = [(vec![1], 1)].into();
    assert!(to_canonical(&keys).is_err(), "a key is a text");
    let raw = serde_json::value::RawValue::from_string("{ }".to_owned()).unwrap();
    assert!(to_canonical(&raw).is_err(), "what is written as it stands is not canonical");
}

#[test]
fn keys_are_in_the_order_of_utf_16() {
    // RFC 8785, 3.2.3: by bytes the smiley, which is a pair of surrogates, would stand last.
    let value =
        json!({ "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7 });
    let text = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
    assert_eq!(String::from_utf8(to_canonical(&value).unwrap()).unwrap(), text);
    // One that another begins, and such as differ behind the eighth byte.
    let value = json!({ "ab": 1, "a": 2, "a!": 3, "abcdefgh2": 4, "abcdefgh1": 5, "abcdefgh": 6, "": 7 });
    let text = r#"{"":7,"a":2,"a!":3,"ab":1,"abcdefgh":6,"abcdefgh1":5,"abcdefgh2":4}"#;
    assert_eq!(String::from_utf8(to_canonical(&value).unwrap()).unwrap(), text);
}

proptest! {
    #[test]
    fn any_json_is_written_as_the_reference_writes_it(value in any_json()) {
        prop_assert_eq!(to_canonical(&value).unwrap(), serde_json_canonicalizer::to_vec(&value).unwrap());
    }

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
