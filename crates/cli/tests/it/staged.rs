//! Staged changes on the command line: the flag, what is shown, and evidence that others verify.

use std::fs;

use crate::script::{script, sh, submit, told};
use crate::support::{TestEnvironment, bodies};

#[test]
fn a_staged_run_leaves_out_what_is_guarded_and_its_evidence_verifies() {
    let env = TestEnvironment::new();
    let repo = env.repository("repository", &[("a.txt", "one\n"), ("gone.txt", "gone\n")]);
    let line = "echo two > a.txt; rm gone.txt; mkdir .vscode; echo evil > .vscode/tasks.json";
    let model = env.rehearse(&script([sh(line), submit()]));
    let bundle = env.at("bundle");
    let export = bundle.to_str().unwrap().to_owned();
    let recipient = repo.clone_to("recipient");
    let _ = env.run(&repo.path, &model, &["--workspace-mode", "staged", "--export", &export]).code(0);
    assert_eq!(fs::read_to_string(repo.path.join("a.txt")).unwrap(), "two\n");
    assert!(!repo.path.join("gone.txt").exists() && !repo.path.join(".vscode/tasks.json").exists());
    let run = env.only_run();
    let journal = env.journal(&run);
    assert_eq!(bodies(&journal, "act.staged").len(), 1);
    let log = env.provost(["log", &run]).code(0);
    assert!(log.stdout.contains("left out: `.vscode/tasks.json`: the policy guards it"), "{}", log.stdout);
    assert!(log.stdout.contains("changes of commands are staged"), "{}", log.stdout);
    let key = env.public_key();
    let theirs = recipient.path.to_str().unwrap();
    let _ = env.provost(["verify", &export, "--key", key.to_str().unwrap(), "--repo", theirs]).code(0);
    // The flag has the last word.
    let file = env.at("policy.toml");
    fs::write(&file, "preset = \"workspace\"\nworkspace = \"staged\"\n").unwrap();
    let model = env.rehearse(&script([sh("echo three > a.txt"), submit()]));
    let policy = file.to_str().unwrap().to_owned();
    let _ = env.run(&repo.path, &model, &["--policy", &policy, "--workspace-mode", "direct"]).code(0);
    let runs = env.runs();
    let staged = runs.iter().filter(|run| !bodies(&env.journal(run), "act.staged").is_empty()).count();
    assert_eq!((runs.len(), staged), (2, 1));
}

/// The layer holds holes and further names for nothing; in the workspace each of them takes up what it says.
#[test]
fn what_is_more_than_the_cap_when_it_is_written_out_stays_out() {
    let sparse = |mib: u32| format!("echo two > a.txt; truncate -s {mib}M sparse");
    let links = |count: u32| {
        format!(
            "echo two > a.txt; head -c 2000000 /dev/urandom > h; for i in $(seq {count}); do ln h h$i; done"
        )
    };
    for (line, fits) in [(sparse(400), false), (sparse(4), true), (links(30), false), (links(3), true)] {
        let env = TestEnvironment::new();
        let repo = env.repository("repository", &[("a.txt", "one\n")]);
        let file = env.at("policy.toml");
        fs::write(&file, "preset = \"workspace\"\nworkspace = \"staged\"\n[caps]\ndisk_mib = 16\n").unwrap();
        let model = env.rehearse(&script([sh(&line), submit()]));
        let _ = env.run(&repo.path, &model, &["--policy", file.to_str().unwrap()]).code(0);
        let told = told(&model).remove(0);
        // All of it or nothing: a part of what a command did is not what it did.
        let content = fs::read_to_string(repo.path.join("a.txt")).unwrap();
        assert_eq!(content, if fits { "two\n" } else { "one\n" }, "{line}: {told}");
        assert_eq!(
            repo.path.join("sparse").exists() || repo.path.join("h1").exists(),
            fits,
            "{line}: {told}"
        );
        assert_eq!(told.contains("more than the cap on disk"), !fits, "{told}");
    }
}
