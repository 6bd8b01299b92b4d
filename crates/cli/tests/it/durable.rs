//! What a step costs the store: appends and bytes, the same at the first step as at the last.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestEnvironment, bodies, eventually};

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "call": { "name": name, "arguments": arguments } })
}

/// `steps`, and then an answer that begins and does not go on: the driver lives while it is looked at.
fn then_wait(mut steps: Vec<Value>) -> Value {
    let mut last = call("submit", &json!({ "summary": "done" }));
    last["fault"] = json!({ "stall_ms": 900_000, "times": 1 });
    steps.push(last);
    json!({ "steps": steps })
}

fn reads(count: u64) -> Vec<Value> {
    let mut step = call("read_file", &json!({ "path": "a.txt" }));
    step["repeat"] = json!(count);
    vec![step]
}

fn writes(count: u64) -> Vec<Value> {
    let mut step = call("write_file", &json!({ "path": "b-{{i}}.txt", "content": "{{i}}\n" }));
    step["repeat"] = json!(count);
    vec![step]
}

fn commands(count: u64) -> Vec<Value> {
    let mut step = call("exec", &json!({ "argv": ["true"] }));
    step["repeat"] = json!(count);
    vec![step]
}

/// The transactions in SQLite's write-ahead log, by its own format: the frame that ends one carries the size of the
/// database after it. Nothing but a commit makes such a frame, so this counts what was made durable, and how often.
fn commits(store: &Path) -> u64 {
    let mut name = store.as_os_str().to_owned();
    name.push("-wal");
    let wal = fs::read(&name).unwrap();
    let number = |at: usize| u32::from_be_bytes(wal[at..at + 4].try_into().unwrap());
    let frame = 24 + number(8) as usize;
    assert_eq!(number(12), 0, "the log was never begun anew, so it holds every commit");
    let salts = &wal[16..24];
    (32..)
        .step_by(frame)
        .take_while(|at| at + frame <= wal.len() && wal[at + 8..at + 16] == *salts)
        .filter(|at| number(at + 4) != 0)
        .count() as u64
}

/// Commits of a run that makes `steps`, up to the request for the answer after them.
fn commits_of(steps: Vec<Value>, count: u64) -> u64 {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&then_wait(steps));
    let driver = env.start(env.run_args(&repo.path, &model, &["--max-steps", "1000"]));
    eventually("the last answer is asked for", || model.requests().len() as u64 == count + 1);
    let commits = commits(&env.store());
    let _ = driver.kill();
    let run = env.only_run();
    assert_eq!(env.show(&run)["steps"], count);
    env.assert_store_intact();
    commits
}

#[test]
fn i2_a_step_that_reads_is_one_append_and_one_with_effects_two() {
    type Steps = fn(u64) -> Vec<Value>;
    for (what, steps, appends) in
        [("read", reads as Steps, 1), ("write", writes, 2), ("command", commands, 2)]
    {
        let (few, more, most) =
            (commits_of(steps(5), 5), commits_of(steps(15), 15), commits_of(steps(45), 45));
        assert_eq!(more - few, 10 * appends, "ten more steps that {what}: {few}, {more}");
        assert_eq!(most - more, 30 * appends, "and thirty more: {more}, {most}");
    }
}

#[test]
fn resuming_writes_as_much_after_many_steps_as_after_few() {
    let added: Vec<u64> = [3, 40]
        .into_iter()
        .map(|count| {
            let env = TestEnvironment::new();
            let repo = env.repository("repository", &[("a.txt", "one\n")]);
            let model = env.rehearse(&then_wait(reads(count)));
            let driver = env.start(env.run_args(&repo.path, &model, &[]));
            eventually("the last answer is asked for", || model.requests().len() as u64 == count + 1);
            let _ = driver.kill();
            let run = env.only_run();
            let before = env.journal(&run);
            let _ = env.provost(["resume", &run, "--json"]).code(0);
            let after = env.journal(&run);
            assert_eq!(after[..before.len()], before, "what was written stays as it was");
            env.assert_store_intact();
            (after.len() - before.len()) as u64
        })
        .collect();
    assert_eq!(added[0], added[1]);
}

/// Bytes that the store holds, and bytes of them that are content.
fn sizes(env: &TestEnvironment) -> (u64, u64) {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = rusqlite::Connection::open_with_flags(env.store(), flags).unwrap();
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64;
    let pages = number("SELECT page_count FROM pragma_page_count()");
    let page = number("SELECT page_size FROM pragma_page_size()");
    (pages * page, number("SELECT sum(length(bytes)) FROM blob"))
}

/// The aim is 2 kB a step. One that reads keeps it; one with effects has a fourth event, and more blobs with their index
/// (measured: 1.9 kB for a read, 2.7 for a write, 2.8 for a command), so it is held to 3.
#[test]
fn a_step_adds_a_bounded_number_of_bytes_beyond_its_content() {
    type Steps = fn(u64) -> Vec<Value>;
    let cases = [("read", reads as Steps, 2560), ("write", writes, 3072), ("command", commands, 3072)];
    for (what, steps, most) in cases {
        let beyond = |count: u64| {
            let env = TestEnvironment::new();
            let repo = env.repository("repository", &[("a.txt", "one\n")]);
            let mut all = steps(count);
            all.push(call("submit", &json!({ "summary": "done" })));
            let model = env.rehearse(&json!({ "steps": all }));
            let _ = env.run(&repo.path, &model, &["--max-steps", "1000"]).code(0);
            let (bytes, content) = sizes(&env);
            bytes - content
        };
        let step = (beyond(110) - beyond(10)) / 100;
        println!("a {what} adds {step} bytes beyond its content");
        assert!(step < most, "a {what} adds {step} bytes beyond its content");
    }
}

/// D1: runs that share a store file do not wait on each other until they fail.
#[test]
fn d1_runs_at_once_share_one_store_file() {
    let env = TestEnvironment::new();
    let runs = 4;
    let mut steps = reads(25);
    steps.extend(writes(25));
    steps.push(call("submit", &json!({ "summary": "done" })));
    let model = env.rehearse(&json!({ "steps": steps }));
    let repos: Vec<_> =
        (0..runs).map(|n| env.repository(&format!("repository-{n}"), &[("a.txt", "one\n")])).collect();
    let drivers: Vec<_> = repos
        .iter()
        .map(|repo| env.start(env.run_args(&repo.path, &model, &["--max-steps", "1000"])))
        .collect();
    let mut names: Vec<String> = drivers.into_iter().map(|driver| driver.wait().code(0).run()).collect();
    for name in &names {
        let journal = env.journal(name);
        for (seq, event) in journal.iter().enumerate() {
            assert_eq!((&event["seq"], &event["stream"]), (&json!(seq), &json!(name)));
        }
        assert_eq!(bodies(&journal, "model.answered").len(), 51);
    }
    for repo in &repos {
        assert_eq!(fs::read_to_string(repo.path.join("b-24.txt")).unwrap(), "24\n");
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), runs);
    env.assert_store_intact();
}

#[test]
fn the_store_is_its_owners_alone() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    let model = env.rehearse(&json!({ "final": "done" }));
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let _ = env.public_key();
    for path in [env.store(), env.at("config/provost/runner.pem")] {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}
