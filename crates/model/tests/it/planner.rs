//! Planners: what their programs print becomes calls, failures, or words to read. Real programs, real pipes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use provost_core::transcript::{Call, Message, Stop};
use provost_model::planner::{
    Answers, ContextBy, Finishes, NoProgram, Planner, PlannerBuilder, REJECTED, resolve,
};
use provost_model::{Answer, Dialogue, Failure, FailureClass, Invocation, Prelude, Provider as _, Secret};

use crate::support::{CANARY, Heard, assistant, call, result, user};

/// A folder with programs.
pub(crate) struct Bench(tempfile::TempDir);

impl Bench {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program with this text. Another process writes it: a descriptor of this one could be inherited by a program that
    /// another test starts just now, and a file that is open for writing cannot be executed.
    pub(crate) fn program(&self, text: &str) -> PathBuf {
        let path = self.path("program");
        let mut install = Command::new("install");
        let mut install =
            install.args(["-m", "755", "/dev/stdin"]).arg(&path).stdin(Stdio::piped()).spawn().unwrap();
        install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(install.wait().unwrap().success());
        path
    }

    pub(crate) fn sh(&self, body: &str) -> PlannerBuilder {
        self.script(&format!("#!/bin/sh\n{body}\n"))
    }

    pub(crate) fn python(&self, body: &str) -> PlannerBuilder {
        self.script(&format!("#!/usr/bin/env python3\n{body}\n"))
    }

    fn script(&self, text: &str) -> PlannerBuilder {
        Planner::script(self.program(text), self.0.path()).env(environment())
    }

    fn agy(&self, body: &str) -> PlannerBuilder {
        let program = self.program(&format!("#!/usr/bin/env python3\nimport json, sys\n{body}\n"));
        Planner::agy(program, self.0.path(), "gemini").env(environment())
    }
}

pub(crate) fn environment() -> BTreeMap<OsString, OsString> {
    let path = std::env::var_os("PATH").unwrap();
    BTreeMap::from([("PATH".into(), path), ("HOME".into(), "/nowhere".into())])
}

pub(crate) async fn ask(planner: PlannerBuilder) -> Result<Answer, Failure> {
    let mut dialogue = planner.build().unwrap().open(Prelude::default());
    dialogue.push(&user("fix it"));
    one(dialogue.as_mut()).await.0
}

async fn one(dialogue: &mut dyn Dialogue) -> (Result<Answer, Failure>, Heard) {
    let mut heard = Heard::default();
    let answer = dialogue.ask(&Invocation::new("i"), &mut heard).await;
    (answer, heard)
}

fn printing(output: &str) -> String {
    format!("cat <<'END'\n{}\nEND", envelope(output))
}

pub(crate) fn envelope(output: &str) -> String {
    format!(
        r#"{{"status":"SUCCESS","structured_output":{output},"usage":{{"input_tokens":50,"output_tokens":5}}}}"#
    )
}

fn made(answer: &Answer) -> Vec<(&str, &str)> {
    answer.assistant.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
}

