//! A driver that is killed in the middle of an answer: whoever resumes the run charges what was asked, and asks the same
//! model again (I6).

use std::fs;

use serde_json::{Value, json};

use crate::script::{read, script, submit, with, write};
use crate::support::{Rehearsal, Repo, TestEnvironment, bodies, eventually};

/// The first answer, and a second that does not go on after its first words.
fn stalls() -> Value {
    let last =
        with(with(submit(), "say", "I am about to say a lot"), "fault", json!({ "stall_ms": 900_000 }));
    script([read("a.txt"), last])
}

fn place(env: &TestEnvironment) -> Repo {
    env.repository("repository", &[("a.txt", "one\n")])
}

/// Where the record of the request lies while it is under way.
fn record(env: &TestEnvironment, run: &str) -> std::path::PathBuf {
    env.store().with_extension("spool").join(run).join("asking")
}

/// Runs until request number `requests` is under way, and kills the driver in its answer.
fn killed(env: &TestEnvironment, args: Vec<String>, model: &Rehearsal, requests: usize) -> String {
    let driver = env.start(args);
    eventually("the last request is made", || model.requests().len() == requests);
    let run = env.only_run();
    assert!(record(env, &run).is_file(), "while it is asked, that is on record");
    let _ = driver.kill();
    run
}

#[test]
fn i6_what_was_asked_when_the_driver_was_killed_is_charged_by_estimate() {
    let env = TestEnvironment::new();
    let repo = place(&env);
    let model = env.rehearse(&stalls());
    let priced = ["--price", "3/15"];
    let run = killed(&env, env.run_args(&repo.path, &model, &priced), &model, 2);
    let before = env.show(&run)["cost_micros"].as_u64().unwrap();
    let _ = env.provost(["resume", &run, "--json"]).code(0);

    let journal = env.journal(&run);
    let failed = bodies(&journal, "model.failed");
    assert_eq!(failed.len(), 1);
    let lost = failed[0];
    assert_eq!(
        (&lost["class"], &lost["step"], &lost["attempt"], &lost["estimated"], &lost["retry_in_ms"]),
        (&json!("unknown_outcome"), &json!(1), &json!(1), &json!(true), &json!(0))
    );
    let place = |kind: &str| journal.iter().rposition(|event| event["kind"] == kind).unwrap();
    assert_eq!(place("model.failed"), place("driver.attached") + 1, "first thing");
    let prompt = lost["usage"]["input"].as_u64().unwrap();
    assert!(prompt > 500 && lost["usage"]["output"].as_u64().unwrap() > 0, "{lost}");
    assert!(!record(&env, &run).exists(), "the journal has it");

    let bill: Value = env.provost(["cost", &run, "--json"]).code(0).json().remove(0);
    assert_eq!(
        (&bill["calls"], &bill["failed_charged"], &bill["estimated"]),
        (&json!(3), &json!(1), &json!(1))
    );
    assert!(bill["cost_micros"].as_u64().unwrap() >= before + 3 * prompt, "{bill}");
    let told = env.provost(["log", &run]).code(0);
    assert!(told.stdout.contains("the driver was killed while the answer was under way"), "{told}");
    // Taken up again it is not charged again.
    let _ = env.provost(["resume", &run, "--json"]).code(0);
    assert_eq!(bodies(&env.journal(&run), "model.failed").len(), 1);
    let _ = env.provost(["export", &run, "--out", "bundle"]).code(0);
    let _ = env
        .provost(["verify", "bundle", "--no-repo", "--key", &env.public_key().display().to_string()])
        .code(0);

    // The control: nobody is killed, nothing is charged by estimate, nothing is left.
    let env = TestEnvironment::new();
    let repo = place_without_kill(&env);
    let run = env.only_run();
    assert!(bodies(&env.journal(&run), "model.failed").is_empty());
    assert_eq!(env.show(&run)["estimated_calls"], 0);
    assert!(!record(&env, &run).exists());
    drop(repo);
}

fn place_without_kill(env: &TestEnvironment) -> Repo {
    let repo = place(env);
    let model = env.rehearse(&script([read("a.txt"), submit()]));
    let _ = env.run(&repo.path, &model, &["--price", "3/15"]).code(0);
    repo
}

