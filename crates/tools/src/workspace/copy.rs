//! Copying a file out of the workspace exactly as the manifest knows it.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Entry, FileError, FileMode, Kind, Located, Workspace};
use crate::oid::{BlobHasher, BlobOid};

/// Whether a copy holds what the manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// Content and mode are the entry's.
    Same,
    /// The file is another one by now; what was copied of it is of no use.
    Changed,
}

impl Workspace {
    /// Copies the file of `entry` to `to`, where nothing may be yet, and compares it with the entry on the way.
    pub fn copy_out(&self, entry: &Entry, to: &Path) -> Result<Copied, FileError> {
        let failed = |source| FileError::io(&entry.path, source);
        if entry.mode == FileMode::Link {
            let target = match self.link_target(&entry.path) {
                Ok(target) => target,
                Err(FileError::Io { .. }) => return Ok(Copied::Changed),
                Err(error) => return Err(error),
            };
            if BlobOid::of(&target) != entry.oid {
                return Ok(Copied::Changed);
            }
            std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&target), to).map_err(failed)?;
            return Ok(Copied::Same);
        }
        let located = Located { named: entry.path.clone(), real: entry.path.clone(), kind: Some(Kind::File) };
        let mut from = match self.open_located(&located) {
            Ok(from) if from.mode() == entry.mode && from.size() == entry.size => from.file,
            Ok(_) | Err(FileError::Kind { .. }) => return Ok(Copied::Changed),
            Err(error) => return Err(error),
        };
        let mode = if entry.mode == FileMode::Executable { 0o755 } else { 0o644 };
        let mut into = OpenOptions::new().write(true).create_new(true).mode(mode).open(to).map_err(failed)?;
        let mut hasher = BlobHasher::new(entry.size);
        let mut buffer = vec![0; COPIED_AT_ONCE.min(usize::try_from(entry.size).unwrap_or(usize::MAX) + 1)];
        loop {
            let read = from.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            // A hole stays one: a file can be larger than any disk.
            if buffer[..read].iter().all(|byte| *byte == 0) {
                into.seek(SeekFrom::Current(read as i64)).map_err(failed)?;
            } else {
                into.write_all(&buffer[..read]).map_err(failed)?;
            }
        }
        into.set_len(entry.size).map_err(failed)?;
        Ok(if hasher.finish() == entry.oid { Copied::Same } else { Copied::Changed })
    }
}

const COPIED_AT_ONCE: usize = 128 * 1024;
