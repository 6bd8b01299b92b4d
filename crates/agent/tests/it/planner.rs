//! A run whose decisions come from a program: each becomes an act of ours, and what is none is told to the program.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use provost_core::contract::{Contract, Gate};
use provost_core::policy::{Policy, Preset};
use provost_model::planner::Planner;

use crate::support::Bench;

/// Decides by how much it was told, and keeps the last request.
const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, sys
request = json.load(sys.stdin)
with open("request", "w") as file:
    json.dump(request, file)
decisions = {
    0: {"kind": "format_disk"},
    1: {"kind": "read_file", "path": "a.txt"},
    2: {"kind": "replace_text", "path": "a.txt", "expected": "wrong", "replacement": "right"},
    3: {"kind": "run_tool", "program": "no-such-program"},
    4: {"kind": "verify"},
    6: {"kind": "finish", "summary": "It is right now."},
}
decision = decisions[len(request["observations"])]
print(json.dumps({"status": "SUCCESS", "structured_output": decision, "usage": {"input_tokens": 9, "output_tokens": 1}}))
"#;

#[tokio::test]
async fn a_planner_drives_a_run_to_its_gate() {
    let bench = Bench::new(&[("a.txt", "one\nwrong\n")]);
    let folder = bench.dir.path().join("planner");
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("plan");
    // Written by another process: see the tests of `provost-model`.
    let mut install = Command::new("install");
    let install = install.args(["-m", "755", "/dev/stdin"]).arg(&program).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    install.stdin.take().unwrap().write_all(SCRIPT.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success());

    let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let checks = [argv(&["grep", "-q", "right", "a.txt"]), argv(&["grep", "-q", "wrong", "a.txt"])];
    let env = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
    let planner = Planner::script(&program, &folder).env(env).verification(checks.clone()).build().unwrap();
    let contract = Contract::new("make it right")
        .policy(Policy::preset(Preset::Workspace))
        .gate(Gate::command(checks[0].clone()));
    let (_, ending) = bench.start(&bench.runtime_with(Arc::new(planner)), contract).await.unwrap();
    assert_eq!(ending.exit_code(), 0, "{ending:?}");
    assert_eq!(bench.read("a.txt"), "one\nright\n");

    let request: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("request")).unwrap()).unwrap();
    assert_eq!(request["task"], "make it right");
    let told: Vec<&str> =
        request["observations"].as_array().unwrap().iter().map(|told| told.as_str().unwrap()).collect();
    assert!(
        told[0].starts_with("your decision was rejected, nothing was done\n`kind` is `format_disk`"),
        "{told:?}"
    );
    assert!(told[1].starts_with("read_file a.txt\n") && told[1].contains("2\twrong"), "{told:?}");
    assert!(told[2].starts_with("replace_text a.txt\n"), "{told:?}");
    assert!(told[3].starts_with("run_tool no-such-program failed or was refused\n"), "{told:?}");
    assert!(told[4].starts_with("run_tool grep -q right a.txt\n"), "{told:?}");
    assert!(told[5].starts_with("run_tool grep -q wrong a.txt"), "{told:?}");
}
