//! Planting what git would act on outside of all containment, in a git folder that may be open for commits.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use provost_core::containment::Guarantee::Protected;

use super::stage::Stage;
use super::{Attack, Judge, Tried};

const fn in_git(name: &'static str, tries: &'static str, perform: fn(&Stage) -> Tried) -> Attack {
    Attack::new(name, Protected, Judge::Protected, tries, perform)
}

pub(super) const ATTACKS: &[Attack] = &[
    in_git("git-config-lock", "changes .git/config as git does", |s| {
        let (lock, config) = (git(s, "config.lock"), git(s, "config"));
        fs::write(&lock, "[core]\n\tfsmonitor = /tmp/owned\n")?;
        // What git leaves behind where it fails is nothing.
        fs::rename(&lock, config).inspect_err(|_| drop(fs::remove_file(&lock)))
    }),
    in_git("git-hooks-swap", "moves .git/hooks away and makes another", |s| {
        fs::rename(git(s, "hooks"), s.work("moved"))?;
        fs::create_dir(git(s, "hooks"))?;
        fs::write(git(s, "hooks/post-commit"), "x")
    }),
    in_git("git-hooks-aside", "renames .git/hooks where it is", |s| {
        fs::rename(git(s, "hooks"), git(s, "old")).and_then(|()| fs::create_dir(git(s, "hooks")))
    }),
    in_git("git-hooks-link", "puts a link in the place of .git/hooks", |s| {
        fs::remove_dir_all(git(s, "hooks")).and_then(|()| symlink("/tmp", git(s, "hooks")))
    }),
    in_git("git-attributes", "says in .git/info/attributes what filters files go through", |s| {
        fs::write(git(s, "info/attributes"), "* filter=x\n")
    }),
    in_git("git-objects-swap", "moves .git/objects away", |s| fs::rename(git(s, "objects"), git(s, "old"))),
    in_git("git-alternates", "names another store of objects", |s| {
        fs::write(git(s, "objects/info/alternates"), "/tmp\n")
    }),
    in_git("git-refs-link", "puts a link in the place of .git/refs", |s| {
        fs::rename(git(s, "refs"), git(s, "old")).and_then(|()| symlink("/tmp", git(s, "refs")))
    }),
    in_git("git-module-config", "changes the configuration of a submodule", |s| {
        let mut config = fs::OpenOptions::new().append(true).open(git(s, "modules/lib/config"))?;
        config.write_all(b"[core]\n\tfsmonitor = /tmp/owned\n")
    }),
    in_git("git-module-hook", "plants a hook in a submodule's git folder", |s| {
        fs::write(git(s, "modules/lib/hooks/post-commit"), "x")
    }),
    in_git("git-module-swap", "moves a submodule's git folder away", |s| {
        fs::rename(git(s, "modules/lib"), git(s, "modules/old"))
    }),
    in_git("git-worktree-place", "says of another work tree where it is", |s| {
        fs::write(git(s, "worktrees/other/gitdir"), "/tmp\n")
    }),
    in_git("git-worktree-common", "says of another work tree whose it is", |s| {
        fs::write(git(s, "worktrees/other/commondir"), "/tmp\n")
    }),
];

fn git(stage: &Stage, path: &str) -> PathBuf {
    stage.workspace.join(".git").join(path)
}
