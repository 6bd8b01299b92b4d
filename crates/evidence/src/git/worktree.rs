//! A further work tree of a repository, without a checkout: no filter, attribute or hook of the repository's is run.

use std::ffi::OsStr;
use std::path::Path;

use super::{GitError, Repository, TIME_LIMIT};

impl Repository {
    /// Makes a work tree at `path`, a new or empty folder, with `commit` checked out by name only: its index holds the
    /// commit's files, its folder holds none. `commit` is a full id, as [`resolve`](Self::resolve) gives it.
    pub fn add_worktree(&self, path: &Path, commit: &str) -> Result<Self, GitError> {
        let args: [&OsStr; 7] = [
            "worktree".as_ref(),
            "add".as_ref(),
            "--detach".as_ref(),
            "--no-checkout".as_ref(),
            "--".as_ref(),
            path.as_os_str(),
            commit.as_ref(),
        ];
        self.git.output(&args, TIME_LIMIT)?;
        let made = Self::discover(path)?;
        // Into the index alone: reading a tree looks at no file.
        made.git.output(&["read-tree", commit], TIME_LIMIT)?;
        Ok(made)
    }

    /// Forgets work trees whose folders are gone.
    pub fn prune_worktrees(&self) -> Result<(), GitError> {
        self.git.output(&["worktree", "prune"], TIME_LIMIT).map(|_| ())
    }
}
