//! The git folder that commands may commit into, and what in it is kept from commands all the same.
//!
//! What is listed is what git's own `add`, `commit`, `branch`, `stash` and `switch` write, and everything else is closed:
//! configuration, hooks, attributes, other object stores, other work trees, and what a later git may come to read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::toolchain::git_reads;

/// A folder of git's, and which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFolder {
    /// Where it lies; absolute, without links.
    pub folder: PathBuf,
    /// Which it is.
    pub part: GitPart,
}

impl GitFolder {
    /// Where files may be made, and where folders and links too: what Landlock can say of it. What lies in the workspace
    /// has the workspace's rights. A folder that is shared with other work trees gets no new folder at its top, where a
    /// `hooks` or a `rebase-merge` would be somebody else's.
    pub(crate) fn writes(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let GitPart::Common(own) = &self.part else { return (Vec::new(), vec![self.folder.clone()]) };
        let own = self.folder.join("worktrees").join(OsStr::from_bytes(own));
        let shared = ["objects", "refs", "logs", "rr-cache", "reftable"].map(|name| self.folder.join(name));
        let mut open: Vec<PathBuf> = shared.into_iter().filter(|folder| folder.is_dir()).collect();
        let needs_logs = !self.folder.join("logs").is_dir();
        open.extend(needs_logs.then(|| self.folder.clone()));
        open.extend(
            ["logs", "refs", "modules"]
                .map(|name| own.join(name))
                .into_iter()
                .filter(|folder| folder.is_dir()),
        );
        (vec![self.folder.clone()], open)
    }
}

/// Which of git's folders one is: what may be changed in it follows from that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitPart {
    /// A repository's own, or a submodule's.
    Whole,
    /// What linked work trees share, as the one of this name may change it.
    Common(Vec<u8>),
    /// What a linked work tree has for itself.
    Worktree,
    /// The folder `worktrees`, of which the one of this name is open.
    Worktrees(Vec<u8>),
    /// Objects.
    Objects,
    /// What is known of objects, and where else there are some.
    ObjectsInfo,
    /// The git folders of submodules, which may lie deeper.
    Modules,
}

/// What becomes of one name in a git folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitName {
    /// Commands may change it and what is beneath it.
    Open,
    /// Commands may read it.
    Closed,
    /// What is beneath it is decided on by name.
    Within(GitPart),
}

/// Files that git writes at the top of a git folder, one for each work tree.
const TREE_FILES: [&str; 17] = [
    "HEAD",
    "index",
    "COMMIT_EDITMSG",
    "ORIG_HEAD",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "FETCH_HEAD",
    "gc.pid",
    "gc.log",
];
/// What it writes where references lie.
const SHARED: [&str; 6] = ["refs", "logs", "packed-refs", "packed-refs.new", "reftable", "rr-cache"];
/// Beginnings of names that it makes for a moment.
const PASSING: [&str; 3] = ["index.", "next-index-", "sharedindex."];

/// What git takes orders from, there or not.
const ORDERS: [&str; 8] =
    ["config", "config.worktree", "commondir", "gitdir", "hooks", "info", "branches", "remotes"];
/// Where what was begun says how it goes on, with commands among it.
const BEGUN: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];
/// Where else git looks for objects.
const ALTERNATES: [&str; 2] = ["alternates", "http-alternates"];

impl GitPart {
    /// What becomes of the name `name` in a folder of this kind. `holds_head` says whether it is a folder with a `HEAD`, as
    /// only a git folder has.
    pub fn judge(&self, name: &[u8], holds_head: bool) -> GitName {
        let text = std::str::from_utf8(name).unwrap_or_default();
        let base = text.strip_suffix(".lock").unwrap_or(text);
        let of_tree = TREE_FILES.contains(&base) || PASSING.iter().any(|start| text.starts_with(start));
        let open = |is_open: bool| if is_open { GitName::Open } else { GitName::Closed };
        match (self, text) {
            (Self::Whole | Self::Common(_), "objects") => GitName::Within(Self::Objects),
            (Self::Whole | Self::Worktree, "modules") => GitName::Within(Self::Modules),
            (Self::Common(own), "worktrees") => GitName::Within(Self::Worktrees(own.clone())),
            (Self::Whole | Self::Worktree, _) => open(of_tree || SHARED.contains(&base)),
            (Self::Common(_), _) => open(SHARED.contains(&base)),
            (Self::Worktrees(own), _) if own == name => GitName::Within(Self::Worktree),
            (Self::Worktrees(_) | Self::ObjectsInfo, _) => GitName::Closed,
            (Self::Objects, "info") => GitName::Within(Self::ObjectsInfo),
            (Self::Objects, _) => GitName::Open,
            (Self::Modules, _) => GitName::Within(if holds_head { Self::Whole } else { Self::Modules }),
        }
    }

    /// Whether git, or who goes on with what it began, takes orders from what has this name in such a folder. Nothing that
    /// a command made has such a name. Another person's git may be at work in the same folder: what that makes for a
    /// moment, or for another work tree, is no such name.
    pub fn takes_orders(&self, name: &[u8]) -> bool {
        let Ok(name) = std::str::from_utf8(name) else { return false };
        match self {
            Self::Whole | Self::Worktree => ORDERS.contains(&name) || BEGUN.contains(&name),
            Self::Common(_) => ORDERS.contains(&name),
            Self::ObjectsInfo => ALTERNATES.contains(&name),
            Self::Worktrees(_) | Self::Objects | Self::Modules => false,
        }
    }
}

/// The git folder of the repository whose top `workspace` is, as far as it can be committed into: `.git` itself, or the
/// folder that a linked work tree shares with others. None where `.git` is a link, or names what does not name it in
/// turn.
pub fn git_folder(workspace: &Path) -> Option<GitFolder> {
    let workspace = workspace.canonicalize().ok()?;
    let own = workspace.join(".git");
    if own.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        let is_whole = own.join("HEAD").is_file() && own.join("commondir").symlink_metadata().is_err();
        return is_whole.then_some(GitFolder { folder: own, part: GitPart::Whole });
    }
    // First the work tree's own folder, then the common one, which the first has to lie in.
    let [folder, common]: [PathBuf; 2] = git_reads(&workspace).try_into().ok()?;
    let name = folder.file_name().filter(|_| folder.parent() == Some(common.join("worktrees").as_path()))?;
    Some(GitFolder { part: GitPart::Common(name.as_bytes().to_vec()), folder: common })
}
