//! The demonstration, twice, and its evidence against other commits, scopes and repositories.

use std::fs;
use std::path::PathBuf;

use crate::support::{Repo, TestEnvironment, files_with};

const CANARY: &str = "canary-7c1d-not-committed";

fn demo(env: &TestEnvironment, name: &str) -> PathBuf {
    let _ = env.provost(["demo", "--out", name]).code(0);
    env.at(name)
}

#[test]
fn the_demonstration_runs_twice_and_leaves_nothing_behind() {
    let env = TestEnvironment::new();
    for name in ["one", "two"] {
        let folder = demo(&env, name);
        let source = fs::read_to_string(folder.join("recipient/package/src/lib.rs")).unwrap();
        assert!(source.contains("left + right"), "{source}");
        let mut cargo = env.command("cargo");
        cargo.args(["test", "--offline"]).current_dir(folder.join("recipient/package"));
        let _ = crate::support::finish(cargo).code(0);

        // The control: the canary is where it was planted, so a search would find it.
        assert_eq!(
            files_with(&folder.join("repository"), CANARY),
            [folder.join("repository/package/notes.txt")]
        );
        for part in ["store", "bundle", "requests.ndjson", "workspace", "recipient"] {
            assert_eq!(files_with(&folder.join(part), CANARY), Vec::<PathBuf>::new());
        }
        let untouched = fs::read_to_string(folder.join("repository/package/src/lib.rs")).unwrap();
        assert!(untouched.contains("left - right"));
    }
    env.assert_no_processes();
}

#[test]
fn another_commit_scope_or_repository_is_refused() {
    let env = TestEnvironment::new();
    let folder = demo(&env, "d");
    let bundle = folder.join("bundle");
    let key = folder.join("keys/runner.pub.pem");
    let check = |more: &[&str]| {
        let mut args = vec!["verify".to_owned(), bundle.display().to_string()];
        args.extend(["--key".to_owned(), key.display().to_string()]);
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        env.provost(args)
    };
    let repository = folder.join("repository").display().to_string();
    let ran = check(&["--repo", &repository, "--scope", "package/"]).code(0);
    let commit = ran.stdout.lines().find_map(|line| line.strip_prefix("began with commit ")).unwrap();
    let commit = commit.split(',').next().unwrap().to_owned();
    let _ = check(&["--repo", &repository, "--commit", &commit]).code(0);
    let _ = check(&["--repo", &repository, "--commit", &"0".repeat(40)]).code(8);
    let _ = check(&["--repo", &repository, "--scope", "other"]).code(8);

    let other: Repo = env.repository("other", &[("a", "b")]);
    let ran = check(&["--repo", &other.path.display().to_string()]).code(8);
    assert!(ran.stdout.contains("NOT verified: base"), "{ran}");
    let ran = check(&["--no-repo"]).code(0);
    assert!(ran.stdout.contains("not checked"), "{ran}");
}
