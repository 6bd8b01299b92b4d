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
    Responses,
    Anthropic,
    Gemini,
    Ollama,
}

impl Wire {
    pub(crate) const ALL: [Self; 5] =
        [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// What the command line calls it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Whether a call comes in one event, and so in one piece.
    pub(crate) fn has_whole_calls(self) -> bool {
        matches!(self, Self::Gemini | Self::Ollama)
    }

    /// Where the rehearsed model speaks it.
    pub(crate) fn url(self, model: &Rehearsal) -> &str {
        match self {
            Self::OpenAi | Self::Responses => &model.base_url,
            Self::Anthropic | Self::Gemini | Self::Ollama => model.bare_url(),
        }
    }

    /// `provost run` on `dir` over this wire, to its end. Standard output holds JSON lines.
    pub(crate) fn run(self, env: &TestEnvironment, dir: &Path, model: &Rehearsal, more: &[&str]) -> Ran {
        let dir = dir.display().to_string();
        let mut args = vec!["run", "Mend it.", "-C", &dir, "--model", "rehearsal", "--json"];
        args.extend(["--wire", self.option(), "--base-url", self.url(model)]);
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

/// What the dialogue of a request is made of, on any wire.
#[track_caller]
pub(crate) fn messages(body: &Value) -> &Vec<Value> {
    ["messages", "input", "contents"].iter().find_map(|key| body[*key].as_array()).unwrap()
}

/// The output limit that a request states, on any wire.
pub(crate) fn limit(body: &Value) -> Option<u64> {
    let places =
        ["/max_tokens", "/max_output_tokens", "/generationConfig/maxOutputTokens", "/options/num_predict"];
    places.iter().find_map(|place| body.pointer(place)?.as_u64())
}

/// Blocks or parts of a message.
fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    ["content", "parts"].iter().filter_map(|key| message[*key].as_array()).flatten()
}

/// A result of a call, as a request tells the model of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) text: String,
}

/// All results that the request holds, in order, on any wire.
pub(crate) fn results(body: &Value) -> Vec<Told> {
    let mut told = Vec::new();
    for message in messages(body) {
        if message["role"] == "tool" {
            told.push(Told { id: text(&message["tool_call_id"]), text: words(&message["content"]) });
        }
        if message["type"] == "function_call_output" {
            told.push(Told { id: text(&message["call_id"]), text: text(&message["output"]) });
        }
        for block in blocks(message) {
            if block["type"] == "tool_result" {
                told.push(Told { id: text(&block["tool_use_id"]), text: words(&block["content"]) });
            }
            let result = &block["functionResponse"];
            if result.is_object() {
                let said = &result["response"];
                let said = if said["error"].is_string() { &said["error"] } else { &said["output"] };
                told.push(Told { id: text(&result["id"]), text: text(said) });
            }
        }
    }
    told
}

/// Id and arguments of all calls that the request holds, in order, on any wire. Arguments that the wire has as text are
/// read.
pub(crate) fn calls(body: &Value) -> Vec<(String, Value)> {
    let read = |arguments: &Value| match arguments.as_str() {
        Some(text) => serde_json::from_str(text).unwrap(),
        None => arguments.clone(),
    };
    let mut calls = Vec::new();
    for message in messages(body) {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            calls.push((text(&call["id"]), read(&call["function"]["arguments"])));
        }
        if message["type"] == "function_call" {
            calls.push((text(&message["call_id"]), read(&message["arguments"])));
        }
        for block in blocks(message) {
            if block["type"] == "tool_use" {
                calls.push((text(&block["id"]), block["input"].clone()));
            }
            let call = &block["functionCall"];
            if call.is_object() {
                calls.push((text(&call["id"]), call["args"].clone()));
            }
        }
    }
    calls
}

/// Ids of all calls that the request holds, in order.
pub(crate) fn call_ids(body: &Value) -> Vec<String> {
    calls(body).into_iter().map(|(id, _)| id).collect()
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
