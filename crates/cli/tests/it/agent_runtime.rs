//! The command line of rust-agent-runtime over our store: its verbs, its lines byte for byte, its scripts as providers; and
//! what it lost, forged or left behind does not come back.
//!
//! | case there | held by |
//! | --- | --- |
//! | A1, A2, A3, A4 torn, foreign, flipped records | here (`an_old_log…`), `model/tests/it/agent_runtime/events_log.rs`, `journal/tests/it/{torn,damage}.rs` |
//! | A5 live task requeued, run twice | here (`a_task_that_runs…`), `queue.rs` |
//! | A6 acknowledged cancel overwritten | here (`a_task_that_runs…`), `queue.rs`, `core/tests/it/lifecycle.rs` |
//! | A7 landed edit lost by a crash | here (`a_worker_that_is_killed…`), `agent/tests/it/sim` |
//! | A8 poison task requeued for ever | nothing requeues by itself here; workers: `queue.rs` |
//! | B9, B10, B11, B30 | here |
//! | A13, A24, A25 output cap, lost tail, dirty tree, no-op edit | here, `gate.rs` of the agent |
//! | A14, A15, A17 processes that escape, no sandbox | `model/tests/it/planner_processes.rs`, `sandbox/tests/it` |
//! | A16 orphans after SIGTERM | here (`a_worker_that_is_told…`) |
//! | A20, B27 the documented AGENT_VERIFY | here, every form: `model/tests/it/agent_runtime/environment.rs` |
//! | A21 context in argv | `model/tests/it/planner.rs` |
//! | A22 files past the observation limit, A23 fatal refusals, B26, B28 | here |

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Ran, Running, TestEnvironment, eventually, files_beneath, finish};

/// Answers its n-th call with the n-th line of `decisions`, the last one again and again. What stands behind `!` is a line
/// for the shell instead.
const PROVIDER: &str = r#"#!/bin/sh
cd "$FAKE_STATE_DIR" || exit 9
n=$(cat calls 2>/dev/null || echo 0); n=$((n+1)); echo $n > calls
cat > request-$n.json
pwd -P > cwd; env > env
line=$(sed -n "${n}p" decisions); [ -n "$line" ] || line=$(sed -n '$p' decisions)
case $line in
!*) eval "${line#!}" ;;
*) printf '{"status":"SUCCESS","structured_output":%s,"usage":{"input_tokens":100,"output_tokens":7}}' "$line" ;;
esac
"#;

const HEADER: &str = "TASK\tSTATE\tATTEMPTS\tLAST_TOOL\tLAST_MS\n";

struct Case {
    env: TestEnvironment,
}

fn tool(program: &str, args: &[&str]) -> Value {
    json!({"kind": "run_tool", "program": program, "args": args})
}

fn replace(from: &str, to: &str) -> Value {
    json!({"kind": "replace_text", "path": "n.txt", "expected": from, "replacement": to})
}

fn finished() -> Value {
    json!({"kind": "finish", "summary": "two it is"})
}

