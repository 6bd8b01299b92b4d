//! Removing files and the folders that thereby become empty. Names are resolved as everywhere here: beneath the root,
//! through no link.

use provost_core::path::RelPath;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::{FileError, Workspace};

impl Workspace {
    /// Removes the file or link at a real path. What is not there is removed already; a folder is refused.
    pub fn remove_file(&self, real: &RelPath) -> Result<(), FileError> {
        self.unlink(real, AtFlags::empty()).map_err(|errno| FileError::io(real, errno))
    }

    /// Removes the folders above these paths that are empty by now. Never the workspace itself, and none that holds
    /// anything.
    pub fn remove_empty_above<'p>(&self, paths: impl IntoIterator<Item = &'p RelPath>) {
        for path in paths {
            for above in path.ancestors().skip(1) {
                // One that is not empty, or may not be removed, stays; so do those above it.
                let removed = RelPath::try_from(above.to_owned())
                    .is_ok_and(|above| self.unlink(&above, AtFlags::REMOVEDIR).is_ok());
                if !removed {
                    break;
                }
            }
        }
    }

    pub(super) fn unlink(&self, real: &RelPath, flags: AtFlags) -> Result<(), Errno> {
        let raw = real.to_bytes();
        let (parent, name) = match raw.iter().rposition(|byte| *byte == b'/') {
            Some(cut) => (RelPath::from_bytes(&raw[..cut]), &raw[cut + 1..]),
            None => (Ok(RelPath::root()), raw.as_slice()),
        };
        let parent = parent.map_err(|_| Errno::INVAL)?;
        let folder = match self.open_real(&parent, OFlags::PATH | OFlags::DIRECTORY) {
            // A link or a file in the place of the folder: what was beneath it is gone.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            other => other?,
        };
        match rustix::fs::unlinkat(&folder, name, flags) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }
}