#[tokio::test]
async fn each_decision_becomes_calls_of_our_tools() {
    let verification = [vec!["cargo".to_owned(), "test".to_owned()], vec!["true".to_owned()]];
    for (output, calls) in [
        (
            r#"{"kind":"run_tool","program":"cargo","args":["test"]}"#,
            vec![("exec", r#"{"argv":["cargo","test"]}"#)],
        ),
        (r#"{"kind":"run_tool","program":"ls"}"#, vec![("exec", r#"{"argv":["ls"]}"#)]),
        (
            r#"{"kind":"read_file","path":"src/lib.rs","args":[],"summary":null}"#,
            vec![("read_file", r#"{"path":"src/lib.rs"}"#)],
        ),
        (
            r#"{"kind":"replace_text","path":"a","expected":"é\n","replacement":""}"#,
            vec![("edit_file", r#"{"new":"","old":"é\n","path":"a"}"#)],
        ),
        (
            r#"{"kind":"verify"}"#,
            vec![("exec", r#"{"argv":["cargo","test"]}"#), ("exec", r#"{"argv":["true"]}"#)],
        ),
        (r#"{"kind":"finish","summary":"done"}"#, vec![("submit", r#"{"summary":"done"}"#)]),
    ] {
        let bench = Bench::new();
        let planner = bench.sh(&printing(output)).verification(verification.clone());
        let mut dialogue = planner.build().unwrap().open(Prelude::default());
        let (answer, heard) = one(dialogue.as_mut()).await;
        let answer = answer.unwrap();
        let sorted = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let found = made(&answer);
        assert_eq!(found.len(), calls.len());
        for (found, wanted) in found.iter().zip(&calls) {
            assert_eq!((found.0, sorted(found.1)), (wanted.0, sorted(wanted.1)));
        }
        assert_eq!(answer.stop, Stop::ToolCalls);
        assert_eq!(heard.calls, answer.assistant.calls);
        let usage = answer.usage.unwrap();
        assert_eq!((usage.input, usage.output), (50, 5));
        assert_eq!(answer.model, "program");
    }
}

#[tokio::test]
async fn what_is_no_decision_is_told_and_fails_nothing() {
    let long = "x".repeat(4097);
    let many = format!("[{}]", vec!["\"a\""; 33].join(","));
    for (output, says) in [
        (r#"{"kind":"format_disk"}"#.to_owned(), "must be one of run_tool, read_file"),
        (r#"{"kind":"verify","force":true}"#.to_owned(), "`verify` has no field `force`"),
        (r#"{"kind":"verify","summary":"x"}"#.to_owned(), "`verify` has no field `summary`"),
        (r#"{"kind":"verify"}"#.to_owned(), "no verification command is configured"),
        (r#"{"kind":"read_file"}"#.to_owned(), "`read_file` needs `path`"),
        (r#"{"kind":"read_file","path":7}"#.to_owned(), "`path` must be a string"),
        (format!(r#"{{"kind":"finish","summary":"{long}"}}"#), "4097 characters; at most 4096"),
        (format!(r#"{{"kind":"run_tool","program":"a","args":{many}}}"#), "33 items; at most 32"),
        (r#"["verify"]"#.to_owned(), "is a JSON object"),
    ] {
        let bench = Bench::new();
        let mut dialogue = bench.sh(&printing(&output)).build().unwrap().open(Prelude::default());
        dialogue.push(&user("fix it"));
        let answer = one(dialogue.as_mut()).await.0.unwrap();
        let [Call { name, arguments, .. }] = answer.assistant.calls.as_slice() else { panic!("{answer:?}") };
        assert!(name == REJECTED && arguments.contains(says), "{arguments}");
    }
}

#[tokio::test]
async fn broken_answers_are_failures_that_are_tried_again() {
    let paid = r#"{"status":"SUCCESS","usage":{"input_tokens":9,"output_tokens":1}}"#;
    for (body, class, says, paid) in [
        (String::new(), FailureClass::Malformed, "printed nothing", None),
        ("echo hello".to_owned(), FailureClass::Malformed, "it begins `hello", None),
        ("printf '\\377{}'".to_owned(), FailureClass::Malformed, "not one JSON object", None),
        ("echo 7".to_owned(), FailureClass::Malformed, "not an object", None),
        (format!("echo '{paid}'"), FailureClass::Malformed, "no `structured_output`", Some(9)),
        (format!("echo '{paid}'; echo '{paid}'"), FailureClass::Malformed, "trailing", None),
        (format!("echo '{paid}'; echo out of luck >&2; exit 3"), FailureClass::Server, "luck", Some(9)),
        ("kill -9 $$".to_owned(), FailureClass::Server, "killed by signal 9", None),
        (
            r#"echo '{"status":"UNAVAILABLE","error":{"message":"busy"},"usage":{"input_tokens":4}}'; exit 1"#
                .to_owned(),
            FailureClass::Overloaded,
            "`UNAVAILABLE`: busy",
            Some(4),
        ),
        (r#"echo '{"structured_output":{}}'"#.to_owned(), FailureClass::Malformed, "no `status`", None),
    ] {
        let bench = Bench::new();
        let failure = ask(bench.sh(&body)).await.unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.retryable() && failure.message.contains(says), "{failure}");
        assert_eq!(failure.usage.map(|usage| usage.input), paid, "{failure}");
    }
}

#[tokio::test]
async fn what_nobody_can_retry_is_said_to_be_so() {
    let bench = Bench::new();
    let missing = Planner::script(bench.path("none"), bench.path(".")).build().unwrap();
    let failure = one(missing.open(Prelude::default()).as_mut()).await.0.unwrap_err();
    assert!(failure.class == FailureClass::Setup && failure.message.contains("exec"), "{failure}");
    let failure = ask(bench.script("echo hello\n")).await.unwrap_err();
    assert!(failure.class == FailureClass::Setup && failure.message.contains("`#!/bin/sh`"), "{failure}");
    let failure = ask(bench.sh(r#"echo '{"status":"UNAUTHENTICATED"}'"#)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Auth);
    for (planner, says) in [
        (Planner::script("rel", "/"), "not an absolute path"),
        (Planner::script("/bin/true", "/none"), "no folder"),
        (Planner::script("/bin/true", "/").verification([Vec::new()]), "command 1 is empty"),
    ] {
        assert!(planner.build().unwrap_err().to_string().contains(says));
    }
}

const COUNTS: &str = r#"
import json, sys
request = json.load(sys.stdin)
assert sorted(request) == ["allowed_programs", "observations", "task", "verification_programs"], request
summary = "|".join([request["task"], ",".join(request["allowed_programs"]),
    ",".join(request["verification_programs"]), str(len(request["observations"])), request["observations"][-1][:40]])
print(json.dumps({"status": "SUCCESS", "structured_output": {"kind": "finish", "summary": summary}}))
"#;

/// A dialogue that has observed a megabyte.
fn long_dialogue(planner: PlannerBuilder) -> Box<dyn Dialogue> {
    let mut dialogue = planner.build().unwrap().open(Prelude::default());
    dialogue.push(&user("fix \u{1f980}"));
    for turn in 0..70 {
        let id = format!("plan_{turn}_0");
        dialogue.push(&assistant("", vec![call(&id, "read_file", r#"{"path":"a.rs"}"#)]));
        let text = "x\n".repeat(8_000);
        dialogue
            .push(&provost_core::transcript::Message::Results { results: vec![result(&id, &text, false)] });
    }
    assert!(dialogue.prompt_bytes() > 1_000_000);
    dialogue
}

#[tokio::test]
async fn a_script_reads_a_megabyte_of_context_on_standard_input() {
    let bench = Bench::new();
    let planner = bench.python(COUNTS).allowed(["cargo".to_owned()]).verification([vec![
        "cargo".to_owned(),
        "test".to_owned(),
        "a b".to_owned(),
    ]]);
    let answer = one(long_dialogue(planner).as_mut()).await.0.unwrap();
    let summary: serde_json::Value = serde_json::from_str(made(&answer)[0].1).unwrap();
    assert_eq!(
        summary["summary"],
        "fix \u{1f980}|cargo|cargo test 'a b'|70|read_file a.rs\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx"
    );
}

const AGY: &str = r#"
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
prompt, where = value("--print"), "argv"
assert value("--model") == "gemini" and value("--output-format") == "json" and value("--effort") == "low", args
assert value("--print-timeout").endswith("s") and "--sandbox" in args and "--disable-slash-commands" in args
assert json.loads(value("--json-schema"))["properties"]["summary"]["maxLength"] == 4096
assert len(prompt) < 120 * 1024
if "Context JSON: " in prompt:
    request = json.loads(prompt.split("Context JSON: ", 1)[1])
else:
    where, request = "stdin", json.load(sys.stdin)
summary = "%s %d %s" % (where, len(request["observations"]), request["task"])
print(json.dumps({"status": "SUCCESS", "structured_output": {"kind": "finish", "summary": summary}}))
"#;

#[tokio::test]
async fn agy_gets_a_short_prompt_as_an_argument_and_a_long_one_on_standard_input() {
    let bench = Bench::new();
    let answer = ask(bench.agy(AGY)).await.unwrap();
    assert!(made(&answer)[0].1.contains("argv 0 fix it"), "{answer:?}");
    let answer = one(long_dialogue(bench.agy(AGY)).as_mut()).await.0.unwrap();
    assert!(made(&answer)[0].1.contains("stdin 70 fix"), "{answer:?}");
    let answer = ask(bench.agy(AGY).context(ContextBy::Stdin)).await.unwrap();
    assert!(made(&answer)[0].1.contains("stdin 0 fix it"), "{answer:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read_standard_input_says_so() {
    let bench = Bench::new();
    let blind =
        r#"print('{"status":"SUCCESS","structured_output":{"kind":"finish","summary":"NO CONTEXT"}}')"#;
    let failure = ask(bench.agy(blind).context(ContextBy::Stdin)).await.unwrap_err();
    assert!(failure.class == FailureClass::ContextOverflow, "{failure}");
    // A task that is done is not mistaken for it.
    assert!(ask(bench.agy(blind)).await.is_ok());
}

#[tokio::test]
async fn text_comes_as_it_is_written_and_a_character_may_come_in_pieces() {
    let bench = Bench::new();
    let body = r#"
import os
out = '{"event":"init"}\n\n{"event":"step_update","step_update":{"text_delta":"n\u00e9 \U0001f980"}}\n' \
    '{"event":"result","result":{"status":"SUCCESS","usage":{"input_tokens":3,"output_tokens":2}}}'
for byte in out.encode():
    os.write(1, bytes([byte]))
"#;
    let mut dialogue = bench.python(body).answers(Answers::Text).build().unwrap().open(Prelude::default());
    let (answer, heard) = one(dialogue.as_mut()).await;
    let answer = answer.unwrap();
    assert_eq!((answer.assistant.text.as_str(), heard.text.as_str()), ("né 🦀", "né 🦀"));
    assert_eq!((answer.stop, answer.usage.unwrap().input), (Stop::End, 3));
    for (body, says, input) in [
        ("echo '{\"event\":\"x\"}'; echo oops", "line 2 of the planner's stream is not JSON", None),
        ("echo '{\"event\":\"x\"}'", "before its `result`", None),
        (
            r#"echo '{"event":"result","result":{"status":"ERROR","usage":{"input_tokens":6}}}'"#,
            "`ERROR`",
            Some(6),
        ),
        (
            r#"echo '{"event":"result","result":{"status":"SUCCESS","usage":{"input_tokens":6}}}'; exit 2"#,
            "exited with 2",
            Some(6),
        ),
    ] {
        let failure = ask(bench.sh(body).answers(Answers::Text)).await.unwrap_err();
        assert!(failure.retryable() && failure.message.contains(says), "{failure}");
        assert_eq!(failure.usage.map(|usage| usage.input), input);
    }
}

#[tokio::test]
async fn no_credential_is_inherited_or_printed() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the control: this process has a variable");
    let bench = Bench::new();
    // What the program was given, before a shell or an interpreter adds to it.
    let body = r#"
names=$(tr '\0' '\n' </proc/$$/environ | cut -d= -f1 | sort | tr '\n' ' ')
echo "{\"status\":\"SUCCESS\",\"structured_output\":{\"kind\":\"finish\",\"summary\":\"$names\"}}"
"#;
    let answer = ask(bench.sh(body)).await.unwrap();
    assert_eq!(made(&answer), [("submit", r#"{"summary":"HOME PATH "}"#)]);
    let mut env = environment();
    env.insert("AGY_KEY".into(), CANARY.into());
    let leaks = |body: &str| bench.sh(body).env(env.clone()).secret(Secret::new(CANARY));
    let failure = ask(leaks("echo $AGY_KEY >&2; exit 1")).await.unwrap_err();
    assert!(failure.message.contains("[secret]") && !failure.message.contains(CANARY), "{failure}");
    let answer = ask(leaks(
        r#"echo "{\"status\":\"SUCCESS\",\"structured_output\":{\"kind\":\"finish\",\"summary\":\"$AGY_KEY\"}}""#,
    ));
    let answer = answer.await.unwrap();
    assert!(made(&answer)[0].1.contains("[secret]"));
}

#[test]
fn programs_are_found_from_where_the_caller_is() {
    let bench = Bench::new();
    let program = bench.program("#!/bin/sh\n");
    let here = program.parent().unwrap();
    let path = std::env::join_paths(["relative".as_ref(), Path::new("/none"), here]).unwrap();
    let found = |name: &str, cwd: &Path| resolve(OsStr::new(name), cwd, Some(&path));
    assert_eq!(found("program", Path::new("/")), Ok(program.clone()));
    assert_eq!(found("./program", here), Ok(program.clone()));
    assert_eq!(found(program.to_str().unwrap(), Path::new("/")), Ok(program.clone()));
    assert!(matches!(found("./program", Path::new("/")), Err(NoProgram::NotExecutable { .. })));
    assert!(matches!(found("nobody-has-this", here), Err(NoProgram::NotInPath { .. })));
    assert!(found("", here).is_err());
    let plain = bench.path("plain");
    std::fs::write(&plain, "").unwrap();
    assert!(found("./plain", here).unwrap_err().to_string().contains("chmod +x"));
    assert!(Planner::script(&program, here).timeout(Duration::ZERO).build().is_ok());
}

/// A planner that may finish after an edit only: one that failed is none, one that another driver saw is one (A7).
#[tokio::test]
async fn a_finish_before_any_edit_is_told_and_not_taken() {
    let bench = Bench::new();
    let finish = r#"{"kind":"finish","summary":"s"}"#;
    let planner = bench.sh(&printing(finish)).finishes(Finishes::AfterAnEdit).build().unwrap();
    let mut dialogue = planner.open(Prelude::default());
    dialogue.push(&user("fix it"));
    for (round, failed, expected) in [(0, true, REJECTED), (1, true, REJECTED), (2, false, "submit")] {
        let id = format!("e{round}");
        if round > 0 {
            dialogue.push(&assistant("", vec![call(&id, "edit_file", r#"{"path":"a"}"#)]));
            dialogue.push(&Message::Results { results: vec![result(&id, "what came of it", failed)] });
        }
        let answer = one(dialogue.as_mut()).await.0.unwrap();
        assert_eq!(answer.assistant.calls[0].name, expected, "{answer:?}");
    }
}
