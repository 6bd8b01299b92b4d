//! Changing what the policy protects inside the workspace: a repository's hooks and configuration.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;

use provost_core::containment::Guarantee::Protected;
use rustix::fs::{CWD, RenameFlags};

use super::stage::Stage;
use super::{Attack, Judge, Promise, Tried};

const METADATA: Promise = Promise::Nothing("Landlock governs contents and names, not modes");

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("git-hook", Protected, Judge::Protected, "plants a hook in .git", |s| {
        fs::write(s.workspace.join(".git/hooks/post-commit"), "x")
    }),
    Attack::new("git-config", Protected, Judge::Protected, "changes .git/config", |s| {
        append(s, ".git/config")
    }),
    Attack::new("git-config-truncate", Protected, Judge::Protected, "empties .git/config", |s| {
        fs::write(s.workspace.join(".git/config"), "")
    }),
    Attack::new("git-config-replace", Protected, Judge::Protected, "moves a file over .git/config", |s| {
        fs::write(s.work("mine"), "x")?;
        fs::rename(s.work("mine"), s.workspace.join(".git/config"))
    }),
    Attack::new("git-config-remove", Protected, Judge::Protected, "removes .git/config", |s| {
        fs::remove_file(s.workspace.join(".git/config"))
    }),
    Attack::new(
        "git-config-link",
        Protected,
        Judge::Protected,
        "writes to .git/config by another name",
        |s| {
            fs::hard_link(s.workspace.join(".git/config"), s.work("link"))?;
            OpenOptions::new().append(true).open(s.work("link"))?.write_all(b"x")
        },
    ),
    Attack::new(
        "git-config-symlink",
        Protected,
        Judge::Protected,
        "writes to .git/config through a link",
        |s| {
            std::os::unix::fs::symlink(s.workspace.join(".git/config"), s.work("link"))?;
            OpenOptions::new().append(true).open(s.work("link"))?.write_all(b"x")
        },
    ),
    Attack::new(
        "git-config-reopen",
        Protected,
        Judge::Protected,
        "reopens .git/config for writing by /proc",
        |s| {
            let open = fs::File::open(s.workspace.join(".git/config"))?;
            let path = format!("/proc/self/fd/{}", open.as_raw_fd());
            OpenOptions::new().append(true).open(path)?.write_all(b"x")
        },
    ),
    Attack::new("git-config-mode", Protected, Judge::Protected, "changes the mode of .git/config", |s| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(s.workspace.join(".git/config"), fs::Permissions::from_mode(0o777))
    })
    .on_r2(METADATA),
    Attack::new("git-swap", Protected, Judge::Protected, "moves .git away and makes another", |s| {
        fs::rename(s.workspace.join(".git"), s.work("moved"))?;
        fs::create_dir(s.workspace.join(".git"))
    }),
    Attack::new(
        "git-exchange",
        Protected,
        Judge::Protected,
        "exchanges .git with a folder of its own",
        |s| {
            fs::create_dir(s.work("mine"))?;
            let (mine, git) = (s.work("mine"), s.workspace.join(".git"));
            rustix::fs::renameat_with(CWD, mine, CWD, git, RenameFlags::EXCHANGE).map_err(Into::into)
        },
    ),
    Attack::new("git-remove", Protected, Judge::Protected, "removes all of .git", |s| {
        fs::remove_dir_all(s.workspace.join(".git"))
    }),
    Attack::new("nested-config", Protected, Judge::Protected, "changes a protected file further down", |s| {
        append(s, "sub/.cargo/config.toml")
    }),
    Attack::new(
        "nested-folder-swap",
        Protected,
        Judge::Protected,
        "moves the folder of a protected file away",
        |s| fs::rename(s.workspace.join("sub/.cargo"), s.work("moved")),
    ),
    Attack::new(
        "nested-top-swap",
        Protected,
        Judge::Protected,
        "moves a folder two above a protected file away",
        |s| fs::rename(s.workspace.join("sub"), s.work("moved")),
    ),
];

fn append(stage: &Stage, path: &str) -> Tried {
    OpenOptions::new().append(true).open(stage.workspace.join(path))?.write_all(b"x")
}
