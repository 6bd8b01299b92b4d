//! Bad input: a clear message, the right exit code, and nothing lost (I9). Whole outputs as snapshots.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::script::{read, script};
use crate::support::{Rehearsal, Repo, TestEnvironment, files_beneath};

/// A world with one run in its store, which no bad input may harm.
struct Place {
    env: TestEnvironment,
    repo: Repo,
    model: Rehearsal,
    run: String,
    journal: Vec<Value>,
}

impl Place {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let repo = env.repository("work", &[("a.txt", "one\n")]);
        let model = env.rehearse(&script([read("a.txt")]));
        let run = env.run(&repo.path, &model, &[]).code(0).run();
        let journal = env.journal(&run);
        Self { env, repo, model, run, journal }
    }

    /// What `provost run` says with these arguments behind those that are right.
    fn run(&self, code: i32, more: &[&str]) -> String {
        let mut args = vec!["run", "Mend it.", "-C", "work", "--model", "m"];
        if !more.contains(&"--base-url") {
            args.extend(["--base-url", &self.model.base_url]);
        }
        args.extend(more);
        self.says(code, &args)
    }

    /// The whole output of a command that ends in `code`; the store is as it was.
    #[track_caller]
    fn says(&self, code: i32, args: &[&str]) -> String {
        let asked = self.model.requests().len();
        let ran = self.env.provost(args).code(code);
        assert_eq!(self.env.runs(), std::slice::from_ref(&self.run), "{ran}");
        assert_eq!(self.env.journal(&self.run), self.journal, "{ran}");
        assert_eq!(self.model.requests().len(), asked, "the model was asked\n{ran}");
        self.env.assert_store_intact();
        self.filtered(&ran.to_string())
    }

    fn filtered(&self, text: &str) -> String {
        text.replace(env!("CARGO_BIN_EXE_provost"), "provost")
            .replace(&self.env.root().display().to_string(), "[ROOT]")
            .replace(&self.model.base_url, "[MODEL]")
            .replace(&self.run, "[RUN]")
            .trim_end()
            .to_owned()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.env.at(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Several whole outputs as one snapshot.
fn all(outputs: impl IntoIterator<Item = String>) -> String {
    outputs.into_iter().collect::<Vec<_>>().join("\n\n")
}

#[test]
fn the_workspace() {
    let place = Place::new();
    fs::create_dir(place.env.at("plain")).unwrap();
    let run = |dir: &str| {
        place.says(2, &["run", "Mend it.", "-C", dir, "--model", "m", "--base-url", &place.model.base_url])
    };
    assert_snapshot!(all([run("plain"), run("nowhere"), run("work/a.txt")]));
    // The control: a folder in no repository is taken where that is said.
    let args = ["run", "Mend it.", "-C", "plain", "--no-repo", "--model", "m", "--base-url"];
    let _ = place.env.provost(args.into_iter().chain([place.model.base_url.as_str()])).code(0);
}

#[test]
fn the_model_and_its_key() {
    let place = Place::new();
    let outputs = [
        place.says(2, &["run", "Mend it.", "-C", "work"]),
        place.run(2, &["--base-url", "nonsense"]),
        place.run(2, &["--base-url", "ftp://127.0.0.1/v1"]),
        place.run(2, &["--base-url", "http://user:geheim@127.0.0.1:9/v1"]),
        place.run(2, &["--base-url", "http://example.org/v1"]),
        place.run(2, &["--base-url", "https://example.org/v1"]),
        place.run(2, &["--wire", "anthropic", "--base-url", "https://example.org"]),
        place.run(2, &["--key-env", "NO_SUCH_KEY"]),
        place.run(2, &["--wire", "grpc"]),
    ];
    assert_snapshot!(all(outputs));
    // The control: the key that was named is there.
    let mut args = place.env.run_args(&place.repo.path, &place.model, &["--key-env", "SOME_KEY"]);
    args.retain(|arg| arg != "--json");
    let mut command = place.env.provost_command(args);
    command.env("SOME_KEY", "k");
    let _ = crate::support::finish(command).code(0);
}

#[test]
fn the_goal_and_the_bounds() {
    let place = Place::new();
    let goal = |goal: &str| {
        place.says(2, &["run", goal, "-C", "work", "--model", "m", "--base-url", &place.model.base_url])
    };
    let outputs = [
        goal(""),
        goal(" \n"),
        place.run(2, &["--max-cost", "1"]),
        place.run(2, &["--max-cost", "much", "--price", "3/15"]),
        place.run(2, &["--max-cost", "-1", "--price", "3/15"]),
        place.run(2, &["--max-cost", "1", "--price", "3"]),
        place.run(2, &["--timeout", "soon"]),
        place.run(2, &["--timeout", "5 parsecs"]),
        place.run(2, &["--timeout", "99999999999999999999s"]),
        place.run(2, &["--timeout", "9000h"]),
        place.run(2, &["--max-steps", "-1"]),
        place.run(2, &["--max-steps", "0"]),
        place.run(2, &["--verify", "cargo 'test"]),
        place.run(2, &["--verify", ""]),
    ];
    assert_snapshot!(all(outputs));
    // The control: the same bounds, well formed.
    let bounds = ["--max-cost", "1", "--price", "3/15", "--timeout", "5m", "--verify", "test -e 'a.txt'"];
    let _ = place.env.run(&place.repo.path, &place.model, &bounds).code(0);
}

#[test]
fn the_policy() {
    let place = Place::new();
    let file = |content: &str| {
        place.file("policy.toml", content);
        place.run(2, &["--policy", "policy.toml"])
    };
    let outputs = [
        file("presett = \"workspace\"\n"),
        file("preset = \"workspac\"\n"),
        file("preset = \"workspace\"\nallow = [\"exec cargo test*\",\n  \"exce cargo build\"]\n"),
        file("deny = [\"write /etc/passwd\"]\n"),
        file("deny = [\"write a[\"]\n"),
        file("preset = \n"),
        file("[default]\nexec = \"perhaps\"\n"),
        place.run(2, &["--policy", "nowhere.toml"]),
        place.run(2, &["--policy", "work"]),
        place.run(2, &["--allow", "frobnicate x"]),
        place.run(2, &["--allow", "exec"]),
        place.run(2, &["--deny", "exec 'rm"]),
    ];
    assert_snapshot!(all(outputs));
    // A file that is no text.
    place.file("policy.toml", b"preset = \"\xff\"\n");
    assert_snapshot!("the_policy_is_no_text", place.run(2, &["--policy", "policy.toml"]));
    // The control.
    place.file("policy.toml", "preset = \"workspace\"\nallow = [\"exec cargo test*\"]\n");
    let _ = place.env.run(&place.repo.path, &place.model, &["--policy", "policy.toml"]).code(0);
}

#[test]
fn the_script() {
    let place = Place::new();
    let rehearse = |content: &str| {
        place.file("bad.json", content);
        place.says(2, &["rehearse", "bad.json"])
    };
    let outputs = [
        rehearse(""),
        rehearse("{}"),
        rehearse("{\"steps\": []}"),
        rehearse("{\"steps\": [\n  {\"say\": \"a\"},\n  {\"say\": }\n]}"),
        rehearse("{\"steps\": [{\"sya\": \"a\"}]}"),
        rehearse("{\"steps\": [{\"say\": \"a\", \"repeat\": 0}]}"),
        place.says(2, &["rehearse", "nowhere.json"]),
    ];
    assert_snapshot!(all(outputs));
    place.file("good.json", "{\"final\": \"done\"}");
    assert_snapshot!(
        "the_script_elsewhere",
        all([
            place.says(2, &["rehearse", "good.json", "--listen", "0.0.0.0:0"]),
            place.says(2, &["rehearse", "good.json", "--log", "nowhere/log"]),
        ])
    );
}

#[test]
fn the_name_of_a_run() {
    let place = Place::new();
    let outputs = ["log", "show", "resume"].map(|command| place.says(2, &[command, "r99"]));
    assert_snapshot!(all(outputs
        .into_iter()
        .chain([place.says(2, &["resume", ""]), place.says(2, &["export", "r99", "--out", "bundle"]),])));
    assert!(!place.env.at("bundle").exists());
    // A beginning that is enough, and one that no longer is.
    let beginning = &place.run[..place.run.len() - 4];
    let _ = place.env.provost(["show", beginning]).code(0);
    let second = place.env.run(&place.repo.path, &place.model, &[]).code(0).run();
    let ran = place.env.provost(["show", "r"]).code(2);
    let mut both = [&place.run, &second];
    both.sort();
    assert!(both.iter().all(|run| ran.stderr.contains(run.as_str())), "{ran}");
    let filtered = place.filtered(&ran.to_string()).replace(&second, "[RUN]");
    assert_snapshot!("the_name_of_a_run_is_ambiguous", filtered);
    // An act that does not wait.
    let ran = place.env.provost(["resume", &place.run, "--approve", "7"]).code(2);
    assert_snapshot!("an_act_that_does_not_wait", place.filtered(&ran.to_string()));
    place.env.assert_store_intact();
}

#[test]
fn the_store() {
    let place = Place::new();
    fs::create_dir(place.env.at("folder")).unwrap();
    // No SQLite file begins so.
    let garbage: Vec<u8> = (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    place.file("garbage.db", &garbage);
    place.file("nul.db", vec![0; 8192]);
    place.file("short.db", "SQLite format 3\0");
    let connection = rusqlite::Connection::open(place.env.at("foreign.db")).unwrap();
    connection.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(connection);
    fs::copy(place.env.store(), place.env.at("newer.db")).unwrap();
    let connection = rusqlite::Connection::open(place.env.at("newer.db")).unwrap();
    connection.execute_batch("PRAGMA user_version = 999").unwrap();
    drop(connection);

    let names = ["folder", "garbage.db", "nul.db", "short.db", "foreign.db", "newer.db", "garbage.db/x.db"];
    let before = names.map(|name| fs::read(place.env.at(name)).ok());
    let mut outputs: Vec<String> =
        names.iter().map(|name| place.says(2, &["runs", "--store", name])).collect();
    outputs.push(place.run(2, &["--store", "garbage.db"]));
    assert_snapshot!(all(outputs));
    assert_eq!(names.map(|name| fs::read(place.env.at(name)).ok()), before, "left as they were");
    assert!(files_beneath(&place.env.at("folder")).is_empty());
    // The control: a store elsewhere is made with its folder.
    let _ = place.env.run(&place.repo.path, &place.model, &["--store", "new/folder/store.db"]).code(0);
}

#[test]
fn the_bundle_and_the_key() {
    let place = Place::new();
    let key = place.env.public_key().display().to_string();
    let private = place.env.at("config/provost/runner.pem").display().to_string();
    fs::create_dir(place.env.at("empty")).unwrap();
    fs::create_dir(place.env.at("plain")).unwrap();
    place.file("garbage.pem", "garbage\n");
    let _ = place.env.provost(["export", &place.run, "--out", "bundle"]).code(0);
    let verify = |bundle: &str, key: &str, repo: &str| {
        place.says(2, &["verify", bundle, "--key", key, "--repo", repo])
    };
    let outputs = [
        verify("nowhere", &key, "work"),
        verify("work/a.txt", &key, "work"),
        verify("bundle", "nowhere.pem", "work"),
        verify("bundle", "garbage.pem", "work"),
        verify("bundle", &private, "work"),
        verify("bundle", &key, "plain"),
        verify("bundle", &key, "nowhere"),
        place.says(2, &["verify", "bundle"]),
        place.says(2, &["verify", "bundle", "--key", &key, "--repo", "work", "--commit", "HEAD"]),
        place.says(2, &["verify", "bundle", "--key", &key, "--repo", "work", "--commit", "1234abcd"]),
        place.says(2, &["export", &place.run, "--out", "work"]),
        place.says(8, &["verify", "empty", "--key", &key, "--repo", "work"]),
    ];
    assert_snapshot!(all(outputs));
    // The control.
    let verify = ["verify", "bundle", "--key", &key, "--repo", "work"];
    let _ = place.env.provost(verify).code(0);
    let full = place.repo.head().to_uppercase();
    let _ = place.env.provost(verify.iter().chain(&["--commit", &full])).code(0);
}

#[test]
fn the_arguments() {
    let place = Place::new();
    let outputs = [
        place.says(2, &["run"]),
        place.says(2, &["frobnicate"]),
        place.says(2, &["policy", "explain", "frobnicate", "x"]),
        place.says(2, &["policy", "explain", "write", "../x"]),
        place.says(2, &["policy", "explain", "write", "a", "b"]),
        place.says(2, &["policy", "explain", "net", "example.org"]),
        place.says(2, &["policy", "explain", "exec"]),
        place.says(2, &["policy", "explain", "exec", "cargo", "test", "--policy", "strict"]),
        place.says(2, &["policy", "explain", "write", "a.txt", "--deny=write a.txt"]),
    ];
    assert_snapshot!(all(outputs));
    // The control: in front of the words they are in force.
    let args = ["policy", "explain", "--policy", "strict", "exec", "cargo", "test", "--offline"];
    let ran = place.env.provost(args).code(0);
    assert!(ran.stdout.contains("preset strict"), "{ran}");
}

/// Runs `provost` with a standard output whose reader goes away after the first line, or before it.
fn with_a_hasty_reader(env: &TestEnvironment, args: &[&str], lines: usize) -> (Option<i32>, String) {
    let mut child = env.provost_command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::with_capacity(64, child.stdout.take().unwrap());
    for _ in 0..lines {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{args:?} prints something");
    }
    drop(out);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

#[test]
fn m8_a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let args = place.env.run_args(&place.repo.path, &place.model, &[]);
    let run: Vec<&str> = args.iter().map(String::as_str).collect();
    let commands: [&[&str]; 7] = [
        &["log", &place.run],
        &["log", &place.run, "--json"],
        &["show", &place.run],
        &["runs"],
        &["--help"],
        &["policy", "explain", "write", "a.txt"],
        &run,
    ];
    for command in commands {
        for lines in [0, 1] {
            let (code, stderr) = with_a_hasty_reader(&place.env, command, lines);
            assert_eq!((code, stderr.as_str()), (Some(0), ""), "{command:?}");
        }
    }
    // The run of a reader that went away is whole all the same.
    let runs = place.env.runs();
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!(place.env.show(&run)["state"], json!("done"));
    }
    place.env.assert_store_intact();
}

#[test]
fn output_that_is_lost_is_a_failure() {
    let place = Place::new();
    for command in [vec!["log", &place.run, "--json"], vec!["show", &place.run], vec!["runs"]] {
        let mut full = place.env.provost_command(&command);
        full.stdout(fs::File::options().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
        let output = full.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(70), "{command:?}: {stderr}");
        assert!(stderr.contains("No space left"), "{command:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}
