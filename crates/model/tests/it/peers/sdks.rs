//! The vendors' own clients as clients of the rehearsal server: what they read in its answers, and that they find nothing
//! missing in them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use provost_core::transcript::Message;
use provost_model::rehearse::{Running, Script, Server};
use provost_model::wire::EncodeOptions;
use provost_model::{Effort, Prelude, Secret, WireKind};
use serde_json::{Value, json};

use crate::support::{CANARY, WIRES, assistant, call, pictures, prelude, result, schema, user};

fn start() -> Running {
    let usage = json!({"input": 70, "output": 5, "cache_read": 20});
    let fault = |status: u16| {
        json!({
            "when": format!("fault {status}"),
            "steps": [{"say": "x", "fault": {"status": status, "times": 1_000, "message": "scripted"}}],
        })
    };
    let broken = |when: &str, fault: Value| json!({"when": when, "steps": [{"say": "and so on ".repeat(20), "fault": fault}]});
    let script = json!({
        "final": "?",
        "dialogues": [
            {"when": "talk", "steps": [{
                "say": "Gr\u{fc}\u{df}e \u{2192} \u{1f600}, and of some length, so that it comes in pieces",
                "think": "hm\u{2026} well", "usage": usage,
            }]},
            {
                "when": "use tools",
                "steps": [{"say": "Looking.", "think": "what is there", "usage": usage, "calls": [
                    {"name": "read_file", "arguments": {"path": "\u{fc}.txt", "lines": [1, 2]}},
                    {"name": "list", "arguments": {}},
                ]}],
                "final": "It is an apple.",
            },
            {"when": "cut", "steps": [{"say": "cut o", "stop": "length"}]},
            {"when": "refuse", "steps": [{"say": "no", "stop": "refused"}]},
            fault(400), fault(401), fault(429), fault(503), fault(529),
            broken("error", json!({"error_after": 4, "times": 1_000, "message": "scripted"})),
            broken("drop", json!({"drop_after": 4, "times": 1_000})),
        ],
    });
    let script = Script::parse(&script.to_string()).unwrap();
    Server::bind("127.0.0.1:0", script).unwrap().require_key(Secret::new(CANARY)).start()
}

/// Python with the vendors' clients, to run `script`.
fn python(script: &str, home: &Path) -> Command {
    let python = std::env::var_os("PROVOST_TEST_PYTHON").expect(
        "PROVOST_TEST_PYTHON names no interpreter: run the tests by `./test`, which prepares one with the vendors' clients",
    );
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers").join(script));
    command.env_clear().env("HOME", home);
    command
}

/// What client `name` made of the script.
async fn read(name: &'static str) -> Value {
    let server = start();
    let url = format!("http://{}", server.addr);
    let folder = tempfile::tempdir().unwrap();
    let mut client = python("clients.py", folder.path());
    client.args([name, &url, CANARY]);
    let output = tokio::task::spawn_blocking(move || client.output().unwrap()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the client failed (run `./test` if it is not installed):\n{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn compare(name: &'static str) -> String {
    let read = read(name).await;
    for part in ["talk", "tools", "results", "cut", "refused", "faults"] {
        assert_eq!(
            read["stream"][part], read["whole"][part],
            "{name}: streamed and whole differ in `{part}`"
        );
    }
    serde_json::to_string_pretty(&json!({
        "answers": read["whole"], "breaks": read["stream"]["breaks"], "wrong key": read["wrong key"],
    }))
    .unwrap()
}

#[tokio::test]
async fn openai_chat() {
    insta::assert_snapshot!(compare("chat").await);
}

#[tokio::test]
async fn openai_responses() {
    insta::assert_snapshot!(compare("responses").await);
}

#[tokio::test]
async fn anthropic() {
    insta::assert_snapshot!(compare("anthropic").await);
}

#[tokio::test]
async fn google_genai() {
    insta::assert_snapshot!(compare("gemini").await);
}

#[tokio::test]
async fn ollama() {
    insta::assert_snapshot!(compare("ollama").await);
}

/// The name of the client that speaks a wire.
fn client(wire: WireKind) -> &'static str {
    match wire {
        WireKind::OpenAiChat => "chat",
        WireKind::OpenAiResponses => "responses",
        WireKind::AnthropicMessages => "anthropic",
        WireKind::Gemini => "gemini",
        WireKind::Ollama => "ollama",
    }
}

/// What client `wire` has to say against a body; nothing if it could have sent it.
fn against(wire: WireKind, body: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = python("bodies.py", folder.path());
    command.arg(client(wire)).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), words.is_empty(), "{words}");
    words
}

#[test]
fn their_types_know_what_is_sent() {
    let all = Prelude { schema: Some(schema()), effort: Some(Effort::Medium), ..prelude() };
    let mut messages = pictures();
    messages.push(assistant("Looking.", vec![call("d", "read_file", "{\"path\": \"x\"}")]));
    messages.push(Message::Results { results: vec![result("d", "no", true)] });
    messages.push(user("go on"));
    let models = WIRES.map(|wire| (wire, "m"));
    let newer = [(WireKind::AnthropicMessages, "claude-sonnet-5"), (WireKind::Gemini, "gemini-2.5-pro")];
    for (wire, model) in models.into_iter().chain(newer) {
        let options = EncodeOptions { model: model.to_owned(), ..EncodeOptions::default() };
        let mut encoder = wire.encoder(&options, &all);
        for message in &messages {
            encoder.push(message);
        }
        let mut body = encoder.prefix().to_vec();
        encoder.tail(0, &mut body);
        let body = String::from_utf8(body).unwrap();
        assert_eq!(against(wire, &body), "", "{wire:?}: {body}");
        if model == "m" {
            // The control: a body that is not right.
            let wrong = body.replace("\"role\":\"user\"", "\"role\":7");
            let words = against(wire, &wrong);
            assert!(words.contains("role"), "{wire:?}: {words}");
        }
    }
}
