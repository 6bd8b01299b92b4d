//! The patch of recorded changes: the one way from what events say to what `git apply` takes.

use std::borrow::Borrow;

use provost_core::act::{Change, FileFact};
use provost_core::digest::Digest;
use provost_core::path::RelPath;

use crate::git::is_git_folder_name;
use crate::patch::{FileDiff, FileVersion, render};
use crate::tree::{BadMode, Mode};

/// Why recorded changes have no patch. Half a patch is never made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPatch {
    /// A path leads into git's own folder, by a name that some file system takes for `.git`. No honest run has one, and
    /// what is put there runs as whoever takes the patch.
    #[error("`{0}` lies in git's own folder: no patch may change it")]
    InGit(RelPath),
    /// A file was too large for the journal to keep.
    #[error(
        "`{0}` is larger than 8 MiB: files larger than that are named, not kept, and a patch cannot be made without \
         their content"
    )]
    NotKept(RelPath),
    /// Content is not there.
    #[error("blob {content} is not at hand, which `{path}` needs")]
    NoContent {
        /// A file that has it.
        path: RelPath,
        /// Its salted digest.
        content: Digest,
    },
    /// A mode that no file of a workspace has.
    #[error(transparent)]
    BadMode(#[from] BadMode),
    /// The path does not fit beneath the scope.
    #[error(transparent)]
    BadPath(#[from] provost_core::path::BadPath),
}

/// The patch of `changes`, paths named from the repository's root, beneath which the workspace lies at `scope`.
/// `content` looks content up by its salted digest. A path may stand in `changes` once.
pub fn patch_of<C: Borrow<Change>>(
    changes: impl IntoIterator<Item = C>,
    scope: &RelPath,
    mut content: impl FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, NoPatch> {
    let mut diffs = Vec::new();
    for change in changes {
        let change = change.borrow();
        if change.path.to_bytes().split(|byte| *byte == b'/').any(is_git_folder_name) {
            return Err(NoPatch::InGit(change.path.clone()));
        }
        let mut version = |side: &Option<FileFact>| {
            side.as_ref().map(|file| version_of(&change.path, file, &mut content)).transpose()
        };
        diffs.push(FileDiff {
            path: scope.join(&change.path.to_bytes())?,
            before: version(&change.before)?,
            after: version(&change.after)?,
        });
    }
    Ok(render(&diffs))
}

fn version_of(
    path: &RelPath,
    file: &FileFact,
    content: &mut impl FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<FileVersion, NoPatch> {
    if !file.kept {
        return Err(NoPatch::NotKept(path.clone()));
    }
    let mode: Mode = file.mode.parse()?;
    let bytes = content(&file.content)
        .ok_or_else(|| NoPatch::NoContent { path: path.clone(), content: file.content })?;
    Ok(FileVersion { mode, bytes })
}
