//! What runs is what was decided on.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_agent::{Approver, Question, Word};
use provost_core::contract::Contract;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_journal::BoxFuture;
use serde_json::json;

use crate::support::{Bench, calls};

/// Says yes, and puts another program in the way before that.
struct Replaces {
    at: PathBuf,
}

impl Approver for Replaces {
    fn name(&self) -> &'static str {
        "replaces"
    }

    fn decide<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Word> {
        program(&self.at, "another");
        Box::pin(std::future::ready(Word::Approve))
    }
}

fn program(path: &Path, says: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\necho {says}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_program_that_comes_to_stand_in_the_way_is_not_run() {
    for replaced in [true, false] {
        let bench = Bench::new(&[]);
        program(&bench.path("bin/tool"), "decided");
        let mut runtime = bench.runtime(vec![calls("exec", json!({ "argv": ["./tool"], "cwd": "link" }))]);
        std::os::unix::fs::symlink("bin", bench.path("link")).unwrap();
        let at = if replaced { bench.path("other/tool") } else { bench.path("other/unrelated") };
        runtime.approver = Arc::new(Swaps(Replaces { at }, bench.path("link"), replaced));
        let (run, _) = bench.start(&runtime, Contract::new("run")).await.unwrap();
        let told = bench.told(&run, 0).await;
        if replaced {
            assert!(told.contains("would now touch something else"), "{told}");
        } else {
            assert!(told.contains("decided"), "{told}");
        }
        assert!(!told.contains("another"), "{told}");
    }
}

/// Turns the link elsewhere as well.
struct Swaps(Replaces, PathBuf, bool);

impl Approver for Swaps {
    fn name(&self) -> &'static str {
        "swaps"
    }

    fn decide<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Word> {
        if self.2 {
            std::fs::remove_file(&self.1).unwrap();
            std::os::unix::fs::symlink("other", &self.1).unwrap();
        }
        self.0.decide(question)
    }
}

/// What a command starts is decided on, recorded, and holds for the run.
#[tokio::test]
async fn a_wrapped_command_is_refused_by_the_rule_on_what_it_starts() {
    let bench = Bench::new(&[("a.txt", "a\n")]);
    let wrapped = json!({ "argv": ["timeout", "5", "env", "A=1", "rm", "a.txt"] });
    let runtime = bench.runtime(vec![calls("exec", wrapped.clone())]);
    let deny = Layer::named("test").rule(Effect::Deny, "exec rm").unwrap();
    let policy = Policy::preset(Preset::Workspace).with(deny);
    let (run, _) = bench.start(&runtime, Contract::new("run").policy(policy)).await.unwrap();
    let told = bench.told(&run, 0).await;
    assert!(told.contains("Refused: `exec rm a.txt`") && told.contains("deny exec rm"), "{told}");
    assert_eq!(bench.read("a.txt"), "a\n");

    let bench = Bench::new(&[("a.txt", "a\n")]);
    let runtime = bench.runtime(vec![calls("exec", wrapped)]);
    let contract = Contract::new("run").policy(Policy::preset(Preset::Workspace));
    bench.start(&runtime, contract).await.unwrap();
    assert!(!bench.path("a.txt").exists(), "the control");
}
