//! Names that are not `.git` here and are `.git` to git elsewhere.

use provost_core::path::RelPath;
use provost_core::text::{Lines, visible};
use provost_evidence::git::is_git_folder_name;

use super::{FileError, Located};
use crate::text::show;

/// Refuses to write where a part of the path is taken for `.git` by git on some file system. Whoever checks such a tree
/// out on macOS or Windows would have it written into the repository's own folder, where hooks are run from; git refuses
/// such trees, and so does an export. A part that is `.git` itself is for the policy to decide on.
pub(crate) fn refuse_git_names(located: &Located) -> Result<(), FileError> {
    located.paths().try_for_each(refuse)
}

fn refuse(path: &RelPath) -> Result<(), FileError> {
    let bytes = path.to_bytes();
    let mut parts = bytes.split(|byte| *byte == b'/');
    match parts.find(|part| *part != b".git" && is_git_folder_name(part)) {
        None => Ok(()),
        Some(name) => Err(FileError::GitName {
            path: path.clone(),
            name: visible(&show::lossless(name), Lines::Escape),
        }),
    }
}
