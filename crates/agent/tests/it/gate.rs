//! The verification gate judges the tree that is exported, and nothing else.

use std::process::Command;

use provost_core::containment::Rung;
use provost_core::contract::{Contract, Gate};
use provost_core::event::{Body, GateVerdict};
use provost_core::id::RunId;
use provost_core::path::RelPath;
use provost_core::policy::{Containment, Effect, Layer, Policy, Preset};
use provost_model::Answer;
use serde_json::json;

use provost_journal::Store as _;

use crate::support::{Bench, calls};

const RUNGS: [Rung; 3] = [Rung::R1, Rung::R2, Rung::R3];

fn shell_gate(line: &str) -> Gate {
    Gate::command(["sh", "-c", line].map(str::to_owned).to_vec())
}

fn contract(gate: Gate) -> Contract {
    Contract::new("make it so").policy(Policy::preset(Preset::Workspace)).gate(gate)
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

async fn verdicts(bench: &Bench, run: &RunId) -> Vec<GateVerdict> {
    let judged = bench.bodies(run).await.into_iter().filter_map(|body| match body {
        Body::GateJudged(judged) => Some(judged.verdict),
        _ => None,
    });
    judged.collect()
}

#[tokio::test]
async fn what_ignore_rules_hide_is_not_part_of_what_is_verified() {
    let files = [("a.txt", "one\n"), (".gitignore", "/build/\n")];
    let prepare = || vec![shell("mkdir -p build/deep; echo yes > build/deep/answer"), Answer::text("done")];
    let gate = || shell_gate("grep -q yes build/deep/answer");
    let bench = Bench::new(&files);
    let (run, ending) = bench.start(&bench.runtime(prepare()), contract(gate())).await.unwrap();
    assert_eq!(ending.exit_code(), 1);
    assert_eq!(verdicts(&bench, &run).await, [GateVerdict::Failed; 3]);

    // The control: the contract names the folder.
    let bench = Bench::new(&files);
    let named = Gate { with: vec![RelPath::parse("build").unwrap()], ..gate() };
    let (run, ending) = bench.start(&bench.runtime(prepare()), contract(named)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(verdicts(&bench, &run).await, [GateVerdict::Passed]);
}

#[tokio::test]
async fn a_file_that_the_agent_told_git_to_ignore_is_not_there() {
    for (ignored, code) in [("/hidden.txt\n", 1), ("/other.txt\n", 0)] {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let runtime = bench.runtime(vec![
            calls("write_file", json!({ "path": ".gitignore", "content": ignored })),
            shell("echo yes > hidden.txt"),
            Answer::text("done"),
        ]);
        let (_, ending) =
            bench.start(&runtime, contract(shell_gate("grep -q yes hidden.txt"))).await.unwrap();
        assert_eq!(ending.exit_code(), code, "{ignored}");
    }
}

#[tokio::test]
async fn what_the_gate_writes_is_thrown_away() {
    for rung in RUNGS {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let mut runtime = bench.runtime(vec![Answer::text("done")]);
        runtime.executor = crate::support::at_most(rung);
        let line =
            "echo two > a.txt && mkdir -p closed && touch closed/new && chmod 500 closed && date +%N > stamp";
        let policy = Policy { at_least: Rung::R1, ..Policy::preset(Preset::Workspace) };
        let (run, ending) = bench.start(&runtime, contract(shell_gate(line)).policy(policy)).await.unwrap();
        assert_eq!(ending.exit_code(), 0, "{rung}");
        assert_eq!(verdicts(&bench, &run).await, [GateVerdict::Passed]);
        assert_eq!(bench.read("a.txt"), "one\n");
        assert!(!bench.path("stamp").exists());
        let left: Vec<_> = walk(&bench.dir.path().join("spool"));
        assert!(left.is_empty(), "{rung}: {left:?}");
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn the_gate_sees_the_history_and_cannot_change_it() {
    for rung in RUNGS {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let root = bench.path("");
        for args in [
            &["init", "-q"][..],
            &["add", "-A"],
            &["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "first"],
        ] {
            assert!(Command::new("git").current_dir(&root).args(args).status().unwrap().success());
        }
        let mut runtime = bench.runtime(vec![
            calls("write_file", json!({ "path": "b.txt", "content": "new\n" })),
            Answer::text("done"),
        ]);
        runtime.executor = crate::support::at_most(rung);
        // Git may find the folder to be another user's; that is the host's affair and not asked about here.
        let line = "git log -1 --format=%s | grep -qx first && git status --porcelain | grep -qx '?? b.txt'";
        let policy = Policy { at_least: Rung::R1, ..Policy::preset(Preset::Workspace) };
        let (run, ending) = bench.start(&runtime, contract(shell_gate(line)).policy(policy)).await.unwrap();
        assert_eq!(ending.exit_code(), 0, "{rung}: {}", bench.told(&run, 1).await);
    }
    // Where there is containment, the history cannot be rewritten through the checkout.
    for (rung, code) in [(Rung::R3, 1), (Rung::R2, 1)] {
        let bench = Bench::new(&[("a.txt", "one\n"), (".git/HEAD", "ref: refs/heads/main\n")]);
        let mut runtime = bench.runtime(vec![Answer::text("done")]);
        runtime.executor = crate::support::at_most(rung);
        let line = "if [ -d .git ]; then dir=.git; else dir=$(cut -d' ' -f2 .git); fi; echo evil > $dir/HEAD";
        let (_, ending) = bench.start(&runtime, contract(shell_gate(line))).await.unwrap();
        assert_eq!(ending.exit_code(), code, "{rung}");
        assert_eq!(bench.read(".git/HEAD"), "ref: refs/heads/main\n");
    }
}

#[tokio::test]
async fn what_policy_keeps_from_being_read_is_kept_from_the_gate_too() {
    let deny = || Layer::named("test").rule(Effect::Deny, "read secret.txt").unwrap();
    for rung in [Rung::R2, Rung::R3] {
        let files = [("secret.txt", "treasure\n"), ("a.txt", "one\n")];
        for (policy, code) in
            [(Policy::preset(Preset::Workspace).with(deny()), 1), (Policy::preset(Preset::Workspace), 0)]
        {
            let bench = Bench::new(&files);
            let mut runtime = bench.runtime(vec![Answer::text("done")]);
            runtime.executor = crate::support::at_most(rung);
            let gate = shell_gate("grep -q treasure secret.txt");
            let (_, ending) = bench.start(&runtime, contract(gate).policy(policy)).await.unwrap();
            assert_eq!(ending.exit_code(), code, "{rung}");
        }
    }
}

#[tokio::test]
async fn what_is_named_beside_the_tree_cannot_lead_out_of_the_workspace() {
    let bench = Bench::new(&[("a.txt", "one\n"), (".gitignore", "/link\n")]);
    std::fs::create_dir(bench.dir.path().join("outside")).unwrap();
    std::fs::write(bench.dir.path().join("outside/key"), "treasure\n").unwrap();
    std::os::unix::fs::symlink(bench.dir.path().join("outside"), bench.path("link")).unwrap();
    for with in ["link/key", "link", "absent"] {
        let gate =
            Gate { with: vec![RelPath::parse(with).unwrap()], ..shell_gate("grep -q treasure link/key") };
        let runtime = bench.runtime(vec![Answer::text("done")]);
        let (_, ending) = bench.start(&runtime, contract(gate)).await.unwrap();
        assert_eq!(ending.exit_code(), 1, "{with}");
    }
}

#[tokio::test]
async fn a_gate_without_containment_runs_in_a_checkout_too() {
    let bench = Bench::new(&[("a.txt", "one\n"), (".gitignore", "/ignored\n"), ("ignored", "x\n")]);
    let runtime = bench.runtime(vec![Answer::text("done")]);
    let policy = Policy { containment: Containment::LimitsOnly, ..Policy::preset(Preset::FullAccess) };
    let gate = shell_gate("test -e a.txt && test ! -e ignored");
    let (_, ending) = bench.start(&runtime, contract(gate).policy(policy)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
}

#[tokio::test]
async fn what_is_part_of_the_tree_cannot_stand_beside_it() {
    let files = [("a.txt", "one\n"), ("src/lib.rs", ""), (".gitignore", "/build/\n"), ("build/x", "")];
    for (with, ok) in [(".", false), (".git", false), ("src", false), ("a.txt", false), ("build", true)] {
        let bench = Bench::new(&files);
        let gate = Gate { with: vec![RelPath::parse(with).unwrap()], ..shell_gate("true") };
        let started = bench.start(&bench.runtime(vec![Answer::text("done")]), contract(gate)).await;
        assert_eq!(started.is_ok(), ok, "{with}");
        assert_eq!(
            bench.store.runs().await.unwrap().len(),
            usize::from(ok),
            "{with}: before anything is spent"
        );
    }
}
