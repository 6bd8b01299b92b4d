//! Schemas that every vendor takes. One bad schema makes a vendor refuse each request of the run, so it is looked at here
//! and its tool left out instead.

use serde_json::{Map, Value};

/// Largest schema of a tool, in bytes of JSON.
const LARGEST: usize = 16 * 1024;

/// Deepest nesting, and most properties of a tool in all.
const DEEPEST: usize = 12;
const MOST_PROPERTIES: usize = 256;

/// Longest name of a property, in bytes.
const LONGEST_KEY: usize = 64;

/// Most bytes of a reason that the validator gives.
const LONGEST_WHY: usize = 200;

/// Keywords whose value is a schema, and those whose value is a list of schemas.
const ONE: [&str; 5] = ["items", "additionalProperties", "not", "contains", "propertyNames"];
const MANY: [&str; 4] = ["anyOf", "allOf", "oneOf", "prefixItems"];
/// Keywords whose value names schemas.
const NAMED: [&str; 3] = ["properties", "$defs", "definitions"];

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["object", "array", "string", "boolean", "integer", "number", "null"];

/// A tool's schema as every vendor takes it, or why it has none.
pub(super) fn usable(schema: &Value) -> Result<Value, String> {
    let Value::Object(fields) = schema else {
        return Err("its schema is not an object".to_owned());
    };
    let size = schema.to_string().len();
    if size > LARGEST {
        return Err(format!("its schema has {size} bytes, and {LARGEST} is the most"));
    }
    let mut fields = fields.clone();
    // Says which draft it is written in, which some vendors take for an unknown keyword.
    fields.remove("$schema");
    match fields.get("type") {
        // A tool without arguments may say nothing.
        None => drop(fields.insert("type".to_owned(), Value::from("object"))),
        Some(kind) if kind == "object" => {}
        Some(_) => return Err("its schema is not of an object".to_owned()),
    }
    fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let at_top = MANY.iter().find(|keyword| fields.contains_key(**keyword));
    if let Some(keyword) = at_top {
        return Err(format!("its schema has `{keyword}` at its top, which not all vendors take"));
    }
    let schema = Value::Object(fields);
    check(&schema, "", 0, &mut 0)?;
    compiles(&schema)?;
    Ok(schema)
}

/// Whether a validator takes it: its keywords are what the newest draft says they are, its patterns can be read, and what
/// it refers to is in it. Nothing is fetched, as the validator is built without a way to.
fn compiles(schema: &Value) -> Result<(), String> {
    jsonschema::draft202012::new(schema).map(drop).map_err(|error| {
        let at = error.instance_path().to_string();
        let at =
            if at.is_empty() { "its schema".to_owned() } else { format!("its schema at `{}`", shown(&at)) };
        let why = provost_core::text::visible(&error.to_string(), provost_core::text::Lines::Escape);
        format!("{at} cannot be used: {}", crate::text::show::clip(&why, LONGEST_WHY))
    })
}

fn check(schema: &Value, at: &str, depth: usize, properties: &mut usize) -> Result<(), String> {
    let place = || if at.is_empty() { "its schema".to_owned() } else { format!("its schema at `{at}`") };
    if depth > DEEPEST {
        return Err(format!("{} is nested more than {DEEPEST} deep", place()));
    }
    let fields = match schema {
        Value::Bool(_) if depth > 0 => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(format!("{} is no schema", place())),
    };
    match fields.get("type") {
        None => {}
        Some(Value::String(kind)) if TYPES.contains(&kind.as_str()) => {}
        Some(Value::Array(kinds))
            if !kinds.is_empty()
                && kinds.iter().all(|kind| kind.as_str().is_some_and(|kind| TYPES.contains(&kind))) => {}
        Some(_) => return Err(format!("{} has a type that is none", place())),
    }
    if let Some(required) = fields.get("required") {
        let names =
            required.as_array().map(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let Some(Some(names)) = names else {
            return Err(format!("{} has a `required` that is no list of names", place()));
        };
        let known = fields.get("properties").and_then(Value::as_object);
        if let Some(name) = names.iter().find(|name| known.is_none_or(|known| !known.contains_key(**name))) {
            return Err(format!("{} requires `{}`, which it does not describe", place(), shown(name)));
        }
    }
    if fields.get("type").is_some_and(|kind| kind == "array") && !fields.contains_key("items") {
        return Err(format!("{} is of a list, and does not say of what", place()));
    }
    if let Some(Value::String(reference)) = fields.get("$ref")
        && !reference.starts_with("#/")
    {
        return Err(format!("{} refers to another document", place()));
    }
    for keyword in NAMED {
        let Some(named) = fields.get(keyword) else { continue };
        let Some(named) = named.as_object() else {
            return Err(format!("{} has a `{keyword}` that is no object", place()));
        };
        for (name, inner) in named {
            if keyword == "properties" {
                *properties += 1;
                if *properties > MOST_PROPERTIES {
                    return Err(format!("its schema has more than {MOST_PROPERTIES} properties"));
                }
                if !is_key(name) {
                    return Err(format!(
                        "{} has a property `{}`: vendors take 1 to {LONGEST_KEY} letters, digits, `_`, `.` and `-`",
                        place(),
                        shown(name)
                    ));
                }
            }
            check(inner, &format!("{at}/{}", shown(name)), depth + 1, properties)?;
        }
    }
    for keyword in ONE {
        if let Some(inner) = fields.get(keyword) {
            check(inner, &format!("{at}/{keyword}"), depth + 1, properties)?;
        }
    }
    for keyword in MANY {
        let Some(inner) = fields.get(keyword) else { continue };
        let Some(all) = inner.as_array().filter(|all| !all.is_empty()) else {
            return Err(format!("{} has a `{keyword}` that is no list of schemas", place()));
        };
        for (index, inner) in all.iter().enumerate() {
            check(inner, &format!("{at}/{keyword}/{index}"), depth + 1, properties)?;
        }
    }
    Ok(())
}

fn is_key(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=LONGEST_KEY).contains(&name.len()) && name.bytes().all(fits)
}

/// A name from outside, in a sentence of ours.
fn shown(name: &str) -> String {
    let clipped = crate::text::show::clip(name, LONGEST_KEY);
    provost_core::text::visible(&clipped, provost_core::text::Lines::Escape)
}
