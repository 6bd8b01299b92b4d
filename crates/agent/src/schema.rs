//! The JSON Schema that a run's last answer has to satisfy.

use jsonschema::{PatternOptions, Validator};
use provost_core::brief::LARGEST_SCHEMA;
use serde_json::Value;

use crate::error::RunError;
use crate::schema_work::{MOST_WORK, is_bearable};

/// What is said of a wrong answer: so many failures, and so much of each.
const FAILURES: usize = 5;
const FAILURE: usize = 300;

/// Deepest nesting of an answer.
const DEEPEST: usize = 64;

/// The schema as JSON.
pub(crate) fn parsed(text: &str) -> Result<Value, RunError> {
    serde_json::from_str(text).map_err(|error| RunError::Contract(format!("the schema is no JSON: {error}")))
}

/// What the last answer is held against.
pub(crate) struct Schema {
    schema: Value,
    validator: Validator,
}

impl Schema {
    pub(crate) fn read(text: &str) -> Result<Self, RunError> {
        if text.len() as u64 > LARGEST_SCHEMA {
            let most = LARGEST_SCHEMA >> 10;
            return Err(RunError::Contract(format!("the schema is longer than {most} KiB")));
        }
        let schema = parsed(text)?;
        if !schema.is_object() {
            return Err(RunError::Contract("the schema is no JSON object".to_owned()));
        }
        let validator = jsonschema::options()
            // What the model says decides how long a pattern is looked for: one that backtracks could look for ever.
            .with_pattern_options(PatternOptions::regex())
            .build(&schema)
            .map_err(|error| RunError::Contract(format!("the schema cannot be used: {error}")))?;
        Ok(Self { schema, validator })
    }

    /// What is wrong with an answer, a line each; `None` where nothing is.
    ///
    /// Nothing can interrupt a validator, so an answer that would keep it at work without end never reaches it.
    pub(crate) fn wrong(&self, answer: &str) -> Option<String> {
        let value: Value = match serde_json::from_str(answer) {
            Ok(value) => value,
            Err(error) => return Some(format!("it is no JSON: {error}")),
        };
        if depth(&value) > DEEPEST {
            return Some(format!("it is nested more than {DEEPEST} deep"));
        }
        if !is_bearable(&self.schema, &value) {
            return Some(format!(
                "to hold it against the schema takes more than {MOST_WORK} checks: make it shorter, or nest it less deeply"
            ));
        }
        let failures: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(FAILURES)
            .map(|error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() { "at its top".to_owned() } else { format!("at `{at}`") };
                clipped(&format!("{at}: {error}"))
            })
            .collect();
        (!failures.is_empty()).then(|| failures.join("\n"))
    }
}

/// How deep a value is nested: 0 where it holds no other. What parsed is nested no deeper than the parser allows.
fn depth(value: &Value) -> usize {
    let below = |inner: Option<usize>| inner.map_or(1, |inner| inner + 1);
    match value {
        Value::Array(items) => below(items.iter().map(depth).max()),
        Value::Object(fields) => below(fields.values().map(depth).max()),
        _ => 0,
    }
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= FAILURE {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(FAILURE).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_held_against_the_schema_and_told_where_it_is_wrong() {
        let schema = Schema::read(
            r#"{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "s": {"pattern": "^a+$"}}}"#,
        )
        .unwrap();
        assert_eq!(schema.wrong(r#"{"n": 1, "s": "aaa"}"#), None);
        for (answer, words) in [
            ("the answer is 1", "it is no JSON: expected ident at line 1 column 2"),
            ("```json\n{\"n\": 1}\n```", "it is no JSON: expected value at line 1 column 1"),
            ("[]", "at its top: [] is not of type \"object\""),
            ("{}", "at its top: \"n\" is a required property"),
            (r#"{"n": "1"}"#, "at `/n`: \"1\" is not of type \"integer\""),
        ] {
            assert_eq!(schema.wrong(answer).as_deref(), Some(words), "{answer}");
        }
        let long = format!(r#"{{"n": "{}"}}"#, "x".repeat(10_000));
        assert!(schema.wrong(&long).unwrap().len() < 2 * FAILURE);
    }

    #[test]
    fn i9_what_is_no_schema_is_refused() {
        let refused = |text: &str| Schema::read(text).map(drop).unwrap_err().to_string();
        assert!(refused("{").contains("no JSON"));
        assert!(refused("7").contains("no JSON object"));
        assert!(refused(r#"{"type": "nothing"}"#).contains("cannot be used"));
        // Nothing is fetched.
        assert!(refused(r#"{"$ref": "http://127.0.0.1:9/schema"}"#).contains("cannot be used"));
        assert!(refused(r#"{"pattern": "(a)\\1"}"#).contains("cannot be used"));
        assert!(refused(&format!("{{\"title\": \"{}\"}}", "x".repeat(70_000))).contains("64 KiB"));
    }

    /// Each level of such an answer is held against the schema twice for every time that the level above is.
    #[test]
    fn i9_an_answer_that_would_be_checked_without_end_is_refused_before_it_is() {
        let twice = Schema::read(
            r##"{"anyOf": [{"type": "integer"}, {"items": {"$ref": "#"}, "type": "array"},
                          {"items": {"$ref": "#"}, "type": "array"}]}"##,
        )
        .unwrap();
        let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        for depth in [40, 64] {
            let words = twice.wrong(&nested(depth, r#""x""#)).unwrap();
            assert!(words.contains("more than 250000 checks"), "{words}");
        }
        assert_eq!(twice.wrong(&nested(65, "1")).as_deref(), Some("it is nested more than 64 deep"));
        // The controls: what is nested less is judged.
        assert_eq!(twice.wrong(&nested(8, "1")), None);
        assert!(twice.wrong(&nested(8, r#""x""#)).unwrap().contains("not valid under any of the schemas"));
        // A schema that leads back to itself without looking at anything that the answer holds.
        for text in
            [r##"{"$ref": "#"}"##, r##"{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#"}}}"##]
        {
            if let Ok(schema) = Schema::read(text) {
                assert!(schema.wrong("1").unwrap().contains("checks"), "{text}");
            }
        }
    }

    #[test]
    fn a_large_answer_after_an_honest_schema_is_judged() {
        let tree = Schema::read(
            r##"{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["n"],
                 "properties": {"n": {"enum": [1, 2, 3]}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                 "additionalProperties": false}}}"##,
        )
        .unwrap();
        let leaves = vec![r#"{"n": 1}"#; 10_000].join(",");
        assert_eq!(tree.wrong(&format!(r#"{{"n": 1, "below": [{leaves}]}}"#)), None);
        let deep =
            (0..30).fold(r#"{"n": 1}"#.to_owned(), |below, _| format!(r#"{{"n": 2, "below": [{below}]}}"#));
        assert_eq!(tree.wrong(&deep), None);
        assert!(tree.wrong(&deep.replace('1', "9")).unwrap().contains("9 is not one of"));
    }
}
