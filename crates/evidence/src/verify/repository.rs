//! A git repository as the recipient's own.

use provost_core::path::RelPath;

use super::Base;
use crate::git::Repository;
use crate::tree::{BlobOid, TreeEntry};

impl Base for Repository {
    /// Every content is read and named anew, so that both of git's object formats are known and nothing is taken from
    /// an index.
    fn entries(&self, commit: &str, scope: &RelPath) -> Result<Vec<TreeEntry>, String> {
        let full = self.resolve(commit).map_err(|error| error.to_string())?;
        if full != commit {
            return Err(format!("`{commit}` is not the full id of a commit of this repository"));
        }
        let tree = self.commit_entries(commit, scope).map_err(|error| error.to_string())?;
        let ids: Vec<String> = tree.entries.iter().map(|entry| entry.oid.clone()).collect();
        let mut entries = Vec::with_capacity(ids.len());
        self.each_blob(&ids, |place, content| {
            let entry = &tree.entries[place];
            entries.push(TreeEntry {
                path: entry.path.clone(),
                mode: entry.mode,
                oid: BlobOid::of(&content),
            });
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(entries)
    }
}
