//! The vendors' own clients as clients of the rehearsal server: what they read in its answers, and that they find nothing
//! missing in them.

use std::path::Path;

use provost_model::Secret;
use provost_model::rehearse::{Running, Script, Server};
use serde_json::{Value, json};

use crate::support::CANARY;

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

/// What client `name` made of the script.
async fn read(name: &'static str) -> Value {
    let python = std::env::var_os("PROVOST_TEST_PYTHON").expect(
        "PROVOST_TEST_PYTHON names no interpreter: run the tests by `./test`, which prepares one with the vendors' clients",
    );
    let server = start();
    let url = format!("http://{}", server.addr);
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_owned();
    let output = tokio::task::spawn_blocking(move || {
        std::process::Command::new(python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/clients.py"))
            .args([name, &url, CANARY])
            .env_clear()
            .env("HOME", home)
            .output()
            .unwrap()
    })
    .await
    .unwrap();
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
