//! The workspace is in the journal: what tools wrote, what commands changed, what somebody else did.

use provost_core::act::Intent;
use provost_core::contract::{Contract, Gate};
use provost_core::event::Body;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_model::{Answer, Scripted};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Bench, calls};

fn contract() -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::Workspace))
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

/// A write that finds its file as it is to be is an act with a start and an end like any other.
#[tokio::test]
async fn what_is_as_it_is_to_be_is_written_without_a_change() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let write = || calls("write_file", json!({ "path": "b.txt", "content": "two\n" }));
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+one\n";
    let runtime = bench.runtime(vec![write(), write(), calls("apply_patch", json!({ "patch": patch }))]);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let changes: Vec<usize> = bench
        .bodies(&run)
        .await
        .iter()
        .filter_map(|body| match body {
            Body::ActStarted(started) => match &started.intent {
                Intent::Write { changes } => Some(changes.len()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(changes, [1, 0, 0]);
    assert_eq!(bench.read("b.txt"), "two\n");
}

#[tokio::test]
async fn what_a_command_changes_is_recorded_with_before_and_after() {
    let bench = Bench::new(&[("a.txt", "one\n"), ("gone.txt", "g\n"), (".gitignore", "ignored\n")]);
    let runtime =
        bench.runtime(vec![shell("echo two > a.txt; rm gone.txt; echo n > new.txt; echo i > ignored")]);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let changes = bench
        .bodies(&run)
        .await
        .into_iter()
        .find_map(|body| match body {
            Body::ActFinished(finished) => Some(finished.changes),
            _ => None,
        })
        .unwrap();
    let shape: Vec<(&str, bool, bool)> = changes
        .iter()
        .map(|change| (change.path.as_str(), change.before.is_some(), change.after.is_some()))
        .collect();
    assert_eq!(shape, [("a.txt", true, true), ("gone.txt", true, false), ("new.txt", false, true)]);
}

#[tokio::test]
async fn a_command_cannot_leave_a_change_where_policy_denies_writing() {
    let deny = Layer::named("test").rule(Effect::Deny, "write locked/**").unwrap();
    let line = "mkdir -p locked; echo evil > locked/new.txt; echo evil > locked/old.txt; echo ok > free.txt";
    let files = [("locked/old.txt", "old\n"), ("free.txt", "free\n")];

    let bench = Bench::new(&files);
    let runtime = bench.runtime(vec![shell(line)]);
    let (run, _) =
        bench.start(&runtime, contract().policy(Policy::preset(Preset::Workspace).with(deny))).await.unwrap();
    assert_eq!(bench.read("locked/old.txt"), "old\n");
    assert!(!bench.path("locked/new.txt").exists());
    assert_eq!(bench.read("free.txt"), "ok\n");
    let reverted = bench.bodies(&run).await.into_iter().any(|body| match body {
        Body::ActFinished(finished) => finished.reverted.iter().any(|path| path.as_str() == "locked/new.txt"),
        _ => false,
    });
    assert!(reverted || bench.told(&run, 0).await.contains("ead-only"), "{}", bench.told(&run, 0).await);

    // The control: without the rule both are written.
    let bench = Bench::new(&files);
    let runtime = bench.runtime(vec![shell(line)]);
    bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(bench.read("locked/old.txt"), "evil\n");
    assert_eq!(bench.read("locked/new.txt"), "evil\n");
}

#[tokio::test]
async fn e17_a_file_that_somebody_else_changed_is_not_overwritten() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let path = bench.path("a.txt");
    let turn = AtomicUsize::new(0);
    let model = Scripted::from_fn(move |_, _| {
        Ok(match turn.fetch_add(1, Ordering::SeqCst) {
            0 => calls("read_file", json!({ "path": "a.txt" })),
            1 => {
                std::fs::write(&path, "one\nand mine\n").unwrap();
                calls("write_file", json!({ "path": "a.txt", "content": "two\n" }))
            }
            2 => calls("read_file", json!({ "path": "a.txt" })),
            3 => calls("write_file", json!({ "path": "a.txt", "content": "two\nand mine\n" })),
            4 => calls("write_file", json!({ "path": "a.txt", "content": "three\n" })),
            _ => Answer::text("done"),
        })
    });
    let runtime = bench.runtime_with(Arc::new(model));
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert!(bench.told(&run, 1).await.contains("Nothing was written"), "{}", bench.told(&run, 1).await);
    assert_eq!(
        bench.read("a.txt"),
        "three\n",
        "after reading again it works, and one's own writes do not block"
    );
    let drifts =
        bench.bodies(&run).await.into_iter().filter(|body| matches!(body, Body::WorkspaceDrifted(_))).count();
    assert_eq!(drifts, 1, "the other's change is in the journal, once");
}

#[tokio::test]
async fn a_gate_that_first_fails_reopens_the_work() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let runtime = bench.runtime(vec![
        Answer::text("done"),
        calls("edit_file", json!({ "path": "a.txt", "old": "one", "new": "two" })),
        Answer::text("now it is"),
    ]);
    let gate = Gate::command(["grep", "-q", "two", "a.txt"].map(str::to_owned).to_vec());
    let (run, ending) = bench.start(&runtime, contract().gate(gate)).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let finished = bench.bodies(&run).await.into_iter().find_map(|body| match body {
        Body::RunFinished(finished) => Some(finished),
        _ => None,
    });
    assert!(finished.unwrap().verified);
}

#[tokio::test]
async fn where_namespaces_are_refused_cargo_still_works_and_git_stays_protected() {
    let manifest = "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let lock = "version = 4\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n";
    let files =
        [("Cargo.toml", manifest), ("Cargo.lock", lock), ("src/lib.rs", ""), (".git/config", "[core]\n")];
    let bench = Bench::new(&files);
    let mut runtime = bench.runtime(vec![
        calls("exec", json!({ "argv": ["cargo", "test", "--offline"] })),
        shell("echo evil >> .git/config"),
    ]);
    runtime.host = crate::support::host();
    runtime.executor = crate::support::at_most(provost_core::containment::Rung::R2);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let told = bench.told(&run, 0).await;
    assert!(told.contains("test result: ok"), "{told}");
    assert_eq!(bench.read(".git/config"), "[core]\n");
    let rungs: Vec<_> = bench
        .bodies(&run)
        .await
        .into_iter()
        .filter_map(|body| match body {
            Body::DriverAttached(attached) => Some(attached.containment.rung),
            _ => None,
        })
        .collect();
    assert_eq!(rungs, [provost_core::containment::Rung::R2]);
}
