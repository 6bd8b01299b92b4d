//! Runs whose changes are staged: a command's changes gather in a layer, are judged, made durable and put into the
//! workspace.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use provost_agent::{RunError, Target};
use provost_core::containment::{Guarantee, Rung, Strength};
use provost_core::contract::{Contract, Gate};
use provost_core::event::{ActFinished, ActStaged, Body, WhyUnapplied};
use provost_core::history;
use provost_core::policy::{Effect, Layer, Policy, Preset, WorkspaceMode};
use provost_journal::Store as _;
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, How, at_most, calls};

fn policy() -> Policy {
    Policy { workspace: WorkspaceMode::staged(), ..Policy::preset(Preset::Workspace) }
}

fn contract() -> Contract {
    Contract::new("do it").policy(policy())
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-c", line] }))
}

async fn ends(bench: &Bench, run: &provost_core::id::RunId) -> Vec<ActFinished> {
    let finished = bench.bodies(run).await.into_iter().filter_map(|body| match body {
        Body::ActFinished(finished) => Some(*finished),
        _ => None,
    });
    finished.collect()
}

async fn staged(bench: &Bench, run: &provost_core::id::RunId) -> Vec<ActStaged> {
    let staged = bench.bodies(run).await.into_iter().filter_map(|body| match body {
        Body::ActStaged(staged) => Some(*staged),
        _ => None,
    });
    staged.collect()
}

