//! The ignore rules of a commit that stand above one of its folders.

use provost_core::path::RelPath;

use super::{GitError, Repository, TIME_LIMIT, failed};

/// Longest rule file that is read, in bytes.
const LIMIT: usize = 64 * 1024;

impl Repository {
    /// The `.gitignore` files of a commit in the folders above `scope`, nearest first: each with the path of `scope` from its
    /// own folder, and its lines. Read by object id, never from a work tree. Git follows no link of that name.
    pub fn rules_above(&self, commit: &str, scope: &RelPath) -> Result<Vec<(RelPath, Vec<u8>)>, GitError> {
        let mut rules = Vec::new();
        let whole = scope.to_bytes();
        if scope.is_root() {
            return Ok(rules);
        }
        let cuts = (0..whole.len()).rev().filter(|at| whole[*at] == b'/').map(Some).chain([None]);
        for cut in cuts {
            let (above, below) = cut.map_or((&b""[..], &whole[..]), |at| (&whole[..=at], &whole[at + 1..]));
            let name = [above, b".gitignore"].concat();
            if let Some(lines) = self.regular_file(commit, &name)? {
                let below = RelPath::from_bytes(below)
                    .map_err(|_| GitError::BadName(String::from_utf8_lossy(below).into_owned()))?;
                rules.push((below, lines.into_iter().take(LIMIT).collect()));
            }
        }
        Ok(rules)
    }

    /// The content of a regular file of a commit; `None` where there is none of that name.
    fn regular_file(&self, commit: &str, name: &[u8]) -> Result<Option<Vec<u8>>, GitError> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = std::ffi::OsStr::from_bytes(name);
        let args: [&std::ffi::OsStr; 6] =
            ["ls-tree".as_ref(), "-z".as_ref(), "--full-tree".as_ref(), commit.as_ref(), "--".as_ref(), name];
        let listed = self.git.output(&args, TIME_LIMIT)?;
        let Some(tab) = listed.iter().position(|byte| *byte == b'\t') else { return Ok(None) };
        let facts = String::from_utf8_lossy(&listed[..tab]).into_owned();
        let mut facts = facts.split_ascii_whitespace();
        match (facts.next(), facts.next(), facts.next()) {
            (Some("100644" | "100755"), Some("blob"), Some(oid)) => {
                Ok(self.blobs(std::slice::from_ref(&oid.to_owned()))?.pop())
            }
            (Some(_), Some(_), Some(_)) => Ok(None),
            _ => Err(failed("ls-tree", "unclear line".to_owned())),
        }
    }
}
