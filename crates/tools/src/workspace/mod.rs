//! The workspace: a folder held open, and everything that is read from it or written to it.
//!
//! The root is a descriptor, opened once. Every name is opened beneath it by the kernel (`openat2` with
//! `RESOLVE_BENEATH`, no magic links), so no spelling and no symbolic link leads out, also not one that is put there
//! between a check and its use. Links inside the workspace are followed first, by reading them, and the *real* path
//! that results is then opened with `RESOLVE_NO_SYMLINKS`: what policy judged is what is opened.

mod apply;
mod copy;
mod duplicate;
mod entry;
mod error;
mod git_name;
mod ignored;
mod layer;
mod list;
mod open;
mod place;
mod remove;
mod resolve;
mod scan;
mod settle;
mod walk;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost_core::path::{BadPath, RelPath};
use rustix::fs::{Mode, OFlags};

pub use apply::{Applied, ApplyError, FileChange};
pub use copy::Copied;
pub use duplicate::StandIn;
pub use entry::{FileMode, FileVersion, Kind};
pub use error::FileError;
pub(crate) use git_name::refuse_git_names;
pub use ignored::OuterRules;
pub use layer::{Found, Layer, LayerFile, LayerFolder, Look};
pub use list::Item;
pub use open::{Lines, OpenFile};
pub use place::{Durable, FileContent, Prepared};
pub use resolve::Located;
pub use scan::{Content, Delta, Entry, Manifest, ScanError};
pub use settle::{Settled, Side};
pub(crate) use walk::{Go, Walk};

/// A folder that an agent works in.
#[derive(Debug)]
pub struct Workspace {
    root: OwnedFd,
    path: PathBuf,
    /// Ignore rules from outside, the stronger first.
    outer: Vec<OuterRules>,
    compiled: ignored::Compiled,
}

impl Workspace {
    /// Opens the folder at `path`, which stays the workspace even if it is moved.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let failed = |source: std::io::Error| FileError::Root { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok(Self { root, path, outer: Vec::new(), compiled: ignored::Compiled::default() })
    }

    /// Under these ignore rules too, the stronger first, all of them weaker than the workspace's own. They are left out
    /// where they ignore the workspace itself.
    #[must_use]
    pub fn ignoring(self, outer: Vec<OuterRules>) -> Self {
        Self { outer: ignored::holding(outer), ..self }
    }

    /// Absolute path at which it was opened, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open root.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Reads a path as a model writes it: from the workspace root, or absolute if it lies beneath the root.
    pub fn name(&self, text: &str) -> Result<RelPath, FileError> {
        if !text.starts_with('/') {
            return Ok(RelPath::parse(text)?);
        }
        match self.beneath(text.as_bytes()) {
            Some([]) => Ok(RelPath::root()),
            Some(rest) => Ok(RelPath::from_bytes(rest)?),
            None => Err(FileError::Outside { path: text.to_owned(), root: self.path.clone() }),
        }
    }

    /// What is left of an absolute path when the root is taken from its front.
    fn beneath<'p>(&self, absolute: &'p [u8]) -> Option<&'p [u8]> {
        let root = self.path.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let rest = absolute.strip_prefix(root)?;
        if rest.is_empty() {
            return Some(rest);
        }
        let rest = rest.strip_prefix(b"/")?;
        let skip = rest.iter().take_while(|byte| **byte == b'/').count();
        Some(&rest[skip..])
    }
}

impl From<BadPath> for FileError {
    fn from(bad: BadPath) -> Self {
        Self::Path(bad)
    }
}
