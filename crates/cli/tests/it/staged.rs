//! Staged changes on the command line: the flag, what is shown, and evidence that others verify.

use std::fs;

use crate::script::{script, sh, submit};
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
