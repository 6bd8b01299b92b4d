//! Bad input: a clear message, the right exit code, and a store that is intact (I9).

use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::support::{Repo, TestEnvironment};

fn setting() -> (TestEnvironment, Repo) {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n")]);
    (env, repo)
}

#[test]
fn what_cannot_be_a_run_is_refused_with_words_and_2() {
    let (env, repo) = setting();
    fs::create_dir(env.at("bare")).unwrap();
    fs::write(env.at("file"), "x").unwrap();
    fs::write(env.at("bad.toml"), "presett = \"workspace\"\n").unwrap();
    fs::write(env.at("rule.toml"), "allow = [\"run cargo\"]\n").unwrap();
    let dir = repo.path.display().to_string();
    let local = "http://127.0.0.1:9/v1";
    let base = ["--model", "m", "--base-url", local];
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&["-C", "bare"], &base, "not in a git repository"),
        (&["-C", "missing"], &base, "does not exist"),
        (&["-C", "file"], &base, "is a file"),
        (&["-C", &dir], &["--base-url", local], "no model is named"),
        (&["-C", &dir], &["--model", "m", "--base-url", "ftp://x"], "--base-url"),
        (&["-C", &dir], &["--model", "m", "--base-url", "http://example.org/v1"], "http"),
        (&["-C", &dir], &["--model", "m"], "OPENAI_API_KEY"),
        (&["-C", &dir, "--policy", "bad.toml"], &base, "presett"),
        (&["-C", &dir, "--policy", "rule.toml"], &base, "run cargo"),
        (&["-C", &dir, "--policy", "no-such"], &base, "no-such"),
        (&["-C", &dir, "--allow", "fly away"], &base, "fly away"),
        (&["-C", &dir, "--max-cost", "1"], &base, "price"),
        (&["-C", &dir, "--max-cost", "much"], &base, "dollars"),
        (&["-C", &dir, "--timeout", "5 parsecs"], &base, "not a unit"),
        (&["-C", &dir, "--verify", "cargo 'test"], &base, "quote"),
        (&["-C", &dir, "--verify", "true && false"], &base, "sh -c"),
        (&["-C", &dir, "--verify", "no-such-program"], &base, "no-such-program"),
    ];
    for (where_, more, words) in cases {
        let args = ["run", "goal"].iter().chain(*where_).chain(*more);
        let _ = env.provost(args).code(2).says(words);
    }
    let empty = ["run", "  ", "-C", &dir];
    let _ = env.provost(empty.iter().chain(&base)).code(2).says("goal is empty");
    assert_eq!(env.runs(), Vec::<String>::new(), "nothing was begun");
    env.assert_store_intact();

    // The control: the same command line without a fault runs.
    let model = env.rehearse(&json!({ "final": "done" }));
    let _ = env.run(&repo.path, &model, &["--verify", "true"]).code(0);
}

#[test]
fn a_script_that_is_none_is_refused() {
    let env = TestEnvironment::new();
    for (text, words) in
        [("", "empty"), ("{}", "empty"), ("{\"steps\": [", "script.json:1:"), ("{\"stepps\": []}", "stepps")]
    {
        fs::write(env.at("script.json"), text).unwrap();
        let _ = env.provost(["rehearse", "script.json"]).code(2).says(words);
    }
    let _ = env.provost(["rehearse", "missing.json"]).code(2).says("missing.json");
    fs::write(env.at("script.json"), "{\"final\": \"x\"}").unwrap();
    let _ = env.provost(["rehearse", "script.json", "--listen", "0.0.0.0:0"]).code(2).says("loopback");
}

#[test]
fn stores_that_are_none_are_refused_by_name_and_left_alone() {
    let env = TestEnvironment::new();
    fs::create_dir(env.at("folder")).unwrap();
    fs::write(env.at("garbage"), vec![7_u8; 9000]).unwrap();
    for name in ["folder", "garbage"] {
        let ran = env.provost(["runs", "--store", name]);
        assert_ne!(ran.code, 0, "{ran}");
        let _ = ran.says(name);
    }
    assert_eq!(fs::read(env.at("garbage")).unwrap(), vec![7_u8; 9000]);
}

