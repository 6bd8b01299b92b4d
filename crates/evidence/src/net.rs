//! The net change of a run: which files differ from the start, and the content of both sides.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::act::{Change, FileFact};
use provost_core::digest::Digest;
use provost_core::path::RelPath;
use provost_core::state::RunState;

use crate::recorded::patch_of;
use crate::tree::{BlobOid, Mode, TreeEntry, hex};

/// Content by salted digest.
pub(crate) type Blobs = BTreeMap<Digest, Vec<u8>>;

/// The net change of a folded run. Paths are relative to the workspace.
pub(crate) struct Net<'a> {
    changes: Vec<&'a Change>,
}

impl<'a> Net<'a> {
    pub(crate) fn of(state: &'a RunState) -> Self {
        Self { changes: state.net_changes().values().collect() }
    }

    /// Each changed file, in order of paths.
    pub(crate) fn changes(&self) -> &[&'a Change] {
        &self.changes
    }

    fn sides(&self) -> impl Iterator<Item = (&'a RelPath, &'a FileFact)> {
        self.changes
            .iter()
            .flat_map(|change| [&change.before, &change.after].map(|side| (&change.path, side.as_ref())))
            .filter_map(|(path, side)| Some((path, side?)))
    }

    /// A changed file whose content the journal does not keep, on either side.
    pub(crate) fn not_kept(&self) -> Option<&'a RelPath> {
        self.sides().find(|(_, file)| !file.kept).map(|(path, _)| path)
    }

    /// Salted digests of all content that the change needs.
    pub(crate) fn contents(&self) -> BTreeSet<Digest> {
        self.sides().map(|(_, file)| file.content).collect()
    }

    /// A path that needs this content, for a message.
    pub(crate) fn user_of(&self, content: &Digest) -> String {
        self.sides()
            .find(|(_, file)| file.content == *content)
            .map_or_else(|| "no change".to_owned(), |(path, _)| format!("`{path}`"))
    }

    /// Whether each content has the size that the events say.
    pub(crate) fn check_sizes(&self, blobs: &Blobs) -> Result<(), String> {
        for (path, file) in self.sides() {
            let size = bytes_of(blobs, file)?.len() as u64;
            if size != file.size {
                return Err(format!(
                    "the events say that `{path}` had {} bytes; its content has {size}",
                    file.size
                ));
            }
        }
        Ok(())
    }

    /// The change as a patch from the repository's root.
    pub(crate) fn patch(&self, scope: &RelPath, blobs: &Blobs) -> Result<Vec<u8>, String> {
        patch_of(self.changes.iter().copied(), scope, |digest| blobs.get(digest).cloned())
            .map_err(|error| error.to_string())
    }

    /// Whether each changed file was, before, what `base` holds.
    pub(crate) fn check_before(&self, base: &[TreeEntry], blobs: &Blobs) -> Result<(), String> {
        let base: BTreeMap<&RelPath, &TreeEntry> = base.iter().map(|entry| (&entry.path, entry)).collect();
        for change in &self.changes {
            let path = &change.path;
            match (&change.before, base.get(path)) {
                (None, None) => {}
                (Some(before), Some(entry)) => {
                    let oid = BlobOid::of(bytes_of(blobs, before)?);
                    if mode_of(before)? != entry.mode || oid != entry.oid {
                        return Err(format!(
                            "`{path}` was, before the change, mode {} blob {}; your commit has mode {} blob {}",
                            before.mode,
                            hex(&oid.sha1),
                            entry.mode,
                            hex(&entry.oid.sha1)
                        ));
                    }
                }
                (None, Some(_)) => {
                    return Err(format!("the run says that `{path}` did not exist; your commit has it"));
                }
                (Some(_), None) => {
                    return Err(format!("the run says that `{path}` existed; your commit does not have it"));
                }
            }
        }
        Ok(())
    }

    /// The files of `base` with the change made.
    pub(crate) fn apply(&self, base: Vec<TreeEntry>, blobs: &Blobs) -> Result<Vec<TreeEntry>, String> {
        let mut files: BTreeMap<RelPath, TreeEntry> =
            base.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
        for change in &self.changes {
            match &change.after {
                None => {
                    files.remove(&change.path);
                }
                Some(after) => {
                    let entry = TreeEntry {
                        path: change.path.clone(),
                        mode: mode_of(after)?,
                        oid: BlobOid::of(bytes_of(blobs, after)?),
                    };
                    files.insert(change.path.clone(), entry);
                }
            }
        }
        Ok(files.into_values().collect())
    }
}

fn bytes_of<'a>(blobs: &'a Blobs, file: &FileFact) -> Result<&'a [u8], String> {
    blobs.get(&file.content).map(Vec::as_slice).ok_or_else(|| format!("blob {} is not at hand", file.content))
}

fn mode_of(file: &FileFact) -> Result<Mode, String> {
    file.mode.parse().map_err(|error: crate::tree::BadMode| error.to_string())
}
