//! What the tests share.

use provost_core::transcript::{Assistant, Call, CallResult, Image, Message, ToolSpec};
use provost_model::rehearse::{Running, Script, Server};
use provost_model::{
    Answer, Auth, BaseUrl, Failure, Invocation, OutputSchema, PlainHttp, Prelude, Provider as _, Remote,
    Secret, Sink, WireKind,
};
use serde_json::json;

/// A key that must turn up nowhere.
pub(crate) const CANARY: &str = "sk-canary-5f1d0a77c2e94b";

pub(crate) const WIRES: [WireKind; 5] = WireKind::ALL;

pub(crate) fn auth(wire: WireKind) -> Auth {
    match wire {
        WireKind::OpenAiChat | WireKind::OpenAiResponses => Auth::Bearer(Secret::new(CANARY)),
        WireKind::AnthropicMessages => Auth::XApiKey(Secret::new(CANARY)),
        WireKind::Gemini => Auth::XGoogApiKey(Secret::new(CANARY)),
        WireKind::Ollama => Auth::Bearer(Secret::new(CANARY)),
    }
}

pub(crate) fn provider(wire: WireKind, base: &str) -> Remote {
    let base = BaseUrl::parse(base, PlainHttp::LoopbackOnly).unwrap();
    Remote::builder(wire, base, "test-model").auth(auth(wire)).build().unwrap()
}

/// The output limit that a request states.
pub(crate) fn limit(wire: WireKind, body: &serde_json::Value) -> serde_json::Value {
    match wire {
        WireKind::OpenAiChat | WireKind::AnthropicMessages => body["max_tokens"].clone(),
        WireKind::OpenAiResponses => body["max_output_tokens"].clone(),
        WireKind::Gemini => body["generationConfig"]["maxOutputTokens"].clone(),
        WireKind::Ollama => body["options"]["num_predict"].clone(),
    }
}

/// The messages that a request holds.
pub(crate) fn sent(wire: WireKind, body: &serde_json::Value) -> Vec<serde_json::Value> {
    let key = match wire {
        WireKind::OpenAiChat | WireKind::AnthropicMessages | WireKind::Ollama => "messages",
        WireKind::OpenAiResponses => "input",
        WireKind::Gemini => "contents",
    };
    body[key].as_array().unwrap().clone()
}

pub(crate) fn rehearse(script: &serde_json::Value) -> Running {
    Server::bind("127.0.0.1:0", Script::parse(&script.to_string()).unwrap())
        .unwrap()
        .keep_requests()
        .require_key(Secret::new(CANARY))
        .start()
}

pub(crate) fn prelude() -> Prelude {
    Prelude {
        system: "You are a test.\nBe \"brief\".".to_owned(),
        tools: vec![
            ToolSpec {
                name: "read_file".to_owned(),
                description: "Reads a file.".to_owned(),
                schema: json!({"type": "object"}),
            },
            ToolSpec {
                name: "list".to_owned(),
                description: "Lists.".to_owned(),
                schema: json!({"type": "object"}),
            },
        ],
        max_output: 1_000,
        ..Prelude::default()
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(text)
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

pub(crate) fn assistant(text: &str, calls: Vec<Call>) -> Message {
    Message::Assistant(Assistant { text: text.to_owned(), calls, opaque: Vec::new() })
}

pub(crate) fn result(id: &str, text: &str, is_error: bool) -> CallResult {
    CallResult { call_id: id.to_owned(), text: text.to_owned(), is_error, images: Vec::new() }
}

/// A picture of one grey pixel.
pub(crate) fn image() -> Image {
    Image {
        media: "image/png".to_owned(),
        data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
            .to_owned(),
    }
}

/// A dialogue with images in the words of the person and in results.
pub(crate) fn pictures() -> Vec<Message> {
    let shown = CallResult { images: vec![image()], ..result("a", "a screenshot", false) };
    let mute = CallResult { images: vec![image(), image()], ..result("b", "", false) };
    vec![
        Message::User { text: "What is this?".to_owned(), images: vec![image()] },
        assistant("", vec![call("a", "read_file", "{}"), call("b", "list", "{}"), call("c", "list", "{}")]),
        Message::Results { results: vec![shown, mute, result("c", "words alone", false)] },
        assistant("A pixel.", Vec::new()),
        Message::User { text: String::new(), images: vec![image()] },
    ]
}

/// A schema that the strictest vendor takes.
pub(crate) fn schema() -> OutputSchema {
    OutputSchema {
        name: "verdict".to_owned(),
        schema: json!({
            "type": "object", "properties": {"good": {"type": "boolean"}, "why": {"type": "string"}},
            "required": ["good", "why"], "additionalProperties": false,
        }),
    }
}

/// Keeps what a sink is told.
#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<Call>,
}

impl Sink for Heard {
    fn text(&mut self, delta: &str) {
        self.text.push_str(delta);
    }
    fn reasoning(&mut self, delta: &str) {
        self.reasoning.push_str(delta);
    }
    fn call(&mut self, call: &Call) {
        self.calls.push(call.clone());
    }
}

/// One question on a fresh dialogue.
pub(crate) async fn ask(remote: &Remote, invocation: &Invocation) -> (Result<Answer, Failure>, Heard) {
    let mut dialogue = remote.open(prelude());
    dialogue.push(&user("go"));
    let mut heard = Heard::default();
    let answer = dialogue.ask(invocation, &mut heard).await;
    (answer, heard)
}
