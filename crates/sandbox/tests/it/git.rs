//! Commits by commands, with the host's git: what a commit needs is open, and what git takes orders from is not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use provost_core::containment::{Guarantee, Rung, Strength};
use provost_sandbox::{GitPart, Profile, WorkspaceAccess, git_folder, git_reads};

use crate::support::{Host, Ran, sandbox};

/// A repository with a submodule and a linked work tree.
struct Repository {
    host: Host,
    /// The work tree that commands work in.
    top: PathBuf,
}

fn git(folder: &Path, args: &[&str]) {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Repository {
    fn new(linked: bool) -> Self {
        let host = Host::new();
        let (main, other) = (host.ws(), host.outside());
        for folder in [&main, &other] {
            git(folder, &["init", "-q", "-b", "main"]);
            git(folder, &["config", "user.name", "somebody"]);
            git(folder, &["config", "user.email", "somebody@example.org"]);
            git(folder, &["commit", "-q", "--allow-empty", "-m", "first"]);
        }
        git(&main, &["submodule", "add", "-q", other.to_str().unwrap(), "sub"]);
        fs::write(main.join("file"), "one\n").unwrap();
        git(&main, &["add", "."]);
        git(&main, &["commit", "-q", "-m", "second"]);
        let elsewhere = host.dir.path().join("elsewhere");
        git(&main, &["worktree", "add", "-q", elsewhere.to_str().unwrap()]);
        for folder in ["sub", ".git/modules/sub"] {
            assert!(main.join(folder).exists(), "{folder}");
        }
        let identity = |key: &str, value: &str| git(&main.join("sub"), &["config", key, value]);
        identity("user.name", "somebody");
        identity("user.email", "somebody@example.org");
        let top = if linked { elsewhere } else { main };
        Self { host, top }
    }

    /// As the agent makes it for `git = "commit"`.
    fn profile(&self) -> Profile {
        let mut profile = Profile::for_workspace(&self.top).unwrap();
        profile.protected = [".git", "sub/.git", ".gitmodules"].map(|name| self.top.join(name)).to_vec();
        profile.readable.extend(git_reads(&self.top));
        profile.git = git_folder(&self.top);
        assert!(profile.git.is_some());
        profile
    }

    fn sh(&self, rung: Rung, profile: Profile, script: &str) -> Ran {
        let mut command = self.host.command(&["sh", "-ec", script]);
        command.cwd = self.top.clone();
        self.host.run_with(rung, profile, &command)
    }

    /// What git takes orders from, and what else an attack of these is after.
    fn state(&self) -> (BTreeMap<PathBuf, String>, Vec<String>) {
        let git = self.host.ws().join(".git");
        let names = [".", "refs", "objects", "modules/sub"].map(|name| git.join(name));
        let names =
            names.iter().map(|path| format!("{:?}", path.symlink_metadata().map(|found| found.file_type())));
        let files = [git.join("HEAD"), git.join("index"), self.top.join(".git")];
        let files = files.iter().map(|path| format!("{:?}", fs::read(path)));
        (self.orders(), names.chain(files).collect())
    }

    /// Everything that git takes orders from, by path.
    fn orders(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let git = self.host.ws().join(".git");
        for folder in [git.clone(), git.join("modules/sub"), git.join("worktrees/elsewhere")] {
            for name in [
                "config",
                "config.worktree",
                "commondir",
                "gitdir",
                "info/attributes",
                "objects/info/alternates",
            ] {
                if let Ok(content) = fs::read_to_string(folder.join(name)) {
                    found.insert(folder.join(name), content);
                }
            }
            for entry in fs::read_dir(folder.join("hooks")).into_iter().flatten().filter_map(Result::ok) {
                found.insert(entry.path(), fs::read_to_string(entry.path()).unwrap_or_default());
            }
        }
        found
    }
}

/// What people do all day.
const ORDINARY: &str = "
    echo two >> file
    git add file
    git commit -q -m third
    git branch topic
    git switch -q topic
    echo three >> file
    git stash -q
    git stash pop -q
    git commit -q -a -m fourth
    git switch -q -c other
    git branch -q -D topic
    # Renames it, and cannot move what the configuration says of it: that there is nothing git does not look at.
    ! git branch -q -m renamed && git rev-parse -q --verify renamed
    test ! -e $(git rev-parse --git-common-dir)/config.lock
    git tag done
    git pack-refs --all
    git branch -q more && git branch -q -D more
    echo amended >> file
    git commit -q -a --amend -m fifth
    git reset -q --soft HEAD~1 && git commit -q -m again
    git switch -q -c side HEAD~1 && echo x > side && git add side && git commit -q -m side && git switch -q -
    git merge -q --no-edit side
    git status --short
    git log --oneline | wc -l
";

/// Each plants something that git would act on outside of all containment.
const ATTACKS: [&str; 18] = [
    "echo 'touch /tmp/owned' > .git/hooks/post-commit",
    "git config core.hooksPath /tmp/hooks",
    "git config core.fsmonitor /tmp/owned",
    "git config filter.x.clean /tmp/owned",
    "echo '[core] pager = /tmp/owned' >> .git/config",
    "echo '[core]' > .git/mine && mv -f .git/mine .git/config",
    "rm .git/config",
    "mv .git/hooks .git/old && mkdir .git/hooks && echo x > .git/hooks/post-commit",
    "rm -rf .git/hooks && ln -s /tmp .git/hooks",
    "mv .git .old && git init -q . && git config core.fsmonitor /tmp/owned",
    "mv .git/objects .git/old",
    "mv .git/refs .git/old && ln -s /tmp .git/refs",
    "echo '* filter=x' > .git/info/attributes",
    "echo /tmp > .git/objects/info/alternates",
    "git -C sub config core.fsmonitor /tmp/owned",
    "echo x > .git/modules/sub/hooks/post-commit",
    "mv .git/modules/sub .git/modules/old",
    "echo x > .git/worktrees/elsewhere/gitdir",
];

/// The same, from a linked work tree.
const LINKED_ATTACKS: [&str; 10] = [
    "git config core.fsmonitor /tmp/owned",
    "echo x > $(git rev-parse --git-common-dir)/hooks/post-commit",
    "echo x > $(git rev-parse --git-common-dir)/HEAD",
    "rm $(git rev-parse --git-common-dir)/index",
    "mv $(git rev-parse --git-common-dir)/refs $(git rev-parse --git-common-dir)/old",
    "echo /tmp > $(git rev-parse --git-dir)/commondir",
    "echo /tmp > $(git rev-parse --git-dir)/gitdir",
    "echo 'gitdir: /tmp' > .git",
    "rm .git && mkdir .git",
    "echo x > $(git rev-parse --git-common-dir)/modules/sub/hooks/post-commit",
];

#[test]
fn what_people_do_all_day_works() {
    for linked in [false, true] {
        let repository = Repository::new(linked);
        let before = repository.orders();
        let profile = repository.profile();
        let strength =
            |rung| sandbox(rung, profile.clone()).receipt().guarantees.get(&Guarantee::GitCommit).copied();
        assert_eq!(strength(Rung::R3), Some(Strength::Enforced));
        assert_eq!(strength(Rung::R2), Some(Strength::Absent));
        let ran = repository.sh(Rung::R3, profile.clone(), ORDINARY);
        assert_eq!(ran.record.unprotected, Vec::<String>::new());
        ran.assert_ok();
        git(&repository.top, &["fsck", "--strict"]);
        assert_eq!(repository.orders(), before, "linked: {linked}");
        // Without the grant, nothing of it: the control of all that comes.
        let closed = Profile { git: None, ..profile.clone() };
        repository.sh(Rung::R3, closed, "echo x >> file && git add file").assert_refused();
        // Landlock cannot part the index from the configuration beside it, so that neither is open.
        repository.sh(Rung::R2, profile, "echo x >> file && git add file").assert_refused();
    }
}

#[test]
fn a_submodule_can_be_committed_to() {
    let repository = Repository::new(false);
    let before = repository.orders();
    let script = "cd sub && echo x > new && git add new && git commit -q -m inside && cd .. && \
                  git add sub && git commit -q -m outside && git status --short";
    let ran = repository.sh(Rung::R3, repository.profile(), script);
    ran.assert_ok();
    assert_eq!(ran.text, "");
    assert_eq!(repository.orders(), before);
}

#[test]
fn what_git_takes_orders_from_stays() {
    for (linked, attacks) in [(false, ATTACKS.as_slice()), (true, LINKED_ATTACKS.as_slice())] {
        let repository = Repository::new(linked);
        let before = repository.orders();
        for attack in attacks {
            for rung in [Rung::R3, Rung::R2] {
                let ran = repository.sh(rung, repository.profile(), attack);
                ran.assert_refused();
                assert_eq!(repository.orders(), before, "{rung}: {attack}: {}", ran.text);
            }
        }
        // What was refused in part has broken nothing either.
        repository
            .sh(Rung::R3, repository.profile(), "echo x >> file && git commit -q -a -m after")
            .assert_ok();
        // Without containment each does what it is after.
        for attack in attacks {
            let repository = Repository::new(linked);
            let (before, profile) = (repository.state(), repository.profile());
            repository.sh(Rung::R0, profile, attack).assert_ok();
            assert_ne!(repository.state(), before, "{attack}");
        }
    }
}

#[test]
fn a_git_folder_that_is_none_is_not_opened() {
    let host = Host::new();
    assert_eq!(git_folder(&host.ws()), None);
    // Anybody who writes in the workspace could have made it: it has to name the workspace back.
    git(&host.outside(), &["init", "-q"]);
    fs::write(host.ws().join(".git"), format!("gitdir: {}\n", host.outside().join(".git").display()))
        .unwrap();
    assert_eq!(git_folder(&host.ws()), None);
    fs::remove_file(host.ws().join(".git")).unwrap();
    std::os::unix::fs::symlink(host.outside().join(".git"), host.ws().join(".git")).unwrap();
    assert_eq!(git_folder(&host.ws()), None);
    fs::remove_file(host.ws().join(".git")).unwrap();
    git(&host.ws(), &["init", "-q"]);
    assert_eq!(git_folder(&host.ws()).map(|git| git.part), Some(GitPart::Whole));
    // With another common folder named, it is that one's configuration that holds.
    fs::write(host.ws().join(".git/commondir"), "/tmp\n").unwrap();
    assert_eq!(git_folder(&host.ws()), None);
}

#[test]
fn objects_that_lead_elsewhere_lead_nowhere() {
    let repository = Repository::new(false);
    let keys = repository.host.dir.path().join("keys");
    fs::create_dir(&keys).unwrap();
    fs::write(keys.join("id"), "secret").unwrap();
    fs::remove_dir_all(repository.top.join(".git/objects")).unwrap();
    std::os::unix::fs::symlink(&keys, repository.top.join(".git/objects")).unwrap();
    repository.sh(Rung::R3, repository.profile(), "cat .git/objects/id").assert_refused();
    repository.sh(Rung::R3, repository.profile(), "echo x > .git/objects/new").assert_refused();
    assert_eq!(fs::read_dir(&keys).unwrap().count(), 1);
    repository.sh(Rung::R0, Profile { git: None, ..repository.profile() }, "cat .git/objects/id").assert_ok();
}

#[test]
fn a_workspace_that_is_read_only_has_a_git_folder_that_is() {
    let repository = Repository::new(false);
    let profile = Profile { workspace_access: WorkspaceAccess::ReadOnly, git: None, ..repository.profile() };
    for rung in [Rung::R3, Rung::R2] {
        repository.sh(rung, profile.clone(), "git commit -q --allow-empty -m x").assert_refused();
    }
}
