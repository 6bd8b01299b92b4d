//! Accepting a result: it becomes a commit on a new branch, by objects alone. No work tree, index or existing branch is
//! touched.

use provost_core::digest::TreeDigest;
use provost_core::path::RelPath;
use provost_evidence::git::{GitError, NewCommit, NewFile, Repository};
use provost_evidence::tree::tree_digest;
use provost_evidence::verify::Base as _;

use crate::SessionError;

/// A verified result that is to be accepted.
#[derive(Debug, Clone, Copy)]
pub struct Accept<'a> {
    /// The recipient's repository.
    pub repository: &'a Repository,
    /// Full id of the commit that the session began with.
    pub commit: &'a str,
    /// The subtree that it worked on.
    pub scope: &'a RelPath,
    /// The files that it changed, named from the subtree; `None` where one is gone.
    pub files: &'a [(RelPath, NewFile)],
    /// The tree that it must come to.
    pub tree: &'a TreeDigest,
    /// The branch to make.
    pub branch: &'a str,
    /// The commit's message.
    pub message: &'a str,
    /// Name and address of who accepts.
    pub author: (&'a str, &'a str),
    /// Now, in seconds since the Unix epoch.
    pub at: u64,
}

/// What was made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Full id of the new commit.
    pub commit: String,
    /// Id of its whole tree.
    pub tree: String,
}

/// Writes the commit and makes the branch. Where the objects do not come to the tree that was verified, no branch is made.
pub fn accept(what: &Accept<'_>) -> Result<Accepted, SessionError> {
    let mut files = Vec::with_capacity(what.files.len());
    for (path, content) in what.files {
        let path =
            what.scope.join(&path.to_bytes()).map_err(|error| SessionError::Refused(error.to_string()))?;
        files.push((path, content.clone()));
    }
    let commit = what.repository.write_commit(&NewCommit {
        parent: what.commit,
        files: &files,
        message: what.message,
        author: what.author,
        at: what.at,
    })?;
    let written = what.repository.tree(&commit, what.scope, &|_, _| false).map_err(SessionError::Internal)?;
    let found = tree_digest(&written.entries).map_err(|error| SessionError::Internal(error.to_string()))?;
    if found != *what.tree {
        return Err(SessionError::Internal(format!(
            "the commit that was written holds the tree {}; verified was {}",
            found.sha1, what.tree.sha1
        )));
    }
    what.repository.create_branch(what.branch, &commit).map_err(|error| match error {
        GitError::Failed { message, .. } if message.contains("reference already exists") => {
            SessionError::Refused(format!("the branch `{}` is there already: name another", what.branch))
        }
        other => other.into(),
    })?;
    let tree = what.repository.tree_of(&commit)?;
    Ok(Accepted { commit, tree })
}
