//! A further work tree of a repository, without a checkout: no filter, attribute or hook of the repository's is run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{GitError, Repository, TIME_LIMIT, failed, io_at, path_line};

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
        let filled = Self::discover(path).and_then(|made| {
            // Into the index alone: reading a tree looks at no file.
            made.git.output(&["read-tree", commit], TIME_LIMIT).map(|_| made)
        });
        if filled.is_err() {
            let _ = self.forget_worktree(path);
        }
        filled
    }

    /// Forgets the work tree at `path` that [`add_worktree`](Self::add_worktree) made: its entry here, and the `.git` there.
    /// Its files stay, and so do the entries of all others: `git worktree prune` would forget one whose disk is not mounted,
    /// `git worktree remove` deletes whatever lies in the folder.
    pub fn forget_worktree(&self, path: &Path) -> Result<(), GitError> {
        let link = path.join(".git");
        let words = fs::read(&link).map_err(io_at(&link))?;
        let unclear =
            || failed("worktree", format!("`{}` is no work tree of this repository", path.display()));
        // Both name the other from where they stand, by an absolute path or a relative one.
        let entry = path.join(path_line(words.strip_prefix(b"gitdir: ").ok_or_else(unclear)?.to_vec()));
        let entry = entry.canonicalize().map_err(io_at(&entry))?;
        let all = self.shared_folder()?.join("worktrees");
        let named = entry.join("gitdir");
        let back = entry.join(path_line(fs::read(&named).map_err(io_at(&named))?));
        let same = back.canonicalize().ok() == link.canonicalize().ok();
        if !same || entry.parent() != Some(all.as_path()) {
            return Err(unclear());
        }
        fs::remove_dir_all(&entry).map_err(io_at(&entry))?;
        fs::remove_file(&link).map_err(io_at(&link))?;
        // As git does: it goes with the last entry, and stays while there is one.
        let _ = fs::remove_dir(&all);
        Ok(())
    }

    /// The folders in which all is the repository's: its work tree, its git folder, and that which its work trees share.
    pub fn folders(&self) -> Result<[PathBuf; 3], GitError> {
        let root = self.root.canonicalize().map_err(io_at(&self.root))?;
        Ok([root, self.git_folder("--git-dir")?, self.shared_folder()?])
    }

    fn shared_folder(&self) -> Result<PathBuf, GitError> {
        self.git_folder("--git-common-dir")
    }

    fn git_folder(&self, which: &str) -> Result<PathBuf, GitError> {
        let named = self.git.output(&["rev-parse", "--path-format=absolute", which], TIME_LIMIT)?;
        let folder = path_line(named);
        folder.canonicalize().map_err(io_at(&folder))
    }
}
