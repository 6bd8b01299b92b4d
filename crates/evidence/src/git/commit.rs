//! Writing a commit by objects alone: no work tree, index, filter, attribute or hook of the repository's is involved.

use std::ffi::OsStr;
use std::path::PathBuf;

use provost_core::path::RelPath;

use super::{GitError, ObjectFormat, Repository, TIME_LIMIT, failed};
use crate::canonical::sha256;
use crate::tree::Mode;
use provost_core::digest::Digest;

/// A file's mode and content; `None` where it is gone.
pub type NewFile = Option<(Mode, Vec<u8>)>;

/// A commit to write.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    /// Full id of the commit that it follows.
    pub parent: &'a str,
    /// Files that differ from the parent's, named from the repository's root.
    pub files: &'a [(RelPath, NewFile)],
    /// Its message.
    pub message: &'a str,
    /// Name and address of its author, who is its committer too.
    pub author: (&'a str, &'a str),
    /// Its time, in seconds since the Unix epoch.
    pub at: u64,
}

/// An index of our own for the time that a commit is made.
struct Index(PathBuf);

impl Drop for Index {
    fn drop(&mut self) {
        for name in [self.0.clone(), self.0.with_extension("index.lock")] {
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Repository {
    /// Ids of the commits without a parent that lead to `commit`, in order. In a clone that is shallow they are others.
    pub fn roots(&self, commit: &str) -> Result<Vec<String>, GitError> {
        let args = ["rev-list", "--max-parents=0", "--end-of-options", commit];
        let listed = String::from_utf8_lossy(&self.git.output(&args, TIME_LIMIT)?).into_owned();
        let mut roots: Vec<String> = listed.lines().map(str::to_owned).collect();
        roots.sort_unstable();
        Ok(roots)
    }

    /// What is the same in each whole clone of a repository: SHA-256 over its [`roots`](Self::roots), each ended by a line
    /// feed.
    pub fn identifier(&self, commit: &str) -> Result<Digest, GitError> {
        if self.git.output(&["rev-parse", "--is-shallow-repository"], TIME_LIMIT)?.starts_with(b"true") {
            return Err(failed(
                "rev-list",
                "the clone is shallow: which repository it is cannot be told (`git fetch --unshallow`)"
                    .into(),
            ));
        }
        let roots = self.roots(commit)?.iter().fold(String::new(), |all, root| all + root + "\n");
        Ok(sha256(roots.as_bytes()))
    }

    /// Writes a commit and gives its full id. No name leads to it yet: see [`create_branch`](Self::create_branch).
    pub fn write_commit(&self, new: &NewCommit<'_>) -> Result<String, GitError> {
        let [_, git_folder, _] = self.folders()?;
        let index = Index(git_folder.join(format!("provost-{}.index", std::process::id())));
        drop(Index(index.0.clone()));
        let variables = [("GIT_INDEX_FILE", index.0.as_os_str())];
        let fed = |args: &[&str], input: Vec<u8>| self.git.fed(args, input, &variables, TIME_LIMIT);
        fed(&["read-tree", new.parent], Vec::new())?;
        let none = match self.format() {
            ObjectFormat::Sha1 => "0".repeat(40),
            ObjectFormat::Sha256 => "0".repeat(64),
        };
        let mut lines = Vec::new();
        for (path, content) in new.files {
            let (mode, oid) = match content {
                None => ("0", none.clone()),
                Some((mode, bytes)) => {
                    let written = fed(&["hash-object", "-w", "--no-filters", "--stdin"], bytes.clone())?;
                    (mode.as_str(), id(&written)?)
                }
            };
            lines.extend_from_slice(format!("{mode} {oid}\t").as_bytes());
            lines.extend_from_slice(&path.to_bytes());
            lines.push(0);
        }
        fed(&["update-index", "-z", "--index-info"], lines)?;
        let tree = id(&fed(&["write-tree"], Vec::new())?)?;
        let date = format!("{} +0000", new.at);
        let (name, email) = new.author;
        let who: [(&str, &OsStr); 6] = [
            ("GIT_AUTHOR_NAME", name.as_ref()),
            ("GIT_AUTHOR_EMAIL", email.as_ref()),
            ("GIT_AUTHOR_DATE", date.as_ref()),
            ("GIT_COMMITTER_NAME", name.as_ref()),
            ("GIT_COMMITTER_EMAIL", email.as_ref()),
            ("GIT_COMMITTER_DATE", date.as_ref()),
        ];
        let args = ["commit-tree", &tree, "-p", new.parent, "-F", "-"];
        id(&self.git.fed(&args, new.message.as_bytes().to_vec(), &who, TIME_LIMIT)?)
    }

    /// Id of a commit's whole tree, in the repository's own format.
    pub fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        self.parse(format!("{commit}^{{tree}}").as_bytes())?
            .ok_or_else(|| GitError::NoCommit(commit.to_owned()))
    }

    /// Makes a branch that leads to `commit`. One that is there is never moved, however many try at once.
    pub fn create_branch(&self, name: &str, commit: &str) -> Result<(), GitError> {
        let full = format!("refs/heads/{name}");
        if name == "HEAD" || name.starts_with("refs/") || name.starts_with('-') {
            return Err(failed("check-ref-format", format!("`{name}` is no name for a branch")));
        }
        self.git.output(&["check-ref-format", &full], TIME_LIMIT)?;
        let args = ["update-ref", "--stdin", "-z"];
        let input = format!("create {full}\0{commit}\0");
        self.git.fed(&args, input.into_bytes(), &[], TIME_LIMIT).map(drop)
    }
}

fn id(written: &[u8]) -> Result<String, GitError> {
    let text = String::from_utf8_lossy(written).trim().to_owned();
    if text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text)
    } else {
        Err(failed("hash-object", format!("unclear answer {text:?}")))
    }
}
