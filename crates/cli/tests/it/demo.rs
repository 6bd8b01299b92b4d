//! `provost demo`: the main job, end to end, as a person and as a program see it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ran, TestEnvironment, bodies, text};

fn demo(env: &TestEnvironment, name: &str, more: &[&str]) -> Ran {
    let mut args = vec!["demo", "--out", name];
    args.extend(more);
    env.provost(args)
}

#[test]
fn no_process_is_left() {
    let env = TestEnvironment::new();
    let _ = demo(&env, "out", &[]).code(0);
    env.assert_no_processes();
    // Control: one that is there is found.
    let waiting = env.start(["rehearse", "out/script.json"]);
    assert_eq!(env.processes().len(), 1);
    drop(waiting);
}

#[test]
fn json_has_one_object_a_line_and_says_last_how_it_ended() {
    let env = TestEnvironment::new();
    let ran = demo(&env, "out", &["--json"]).code(0);
    assert_eq!(ran.stderr, "");
    let lines = ran.json();
    let kinds: Vec<String> = lines.iter().map(|line| text(&line["kind"])).collect();
    assert_eq!(kinds[..3], ["demo.repository", "run.created", "driver.attached"]);
    let last = ran.last();
    assert_eq!((&last["outcome"], &last["exit_code"]), (&json!("done"), &json!(0)), "{last}");

    let decided: Vec<(String, String)> = bodies(&lines, "act.decided")
        .iter()
        .map(|body| (text(&body["tool"]), text(&body["decision"]["effect"])))
        .collect();
    let expected = [
        ("exec", "allow"),
        ("read_file", "allow"),
        ("write_file", "deny"),
        ("edit_file", "allow"),
        ("exec", "allow"),
        ("submit", "allow"),
        ("gate", "allow"),
    ];
    assert_eq!(decided, expected.map(|(tool, effect)| (tool.to_owned(), effect.to_owned())));
    let ended: Vec<&Value> = bodies(&lines, "act.finished").iter().map(|body| &body["end"]).collect();
    assert_eq!(ended, ["failed", "done", "refused", "done", "done", "done", "done"]);
    let codes: Vec<&Value> = bodies(&lines, "act.finished")
        .iter()
        .filter(|body| body["command"].is_object())
        .map(|body| &body["command"]["exit"]["code"])
        .collect();
    assert_eq!(codes, [&json!(101), &json!(0), &json!(0)], "tests before, after, and the gate's own");

    // The journal that it leaves is what it printed.
    let events: Vec<&Value> = lines.iter().filter(|line| line.get("seq").is_some()).collect();
    let run = text(&last["run"]);
    let journal = env.provost(["log", &run, "--json", "--store", "out/store/provost.db"]).code(0).json();
    assert_eq!(events, journal.iter().collect::<Vec<_>>());

    let claims: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "demo.claim").collect();
    assert_eq!(claims.len(), 13);
    assert!(claims.iter().all(|line| line["claim"]["finding"]["is"] == "held"), "{claims:?}");
    let stranger = lines.iter().find(|line| line["kind"] == "demo.stranger").unwrap();
    assert_eq!(stranger["refused"], true);
    let tests = lines.iter().find(|line| line["kind"] == "demo.tests").unwrap();
    assert!(text(&tests["before"]).starts_with("test result: FAILED. 0 passed; 2 failed"), "{tests}");
    assert!(text(&tests["after"]).starts_with("test result: ok. 2 passed; 0 failed"), "{tests}");
}

#[test]
fn what_a_person_reads() {
    let env = TestEnvironment::new();
    let ran = demo(&env, "out", &[]).code(0);
    assert_eq!(ran.stderr, "");
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(&env.root().display().to_string(), "[ROOT]");
    settings.add_filter(r"r[0-9a-f]{12}-[0-9a-f]{10}", "[RUN]");
    settings.add_filter(r"127\.0\.0\.1:\d+", "[ADDRESS]");
    settings.add_filter(r"[0-9a-f]{64}", "[KEY]");
    // Git names a commit and a tree by content, and all content here is fixed: only what a host measures is masked.
    settings.add_filter(r"(finished in )\d+\.\d\ds", "$1[TIME]");
    settings.add_filter(r" +(\d+ ms|\d+\.\d s|\d+ min \d+ s)\b", " [TIME]");
    settings.add_filter(r"contained by R.*\n(?:    (?:enforced|sampled|absent): .*\n)+", "[CONTAINMENT]\n");
    settings.bind(|| insta::assert_snapshot!(ran.stdout));
}

#[test]
fn the_containment_that_it_names_is_the_one_in_its_journal() {
    let env = TestEnvironment::new();
    let ran = demo(&env, "out", &[]).code(0);
    let line = ran.stdout.lines().find_map(|line| line.trim().strip_prefix("contained by ")).unwrap();
    let store = ["--store", "out/store/provost.db"];
    let runs = env.provost(["runs", "--json"].iter().chain(&store)).code(0).json();
    let run = text(&runs[0]["run"]);
    let journal = env.provost(["log", &run, "--json"].iter().chain(&store)).code(0).json();
    let receipt = &bodies(&journal, "driver.attached")[0]["containment"];
    assert!(line.contains(&text(&receipt["kernel"])), "{line}: {receipt}");
    assert!(line.to_lowercase().starts_with(&text(&receipt["rung"]).to_lowercase()), "{line}: {receipt}");
}

#[test]
fn a_folder_in_use_is_refused_and_left_alone() {
    let env = TestEnvironment::new();
    fs::create_dir(env.at("mine")).unwrap();
    fs::write(env.at("mine/precious.txt"), "keep\n").unwrap();
    let _ = demo(&env, "mine", &[]).code(2).says("`mine` is not empty").says("--out");
    assert_eq!(names(&env.at("mine")), ["precious.txt"]);
    let _ = demo(&env, "mine/precious.txt", &[]).code(2).says("mine/precious.txt");
    assert_eq!(fs::read_to_string(env.at("mine/precious.txt")).unwrap(), "keep\n");
    // Control: an empty folder will do.
    fs::create_dir(env.at("empty")).unwrap();
    let _ = demo(&env, "empty", &[]).code(0);
}

#[test]
fn without_out_it_takes_a_fresh_folder_and_names_it() {
    let env = TestEnvironment::new();
    for expected in ["provost-demo", "provost-demo-2"] {
        let ran = env.provost(["demo"]).code(0);
        let folder = env.at(expected);
        assert!(ran.stdout.contains(&format!("Everything lies in `{}`", folder.display())), "{ran}");
        assert!(folder.join("recipient/package/src/lib.rs").is_file());
    }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
