//! Scripts for the rehearsed model, and what the model was told.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ran, Rehearsal, Repo, TestEnvironment, text};

/// A step that calls a tool. Arguments that are a string are sent as they stand.
pub(crate) fn call(name: &str, arguments: impl Into<Value>) -> Value {
    json!({ "call": { "name": name, "arguments": arguments.into() } })
}

/// A step that runs a command.
pub(crate) fn exec(argv: &[&str]) -> Value {
    call("exec", json!({ "argv": argv }))
}

/// A step that runs a line in a shell.
pub(crate) fn sh(line: &str) -> Value {
    exec(&["sh", "-c", line])
}

pub(crate) fn write(path: &str, content: &str) -> Value {
    call("write_file", json!({ "path": path, "content": content }))
}

pub(crate) fn read(path: &str) -> Value {
    call("read_file", json!({ "path": path }))
}

pub(crate) fn submit() -> Value {
    call("submit", json!({ "summary": "All is done." }))
}

/// A step of several calls.
pub(crate) fn together(steps: &[Value]) -> Value {
    json!({ "calls": steps.iter().map(|step| step["call"].clone()).collect::<Vec<_>>() })
}

/// The step with one member more.
pub(crate) fn with(mut step: Value, key: &str, value: impl Into<Value>) -> Value {
    step[key] = value.into();
    step
}

/// A script of these steps; after them the model says that it is done.
pub(crate) fn script(steps: impl IntoIterator<Item = Value>) -> Value {
    json!({ "steps": steps.into_iter().collect::<Vec<_>>(), "final": "All is done." })
}

/// A world with a repository of one file, and a model that takes these steps and submits.
pub(crate) fn scene(steps: impl IntoIterator<Item = Value>) -> (TestEnvironment, Repo, Rehearsal) {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&script(steps.into_iter().chain([submit()])));
    (env, repo, model)
}

/// The wire that a run speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    OpenAi,
    Anthropic,
}

impl Wire {
    pub(crate) const BOTH: [Self; 2] = [Self::OpenAi, Self::Anthropic];

    /// `provost run` on `dir` over this wire, to its end. Standard output holds JSON lines.
    pub(crate) fn run(self, env: &TestEnvironment, dir: &Path, model: &Rehearsal, more: &[&str]) -> Ran {
        let dir = dir.display().to_string();
        let (name, url) = match self {
            Self::OpenAi => ("openai", model.base_url.as_str()),
            Self::Anthropic => ("anthropic", model.anthropic_url()),
        };
        let mut args = vec!["run", "Mend it.", "-C", &dir, "--model", "rehearsal", "--json"];
        args.extend(["--wire", name, "--base-url", url]);
        args.extend(more);
        env.provost(args)
    }
}

/// The body of a request.
#[track_caller]
pub(crate) fn body(request: &Value) -> Value {
    serde_json::from_str(request["body"].as_str().unwrap()).unwrap()
}

/// A request's header.
pub(crate) fn header(request: &Value, name: &str) -> Option<String> {
    let headers = request["headers"].as_array()?;
    headers.iter().find(|header| header[0] == name).map(|header| text(&header[1]))
}

/// A result of a call, as a request tells the model of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) text: String,
}

/// All results that the request holds, in order, on either wire.
pub(crate) fn results(body: &Value) -> Vec<Told> {
    let mut told = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        if message["role"] == "tool" {
            told.push(Told { id: text(&message["tool_call_id"]), text: words(&message["content"]) });
        }
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                told.push(Told { id: text(&block["tool_use_id"]), text: words(&block["content"]) });
            }
        }
    }
    told
}

/// Ids of all calls that the request holds, in order, on either wire.
pub(crate) fn call_ids(body: &Value) -> Vec<String> {
    let mut ids = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            ids.push(text(&call["id"]));
        }
        for block in message["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_use" {
                ids.push(text(&block["id"]));
            }
        }
    }
    ids
}

/// Content that is a text or a list of text blocks.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(|block| text(&block["text"])).collect(),
        other => panic!("not content: {other}"),
    }
}

/// What the model was told of each call, by the newest request.
#[track_caller]
pub(crate) fn told(model: &Rehearsal) -> Vec<String> {
    let requests = model.requests();
    let newest = requests.last().expect("the model was asked");
    results(&body(newest)).into_iter().map(|told| told.text).collect()
}
