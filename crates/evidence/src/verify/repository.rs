//! A git repository as the recipient's own.

use provost_core::path::RelPath;

use super::{Base, BaseTree};
use crate::git::Repository;
use crate::tree::{BlobOid, Mode, TreeEntry};

impl Base for Repository {
    /// Every content is read and named anew, so that both of git's object formats are known and nothing is taken from
    /// an index.
    fn tree(
        &self,
        commit: &str,
        scope: &RelPath,
        keep: &dyn Fn(&RelPath, Mode) -> bool,
    ) -> Result<BaseTree, String> {
        let full = self.resolve(commit).map_err(|error| error.to_string())?;
        if full != commit {
            return Err(format!("`{commit}` is not the full id of a commit of this repository"));
        }
        let found = self.commit_entries(commit, scope).map_err(|error| error.to_string())?;
        let ids: Vec<String> = found.entries.iter().map(|entry| entry.oid.clone()).collect();
        let mut tree = BaseTree { submodules: found.submodules, ..BaseTree::default() };
        self.each_blob(&ids, |place, content| {
            let entry = &found.entries[place];
            let (path, mode, oid) = (entry.path.clone(), entry.mode, BlobOid::of(&content));
            if keep(&path, mode) {
                tree.kept.insert(path.clone(), content);
            }
            tree.entries.push(TreeEntry { path, mode, oid });
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(tree)
    }
}