#[test]
fn runs_and_acts_that_are_not_there_are_named() {
    let (env, repo) = setting();
    let _ = env.provost(["show", "r0"]).code(2).says("no run");
    let model = env.rehearse(&json!({ "final": "done" }));
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let run = env.only_run();
    let _ = env.provost(["log", &run, "--act", "9"]).code(2).says("no act 9");
    for command in ["log", "show", "export"] {
        let mut args = vec![command, "nothing"];
        args.extend(if command == "export" { vec!["-o", "out"] } else { vec![] });
        let _ = env.provost(args).code(2).says("nothing");
    }
}

#[test]
fn a_bundle_or_key_that_is_none_is_refused() {
    let (env, repo) = setting();
    let key = env.public_key().display().to_string();
    let repo = repo.path.display().to_string();
    fs::create_dir(env.at("empty")).unwrap();
    fs::write(env.at("garbage.pem"), "-----BEGIN PUBLIC KEY-----\nx\n").unwrap();
    let _ = env.provost(["verify", "missing", "--key", &key, "--repo", &repo]).code(2).says("missing");
    let _ =
        env.provost(["verify", "empty", "--key", "garbage.pem", "--repo", &repo]).code(2).says("garbage.pem");
    let ran = env.provost(["verify", "empty", "--key", &key, "--repo", &repo]).code(8);
    assert!(ran.stdout.contains("NOT verified"), "{ran}");
}

#[test]
fn a_file_of_300_mb_and_names_that_lead_out_are_refusals_the_model_can_read() {
    let (env, repo) = setting();
    let big = fs::File::create(repo.path.join("big.bin")).unwrap();
    big.set_len(300 * 1024 * 1024).unwrap();
    fs::write(env.at("outside.txt"), "secret\n").unwrap();
    std::os::unix::fs::symlink(env.at("outside.txt"), repo.path.join("link")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(repo.path.join("fifo")).status().unwrap();
    assert!(fifo.success());
    fs::write(repo.path.join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "latin\n").unwrap();
    let outside = env.at("outside.txt").display().to_string();
    let paths = ["big.bin", "../outside.txt", &outside, "link", "fifo", "missing.txt"];
    let mut steps: Vec<_> = paths
        .iter()
        .map(|path| json!({ "call": { "name": "read_file", "arguments": { "path": path } } }))
        .collect();
    steps.push(json!({ "call": { "name": "list_dir", "arguments": {} } }));
    let model = env.rehearse(&json!({ "steps": steps, "final": "done" }));
    let _ = env.run(&repo.path, &model, &[]).code(0);

    let last = model.requests().pop().unwrap();
    let told = last.to_string();
    for words in [
        "start_line",
        "contains `..`",
        "outside the workspace",
        "leaves the workspace",
        "named pipe",
        "there is no",
    ] {
        assert!(told.contains(words), "the model was not told `{words}`: {told}");
    }
    assert!(!told.contains("secret"), "what lies outside was read");
    assert!(told.contains("xe9"), "the name that is no text is shown: {told}");
    env.assert_store_intact();
}

#[test]
fn m8_a_reader_that_goes_away_is_no_failure() {
    let (env, repo) = setting();
    let read = json!({ "call": { "name": "read_file", "arguments": { "path": "a.txt" } }, "repeat": 40 });
    let model = env.rehearse(&json!({ "steps": [read], "final": "done" }));
    let _ = env.run(&repo.path, &model, &[]).code(0);
    let run = env.only_run();
    let mut shell = env.command("sh");
    shell.args(["-c", "\"$0\" log \"$1\" --json | head -n 1; echo \"${PIPESTATUS:-done}\""]);
    shell.arg(env!("CARGO_BIN_EXE_provost")).arg(run);
    let ran = crate::support::finish(shell).code(0);
    assert_eq!(ran.stderr, "", "{ran}");
}
