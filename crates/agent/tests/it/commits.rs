//! `git = "commit"`: commands commit, and leave nothing in the git folder that git takes orders from.

use std::path::Path;
use std::process::Command;

use provost_agent::{Ending, Interrupt, Order};
use provost_core::containment::{Guarantee, Rung, Strength};
use provost_core::contract::{Contract, Source};
use provost_core::event::Body;
use provost_core::id::RunId;
use provost_core::path::RelPath;
use provost_core::policy::{GitAccess, Policy, Preset};
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, at_most, calls};

fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A workspace that is a repository, and whose person has a name.
fn bench() -> Bench {
    let bench = Bench::new(&[("a.txt", "a\n")]);
    let top = bench.path("");
    git(&top, &["init", "-q", "-b", "main"]);
    git(&top, &["add", "."]);
    git(&top, &["commit", "-q", "-m", "first"]);
    let home = bench.dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join(".gitconfig"), "[user]\n\tname = Some Body\n\temail = some@example.org\n")
        .unwrap();
    bench
}

fn contract(git: GitAccess) -> Contract {
    Contract::new("do it").policy(Policy::preset(Preset::Workspace).with_git(git))
}

fn shell(line: &str) -> Answer {
    calls("exec", json!({ "argv": ["sh", "-ec", line] }))
}

async fn run(bench: &Bench, answers: Vec<Answer>, contract: Contract) -> (RunId, Ending) {
    run_on(bench, &bench.path(""), answers, contract, Rung::R3).await
}

async fn run_on(
    bench: &Bench,
    workspace: &Path,
    answers: Vec<Answer>,
    contract: Contract,
    rung: Rung,
) -> (RunId, Ending) {
    let mut runtime = bench.runtime(answers);
    runtime.executor = at_most(rung);
    runtime.host.path = "/usr/bin:/bin".to_owned();
    runtime.host.home = bench.dir.path().join("home").to_str().map(str::to_owned);
    let order = Order {
        contract,
        workspace: workspace.to_owned(),
        source: Source::Directory { commit: None, scope: RelPath::root() },
        repository: Some(workspace.to_owned()),
    };
    runtime.start(order, Interrupt::new().unwrap()).await.unwrap()
}

const COMMIT: &str = "echo b >> a.txt; git commit -q -a -m second; git log -1 --format='%an <%ae> %s'";

#[tokio::test]
async fn a_command_commits_under_the_name_of_the_person() {
    let bench = bench();
    let (id, _) = run(&bench, vec![shell(COMMIT)], contract(GitAccess::Commit)).await;
    let told = bench.told(&id, 0).await;
    assert!(told.contains("Some Body <some@example.org> second"), "{told}");
    assert_eq!(git(&bench.path(""), &["log", "-1", "--format=%s"]), "second");
    // The change is one of the run's all the same.
    let changed = bench.bodies(&id).await.into_iter().any(|body| match body {
        Body::ActFinished(finished) => finished.changes.iter().any(|change| change.path.as_str() == "a.txt"),
        _ => false,
    });
    assert!(changed);

    // The control: as it is without the grant.
    let bench = self::bench();
    let (id, _) = run(&bench, vec![shell(COMMIT)], contract(GitAccess::None)).await;
    assert!(bench.told(&id, 0).await.contains("index.lock"), "{}", bench.told(&id, 0).await);
    assert_eq!(git(&bench.path(""), &["log", "-1", "--format=%s"]), "first");
}

#[tokio::test]
async fn a_command_commits_in_a_linked_work_tree() {
    let bench = bench();
    let linked = bench.dir.path().join("linked");
    git(&bench.path(""), &["worktree", "add", "-q", linked.to_str().unwrap()]);
    let (id, _) = run_on(&bench, &linked, vec![shell(COMMIT)], contract(GitAccess::Commit), Rung::R3).await;
    assert!(bench.told(&id, 0).await.contains("> second"), "{}", bench.told(&id, 0).await);
    assert_eq!(git(&linked, &["log", "-1", "--format=%s"]), "second");
    assert_eq!(git(&bench.path(""), &["log", "-1", "--format=%s"]), "first");
    assert_eq!(git(&bench.path(""), &["status", "--short"]), "");
}

