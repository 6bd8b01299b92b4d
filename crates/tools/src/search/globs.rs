//! Globs as people write them for a search.

use globset::{GlobBuilder, GlobMatcher};

use crate::failure::BadCall;

/// A glob: one without `/` is matched against the last part of a path, one with it against the path from the root or
/// from the folder that is searched.
pub(super) struct Glob {
    matcher: GlobMatcher,
    whole: bool,
}

impl Glob {
    pub(super) fn new(text: &str) -> Result<Self, BadCall> {
        let pattern = text.strip_prefix("./").unwrap_or(text);
        let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
        let glob = glob
            .map_err(|error| BadCall::value("glob", format!("`{text}` is not a glob: {}", error.kind())))?;
        Ok(Self { matcher: glob.compile_matcher(), whole: pattern.contains('/') })
    }

    /// `path` from the workspace root, of which the first `skip` bytes are the folder that is searched.
    pub(super) fn matches(&self, path: &[u8], skip: usize) -> bool {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let hit = |bytes: &[u8]| self.matcher.is_match(OsStr::from_bytes(bytes));
        if self.whole {
            return hit(path) || (skip > 0 && hit(path.get(skip..).unwrap_or_default()));
        }
        hit(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
    }
}

/// Bytes of a folder's path with its `/`: what [`Glob::matches`] may skip.
pub(super) fn prefix(folder: &provost_core::path::RelPath) -> usize {
    if folder.is_root() { 0 } else { folder.to_bytes().len() + 1 }
}