#[test]
fn i6_what_was_lost_counts_against_the_budget() {
    let env = TestEnvironment::new();
    let repo = place(&env);
    let model = env.rehearse(&stalls());
    let run = killed(&env, env.run_args(&repo.path, &model, &[]), &model, 2);
    let _ = env.provost(["resume", &run, "--json"]).code(0);
    let journal = env.journal(&run);
    let count = |usage: &Value, kind: &str| usage[kind].as_u64().unwrap();
    let first = &bodies(&journal, "model.answered")[0]["usage"];
    let prompt = count(&bodies(&journal, "model.failed")[0]["usage"], "input");

    // Enough for both requests, and not for the second twice.
    let env = TestEnvironment::new();
    let repo = place(&env);
    let model = env.rehearse(&stalls());
    let most = (count(first, "input") + count(first, "output") + 2 * prompt - 200).to_string();
    let run = killed(&env, env.run_args(&repo.path, &model, &["--max-tokens", &most]), &model, 2);
    let ran = env.provost(["resume", &run, "--json"]).code(4);
    assert_eq!(ran.last()["outcome"], "budget_spent");
}

#[test]
fn a_fallback_stays_after_its_driver_was_killed() {
    let env = TestEnvironment::new();
    let repo = place(&env);
    let steps = || [read("a.txt"), write("b.txt", "two\n"), submit()];
    let mut broken = steps();
    broken[1]["fault"] = json!({ "status": 401, "times": 1 });
    let mut stalled = steps();
    stalled[1]["fault"] = json!({ "stall_ms": 900_000 });
    let (first, second) = (env.rehearse(&script(broken)), env.rehearse(&script(stalled)));
    let fallback = format!("anthropic/claude@{}", second.bare_url());
    let run = killed(&env, env.run_args(&repo.path, &first, &["--yes", "--fallback", &fallback]), &second, 1);
    let asked = first.requests().len();
    // The first would answer now.
    let _ = env.provost(["resume", &run, "--yes"]).code(0);
    assert_eq!(first.requests().len(), asked, "nobody else is asked while it is not resolved");
    assert_eq!(second.requests().len(), 3);
    let journal = env.journal(&run);
    let lost = bodies(&journal, "model.failed");
    assert_eq!((&lost[1]["class"], &lost[1]["route"]), (&json!("unknown_outcome"), &json!(1)));
    let routes: Vec<u64> =
        bodies(&journal, "model.answered").iter().map(|body| body["route"].as_u64().unwrap_or(0)).collect();
    assert_eq!(routes, [0, 1, 1]);
    assert_eq!(fs::read_to_string(repo.path.join("b.txt")).unwrap(), "two\n");
}

#[test]
fn a_record_that_is_of_no_request_that_is_due_charges_nothing() {
    for stale in [
        "",
        "{\"invocation\":",
        "{\"invocation\":\"x.1\",\"route\":0,\"attempt\":1,\"failed_before\":0,\"input\":9,\"output\":9,\"answer_bytes\":9}",
    ] {
        let env = TestEnvironment::new();
        let repo = place(&env);
        let model = env.rehearse(&stalls());
        let run = killed(&env, env.run_args(&repo.path, &model, &[]), &model, 2);
        fs::write(record(&env, &run), stale).unwrap();
        let _ = env.provost(["resume", &run, "--json"]).code(0);
        assert!(bodies(&env.journal(&run), "model.failed").is_empty(), "{stale}");
    }
}

/// I9: the record of a request is a file that somebody may have edited. What it says is bounded like a vendor's counts.
#[test]
fn i9_a_record_that_somebody_edited_is_charged_within_bounds() {
    let env = TestEnvironment::new();
    let repo = place(&env);
    let model = env.rehearse(&stalls());
    let run = killed(&env, env.run_args(&repo.path, &model, &["--max-tokens", "1000000"]), &model, 2);
    let at = record(&env, &run);
    let mut asked: Value = serde_json::from_slice(&fs::read(&at).unwrap()).unwrap();
    (asked["input"], asked["output"]) = (json!(1_u64 << 63), json!(u64::MAX));
    fs::write(&at, asked.to_string()).unwrap();
    let ran = env.provost(["resume", &run, "--json"]).code(4);
    assert_eq!(ran.last()["outcome"], "budget_spent");
    assert_eq!(bodies(&env.journal(&run), "model.failed")[0]["usage"]["input"], json!(1_u64 << 40));
}

/// A pipe under the name that the record is written by is not waited on, nor is a folder in the way.
#[test]
fn what_lies_in_the_place_of_a_record_is_put_aside() {
    for folder in [false, true] {
        let env = TestEnvironment::new();
        let repo = place(&env);
        let model = env.rehearse(&stalls());
        let run = killed(&env, env.run_args(&repo.path, &model, &[]), &model, 2);
        let new = record(&env, &run).with_extension("new");
        if folder {
            fs::create_dir(&new).unwrap();
        } else {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &new, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        let _ = env.provost(["resume", &run, "--json"]).code(0);
        assert!(!new.exists());
    }
}
