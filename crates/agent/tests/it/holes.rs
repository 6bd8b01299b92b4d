//! Holes that a hostile reader found: what a command plants for programs outside of the sandbox, and what it moves
//! away to read it under another name.

use provost_core::contract::Contract;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, calls};

fn contract() -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::Workspace))
}

fn full() -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::FullAccess))
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

/// Runs one line under each contract; says whether `name` is there afterwards.
async fn leaves(files: &[(&str, &str)], line: &str, name: &str, contract: Contract) -> bool {
    let bench = Bench::new(files);
    let runtime = bench.runtime(vec![shell(line)]);
    let (_, ending) = bench.start(&runtime, contract).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    std::fs::symlink_metadata(bench.path(name)).is_ok()
}

#[tokio::test]
async fn guarded_names_cannot_be_planted_anywhere() {
    let files = &[("a.txt", "a\n"), (".gitignore", "/vendor\n"), ("vendor/x/kept", "k\n")];
    let plants = [
        ("mkdir .git; echo evil > .git/config", ".git"),
        ("mkdir -p sub/.git; echo evil > sub/.git/config", "sub/.git"),
        ("echo 'gitdir: /etc' > .git", ".git"),
        ("mkdir vendor/x/.git; echo evil > vendor/x/.git/config", "vendor/x/.git"),
        ("echo .cargo >> .gitignore; mkdir .cargo; echo evil > .cargo/config.toml", ".cargo/config.toml"),
        ("mkdir evil; echo evil > evil/config.toml; ln -s evil .cargo", ".cargo"),
    ];
    for (line, name) in plants {
        assert!(!leaves(files, line, name, contract()).await, "{line}");
        assert!(leaves(files, line, name, full()).await, "the control: {line}");
    }
}

#[tokio::test]
async fn what_stands_in_ignored_folders_is_guarded_too() {
    let files =
        &[(".gitignore", "/vendor\n/local\n"), ("vendor/.git/config", "[core]\n"), ("local/id_rsa", "KEY\n")];
    let line = "echo evil >> vendor/.git/config; cat local/id_rsa; true";
    let bench = Bench::new(files);
    let runtime = bench.runtime(vec![shell(line)]);
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(bench.read("vendor/.git/config"), "[core]\n");
    assert!(!bench.told(&run, 0).await.contains("KEY"));

    let bench = Bench::new(files);
    let runtime = bench.runtime(vec![shell(line)]);
    let (run, _) = bench.start(&runtime, full()).await.unwrap();
    assert!(bench.read("vendor/.git/config").contains("evil"), "the control");
    assert!(bench.told(&run, 0).await.contains("KEY"), "the control");
}

#[tokio::test]
async fn a_hidden_file_is_not_read_under_another_name() {
    let files = &[("conf/.env", "SECRET\n"), ("conf/private/k", "PRIVATE\n"), ("conf/open.txt", "o\n")];
    let deny = || Layer::named("test").rule(Effect::Deny, "read conf/private/").unwrap();
    let moves = || vec![shell("mv conf conf2; true"), shell("cat conf*/.env conf*/private/k; true")];
    let bench = Bench::new(files);
    let runtime = bench.runtime(moves());
    let policy = Policy::preset(Preset::Workspace).with(deny());
    let (run, _) = bench.start(&runtime, contract().policy(policy)).await.unwrap();
    let told = bench.told(&run, 1).await;
    assert!(!told.contains("SECRET") && !told.contains("PRIVATE"), "{told}");

    let bench = Bench::new(files);
    let runtime = bench.runtime(moves());
    let (run, _) = bench.start(&runtime, full()).await.unwrap();
    assert!(bench.told(&run, 1).await.contains("SECRET"), "the control");
}

#[tokio::test]
async fn a_rule_that_asks_about_a_file_binds_commands_too() {
    let ask = Layer::named("test").rule(Effect::Ask, "write Cargo.toml").unwrap();
    let files = &[("Cargo.toml", "old\n")];
    let bench = Bench::new(files);
    let runtime = bench.runtime(vec![shell("echo new > Cargo.toml; true")]);
    let policy = Policy::preset(Preset::Workspace).with(ask);
    bench.start(&runtime, contract().policy(policy)).await.unwrap();
    assert_eq!(bench.read("Cargo.toml"), "old\n");

    let bench = Bench::new(files);
    let runtime = bench.runtime(vec![shell("echo new > Cargo.toml; true")]);
    bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(bench.read("Cargo.toml"), "new\n", "the control");
}

#[tokio::test]
async fn two_runs_do_not_work_in_one_folder() {
    let bench = Bench::new(&[("a.txt", "a\n")]);
    let holder = std::fs::File::open(bench.dir.path().join("workspace")).unwrap();
    holder.try_lock().unwrap();
    let runtime = bench.runtime(vec![]);
    let error = bench.start(&runtime, contract()).await.unwrap_err();
    assert_eq!(error.exit_code(), 7);
    drop(holder);
    let (_, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
}

#[tokio::test]
async fn sparse_files_and_deep_folders_do_not_stop_the_driver() {
    let bench = Bench::new(&[("a.txt", "a\n")]);
    let deep = "i=0; while [ $i -lt 400 ]; do mkdir d; cd d; i=$((i+1)); done; true";
    let runtime = bench.runtime(vec![shell("truncate -s 4T big; true"), shell(deep)]);
    let (_, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
}

#[tokio::test]
async fn a_program_of_the_workspace_does_not_stand_for_one_of_the_host() {
    let bench = Bench::new(&[("bin/true", "#!/bin/sh\necho from the workspace\n")]);
    let tool = bench.path("bin/true");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut runtime = bench.runtime(vec![calls("exec", json!({ "argv": ["true"] })), shell("bin/true")]);
    runtime.host.path = format!("{}:/usr/bin:/bin", bench.path("bin").display());
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    assert!(!bench.told(&run, 0).await.contains("from the workspace"));
    assert!(
        bench.told(&run, 1).await.contains("from the workspace"),
        "the control: named by its path it runs"
    );
}
