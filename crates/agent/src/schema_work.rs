//! How much work it is to hold an answer against a schema.
//!
//! A schema that leads back to itself from several of its alternatives makes a validator look at each level of an answer
//! so many times as often as at the one above. How often can be counted without doing it, since the same part of a
//! schema is counted against the same part of an answer only once.

use std::collections::HashMap;
use std::ptr;

use serde_json::{Map, Value};

/// Checks that an answer may take: some tens of thousands of values after a schema as people write them.
pub(crate) const MOST_WORK: u64 = 250_000;

/// How deep schemas may lead to each other while one answer is checked. A validator holds all of them on its stack.
const DEEPEST: usize = 512;

/// Whether `answer` can be held against `schema` by at most [`MOST_WORK`] checks.
pub(crate) fn is_bearable(schema: &Value, answer: &Value) -> bool {
    let mut roots = vec![schema];
    named_parts(schema, &mut roots);
    Work { roots, known: HashMap::new() }.of(schema, answer, 0).is_some()
}

/// Parts that a reference can name otherwise than by their place.
fn named_parts<'a>(schema: &'a Value, out: &mut Vec<&'a Value>) {
    match schema {
        Value::Object(fields) => {
            let has_name = ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"]
                .iter()
                .any(|keyword| fields.contains_key(*keyword));
            if has_name {
                out.push(schema);
            }
            fields.values().for_each(|inner| named_parts(inner, out));
        }
        Value::Array(items) => items.iter().for_each(|inner| named_parts(inner, out)),
        _ => {}
    }
}

struct Work<'a> {
    /// What references start from.
    roots: Vec<&'a Value>,
    /// What is counted already, by schema and value.
    known: HashMap<(*const Value, *const Value), u64>,
}

impl<'a> Work<'a> {
    /// Checks of `value` against `schema`, rather too many than too few; `None` where they are too many.
    fn of(&mut self, schema: &'a Value, value: &'a Value, depth: usize) -> Option<u64> {
        let Value::Object(fields) = schema else { return Some(1) };
        let key = (ptr::from_ref(schema), ptr::from_ref(value));
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if depth > DEEPEST {
            return None;
        }
        let mut here: u64 = 0;
        let mut work: u64 = 1;
        for (keyword, part) in fields {
            for inner in self.in_place(keyword, part) {
                here = here.saturating_add(self.of(inner, value, depth + 1)?);
            }
            for (inner, child) in below(keyword, part, fields, value) {
                work = work.saturating_add(self.of(inner, child, depth + 1)?);
            }
            if let ("enum" | "required", Some(listed)) = (keyword.as_str(), part.as_array()) {
                work = work.saturating_add(listed.len() as u64);
            }
        }
        // What nothing else looked at is found by looking again, with and without words.
        let again =
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| fields.contains_key(*name));
        work = work.saturating_add(here.saturating_mul(if again { 3 } else { 1 }));
        if work > MOST_WORK || self.known.len() as u64 > MOST_WORK {
            return None;
        }
        self.known.insert(key, work);
        Some(work)
    }

    /// Schemas that a keyword holds against the same value.
    fn in_place(&self, keyword: &str, part: &'a Value) -> Vec<&'a Value> {
        match (keyword, part) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => self.targets(to),
            ("anyOf" | "allOf" | "oneOf", Value::Array(parts)) => parts.iter().collect(),
            ("not" | "if" | "then" | "else", _) => vec![part],
            ("dependentSchemas" | "dependencies", Value::Object(parts)) => parts.values().collect(),
            _ => Vec::new(),
        }
    }

    /// What a reference may mean. One by name may mean any part that has one.
    fn targets(&self, to: &str) -> Vec<&'a Value> {
        let place = to.split_once('#').map_or("", |(_, place)| place);
        if place.starts_with('/') {
            let place = percent_encoding::percent_decode_str(place).decode_utf8_lossy();
            return self.roots.iter().filter_map(|root| root.pointer(&place)).collect();
        }
        if to == "#" { vec![self.roots[0]] } else { self.roots.clone() }
    }
}

/// Schemas that a keyword holds against what a value holds.
fn below<'a>(
    keyword: &str,
    part: &'a Value,
    fields: &'a Map<String, Value>,
    value: &'a Value,
) -> Vec<(&'a Value, &'a Value)> {
    let is_named = |name: &str| {
        fields.get("properties").and_then(Value::as_object).is_some_and(|named| named.contains_key(name))
    };
    match (keyword, part, value) {
        ("properties", Value::Object(parts), Value::Object(held)) => {
            parts.iter().filter_map(|(name, part)| Some((part, held.get(name)?))).collect()
        }
        ("patternProperties", Value::Object(parts), Value::Object(held)) => {
            parts.values().flat_map(|part| held.values().map(move |child| (part, child))).collect()
        }
        ("additionalProperties" | "unevaluatedProperties", _, Value::Object(held)) => {
            held.iter().filter(|(name, _)| !is_named(name)).map(|(_, child)| (part, child)).collect()
        }
        // It is held against names, which hold nothing.
        ("propertyNames", _, Value::Object(held)) => held.values().map(|_| (part, &Value::Null)).collect(),
        ("items" | "prefixItems", Value::Array(parts), Value::Array(held)) => {
            parts.iter().zip(held).collect()
        }
        ("items" | "additionalItems" | "unevaluatedItems" | "contains", _, Value::Array(held)) => {
            held.iter().map(|child| (part, child)).collect()
        }
        _ => Vec::new(),
    }
}
