//! A provider that misbehaves, on both wires.

use serde_json::{Value, json};

use crate::support::{Rehearsal, Repo, TestEnvironment};

const FILES: &[(&str, &str)] = &[("a.txt", "one\n")];

fn call(name: &str, arguments: Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments } })
}

fn read() -> Value {
    call("read_file", json!({ "path": "a.txt" }))
}

fn with(mut step: Value, key: &str, value: Value) -> Value {
    step[key] = value;
    step
}

struct Case {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
}

impl Case {
    fn new(steps: Vec<Value>) -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", FILES);
        let model = env.rehearse(&json!({ "steps": steps, "final": "All is done." }));
        Self { env, repo, model }
    }

    fn run(&self, more: &[&str]) -> crate::support::Ran {
        self.env.run(&self.repo.path, &self.model, more)
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let journal = self.env.journal(&self.env.only_run());
        journal.into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// What the model was last told, as the request that followed has it.
    fn last_request(&self) -> String {
        self.model.requests().pop().unwrap().to_string()
    }
}

#[test]
fn a_stream_that_breaks_off_is_asked_for_again_and_nothing_is_lost() {
    let case = Case::new(vec![with(read(), "fault", json!({ "drop_after": 2 }))]);
    let _ = case.run(&[]).code(0);
    assert_eq!(case.events("model.failed").len(), 1);
    assert_eq!(case.events("model.answered").len(), 2);
    assert_eq!(case.events("act.finished").len(), 1);
}

#[test]
fn w4_malformed_arguments_are_not_run_and_the_model_is_told_where() {
    for arguments in ["{\"path\": \"a", "null", "[1]", "{\"path\":\"a.txt\",\"path\":\"b\"}"] {
        let case = Case::new(vec![call("read_file", json!(arguments))]);
        let _ = case.run(&[]).code(0);
        let invalid = case.events("call.invalid");
        assert_eq!(invalid.len(), 1, "{arguments}");
        assert_eq!(invalid[0]["body"]["why"], "bad_arguments");
        assert_eq!(case.events("act.decided").len(), 0, "{arguments}");
        assert!(case.last_request().contains("Nothing was run"), "{arguments}");
    }
    // The control: well-formed arguments are run.
    let case = Case::new(vec![read()]);
    let _ = case.run(&[]).code(0);
    assert_eq!(case.events("act.finished")[0]["body"]["end"], "done");
}

#[test]
fn an_unknown_tool_is_an_observation() {
    let case = Case::new(vec![call("read_fil", json!({ "path": "a.txt" }))]);
    let _ = case.run(&[]).code(0);
    assert_eq!(case.events("call.invalid")[0]["body"]["why"], "unknown_tool");
    assert!(case.last_request().contains("did you mean"));
}

#[test]
fn w7_a_stated_pause_is_kept_and_a_pause_of_a_day_is_not() {
    let limited = |after: &str| {
        with(read(), "fault", json!({ "status": 429, "times": 1, "headers": { "retry-after": after } }))
    };
    let case = Case::new(vec![limited("1")]);
    let _ = case.run(&[]).code(0);
    let failed = case.events("model.failed");
    assert_eq!(failed.len(), 1);
    assert!(failed[0]["body"]["retry_in_ms"].as_u64().unwrap() >= 1000);

    let case = Case::new(vec![limited("86400")]);
    let ran = case.run(&[]).code(6);
    assert_eq!(ran.last()["outcome"], "provider_failed");
    // It is resumable: the limit is over, and the run goes on.
    let run = case.env.only_run();
    let ran = case.env.provost(["resume", &run, "--base-url", &case.model.base_url, "--json"]).code(0);
    assert_eq!(ran.last()["outcome"], "done");
    assert_eq!(case.events("model.answered").len(), 2);
}

#[test]
fn errors_that_will_not_pass_end_at_once() {
    for (status, class) in [(401, "auth"), (400, "bad_request")] {
        let case = Case::new(vec![with(read(), "fault", json!({ "status": status, "times": 99 }))]);
        let _ = case.run(&[]).code(6);
        let failed = case.events("model.failed");
        assert_eq!(failed.len(), 1, "{status}");
        assert_eq!(failed[0]["body"]["class"], class);
    }
}

