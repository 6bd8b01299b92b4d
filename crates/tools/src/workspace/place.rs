//! Putting what a layer holds into the workspace, name by name: content complete beside its target, then the rename.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use provost_core::path::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::apply::temporary_name;
use super::{FileError, FileMode, Kind, Look, Workspace};

/// Where content comes from.
#[derive(Debug)]
pub enum FileContent<'a> {
    /// At hand.
    Bytes(&'a [u8]),
    /// A file, from where it stands.
    File(File),
}

/// Whether content has to outlive the machine's power before its name does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// It is synced.
    Synced,
    /// It need not be.
    Not,
}

/// Content that lies complete beside its target and waits for the name. Dropped, it is gone again.
#[derive(Debug)]
pub struct Prepared {
    folder: OwnedFd,
    temporary: Vec<u8>,
    name: Vec<u8>,
    path: RelPath,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.folder, self.temporary.as_slice(), AtFlags::empty());
    }
}

impl Prepared {
    /// Gives it its name, in place of whatever file has that.
    pub fn put(self) -> Result<(), FileError> {
        rustix::fs::renameat(&self.folder, self.temporary.as_slice(), &self.folder, self.name.as_slice())
            .map_err(|errno| FileError::io(&self.path, errno))
    }
}

impl Workspace {
    /// Lays content down beside the real path that it is for. Folders that are missing are made.
    pub fn lay_down(
        &self,
        real: &RelPath,
        from: FileContent<'_>,
        mode: FileMode,
        look: Option<Look>,
        durable: Durable,
    ) -> Result<Prepared, FileError> {
        let raw = real.to_bytes();
        let (parent, name) = match raw.iter().rposition(|byte| *byte == b'/') {
            Some(cut) => (RelPath::from_bytes(&raw[..cut])?, raw[cut + 1..].to_vec()),
            None => (RelPath::root(), raw),
        };
        let folder = self.folder(&parent, &mut Vec::new())?;
        let temporary = temporary_name(&name);
        let failed = |error: io::Error| FileError::io(real, error);
        match rustix::fs::unlinkat(&folder, temporary.as_slice(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        let prepared = Prepared { folder, temporary, name, path: real.clone() };
        prepared.fill(from, mode, look, durable).map_err(failed)?;
        Ok(prepared)
    }

    /// Makes a folder, or gives one that is there these permissions.
    pub fn make_folder(&self, real: &RelPath, permissions: u32) -> Result<(), FileError> {
        let failed = |error: io::Error| FileError::io(real, error);
        // Open to its owner first, so that what comes into it can come.
        let folder = self.folder(real, &mut Vec::new())?;
        let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
        std::fs::set_permissions(link, Permissions::from_mode(permissions & 0o777)).map_err(failed)
    }

    /// Removes a folder. What is not there is removed already; what holds something is refused.
    pub fn remove_folder(&self, real: &RelPath) -> Result<(), FileError> {
        self.unlink(real, AtFlags::REMOVEDIR).map_err(|errno| FileError::io(real, errno))
    }

    /// Gives a file permissions and a time, its content staying as it is.
    pub fn set_look(&self, real: &RelPath, look: Look) -> Result<(), FileError> {
        let failed = |error: io::Error| FileError::io(real, error);
        let fd =
            self.open_real(real, OFlags::PATH | OFlags::NOFOLLOW).map_err(|errno| failed(errno.into()))?;
        if Kind::of(&rustix::fs::fstat(&fd).map_err(|errno| failed(errno.into()))?) != Kind::File {
            return Ok(());
        }
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        std::fs::set_permissions(&link, Permissions::from_mode(look.permissions & 0o777)).map_err(failed)?;
        rustix::fs::utimensat(rustix::fs::CWD, link, &times(look), AtFlags::empty())
            .map_err(|errno| failed(errno.into()))
    }
}

impl Prepared {
    fn fill(
        &self,
        from: FileContent<'_>,
        mode: FileMode,
        look: Option<Look>,
        durable: Durable,
    ) -> io::Result<()> {
        if mode == FileMode::Link {
            let mut target = Vec::new();
            match from {
                FileContent::Bytes(bytes) => target.extend_from_slice(bytes),
                FileContent::File(mut file) => drop(io::Read::read_to_end(&mut file, &mut target)?),
            }
            return Ok(rustix::fs::symlinkat(target.as_slice(), &self.folder, self.temporary.as_slice())?);
        }
        // As it will be, before there is anything to read in it; without a look as the caller's umask has it.
        let create = match (look, mode) {
            (Some(look), _) => look.permissions & 0o700 | 0o600,
            (None, FileMode::Executable) => 0o777,
            (None, _) => 0o666,
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = self.temporary.as_slice();
        let mut file =
            File::from(rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(create))?);
        match from {
            FileContent::Bytes(bytes) => file.write_all(bytes)?,
            FileContent::File(mut from) => drop(io::copy(&mut from, &mut file)?),
        }
        if let Some(look) = look {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(look.permissions & 0o777))?;
            rustix::fs::futimens(&file, &times(look))?;
        }
        match durable {
            Durable::Synced => file.sync_data(),
            Durable::Not => Ok(()),
        }
    }
}

fn times(look: Look) -> Timestamps {
    let (seconds, nanos) = look.modified;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos },
    }
}
