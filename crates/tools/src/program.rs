//! Finding programs, as the sandbox's `execve` does.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost_core::path::RelPath;
use rustix::fs::{Access, AtFlags, CWD};

use crate::tool::Context;
use crate::workspace::Kind;

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where: what is executed.
    pub(crate) path: PathBuf,
    /// The file that it is behind all symbolic links, where that is another path.
    pub(crate) real: Option<PathBuf>,
}

/// Folders below which whoever runs commands may put files.
const SCRATCH: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

impl Found {
    /// Whether it is, or leads to, a file that commands may be able to change.
    pub(crate) fn is_changeable(&self, ctx: &Context<'_>) -> bool {
        let paths = [Some(&self.path), self.real.as_ref()];
        paths.into_iter().flatten().any(|path| {
            path.starts_with(ctx.workspace.path()) || SCRATCH.iter().any(|folder| path.starts_with(folder))
        })
    }
}

/// Where a program is found, as `execvp` would with the sandbox's `PATH`. Relative entries of `PATH` are passed over:
/// they would let a file of the workspace pass for a program of the system.
pub(crate) fn find(name: &str, cwd: &RelPath, ctx: &Context<'_>) -> Option<Found> {
    let path = if name.contains('/') {
        // Through its components, which leaves `.` out.
        let here: PathBuf = ctx.workspace.path().join(cwd.to_os()).join(name).components().collect();
        executable(&here).then_some(here)?
    } else {
        let path = ctx.environment.get("PATH")?;
        path.split(':')
            .filter(|folder| folder.starts_with('/'))
            .map(|folder| Path::new(folder).join(name))
            .find(|candidate| executable(candidate))?
    };
    let real = path.canonicalize().ok().filter(|real| *real != path);
    Some(Found { path, real })
}

fn executable(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let is_file = rustix::fs::stat(bytes).is_ok_and(|stat| Kind::of(&stat) == Kind::File);
    is_file && rustix::fs::accessat(CWD, bytes, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}
