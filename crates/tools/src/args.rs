//! Arguments: strict JSON, checked against the tool's own schema.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};

use crate::failure::BadCall;

/// An object schema that takes these properties and no others.
pub fn object(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// The string argument `name`, which the schema requires.
pub fn text<'a>(args: &'a Value, name: &str) -> Result<&'a str, BadCall> {
    optional_text(args, name).ok_or_else(|| BadCall::value(name, "is missing"))
}

/// The string argument `name`, if it is given.
pub fn optional_text<'a>(args: &'a Value, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

/// The whole number `name`, if it is given, checked against a least value.
pub fn optional_number(args: &Value, name: &str, least: u64) -> Result<Option<u64>, BadCall> {
    match args.get(name) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if number >= least => Ok(Some(number)),
            _ => {
                Err(BadCall::value(name, format!("must be a whole number of at least {least}, not {value}")))
            }
        },
    }
}

/// The boolean `name`; false where it is not given.
pub fn flag(args: &Value, name: &str) -> bool {
    args.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Parses one JSON object, refusing duplicate keys, which other parsers resolve in different ways.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0)
}

/// Checks a value against the closed subset of JSON Schema that tools use: `type`, `properties`, `required`,
/// `additionalProperties: false`, `items`, `minItems`. The first problem found is returned, by name.
pub(crate) fn check(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    if let Some(wanted) = schema.get("type").and_then(Value::as_str) {
        let fits = match wanted {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "null" => value.is_null(),
            _ => true,
        };
        if !fits {
            let hint = as_list(value, schema).unwrap_or_default();
            return Err(format!("{} must be {}, not {}{hint}", name(at), article(wanted), kind(value)));
        }
    }
    match value {
        Value::Object(fields) => check_object(fields, schema, at),
        Value::Array(items) => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            if (items.len() as u64) < least {
                return Err(format!("{} must have at least {least} item", name(at)));
            }
            match schema.get("items") {
                Some(each) => {
                    let mut items = items.iter().enumerate();
                    items.try_for_each(|(index, item)| check(item, each, &format!("{at}[{index}]")))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// How a string would be written where a list of strings is wanted.
fn as_list(value: &Value, schema: &Value) -> Option<String> {
    let of_strings = schema.pointer("/items/type").and_then(Value::as_str) == Some("string");
    let line = value.as_str().filter(|line| of_strings && line.len() <= 400)?;
    let operators = ["|", "&", ";", "<", ">", "$(", "`", "\n", "*", "$"];
    let words = if operators.iter().any(|operator| line.contains(operator)) {
        // Only a shell understands these; say so openly rather than run one unasked.
        vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()]
    } else {
        shlex::split(line)?
    };
    Some(format!("; write it as {}", Value::from(words)))
}

fn check_object(fields: &Map<String, Value>, schema: &Value, at: &str) -> Result<(), String> {
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    let properties = schema.get("properties").and_then(Value::as_object);
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (key, value) in fields {
        match properties.and_then(|properties| properties.get(key)) {
            Some(schema) => check(value, schema, &below(key))?,
            None if closed => {
                let known: Vec<&str> =
                    properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                let near = crate::text::near::nearest(key, known.iter().copied());
                let near = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
                return Err(format!(
                    "there is no argument {}{near}",
                    name(&below(&crate::text::show::clip(key, 60)))
                ));
            }
            None => {}
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let missing =
        required.into_iter().flatten().filter_map(Value::as_str).find(|key| !fields.contains_key(*key));
    match missing {
        Some(key) => Err(format!("{} is missing", name(&below(key)))),
        None => Ok(()),
    }
}

/// What a schema takes, in one line.
pub(crate) fn takes(schema: &Value) -> String {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return "an object".to_owned();
    };
    let one = |(key, schema): (&String, &Value)| {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any value");
        let needed = if required.contains(&key.as_str()) { "required" } else { "optional" };
        format!("`{key}` ({kind}, {needed})")
    };
    properties.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn name(at: &str) -> String {
    if at.is_empty() { "the arguments".to_owned() } else { format!("`{at}`") }
}

fn article(kind: &str) -> String {
    match kind {
        "array" | "object" | "integer" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A JSON value in which no object has the same key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if fields.contains_key(&key) {
                let key = crate::text::show::clip(&key, 60);
                return Err(de::Error::custom(format_args!("the key `{key}` is given twice")));
            }
            let Strict(value) = map.next_value()?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}
