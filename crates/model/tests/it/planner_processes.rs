//! Planners: whatever a program does, its time and its output are bounded, and nothing of it is left alive.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use provost_model::planner::{Answers, Planner};
use provost_model::{Discard, FailureClass, Invocation, Prelude, Provider as _};

use crate::planner::{Bench, ask, envelope, environment};

/// Starts one process in a session of its own whose parent ends at once, and one in a process group of its own. Each
/// writes its number into a file, then holds the pipes open for a minute. Then the program says that it is ready.
const ESCAPES: &str = r#"
import os, time
hold = open("alive", "w")
def lasting(name):
    with open(name + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(name + ".new", name)
    time.sleep(60)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        lasting("session")
    os._exit(0)
if os.fork() == 0:
    os.setpgid(0, 0)
    lasting("group")
while not (os.path.exists("session") and os.path.exists("group")):
    time.sleep(0.01)
open("ready", "w").write("x")
"#;

const ESCAPED: [&str; 2] = ["session", "group"];

fn process(bench: &Bench, name: &str) -> u32 {
    std::fs::read_to_string(bench.path(name)).unwrap().parse().unwrap()
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn assert_gone(bench: &Bench) {
    for name in ESCAPED {
        let pid = process(bench, name);
        assert!(!alive(pid), "`{name}` ({pid}) lives");
    }
}

#[test]
fn control_a_killed_group_leaves_them_alive() {
    let bench = Bench::new();
    let program = bench.program(&format!("#!/usr/bin/env python3\n{ESCAPES}"));
    let mut child = Command::new(program);
    let child = child.current_dir(bench.path(".")).env_clear().envs(environment()).stdout(Stdio::null());
    assert!(child.status().unwrap().success());
    for name in ESCAPED {
        let pid = process(&bench, name);
        assert!(alive(pid), "`{name}` is what the other tests look for");
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        assert!(killed.success());
    }
}

#[tokio::test]
async fn what_a_successful_program_leaves_behind_is_killed() {
    let bench = Bench::new();
    let done = envelope(r#"{"kind":"finish","summary":"done"}"#);
    let planner = bench.python(&format!("{ESCAPES}\nprint('{done}')"));
    // A leftover that holds standard output for a minute does not delay the answer either.
    let answer = tokio::time::timeout(Duration::from_secs(50), ask(planner)).await.expect("at once");
    assert_eq!(answer.unwrap().assistant.calls.len(), 1);
    assert_gone(&bench);
}

#[tokio::test]
async fn the_time_limit_kills_the_whole_tree() {
    let bench = Bench::new();
    let paid = r#"{"status":"SUCCESS","usage":{"input_tokens":8}}"#;
    let planner = bench.python(&format!("{ESCAPES}\nprint('{paid}', flush=True)\ntime.sleep(60)"));
    let failure = ask(planner.timeout(Duration::from_secs(6))).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Timeout, "{failure}");
    assert!(failure.message.contains("did not end within 6s"), "{failure}");
    assert_eq!(failure.usage.unwrap().input, 8, "what it had counted is paid for");
    assert_gone(&bench);
}

#[tokio::test]
async fn an_invocation_may_be_shorter_and_a_stream_may_not_be_silent() {
    let bench = Bench::new();
    let short = Invocation { timeout: Duration::from_millis(300), ..Invocation::new("i") };
    let planner = bench.sh("sleep 60").build().unwrap();
    let failure = planner.open(Prelude::default()).ask(&short, &mut Discard).await.unwrap_err();
    assert!(failure.class == FailureClass::Timeout && failure.message.contains("300ms"), "{failure}");
    let silent = Invocation { idle: Duration::from_millis(300), ..Invocation::new("i") };
    let planner = bench.sh("sleep 60").answers(Answers::Text).build().unwrap();
    let failure = planner.open(Prelude::default()).ask(&silent, &mut Discard).await.unwrap_err();
    assert!(failure.class == FailureClass::Timeout && failure.message.contains("silent"), "{failure}");
}

#[tokio::test]
async fn a_dropped_attempt_kills_the_whole_tree_at_once() {
    let bench = Bench::new();
    let ready = bench.path("ready");
    assert!(Command::new("mkfifo").arg(&ready).status().unwrap().success());
    let planner = bench.python(&format!("{ESCAPES}\ntime.sleep(60)")).build().unwrap();
    let mut dialogue = planner.open(Prelude::default());
    let (invocation, mut sink) = (Invocation::new("i"), Discard);
    let opened = tokio::task::spawn_blocking(move || std::fs::read(ready));
    tokio::select! {
        answer = dialogue.ask(&invocation, &mut sink) => panic!("{answer:?}"),
        read = opened => assert_eq!(read.unwrap().unwrap(), b"x"),
    }
    // No waiting: the drop itself is what kills.
    assert_gone(&bench);
}

/// The folder of the test below, in the process that it starts.
const FOLDER: &str = "PROVOST_TEST_PLANNER_FOLDER";

#[tokio::test]
async fn part_of_the_next_test() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let planner = Planner::script(Path::new(&folder).join("program"), &folder).env(environment());
    let answer = ask(planner).await;
    panic!("this process should have been killed meanwhile: {answer:?}");
}

#[test]
fn a_driver_that_is_killed_takes_the_tree_with_it() {
    let bench = Bench::new();
    for name in ["ready", "alive"] {
        assert!(Command::new("mkfifo").arg(bench.path(name)).status().unwrap().success());
    }
    bench.program(&format!("#!/usr/bin/env python3\n{ESCAPES}\ntime.sleep(60)"));
    let mut driver = Command::new(std::env::current_exe().unwrap());
    let driver = driver.args(["--exact", "planner_processes::part_of_the_next_test"]);
    let mut driver =
        driver.env(FOLDER, bench.path("")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // All of the tree holds `alive` for writing: its end is the end of the last of them.
    let mut held = std::fs::File::open(bench.path("alive")).unwrap();
    assert_eq!(std::fs::read(bench.path("ready")).unwrap(), b"x");
    assert!(ESCAPED.iter().all(|name| alive(process(&bench, name))));
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert_eq!(std::io::Read::read(&mut held, &mut [0]).unwrap(), 0);
    // Who has closed its files is at its end, and may take a moment to be over.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while ESCAPED.iter().any(|name| alive(process(&bench, name))) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_gone(&bench);
}

/// Most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_line_of_600_megabytes_costs_little_memory() {
    let bench = Bench::new();
    let line = "head -c 600000000 /dev/zero | tr '\\0' a && echo whole > whole";
    let failure = ask(bench.sh(line)).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Malformed);
    assert!(failure.message.contains("printed 600000000 bytes; at most 1048576 are read"), "{failure}");
    assert_eq!(failure.bytes_received, 600_000_000);
    assert!(bench.path("whole").exists(), "it was drained: the program ended by itself");
    std::fs::remove_file(bench.path("whole")).unwrap();
    let failure = ask(bench.sh(line).answers(Answers::Text)).await.unwrap_err();
    assert!(failure.message.contains("line 1 is longer than 1048576 bytes"), "{failure}");
    assert!(peak() < 300 * 1024, "{} KiB", peak());
}

#[tokio::test]
async fn the_output_limit_is_exact() {
    let bench = Bench::new();
    let text = envelope(r#"{"kind":"verify"}"#);
    let planner = |limit| bench.sh(&format!("printf '%s' '{text}'")).output_bytes(limit);
    assert!(ask(planner(text.len())).await.is_ok());
    let failure = ask(planner(text.len() - 1)).await.unwrap_err();
    assert!(failure.message.contains("at most"), "{failure}");
}

#[tokio::test]
async fn a_lot_of_standard_error_is_drained_and_its_end_is_told() {
    let bench = Bench::new();
    let failure = ask(bench.sh("head -c 5000000 /dev/zero | tr '\\0' e >&2; echo the reason >&2; exit 7"));
    let failure = failure.await.unwrap_err();
    // The message is shortened at its end, so that of a long one the reason may be cut; it is bounded in any case.
    assert!(failure.message.contains("exited with 7") && failure.message.len() < 900, "{failure}");
    let failure = ask(bench.sh("seq 1 100000 >&2; exit 7")).await.unwrap_err();
    assert!(failure.message.len() < 900, "{failure}");
}