impl Case {
    /// A workspace with a `one` in it that is to be a `two`.
    fn new(decisions: &[Value]) -> Self {
        let case = Self { env: TestEnvironment::new() };
        fs::create_dir_all(case.at("ws")).unwrap();
        fs::create_dir_all(case.at("state-of-fake")).unwrap();
        fs::write(case.at("ws/n.txt"), "one\n").unwrap();
        fs::write(case.at("ws/.gitignore"), "").unwrap();
        fs::write(case.at("fake.sh"), PROVIDER).unwrap();
        fs::set_permissions(case.at("fake.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        case.decides(decisions);
        case
    }

    fn at(&self, name: &str) -> PathBuf {
        self.env.at(name)
    }

    fn decides(&self, decisions: &[Value]) {
        let line = |decision: &Value| decision.as_str().map_or(decision.to_string(), str::to_owned);
        let lines: Vec<String> = decisions.iter().map(line).collect();
        fs::write(self.at("state-of-fake/decisions"), lines.join("\n") + "\n").unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.provost_command(["agent-runtime"].iter().chain(args));
        command
            .env("FAKE_STATE_DIR", self.at("state-of-fake"))
            // From the folder of the caller (B28).
            .env("AGENT_FAKE_PROVIDER", "./fake.sh")
            .env("AGENT_TASK", "make it two")
            .env("AGENT_ALLOWED", "grep,sh,true")
            .env("AGENT_VERIFY", "grep -q two n.txt");
        command
    }

    fn say(&self, args: &[&str]) -> Ran {
        finish(self.command(args))
    }

    fn run(&self, id: &str, more: &[(&str, &str)]) -> Ran {
        let mut command = self.command(&["run", "data", id, "ws"]);
        command.envs(more.iter().copied());
        finish(command)
    }

    fn start(&self, id: &str) -> Running {
        Running::start(self.command(&["run", "data", id, "ws"]))
    }

    fn calls(&self) -> u32 {
        let calls = fs::read_to_string(self.at("state-of-fake/calls")).unwrap_or_default();
        calls.trim().parse().unwrap_or_default()
    }

    /// What the provider was told in its call `n`.
    fn told(&self, n: u32) -> String {
        fs::read_to_string(self.at(&format!("state-of-fake/request-{n}.json"))).unwrap()
    }

    /// State and attempts of a task, as the table has them.
    fn row(&self, id: &str) -> String {
        let table = self.say(&["status", "data"]).code(0).stdout;
        let row = table.lines().find(|line| line.split('\t').next() == Some(id));
        row.unwrap_or_else(|| panic!("no `{id}` in\n{table}"))
            .split('\t')
            .skip(1)
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The newest run, as our own commands have to name it.
    fn newest_run(&self) -> String {
        let rows = self.env.provost(["runs", "--json", "--store", "data/provost.db"]).code(0).json();
        crate::support::text(&rows.last().unwrap()["run"])
    }

    fn content(&self) -> String {
        fs::read_to_string(self.at("ws/n.txt")).unwrap()
    }
}

/// Lines `key=value`, without the value of what took time.
fn lines(ran: &Ran) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some(("provider_duration_ms", ms)) => {
            assert!(ms.parse::<u64>().is_ok(), "{ms}");
            "provider_duration_ms=N".to_owned()
        }
        _ => line.to_owned(),
    };
    ran.stdout.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn names_are_taken_once_and_reading_makes_nothing() {
    let case = Case::new(&[]);
    // B10.
    let read = case.say(&["status", "data"]).code(0).says("there is no folder `data`");
    assert_eq!(read.stdout, HEADER);
    let _ = case.say(&["cancel", "data", "a"]).code(2).says("error: there is no task `a` in `data`");
    assert!(!case.at("data").exists());
    // B9.
    let all: Vec<Running> =
        (0..8).map(|_| Running::start(case.command(&["enqueue", "data", "a b"]))).collect();
    let mut said: Vec<String> = all.into_iter().map(|one| one.wait().code(0).stdout).collect();
    said.sort();
    assert_eq!(said.concat(), "enqueued=false\n".repeat(7) + "enqueued=true\n");
    for (id, expected) in [
        ("-x", "enqueued=true\n"),
        ("", "enqueued=true\n"),
        ("\u{1b}[2J", "enqueued=true\n"),
        ("a b", "enqueued=false\n"),
    ] {
        assert_eq!(case.say(&["enqueue", "data", id]).code(0).stdout, expected);
    }
    let _ = case.say(&["enqueue", "data", "a\tb"]).code(2).says("error: the task id `a\\tb` has a tab");
    let _ = case
        .say(&["enqueue", "data", &"É".repeat(20)])
        .code(2)
        .says("at most 62 characters of a-z, 0-9 and `-`, or 38 bytes");
    let table = case.say(&["status", "data"]).code(0).stdout;
    // Sorted by id; no escape sequence of an id reaches a terminal.
    let rows = ["", "\\u{1b}[2J", "-x", "a b"].map(|id| format!("{id}\tQueued\t0\t-\t-\n"));
    assert_eq!(table, HEADER.to_owned() + &rows.concat());
    // B30: whoever reads only the first line is no failure.
    let mut piped = case.env.command("sh");
    piped.args(["-c", "\"$0\" agent-runtime status data | head -1", env!("CARGO_BIN_EXE_provost")]);
    assert_eq!(finish(piped).code(0).stdout, HEADER);

    assert_eq!(case.say(&["cancel", "data", "-x"]).code(0).stdout, "cancelled=-x\n");
    assert_eq!(case.say(&["cancel", "data", "-x"]).code(0).stdout, "cancelled=-x\n");
    assert_eq!(case.row("-x"), "Cancelled 0");
    let _ = case.run("-x", &[]).code(10).says("error: task `-x` is cancelled");
    assert_eq!(case.calls(), 0);
}

#[test]
fn the_program_answers_to_the_other_name() {
    let case = Case::new(&[]);
    symlink(env!("CARGO_BIN_EXE_provost"), case.at("rust-agent-runtime")).unwrap();
    let by_name = |args: &[&str]| {
        let mut command = case.env.command(case.at("rust-agent-runtime"));
        command.args(args);
        finish(command)
    };
    let version = by_name(&["--version"]).code(0).stdout;
    assert_eq!(version, format!("rust-agent-runtime 0.1.2 (provost {})\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(by_name(&["enqueue", "data", "task-1"]).code(0).stdout, "enqueued=true\n");
    assert!(by_name(&["--help"]).code(0).stdout.contains("What is otherwise than it was"));
    for wrong in [&["status"][..], &["retry", "data", "a"], &["watch", "data", "0"], &[]] {
        assert_eq!(by_name(wrong).code, 2, "{wrong:?}");
    }
    // Our own commands know the task.
    let runs = case.env.provost(["runs", "--store", "data/provost.db"]).code(0).stdout;
    assert!(runs.starts_with("t-task-1 "), "{runs}");
    // Until its reader has seen enough.
    let mut watch = case.env.command("sh");
    watch.args(["-c", "./rust-agent-runtime watch data 5 | head -3"]);
    let shown = finish(watch).code(0).stdout;
    assert!(shown.starts_with(&format!("\x1b[2J\x1b[H{HEADER}task-1\tQueued\t0\t-\t-\n")), "{shown:?}");
}

#[test]
fn a_task_is_done_and_told_again() {
    let case = Case::new(&[
        finished(),
        tool("rm", &["-rf", "."]),
        json!({"kind": "dance"}),
        replace("one", "one"),
        replace("one", "two"),
        json!({"kind": "verify"}),
        // B26.
        json!({"kind": "finish", "summary": "two\noutcome=failed\ninput_tokens=1"}),
    ]);
    let ran = case.run("a", &[("SECRET_OF_MINE", "x"), ("AGY_HINT", "y")]).code(0);
    let expected = "outcome=completed\nsummary=two\\u{a}outcome=failed\\u{a}input_tokens=1\nsteps=7\ntool_runs=2\n\
        changed_files=1\nverified_after_change=true\ninput_tokens=700\noutput_tokens=49\nprovider_duration_ms=N\n";
    assert_eq!(lines(&ran), expected);
    assert_eq!(case.content(), "two\n");
    // A23, A25: all of it was told, none of it was fatal.
    let told = case.told(7);
    for words in [
        "`finish` before any edit",
        "run_tool rm",
        "deny",
        "it must be one of run_tool",
        "nothing would change",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let request: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(request["task"], "make it two");
    assert_eq!(request["allowed_programs"], json!(["grep", "sh", "true"]));
    assert_eq!(request["verification_programs"], json!(["grep -q two n.txt"]));
    // Where it ran, and what it saw.
    let cwd = fs::read_to_string(case.at("state-of-fake/cwd")).unwrap();
    assert!(cwd.starts_with(&case.at("state-of-fake").display().to_string()), "{cwd}");
    let seen = fs::read_to_string(case.at("state-of-fake/env")).unwrap();
    assert!(
        seen.contains("AGY_HINT=y") && !seen.contains("SECRET_OF_MINE") && !seen.contains("AGENT_TASK"),
        "{seen}"
    );

    let again = case.run("a", &[]).code(0);
    assert_eq!(again.stdout, ran.stdout);
    assert_eq!(case.calls(), 7, "no second run");
    let row = case.say(&["status", "data"]).code(0).stdout;
    assert!(row.starts_with(&format!("{HEADER}a\tSucceeded\t1\tgrep\t")), "{row}");
    let _ = case.say(&["cancel", "data", "a"]).code(2).says("error: task `a` is over (Succeeded)");
    let other = case.run("a", &[("AGENT_TASK", "another")]).code(2).says("another order (the goal differs)");
    assert!(
        other.stdout.starts_with("outcome=failed\nfailure_kind=InvalidInput\nfailure=task `a`"),
        "{other}"
    );
    case.env.assert_no_processes();
}

#[test]
fn what_cannot_work_is_said_before_anything_is_paid() {
    let case = Case::new(&[finished()]);
    // A20, B27.
    let _ = case
        .run("a", &[("AGENT_VERIFY", "sh;test;--locked")])
        .code(2)
        .says("AGENT_VERIFY=\"sh test --locked\"");
    let _ = case.run("a", &[("AGENT_VERIFY", "")]).code(2).says("AGENT_VERIFY");
    let _ = case.run("a", &[("AGENT_VERIFY", "cargo test")]).code(2).says("`cargo` is not in AGENT_ALLOWED");
    let _ = case
        .run("a", &[("AGENT_FAKE_PROVIDER", "no-such")])
        .code(2)
        .says("AGENT_FAKE_PROVIDER: there is no program");
    let _ = case.run("a", &[("AGENT_MAX_STEPS", "0")]).code(2).says("AGENT_MAX_STEPS");
    let _ = case.say(&["run", "data", "a", "no-such"]).code(2).says("no-such");
    // B11, and what the agent could write and the caller would run.
    let _ = case.say(&["run", "ws/data", "a", "ws"]).code(2).says("lies in the workspace");
    fs::copy(case.at("fake.sh"), case.at("ws/fake.sh")).unwrap();
    symlink(case.at("ws/fake.sh"), case.at("link")).unwrap();
    symlink(case.at("fake.sh"), case.at("ws/link")).unwrap();
    for program in ["ws/fake.sh", "./link", "ws/link"] {
        let _ = case.run("a", &[("AGENT_FAKE_PROVIDER", program)]).code(2).says("lies in the workspace");
    }
    assert!(!case.at("data").exists() && !case.at("ws/data").exists());
    assert_eq!(case.calls(), 0);
    // A program that is not there is found before the order is on record: put right, it is the same task.
    let missing = [("AGENT_ALLOWED", "no-prog"), ("AGENT_VERIFY", "no-prog x")];
    let _ = case.run("a", &missing).code(2).says("AGENT_VERIFY: there is no program `no-prog` in PATH");
    assert!(!case.at("data").exists());
    assert_eq!(case.calls(), 0);
}

#[test]
fn the_limit_of_steps_is_a_failure_with_its_tokens() {
    let case = Case::new(&[replace("one", "two"), tool("true", &[])]);
    let ran = case.run("a", &[("AGENT_MAX_STEPS", "4")]).code(4).says("error: agent step limit reached");
    assert_eq!(
        ran.stdout,
        "outcome=failed\nfailure_kind=TimedOut\nfailure=agent step limit reached\ninput_tokens=400\noutput_tokens=28\n"
    );
    assert_eq!(case.content(), "two\n");
    assert_eq!(case.row("a"), "Failed 1");
    assert_eq!(case.run("a", &[("AGENT_MAX_STEPS", "4")]).code(4).stdout, ran.stdout);
    let _ = case.say(&["cancel", "data", "a"]).code(2).says("is over (Failed)");
}

/// A25: verified, then broken; and an edit that is taken back.
#[test]
fn only_the_tree_that_is_there_at_the_end_counts() {
    let case = Case::new(&[
        replace("one", "two"),
        json!({"kind": "verify"}),
        tool("sh", &["-c", "echo three > n.txt"]),
        finished(),
        replace("three", "two"),
        finished(),
    ]);
    let ran = case.run("a", &[]).code(0);
    assert!(ran.stdout.contains("steps=6\n"), "{ran}");
    assert!(case.told(5).contains("did not pass"), "{}", case.told(5));
    assert_eq!(case.content(), "two\n");

    fs::remove_file(case.at("state-of-fake/calls")).unwrap();
    case.decides(&[replace("two", "2"), replace("2", "two"), finished()]);
    let ran = case.run("b", &[]).code(1).says("error: nothing was changed");
    assert!(
        ran.stdout.starts_with("outcome=failed\nfailure_kind=Other\nfailure=nothing was changed"),
        "{ran}"
    );
    assert_eq!(case.row("b"), "Failed 1");
}

/// A13, A22, A24, and several verifications.
#[test]
fn chatty_commands_long_files_and_the_end_of_the_output() {
    let loud = "seq 1 40000; grep -q two n.txt || { echo the assertion at the end; exit 1; }";
    let verify = json!([["sh", "-c", loud], ["grep", "-q", "two words", "n.txt"]]).to_string();
    let case = Case::new(&[
        json!({"kind": "verify"}),
        json!({"kind": "read_file", "path": "long.txt"}),
        json!({"kind": "replace_text", "path": "long.txt", "expected": "needle", "replacement": "pin"}),
        replace("one", "two words"),
        finished(),
    ]);
    let filler = "hay\n".repeat(20_000);
    fs::write(case.at("ws/long.txt"), format!("{filler}needle\n")).unwrap();
    let ran = case.run("a", &[("AGENT_VERIFY", &verify)]).code(0);
    assert!(ran.stdout.contains("changed_files=2\nverified_after_change=true\n"), "{ran}");
    assert!(case.told(2).contains("the assertion at the end"), "{}", case.told(2));
    assert!(fs::read_to_string(case.at("ws/long.txt")).unwrap().ends_with("pin\n"));
    let log = case.env.provost(["log", &case.newest_run(), "--store", "data/provost.db"]).code(0).stdout;
    assert!(log.contains("gate sh -c "), "{log}");
}

/// A23, B28: a provider that fails is tried again, in this command and in the next; what it had done is kept.
#[test]
fn a_provider_that_fails_is_no_end() {
    let broken = json!("!echo '{\"status\":\"SUCCESS\"'; echo oh >&2; exit 1");
    let case = Case::new(&[replace("one", "two"), broken]);
    let ran = case
        .run("a", &[])
        .code(6)
        .says("error: provider failed")
        .says("hint: the same command tries it again");
    assert!(ran.stdout.starts_with("outcome=failed\nfailure_kind=Other\nfailure=provider failed"), "{ran}");
    assert!(ran.stdout.ends_with("input_tokens=100\noutput_tokens=7\n"), "{ran}");
    assert_eq!((case.calls(), case.row("a")), (4, "Failed 1".to_owned()));
    // A long answer is one: 64 KiB was the end of it there.
    let padding = format!(
        "!printf '{{\"status\":\"SUCCESS\",\"pad\":\"%0100000d\",\"structured_output\":{},\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}' 0",
        finished()
    );
    case.decides(&[json!(padding)]);
    let ran = case.run("a", &[]).code(0);
    assert!(ran.stdout.contains("steps=2\n") && ran.stdout.contains("input_tokens=101\n"), "{ran}");
    assert_eq!(case.row("a"), "Succeeded 2");

    fs::remove_file(case.at("state-of-fake/calls")).unwrap();
    case.decides(&[json!("!sleep 30")]);
    let ran = case.run("slow", &[("AGENT_TIMEOUT_SECS", "1")]).code(6);
    assert!(
        ran.stdout.starts_with("outcome=failed\nfailure_kind=TimedOut\nfailure=provider timed out"),
        "{ran}"
    );
    case.env.assert_no_processes();
}

/// A7: what had landed before the crash counts after it.
#[test]
fn a_worker_that_is_killed_leaves_a_task_that_goes_on() {
    let case = Case::new(&[replace("one", "two"), json!("!exec sleep 100")]);
    let worker = case.start("a");
    eventually("it is asked again", || case.calls() == 2);
    let _ = worker.kill();
    assert_eq!(case.row("a"), "Queued 1");
    assert_eq!(case.content(), "two\n");
    case.decides(&[finished()]);
    let ran = case.run("a", &[]).code(0);
    assert!(
        ran.stdout.contains("steps=2\n")
            && ran.stdout.contains("changed_files=1\nverified_after_change=true\n"),
        "{ran}"
    );
    assert_eq!(case.row("a"), "Succeeded 2");
    case.env.assert_no_processes();
}

/// A16: SIGTERM ends what it had started, and the task goes on with the next `run`.
#[test]
fn a_worker_that_is_told_to_stop_leaves_nobody_behind() {
    let case = Case::new(&[replace("one", "two"), json!("!sleep 100")]);
    let worker = case.start("a");
    eventually("it is asked again", || case.calls() == 2);
    worker.signal(Signal::TERM);
    let ran = worker.wait().code(130).says("hint: the same command goes on with it");
    assert!(
        ran.stdout.starts_with("outcome=failed\nfailure_kind=Interrupted\nfailure=interrupted\n"),
        "{ran}"
    );
    case.env.assert_no_processes();
    assert_eq!(case.row("a"), "Queued 1");
    assert_eq!(files_beneath(&case.at("data")).len(), 1, "only the store is left");
    case.decides(&[finished()]);
    let _ = case.run("a", &[]).code(0);
}

/// A command whose record is lost with the machine: the task waits until a person says what became of it.
#[test]
fn a_command_that_nobody_can_tell_about_is_settled_by_a_person() {
    let case = Case::new(&[replace("one", "two"), tool("sh", &["-c", "touch begun; sleep 300"])]);
    let worker = case.start("a");
    eventually("the command runs", || case.at("ws/begun").exists());
    let _ = worker.kill();
    case.env.assert_no_processes();
    fs::remove_dir_all(case.at("data/provost.spool")).unwrap();
    case.decides(&[finished()]);
    let _ = case.run("a", &[]).code(5).says("with PROVOST_SETTLE=happened, did-not or again");
    let _ = case.run("a", &[("PROVOST_SETTLE", "perhaps")]).code(2).says("PROVOST_SETTLE is `perhaps`");
    let _ = case.run("a", &[("PROVOST_SETTLE", "happened")]).code(0);
    let log = case.env.provost(["log", &case.newest_run(), "--json", "--store", "data/provost.db"]).code(0);
    assert!(log.stdout.contains("act.settled"), "{log}");
}

/// A5, A6.
#[test]
fn a_task_that_runs_is_left_alone_until_it_is_cancelled() {
    let case = Case::new(&[replace("one", "two"), json!("!sleep 100")]);
    let worker = case.start("a");
    eventually("it is asked again", || case.calls() == 2);
    assert_eq!(case.say(&["enqueue", "data", "b"]).code(0).stdout, "enqueued=true\n");
    assert_eq!(case.row("a"), "Running 1");
    let second = case.run("a", &[]).code(7);
    assert!(second.stdout.starts_with("outcome=failed\nfailure_kind=Other\n"), "{second}");
    assert_eq!((case.row("a"), case.calls()), ("Running 1".to_owned(), 2));
    assert_eq!(case.say(&["cancel", "data", "a"]).code(0).stdout, "cancelled=a\n");
    assert_eq!(case.row("a"), "Cancelled 1");
    let ran = worker.wait().code(10).says("error: cancelled");
    assert!(ran.stdout.starts_with("outcome=failed\nfailure_kind=Interrupted\nfailure=cancelled"), "{ran}");
    case.env.assert_no_processes();
    let again = case.run("a", &[]).code(10);
    assert_eq!((again.stdout, case.row("a")), (ran.stdout, "Cancelled 1".to_owned()));
    assert_eq!(case.say(&["cancel", "data", "a"]).code(0).stdout, "cancelled=a\n");
}

/// A1, A2: an old log is read whatever is in it, and is never written.
#[test]
fn an_old_log_is_shown_and_taken_over() {
    let case = Case::new(&[replace("one", "two"), finished()]);
    fs::create_dir(case.at("data")).unwrap();
    let log: &[u8] = b"waits\tqueued\t0\tenqueue\nalso\tqueued\t0\tenqueue\nruns\tqueued\t0\tenqueue\nruns\trunning\t1\tstart\n\
        ended\tqueued\t0\tenqueue\nended\trunning\t1\tstart\ntool\tended\t1\tcargo\t1\t0\tfalse\tfalse\tfalse\t10\t0\t42\n\
        ended\tsucceeded\t1\tcomplete\nlost\tqueued\t0\tenqueue\nlost\tcancelled\t0\tcancel\nlost\tfailed\t1\tcomplete\n\
        \xff\xfe\ngone\tqueued\t0\tenqueue\ngone\tcancelled\t0\tcancel\nwai";
    fs::write(case.at("data/events.log"), log).unwrap();
    let table = HEADER.to_owned()
        + "also\tQueued\t0\t-\t-\nended\tSucceeded\t1\tcargo\t42\ngone\tCancelled\t0\t-\t-\nlost\tFailed\t1\t-\t-\n"
        + "runs\tRunning\t1\t-\t-\nwaits\tQueued\t0\t-\t-\n";
    let shown = case.say(&["status", "data"]).code(0);
    assert_eq!(shown.stdout, table);
    let shown =
        shown.says("not UTF-8").says("it is torn").says("task `lost`, line 11: it was cancelled in line 10");
    drop(shown);
    assert_eq!(files_beneath(&case.at("data")).len(), 1, "reading made nothing");

    let _ = case.run("runs", &[]).code(2).says("only the old program could reach its worker");
    let _ = case.run("ended", &[]).code(2).says("is over (Succeeded)").says("take a new task id");
    let _ = case.run("gone", &[]).code(10);
    let _ = case.say(&["cancel", "data", "ended"]).code(2);
    let _ = case.say(&["cancel", "data", "runs"]).code(2);
    assert_eq!(case.say(&["cancel", "data", "gone"]).code(0).stdout, "cancelled=gone\n");
    assert_eq!(case.say(&["enqueue", "data", "ended"]).code(0).stdout, "enqueued=false\n");
    assert_eq!(case.say(&["enqueue", "data", "new"]).code(0).stdout, "enqueued=true\n");
    assert_eq!(case.say(&["cancel", "data", "also"]).code(0).stdout, "cancelled=also\n");

    let imported = "imported=1\nknown=1\nleft_in_log=4\nnot_importable=0\ndamaged_lines=2\n";
    assert_eq!(case.say(&["import", "data"]).code(0).stdout, imported);
    let again = case.say(&["import", "data"]).code(0).stdout;
    assert_eq!(again, "imported=0\nknown=2\nleft_in_log=4\nnot_importable=0\ndamaged_lines=2\n");
    let _ = case.run("waits", &[]).code(0);
    let table = case.say(&["status", "data"]).code(0).stdout;
    for row in [
        "also\tCancelled\t0\t",
        "ended\tSucceeded\t1\tcargo\t42",
        "new\tQueued\t0\t",
        "waits\tSucceeded\t1\tgrep\t",
    ] {
        assert!(table.contains(&format!("\n{row}")), "{row}\n{table}");
    }
    assert_eq!(fs::read(case.at("data/events.log")).unwrap(), log);
    let _ = case.say(&["import", "elsewhere"]).code(2).says("there is no `events.log`");
    assert!(!case.at("elsewhere").exists());
}

/// The fixture of the other program's tests, mended in a folder of a repository.
#[test]
fn a_crate_that_is_off_by_one() {
    let case = Case::new(&[
        tool("cargo", &["test", "--offline", "--quiet"]),
        json!({"kind": "read_file", "path": "src/lib.rs"}),
        json!({"kind": "replace_text", "path": "src/lib.rs", "expected": "(1..n)", "replacement": "(1..=n)"}),
        json!({"kind": "verify"}),
        json!({"kind": "finish", "summary": "the range takes its end in"}),
    ]);
    let repo = case.env.repository(
        "crates",
        &[
            (".gitignore", "target\nCargo.lock\n"),
            ("off/Cargo.toml", "[package]\nname = \"off\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
            (
                "off/src/lib.rs",
                "pub fn sum_up_to(n: u32) -> u32 {\n    (1..n).sum()\n}\n\n#[test]\nfn sums() {\n    assert_eq!(sum_up_to(3), 6);\n}\n",
            ),
        ],
    );
    let mut command = case.command(&["run", "data", "off_by_one", "crates/off"]);
    command.envs([("AGENT_ALLOWED", "cargo"), ("AGENT_VERIFY", "cargo test --offline --quiet")]);
    let ran = finish(command).code(0);
    assert!(
        ran.stdout.contains("steps=5\ntool_runs=3\nchanged_files=1\nverified_after_change=true\n"),
        "{ran}"
    );
    assert!(case.told(2).contains("assertion"), "{}", case.told(2));
    assert_eq!(repo.git(&["diff", "--name-only"]), "off/src/lib.rs\n");
    // It can be proved like any other run.
    let run = case.newest_run();
    let _ = case.env.provost(["export", &run, "--out", "bundle", "--store", "data/provost.db"]).code(0);
    let key = case.env.public_key().display().to_string();
    let _ =
        case.env.provost(["verify", "bundle", "--key", &key, "--repo", "crates", "--require-gate"]).code(0);
}
