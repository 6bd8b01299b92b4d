//! The decisions that a planner can make, and the calls that they become.

use provost_core::transcript::Call;
use serde_json::{Map, Value, json};

use crate::clip;

/// Name of the call that a decision becomes which is not one. No tool has it: the loop refuses the call, and the planner
/// is told why.
pub const REJECTED: &str = "rejected_decision";

/// Most arguments of a program.
const ARGS: usize = 32;
/// Longest text of each field, in characters, as the schema says.
const LIMITS: [(&str, usize); 5] =
    [("program", 128), ("path", 1024), ("expected", 16_384), ("replacement", 16_384), ("summary", 4096)];
const ARGUMENT: usize = 4096;
/// Each kind, with its fields.
const KINDS: [(&str, &[&str]); 5] = [
    ("run_tool", &["program", "args"]),
    ("read_file", &["path"]),
    ("replace_text", &["path", "expected", "replacement"]),
    ("verify", &[]),
    ("finish", &["summary"]),
];

/// What a planner decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run a program.
    RunTool {
        /// Its name.
        program: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// Read a file.
    ReadFile {
        /// From the workspace root.
        path: String,
    },
    /// Replace a text that is in a file exactly once.
    ReplaceText {
        /// From the workspace root.
        path: String,
        /// What is there.
        expected: String,
        /// What shall be there.
        replacement: String,
    },
    /// Run the configured verification.
    Verify,
    /// The work is done.
    Finish {
        /// What was done.
        summary: String,
    },
}

/// Why something is not a decision, for the planner to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

impl Decision {
    /// Reads a decision. Nothing is repaired: what was guessed at is not what the planner decided.
    ///
    /// A field of another kind may be there when it is empty, because the schema lists all fields together and some
    /// clients fill them all in.
    ///
    /// # Errors
    ///
    /// [`Rejected`] names the field and its bound.
    pub fn from_value(value: &Value) -> Result<Self, Rejected> {
        let fields = value.as_object().ok_or_else(|| Rejected("a decision is a JSON object".to_owned()))?;
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let Some((kind, own)) = KINDS.into_iter().find(|(known, _)| *known == kind) else {
            let known = KINDS.map(|(kind, _)| kind).join(", ");
            return Err(Rejected(format!("`kind` is `{}`; it must be one of {known}", clip::message(kind))));
        };
        for (name, value) in fields {
            let known = name == "kind" || KINDS.iter().any(|(_, all)| all.contains(&name.as_str()));
            if !known || !(name == "kind" || own.contains(&name.as_str()) || is_empty(value)) {
                return Err(Rejected(format!("`{kind}` has no field `{}`", clip::message(name))));
            }
        }
        let text = |name| text(fields, kind, name);
        Ok(match kind {
            "run_tool" => {
                let program = text("program")?;
                if program.is_empty() {
                    return Err(Rejected("`program` is empty".to_owned()));
                }
                Self::RunTool { program, args: arguments(fields)? }
            }
            "read_file" => Self::ReadFile { path: text("path")? },
            "replace_text" => Self::ReplaceText {
                path: text("path")?,
                expected: text("expected")?,
                replacement: text("replacement")?,
            },
            "verify" => Self::Verify,
            _ => Self::Finish { summary: text("summary")? },
        })
    }

    /// The calls that it becomes, numbered within answer `turn`. `verification` are the configured commands.
    ///
    /// # Errors
    ///
    /// [`Rejected`] for `verify` where nothing is configured: no call at all would look like an empty answer.
    pub fn calls(&self, verification: &[Vec<String>], turn: u64) -> Result<Vec<Call>, Rejected> {
        let call = |index: usize, name: &str, arguments: &Value| Call {
            id: format!("plan_{turn}_{index}"),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        Ok(match self {
            Self::RunTool { program, args } => {
                let argv: Vec<&String> = [program].into_iter().chain(args).collect();
                vec![call(0, "exec", &json!({ "argv": argv }))]
            }
            Self::ReadFile { path } => vec![call(0, "read_file", &json!({ "path": path }))],
            Self::ReplaceText { path, expected, replacement } => {
                vec![call(0, "edit_file", &json!({"path": path, "old": expected, "new": replacement}))]
            }
            Self::Verify if verification.is_empty() => {
                return Err(Rejected("no verification command is configured".to_owned()));
            }
            Self::Verify => {
                let each = verification.iter().enumerate();
                each.map(|(index, argv)| call(index, "exec", &json!({ "argv": argv }))).collect()
            }
            Self::Finish { summary } => vec![call(0, "submit", &json!({ "summary": summary }))],
        })
    }
}

impl Rejected {
    /// The call that tells the planner.
    pub(super) fn call(&self, turn: u64) -> Call {
        Call {
            id: format!("plan_{turn}_0"),
            name: REJECTED.to_owned(),
            arguments: json!({"problem": self.0}).to_string(),
        }
    }
}

/// What the client is told to keep to: all kinds in one flat object, which every schema dialect can express.
pub(super) fn schema() -> Value {
    let mut properties = Map::new();
    properties.insert("kind".to_owned(), json!({"type": "string", "enum": KINDS.map(|(kind, _)| kind)}));
    for (name, longest) in LIMITS {
        properties.insert(name.to_owned(), json!({"type": "string", "maxLength": longest}));
    }
    let argument = json!({"type": "string", "maxLength": ARGUMENT});
    properties.insert("args".to_owned(), json!({"type": "array", "maxItems": ARGS, "items": argument}));
    json!({"type": "object", "properties": properties, "required": ["kind"], "additionalProperties": false})
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn text(fields: &Map<String, Value>, kind: &str, name: &str) -> Result<String, Rejected> {
    let longest = LIMITS.into_iter().find(|(field, _)| *field == name).map_or(0, |(_, longest)| longest);
    match fields.get(name) {
        Some(Value::String(text)) => bounded(text, name, longest),
        None | Some(Value::Null) => Err(Rejected(format!("`{kind}` needs `{name}`"))),
        Some(_) => Err(Rejected(format!("`{name}` must be a string"))),
    }
}

fn arguments(fields: &Map<String, Value>) -> Result<Vec<String>, Rejected> {
    let items = match fields.get("args") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(Rejected("`args` must be a list of strings".to_owned())),
    };
    if items.len() > ARGS {
        return Err(Rejected(format!("`args` has {} items; at most {ARGS} are allowed", items.len())));
    }
    let one = |(index, item): (usize, &Value)| match item {
        Value::String(text) => bounded(text, &format!("args[{index}]"), ARGUMENT),
        _ => Err(Rejected(format!("`args[{index}]` must be a string"))),
    };
    items.iter().enumerate().map(one).collect()
}

fn bounded(text: &str, name: &str, longest: usize) -> Result<String, Rejected> {
    match text.chars().count() {
        count if count > longest => {
            Err(Rejected(format!("`{name}` has {count} characters; at most {longest} are allowed")))
        }
        _ => Ok(text.to_owned()),
    }
}
