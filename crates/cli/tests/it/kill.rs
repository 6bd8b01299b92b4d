//! `kill -9` at twenty moments of a run, then `provost resume`: the same patch, nothing that finished done again, no
//! token counted twice (I2, I4, I6).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Repo, TestEnvironment, bodies, eventually};

/// Each command leaves a line where git does not look.
fn command(n: u32) -> Value {
    let line = format!("echo {n} >> count.txt; sleep 0.05; echo end {n} >> count.txt");
    json!({
        "call": { "name": "exec", "arguments": { "argv": ["sh", "-c", line] } },
        "usage": { "input": 100 + n, "output": n }
    })
}

fn script() -> Value {
    let edit = json!({
        "call": { "name": "edit_file", "arguments": {
            "path": "src/lib.rs", "old": "left - right", "new": "left + right" } },
        "usage": { "input": 1000, "output": 10 }
    });
    let write = json!({
        "call": { "name": "write_file", "arguments": { "path": "NOTES.md", "content": "mended\n" } },
        "usage": { "input": 2000, "output": 20 }
    });
    let read = json!({
        "call": { "name": "read_file", "arguments": { "path": "src/lib.rs" } },
        "usage": { "input": 500, "output": 5 }
    });
    let submit = json!({
        "call": { "name": "submit", "arguments": { "summary": "mended" } },
        "usage": { "input": 4000, "output": 40 }
    });
    json!({ "steps": [command(1), read, edit, command(2), write, command(3), submit] })
}

fn repository(env: &TestEnvironment) -> Repo {
    let files = [
        ("src/lib.rs", "pub fn add(left: i64, right: i64) -> i64 {\n    left - right\n}\n"),
        (".gitignore", "/count.txt\n"),
    ];
    let repo = env.repository("repository", &files);
    repo.commit();
    repo
}

const GATE: &str = "grep -q 'left + right' src/lib.rs";

/// How many events the store holds, read beside the driver.
fn events(env: &TestEnvironment) -> u64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let count = rusqlite::Connection::open_with_flags(env.store(), flags)
        .and_then(|store| store.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0)));
    count.map_or(0, |count| count as u64)
}

/// The finished run, as far as it must not depend on when its driver died.
#[derive(Debug, PartialEq)]
struct End {
    patch: String,
    notes: String,
    usage: Value,
    steps: Value,
    state: Value,
}

fn end_of(env: &TestEnvironment, repo: &Repo, run: &str) -> End {
    let shown = env.show(run);
    // What was lost with a driver in mid-answer is charged beside it, by estimate.
    let journal = env.journal(run);
    let sum = |count: &str| -> u64 {
        bodies(&journal, "model.answered").iter().map(|body| body["usage"][count].as_u64().unwrap()).sum()
    };
    End {
        patch: repo.git(&["diff"]),
        notes: fs::read_to_string(repo.path.join("NOTES.md")).unwrap_or_default(),
        usage: json!([sum("input"), sum("output")]),
        steps: shown["steps"].clone(),
        state: shown["state"].clone(),
    }
}

#[test]
fn i4_killed_at_twenty_moments_a_run_ends_as_if_nothing_had_happened() {
    let whole = TestEnvironment::new();
    let repo = repository(&whole);
    let model = whole.rehearse(&script());
    let _ = whole.run(&repo.path, &model, &["--verify", GATE]).code(0);
    let run = whole.only_run();
    let expected = end_of(&whole, &repo, &run);
    assert_eq!(expected.state, "done");
    let total = whole.journal(&run).len() as u64;
    assert!(total >= 21, "there are twenty moments between {total} events");

    for moment in 1..=20_u64 {
        let env = TestEnvironment::new();
        let repo = repository(&env);
        let args = env.run_args(&repo.path, &model, &["--verify", GATE]);
        let mut driver = env.start(args);
        // The first append holds two events, some others more: wait for at least so many.
        let wanted = 1 + moment * (total - 2) / 20;
        eventually("the journal grows", || events(&env) >= wanted || driver.is_over());
        if !driver.is_over() {
            driver.signal(Signal::KILL);
        }
        let _ = driver.wait();

        let run = env.only_run();
        let _ = env.provost(["resume", &run, "--base-url", &model.base_url, "--json"]).code(0);
        assert_eq!(end_of(&env, &repo, &run), expected, "killed after event {wanted}");
        env.assert_store_intact();
        env.assert_no_processes();
        check_journal(&env, &repo, &run);
    }
}

/// What finished was done once; what was cut short says so; each step was counted once.
fn check_journal(env: &TestEnvironment, repo: &Repo, run: &str) {
    let journal = env.journal(run);
    let of = |kind: &str| journal.iter().filter(|event| event["kind"] == kind).collect::<Vec<_>>();

    let invocations: Vec<&str> =
        of("model.answered").iter().map(|event| event["body"]["invocation"].as_str().unwrap()).collect();
    let distinct: BTreeSet<&&str> = invocations.iter().collect();
    assert_eq!(distinct.len(), invocations.len(), "an answer was counted twice: {invocations:?}");

    let mut finished: BTreeMap<u64, &Value> = BTreeMap::new();
    for event in of("act.finished") {
        let act = event["body"]["act"].as_u64().unwrap();
        assert!(finished.insert(act, &event["body"]).is_none(), "act {act} finished twice");
    }
    let starts = of("act.started");
    let started: BTreeSet<u64> = starts.iter().map(|event| event["body"]["act"].as_u64().unwrap()).collect();
    assert_eq!(starts.len(), started.len(), "an act was started twice");

    // The commands' own account: each began at most once, and ended where the journal says that it exited.
    let count = fs::read_to_string(repo.path.join("count.txt")).unwrap_or_default();
    for n in 1..=3 {
        let began = count.lines().filter(|line| *line == n.to_string()).count();
        let ended = count.lines().filter(|line| *line == format!("end {n}")).count();
        assert!(began <= 1 && ended <= 1, "command {n} ran twice:\n{count}");
        let exited = starts.iter().any(|event| {
            let argv = event["body"]["intent"]["argv"].to_string();
            let act = event["body"]["act"].as_u64().unwrap();
            argv.contains(&format!("echo {n} >>")) && finished[&act]["end"] == "done"
        });
        assert_eq!(exited, ended == 1, "command {n}: the journal and the command disagree\n{count}");
    }
}