fn paths<'a>(paths: impl IntoIterator<Item = &'a provost_core::path::RelPath>) -> Vec<String> {
    let mut paths: Vec<String> = paths.into_iter().map(|path| path.as_str().to_owned()).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn what_a_command_changes_is_staged_then_put_there_then_recorded() {
    for how in How::ALL {
        what_a_command_changes_is_staged_on(how).await;
    }
}

async fn what_a_command_changes_is_staged_on(how: How) {
    let files = [
        ("a.txt", "one\n"),
        ("gone.txt", "g\n"),
        ("old/x", "x\n"),
        ("old/deep/y", "y\n"),
        ("m", "m\n"),
        (".gitignore", "ignored\n"),
    ];
    let bench = Bench::on(how, &files);
    let line = "umask 022; echo two > a.txt; rm gone.txt; echo n > new.txt; chmod 600 new.txt; echo i > ignored; \
                chmod 755 m; mkdir -p empty/in; rm -r old; mkdir old; echo z > old/z; ln -s a.txt link; touch -d @1000 a.txt";
    let runtime =
        bench.runtime(vec![shell(line), shell("cat a.txt ignored link old/z && test ! -e old/deep")]);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    let ends = ends(&bench, &run).await;
    let expected = ["a.txt", "gone.txt", "link", "m", "new.txt", "old/deep/y", "old/x", "old/z"];
    assert_eq!(paths(ends[0].changes.iter().map(|change| &change.path)), expected);
    assert_eq!(ends[0].unapplied, []);
    let staged = staged(&bench, &run).await;
    assert_eq!(paths(staged[0].changes.iter().map(|change| &change.path)), expected);
    assert!(staged[0].beside > 0 && staged[1].changes.is_empty(), "{staged:?}");
    assert_eq!(bench.told(&run, 1).await.lines().skip(2).collect::<Vec<_>>(), ["two", "i", "two", "z"]);
    assert!(bench.path("empty/in").is_dir() && !bench.path("old/deep").exists());
    let meta = |name: &str| bench.path(name).metadata().unwrap();
    assert_eq!(meta("new.txt").permissions().mode() & 0o777, 0o600);
    assert_eq!(meta("m").permissions().mode() & 0o777, 0o755);
    assert_eq!(meta("a.txt").mtime(), 1000, "times are those that the command left");
    let drifted = bench.bodies(&run).await.iter().any(|body| matches!(body, Body::WorkspaceDrifted(_)));
    assert!(!drifted, "nothing that was put there is anybody else's");
    // In the journal's order: intent, what is staged, the end.
    let kinds: Vec<_> =
        bench.bodies(&run).await.iter().map(Body::kind).filter(|kind| kind.starts_with("act.")).collect();
    assert_eq!(kinds[..4], ["act.decided", "act.started", "act.staged", "act.finished"]);
    let receipt = bench.bodies(&run).await.into_iter().find_map(|body| match body {
        Body::DriverAttached(attached) => Some(attached.containment),
        _ => None,
    });
    let receipt = receipt.unwrap();
    assert_eq!(receipt.guarantees[&Guarantee::Staged], Strength::Enforced);
    assert_eq!(receipt.staged.unwrap().is_copy(), how != How::Overlay, "{receipt:?}");
}

#[tokio::test]
async fn what_policy_guards_is_left_out_and_told() {
    for how in How::ALL {
        what_policy_guards_is_left_out_on(how).await;
    }
}

async fn what_policy_guards_is_left_out_on(how: How) {
    let deny = Layer::named("test").rule(Effect::Deny, "write locked/**").unwrap();
    let deny = deny.rule(Effect::Ask, "write asked/**").unwrap();
    let files = [("free.txt", "free\n"), (".gitignore", "/vendor\n")];
    let line = "mkdir -p locked asked sub .cargo vendor/.git; echo evil > locked/new.txt; echo evil > asked/x; \
                echo evil > sub/.git; echo evil > .cargo/config.toml; echo evil > vendor/.git/config; \
                ln -s sub .husky; echo ok > free.txt; mkfifo pipe; true";
    let bench = Bench::on(how, &files);
    let runtime = bench.runtime(vec![shell(line)]);
    let contract = contract().policy(policy().with(deny));
    let (run, ending) = bench.start(&runtime, contract.clone()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(bench.read("free.txt"), "ok\n");
    let end = &ends(&bench, &run).await[0];
    let why =
        |why: WhyUnapplied| paths(end.unapplied.iter().filter(|left| left.why == why).map(|left| &left.path));
    let guarded = why(WhyUnapplied::Guarded);
    for name in
        ["locked/new.txt", "asked/x", "sub/.git", ".cargo/config.toml", "vendor/.git/config", ".husky"]
    {
        assert!(guarded.contains(&name.to_owned()), "{name}: {guarded:?}");
        assert!(bench.path(name).symlink_metadata().is_err(), "{name}");
    }
    assert_eq!(why(WhyUnapplied::Special), ["pipe"]);
    assert_eq!(paths(end.changes.iter().map(|change| &change.path)), ["free.txt"]);
    let told = bench.told(&run, 0).await;
    assert!(told.contains("Not put into the workspace: `asked/x`: the policy guards it."), "{told}");

    // The control: where no policy guards them they are put there.
    let bench = Bench::on(how, &files);
    let runtime = bench.runtime(vec![shell(line)]);
    let mut free = Policy { workspace: WorkspaceMode::staged(), ..Policy::preset(Preset::Workspace) };
    free.layers.truncate(1);
    bench.start(&runtime, contract.policy(free)).await.unwrap();
    assert_eq!(bench.read("locked/new.txt"), "evil\n");
    assert_eq!(bench.read("vendor/.git/config"), "evil\n");
}

#[tokio::test]
async fn a_file_that_somebody_else_changed_meanwhile_is_a_conflict_and_nothing_is_applied() {
    for how in How::ALL {
        a_file_that_somebody_else_changed_on(how).await;
    }
}

async fn a_file_that_somebody_else_changed_on(how: How) {
    let bench = Bench::on(how, &[("a.txt", "one\n"), ("b.txt", "bee\n"), ("c.txt", "sea\n")]);
    // A person whose editor saves while the command runs.
    let (a, c, said) = (bench.path("a.txt"), bench.path("c.txt"), bench.path("target"));
    std::fs::create_dir(&said).unwrap();
    std::fs::write(bench.path(".gitignore"), "/target\n").unwrap();
    let editor = std::thread::spawn(move || {
        let ready = said.join("ready");
        while !ready.exists() {
            std::thread::yield_now();
        }
        std::fs::write(a, "mine\n").unwrap();
        std::fs::write(c, "also mine\n").unwrap();
        std::fs::write(said.join("saved"), "").unwrap();
    });
    let line = "echo two > a.txt; echo two > b.txt; echo i > target/out; : > target/ready; \
                while ! test -e target/saved; do :; done";
    let again = "echo again > a.txt; echo two > b.txt";
    let runtime = bench.runtime(vec![shell(line), shell(again)]);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    editor.join().unwrap();
    assert_eq!(ending.exit_code(), 0);
    let ends = ends(&bench, &run).await;
    assert!(ends[0].changes.is_empty());
    let left: Vec<_> = ends[0].unapplied.iter().map(|left| (left.path.as_str(), left.why)).collect();
    assert_eq!(left, [("a.txt", WhyUnapplied::Conflict), ("b.txt", WhyUnapplied::HeldBack)]);
    assert_eq!(bench.read("c.txt"), "also mine\n");
    let told = bench.told(&run, 0).await;
    assert!(told.contains("in conflict") && told.contains("`a.txt`: somebody else changed it"), "{told}");
    // What the other did is theirs, in the journal, once.
    let drifts: Vec<_> = bench
        .bodies(&run)
        .await
        .into_iter()
        .filter_map(|body| match body {
            Body::WorkspaceDrifted(drifted) => Some(paths(drifted.changes.iter().map(|change| &change.path))),
            _ => None,
        })
        .collect();
    assert_eq!(drifts, [["a.txt", "c.txt"]]);
    // Run again it finds their version and may go over it.
    assert_eq!(bench.read("a.txt"), "again\n");
    assert_eq!(paths(ends[1].changes.iter().map(|change| &change.path)), ["a.txt", "b.txt"]);
}

#[tokio::test]
async fn build_folders_are_kept_between_commands_and_are_no_change() {
    for how in How::ALL {
        build_folders_are_kept_between_commands_on(how).await;
    }
}

async fn build_folders_are_kept_between_commands_on(how: How) {
    let manifest = "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let lock = "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 4\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n";
    let files =
        [("Cargo.toml", manifest), ("Cargo.lock", lock), ("src/lib.rs", ""), (".gitignore", "/target\n")];
    let bench = Bench::on(how, &files);
    let build = || calls("exec", json!({ "argv": ["cargo", "build", "--offline"] }));
    let mut runtime = bench.runtime(vec![build(), build()]);
    runtime.host = crate::support::host();
    let gate = Gate::command(["test", "!", "-e", "target"].map(str::to_owned).to_vec());
    let (run, ending) = bench.start(&runtime, contract().gate(gate)).await.unwrap();
    assert_eq!(ending.exit_code(), 0, "{}", bench.told(&run, 0).await);
    assert!(bench.told(&run, 0).await.contains("Compiling x"), "{}", bench.told(&run, 0).await);
    assert!(!bench.told(&run, 1).await.contains("Compiling x"), "{}", bench.told(&run, 1).await);
    let ends = ends(&bench, &run).await;
    let changed = ends.iter().flat_map(|end| &end.changes).map(|change| &change.path);
    assert_eq!(paths(changed), Vec::<String>::new());
    assert!(bench.path("target/debug").is_dir());
}

#[tokio::test]
async fn a_build_folder_that_is_part_of_the_work_or_is_not_ignored_is_staged() {
    for how in How::ALL {
        a_build_folder_that_is_part_on(how).await;
    }
}

async fn a_build_folder_that_is_part_on(how: How) {
    // `target` holds a file of the run's; `node_modules` is not ignored.
    let bench = Bench::on(how, &[("target/kept.txt", "kept\n"), ("node_modules/x", "x\n")]);
    let line = "echo changed > target/kept.txt; echo y > node_modules/x; exit 1";
    let runtime = bench.runtime(vec![shell(line)]);
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    let end = &ends(&bench, &run).await[0];
    assert_eq!(paths(end.changes.iter().map(|change| &change.path)), ["node_modules/x", "target/kept.txt"]);
    assert_eq!(bench.read("target/kept.txt"), "changed\n");
}

#[tokio::test]
async fn large_files_hard_links_and_links_out_of_the_workspace() {
    for how in How::ALL {
        large_files_hard_links_and_links_on(how).await;
    }
}

async fn large_files_hard_links_and_links_on(how: How) {
    let bench = Bench::on(how, &[("a.txt", "one\n")]);
    let outside = bench.dir.path().join("outside");
    std::fs::write(&outside, "outside\n").unwrap();
    std::fs::hard_link(&outside, bench.path("shared")).unwrap();
    symlink(&outside, bench.path("leads-out")).unwrap();
    let line = "head -c 10000000 /dev/zero > large; ln a.txt b.txt; echo changed > shared; ln -s /etc/hostname away; \
                echo x > leads-out; true";
    let runtime = bench.runtime(vec![shell(line), shell("cat b.txt; wc -c < large; echo end >> large")]);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert!(bench.told(&run, 1).await.contains("one\n10000000"), "{}", bench.told(&run, 1).await);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside\n", "another name's content is not ours");
    assert_eq!(bench.read("shared"), "changed\n");
    assert_eq!(bench.path("large").metadata().unwrap().len(), 10_000_004);
    assert_eq!(std::fs::read_link(bench.path("away")).unwrap().to_str(), Some("/etc/hostname"));
    let ends = ends(&bench, &run).await;
    assert_eq!(
        paths(ends[0].changes.iter().map(|change| &change.path)),
        ["away", "b.txt", "large", "shared"]
    );
    assert_eq!(paths(ends[1].changes.iter().map(|change| &change.path)), ["large"]);
    assert!(!bench.dir.path().join("spool").join(run.as_str()).exists(), "nothing is left in the spool");
    let copies = std::fs::read_dir(bench.dir.path().join("spool/copies"));
    assert_eq!(copies.map_or(0, Iterator::count), 0, "nor is a copy");
}

#[tokio::test]
async fn the_disk_cap_ends_what_is_too_much_and_is_named() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let mut capped = policy();
    capped.caps.disk_bytes = Some(1 << 20);
    let runtime = bench.runtime(vec![shell("head -c 4000000 /dev/zero > big")]);
    let (run, _) = bench.start(&runtime, contract().policy(capped)).await.unwrap();
    let told = bench.told(&run, 0).await;
    assert!(told.contains("No space left") && told.contains("1 MiB of changes to the workspace"), "{told}");
}

#[tokio::test]
async fn where_changes_cannot_be_staged_the_run_does_not_start() {
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let mut runtime = bench.runtime(vec![shell("echo two > a.txt")]);
    runtime.executor = at_most(Rung::R1);
    let error = bench.start(&runtime, contract()).await.unwrap_err();
    assert!(matches!(error, RunError::Containment(_)), "{error}");
    assert_eq!(error.exit_code(), 9);
    assert!(error.to_string().contains("cannot be staged here"), "{error}");
    assert_eq!(bench.read("a.txt"), "one\n");
}

#[tokio::test]
async fn a_staged_run_is_undone_whole_and_says_what_each_step_changed() {
    for how in How::ALL {
        a_staged_run_is_undone_whole_on(how).await;
    }
}

async fn a_staged_run_is_undone_whole_on(how: How) {
    let files = [("a.txt", "one\n"), ("sub/b.txt", "bee\n")];
    let bench = Bench::on(how, &files);
    let runtime =
        bench.runtime(vec![shell("echo two > a.txt; rm -r sub"), shell("echo three > a.txt; echo n > n")]);
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    let events = bench.store.events(&run, 0).await.unwrap();
    let step = history::changed_in(&events, 2).unwrap();
    assert_eq!(paths(step.changes.iter().map(|change| &change.path)), ["a.txt", "n"]);
    assert!(step.drifted.is_empty());
    let to = |step| Target { step, paths: Vec::new() };
    runtime.rewind(&run, &to(1), "test").await.unwrap();
    assert_eq!((bench.read("a.txt"), bench.path("n").exists()), ("two\n".to_owned(), false));
    runtime.rewind(&run, &to(0), "test").await.unwrap();
    assert_eq!((bench.read("a.txt"), bench.read("sub/b.txt")), ("one\n".to_owned(), "bee\n".to_owned()));
}

#[tokio::test]
async fn a_command_that_fails_or_is_cut_short_leaves_what_it_did() {
    for how in How::ALL {
        a_command_that_fails_or_is_on(how).await;
    }
}

async fn a_command_that_fails_or_is_on(how: How) {
    let bench = Bench::on(how, &[("a.txt", "one\n")]);
    let cut =
        calls("exec", json!({ "argv": ["sh", "-c", "echo cut > a.txt; sleep 600"], "timeout_seconds": 1 }));
    let runtime = bench.runtime(vec![shell("echo failed > a.txt; exit 3"), cut]);
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(bench.read("a.txt"), "cut\n");
    assert_eq!(ends(&bench, &run).await.iter().map(|end| end.changes.len()).sum::<usize>(), 2);
}

#[tokio::test]
async fn a_model_s_own_writes_are_not_staged_and_a_command_sees_them() {
    for how in How::ALL {
        a_model_s_own_writes_are_on(how).await;
    }
}

async fn a_model_s_own_writes_are_on(how: How) {
    let bench = Bench::on(how, &[("a.txt", "one\n")]);
    let runtime = bench.runtime(vec![
        calls("write_file", json!({ "path": "new.txt", "content": "by tool\n" })),
        shell("cat new.txt && echo more >> new.txt"),
    ]);
    let (run, ending) = bench.start(&runtime, contract()).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert_eq!(bench.read("new.txt"), "by tool\nmore\n");
    assert!(bench.told(&run, 1).await.contains("by tool"));
}

/// A driver that was killed has left a copy: it is gone when the run is taken up, and so is what was done in it.
#[tokio::test]
async fn a_copy_that_was_left_is_removed_before_the_next_command() {
    let bench = Bench::on(How::CopyElsewhere, &[("a.txt", "one\n")]);
    let runtime = bench.runtime(vec![shell("pwd; cat left; echo two > a.txt")]);
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    let told = bench.told(&run, 0).await;
    let copy = told.lines().find(|line| line.contains("/copies/")).unwrap().to_owned();
    assert!(!std::path::Path::new(&copy).exists());
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::write(format!("{copy}/left"), "left\n").unwrap();
    let runtime = bench.runtime(vec![shell("test ! -e left && cat a.txt")]);
    let (run, _) = bench.start(&runtime, contract()).await.unwrap();
    assert!(bench.told(&run, 0).await.contains("two"), "{}", bench.told(&run, 0).await);
    assert!(!std::path::Path::new(&copy).exists());
}

/// What is told to whoever works in a copy.
#[tokio::test]
async fn a_copy_elsewhere_is_told_and_has_the_history_and_nothing_hidden() {
    for how in How::ALL {
        let bench = Bench::on(how, &[("a.txt", "one\n"), (".env", "KEY=1\n")]);
        let git = |args: &[&str]| {
            let mut command = std::process::Command::new("git");
            command
                .arg("-C")
                .arg(bench.path(""))
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(args);
            assert!(command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap().status.success());
        };
        git(&["init", "-q"]);
        git(&["add", "a.txt"]);
        git(&["commit", "-q", "-m", "first"]);
        let line =
            "git log --format=%s; git diff --stat; cat .env; echo x >> .git/config; rm -rf .git; cat a.txt";
        let mut runtime = bench.runtime(vec![shell(line)]);
        runtime.host.path = "/usr/bin:/bin".to_owned();
        let (run, _) = bench.start(&runtime, contract()).await.unwrap();
        let told = bench.told(&run, 0).await;
        assert!(
            told.contains("first\n") && !told.contains("KEY") && told.contains("one\n"),
            "{how:?}: {told}"
        );
        assert!(!bench.read(".git/config").contains('x'), "{how:?}");
        let created = bench.bodies(&run).await.into_iter().find_map(|body| match body {
            Body::RunCreated(created) => Some(created.system),
            _ => None,
        });
        let system = bench.store.blob(&run, created.unwrap()).await.unwrap().unwrap();
        let system = String::from_utf8(system).unwrap();
        assert_eq!(system.contains("a fresh copy of the workspace"), how == How::CopyElsewhere, "{system}");
    }
}