#[test]
fn server_errors_are_tried_again() {
    let case = Case::new(vec![with(read(), "fault", json!({ "status": 500, "times": 2 }))]);
    let _ = case.run(&[]).code(0);
    assert_eq!(case.events("model.failed").len(), 2);
}

#[test]
fn both_wires_do_the_same_work() {
    let steps = || {
        vec![
            json!({ "calls": [
                { "name": "read_file", "arguments": { "path": "a.txt" } },
                { "name": "edit_file", "arguments": { "path": "a.txt", "old": "one", "new": "two" } } ] }),
            call("submit", json!({ "summary": "two" })),
        ]
    };
    for wire in ["openai", "anthropic"] {
        let case = Case::new(steps());
        let url = if wire == "anthropic" {
            case.model.anthropic_url().to_owned()
        } else {
            case.model.base_url.clone()
        };
        let dir = case.repo.path.display().to_string();
        let args = ["run", "two", "-C", &dir, "--model", "m", "--wire", wire, "--base-url", &url];
        let _ = case.env.provost(args.into_iter().chain(["--verify", "grep -q two a.txt"])).code(0);
        assert_eq!(std::fs::read_to_string(case.repo.path.join("a.txt")).unwrap(), "two\n", "{wire}");
    }
}

#[test]
fn each_budget_ends_the_run_and_says_which() {
    let reads = |n: usize| vec![with(read(), "usage", json!({ "input": 4000, "output": 100 })); n];
    let cases: &[(&str, &[&str])] = &[
        ("steps", &["--max-steps", "3"]),
        ("tokens", &["--max-tokens", "20000"]),
        ("cost", &["--max-cost", "0.05", "--price", "3/15"]),
    ];
    for (bound, args) in cases {
        let case = Case::new(reads(20));
        let ran = case.run(args).code(4);
        let finished = case.events("run.finished");
        assert_eq!(finished[0]["body"]["outcome"]["bound"], *bound);
        if *bound == "tokens" {
            assert!(ran.last()["tokens"].as_u64().unwrap() <= 20_000);
        }
        if *bound == "cost" {
            assert!(ran.last()["cost_micros"].as_u64().unwrap() <= 50_000);
        }
    }
    let case = Case::new(vec![call("exec", json!({ "argv": ["sleep", "60"] }))]);
    let _ = case.run(&["--timeout", "2s"]).code(4);
    assert_eq!(case.events("run.finished")[0]["body"]["outcome"]["bound"], "time");
    assert!(!case.env.processes().iter().any(|line| line.contains("sleep 60")));
}

#[test]
fn w5_the_same_bad_call_again_and_again_ends_the_run() {
    let step = with(call("read_file", json!({ "path": "missing.txt" })), "repeat", json!(50));
    let case = Case::new(vec![step]);
    let ran = case.run(&[]).code(10);
    assert_eq!(ran.last()["outcome"], "stopped");
    assert!(case.events("note").iter().any(|event| event["body"]["why"] == "repeating"));
    assert!(case.events("model.answered").len() < 10);
}

#[test]
fn an_answer_that_was_cut_off_runs_nothing() {
    let cut = json!({ "say": "I will", "stop": "length",
        "call": { "name": "write_file", "arguments": { "path": "b.txt", "content": "half" } } });
    let case = Case::new(vec![cut]);
    let _ = case.run(&[]).code(0);
    assert!(!case.repo.path.join("b.txt").exists());
    assert!(
        case.events("note").iter().any(|event| event["body"]["why"] == "cut_off")
            || !case.events("call.invalid").is_empty()
    );
}

#[test]
fn a_gate_that_never_passes_ends_in_1_and_no_usage_is_an_estimate() {
    let case = Case::new(vec![with(json!({ "say": "Done." }), "usage", json!(false))]);
    let ran = case.run(&["--verify", "false"]).code(1);
    assert_eq!(ran.last()["outcome"], "gate_failed");
    assert_eq!(case.events("gate.judged").len(), 3);
    assert_eq!(case.events("model.answered")[0]["body"]["estimated"], true);
    assert!(case.events("model.answered")[0]["body"]["usage"]["input"].as_u64().unwrap() > 0);
}
