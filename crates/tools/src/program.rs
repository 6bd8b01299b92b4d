//! Finding programs, as the sandbox's `execve` does.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost_core::path::RelPath;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2};

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
        executable(&here, ctx).then_some(here)?
    } else {
        let path = ctx.environment.get("PATH")?;
        path.split(':')
            .filter(|folder| folder.starts_with('/'))
            .map(|folder| Path::new(folder).join(name))
            .find(|candidate| executable(candidate, ctx))?
    };
    let real = match image_of(&path, ctx) {
        Some(image) => real_in(image, &path),
        None => path.canonicalize().ok(),
    };
    let real = real.filter(|real| *real != path);
    Some(Found { path, real })
}

/// The image that a path lies in, where commands have one as their root: the workspace is the host's.
fn image_of<'a>(path: &Path, ctx: &Context<'a>) -> Option<&'a Path> {
    ctx.image.filter(|_| !path.starts_with(ctx.workspace.path()))
}

fn executable(path: &Path, ctx: &Context<'_>) -> bool {
    if let Some(image) = image_of(path, ctx) {
        let stat = open_in(image, path).and_then(|found| rustix::fs::fstat(found).ok());
        return stat.is_some_and(|stat| Kind::of(&stat) == Kind::File && stat.st_mode & 0o111 != 0);
    }
    let bytes = path.as_os_str().as_bytes();
    let is_file = rustix::fs::stat(bytes).is_ok_and(|stat| Kind::of(&stat) == Kind::File);
    is_file && rustix::fs::accessat(CWD, bytes, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// A path in an image, whose links lead to places in it.
fn open_in(image: &Path, path: &Path) -> Option<OwnedFd> {
    let root = File::open(image).ok()?;
    let relative = path.strip_prefix("/").unwrap_or(path);
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(&root, relative, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
}

/// What a path in an image is behind all links, as seen in the image.
fn real_in(image: &Path, path: &Path) -> Option<PathBuf> {
    let found = open_in(image, path)?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
    let inside = name.strip_prefix(image.canonicalize().ok()?).ok()?;
    Some(Path::new("/").join(inside))
}