/// What is not there cannot be closed. It is gone when the command has ended, and told.
#[tokio::test]
async fn what_git_would_take_orders_from_is_gone_after_the_command() {
    let plants = [
        ("echo /tmp > .git/commondir", "commondir"),
        ("echo '[core]' > .git/config.worktree", "config.worktree"),
        ("mkdir .git/rebase-merge; echo 'exec evil' > .git/rebase-merge/git-rebase-todo", "rebase-merge"),
        ("rm .git/HEAD; ln -s /etc/passwd .git/HEAD", "HEAD"),
        ("rm -f .git/logs/HEAD; ln -s /etc/profile .git/logs/HEAD", "logs/HEAD"),
        ("ln -s /etc/profile .git/refs/heads/evil", "refs/heads/evil"),
        (
            "mkdir -p .git/modules/x; echo '[core]' > .git/modules/x/config; touch .git/modules/x/HEAD",
            "modules/x/config",
        ),
    ];
    for (line, name) in plants {
        let bench = bench();
        let path = bench.path(".git").join(name);
        let (id, _) = run(&bench, vec![shell(line)], contract(GitAccess::Commit)).await;
        let told = bench.told(&id, 0).await;
        assert!(path.symlink_metadata().is_err(), "{line}: {told}");
        assert!(
            told.contains(&format!("{}`, which git takes orders from: removed", path.display())),
            "{told}"
        );

        let bench = self::bench();
        let (id, _) = run(&bench, vec![shell(line)], contract(GitAccess::Full)).await;
        let told = bench.told(&id, 0).await;
        assert!(bench.path(".git").join(name).symlink_metadata().is_ok(), "the control: {line}: {told}");
    }
}

/// A workspace that passes for a repository itself, once its `.git` does not.
#[tokio::test]
async fn a_workspace_does_not_become_a_repository_of_the_commands_making() {
    let line = "rm .git/HEAD; mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; echo '[core]' > config";
    let bench = bench();
    let (id, _) = run(&bench, vec![shell(line)], contract(GitAccess::Commit)).await;
    assert!(!bench.path("HEAD").exists(), "{}", bench.told(&id, 0).await);
}

#[tokio::test]
async fn the_grant_is_for_commands_and_not_for_tools_that_write() {
    let write = |path: &str| calls("write_file", json!({ "path": path, "content": "x" }));
    for (access, there) in [(GitAccess::Commit, false), (GitAccess::Full, true)] {
        let bench = bench();
        run(&bench, vec![write(".git/hooks/post-commit")], contract(access)).await;
        assert_eq!(bench.path(".git/hooks/post-commit").exists(), there, "{access:?}");
    }
}

#[tokio::test]
async fn everything_is_everything_but_what_a_rule_denies() {
    use provost_core::policy::{Effect, Layer};
    let line = "echo x > .git/hooks/post-commit";
    let policy = Policy::preset(Preset::Workspace).with_git(GitAccess::Full);
    let denying = Layer::named("mine").rule(Effect::Deny, "write .git/hooks/").unwrap();
    for (policy, there) in [(policy.clone(), true), (policy.with(denying), false)] {
        let bench = bench();
        run(&bench, vec![shell(line)], Contract::new("do it").policy(policy)).await;
        assert_eq!(bench.path(".git/hooks/post-commit").exists(), there);
    }
}

/// Landlock alone cannot part what is open from what is not: nothing is, and whoever needs it is told at the start.
#[tokio::test]
async fn a_weaker_rung_lets_nothing_be_committed_and_says_so() {
    let bench = bench();
    let top = bench.path("");
    let (id, _) = run_on(&bench, &top, vec![shell(COMMIT)], contract(GitAccess::Commit), Rung::R2).await;
    assert_eq!(git(&top, &["log", "-1", "--format=%s"]), "first");
    let attached = bench.bodies(&id).await.into_iter().find_map(|body| match body {
        Body::DriverAttached(attached) => Some(attached.containment),
        _ => None,
    });
    assert_eq!(attached.unwrap().guarantees[&Guarantee::GitCommit], Strength::Absent);

    let mut runtime = bench.runtime(Vec::new());
    runtime.executor = at_most(Rung::R2);
    let policy =
        Policy::preset(Preset::Workspace).with_git(GitAccess::Commit).requiring([Guarantee::GitCommit]);
    let refused = bench.start(&runtime, Contract::new("do it").policy(policy)).await.unwrap_err().to_string();
    assert!(refused.contains("git-commit"), "{refused}");
}
