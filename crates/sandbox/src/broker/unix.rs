//! Unix sockets by path: those below the folders that are a command's own can be connected to, and no other.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::sys;

/// What a command may connect to by path.
#[derive(Debug)]
pub(super) struct Folders {
    roots: Vec<OwnedFd>,
    /// Below them, and not to be reached all the same.
    hidden: Vec<PathBuf>,
}

impl Folders {
    pub(super) fn new(roots: Vec<OwnedFd>, hidden: Vec<PathBuf>) -> Self {
        Self { roots, hidden }
    }

    /// The socket file that `thread` means by a path, if it lies in one of the folders.
    ///
    /// The kernel follows the path once and says where that led. From a root's descriptor the same file is then reached
    /// without any link, and only a descriptor that was reached so is given: no name decides, and none is looked up again.
    pub(super) fn find(&self, thread: u32, path: &Path) -> Result<OwnedFd, Errno> {
        let meant = open(thread, path)?;
        let file = rustix::fs::fstat(&meant)?;
        let real = place(meant.as_fd())?;
        for root in &self.roots {
            let folder = place(root.as_fd())?;
            let Ok(rest) = real.strip_prefix(&folder) else { continue };
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let only = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let Ok(found) = sys::retry(|| rustix::fs::openat2(root, rest, flags, Mode::empty(), only)) else {
                continue;
            };
            let is_hidden = self.hidden.iter().any(|hidden| real.starts_with(hidden));
            if is_hidden || !same(&rustix::fs::fstat(&found)?, &file) {
                continue;
            }
            // Only now: what lies elsewhere is refused whatever it is.
            if FileType::from_raw_mode(file.st_mode) != FileType::Socket {
                return Err(Errno::CONNREFUSED);
            }
            return Ok(found);
        }
        Err(Errno::ACCESS)
    }
}

/// A connection to a socket file, made without waiting. `EAGAIN` where too many wait there already.
pub(super) fn connect(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let with = |kind| -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::connect(&socket, &address)?;
        Ok(socket)
    };
    // Which of the two the caller has cannot be seen; the server has the same, or they could not be connected.
    match with(SocketType::STREAM) {
        Err(Errno::PROTOTYPE) => with(SocketType::SEQPACKET),
        other => other,
    }
}

/// Opens a path as `thread` would: from its own working directory, and its own entry in `/proc` for "self".
fn open(thread: u32, path: &Path) -> Result<OwnedFd, Errno> {
    let process = PathBuf::from(format!("/proc/{thread}"));
    let own = ["/proc/self", "/proc/thread-self"].into_iter().find_map(|own| path.strip_prefix(own).ok());
    let path = own.map_or_else(|| path.to_owned(), |rest| process.join(rest));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    if path.is_absolute() {
        return rustix::fs::openat(CWD, &path, flags, Mode::empty());
    }
    let cwd = rustix::fs::openat(CWD, process.join("cwd"), flags | OFlags::DIRECTORY, Mode::empty())?;
    rustix::fs::openat(&cwd, &path, flags, Mode::empty())
}

/// Where a descriptor leads, without any link.
fn place(fd: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let text = rustix::fs::readlinkat(CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    Ok(std::ffi::OsString::from_vec(text.into_bytes()).into())
}

fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// What a descriptor of `thread` is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// Device and inode, which tell sockets apart.
    pub(super) id: SocketId,
    /// As `fcntl` has them.
    pub(super) flags: i32,
}

/// Tells sockets apart as long as they live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SocketId(u64, u64);

impl SocketId {
    pub(super) fn of(socket: impl AsFd) -> Result<Self, Errno> {
        let seen = rustix::fs::fstat(socket)?;
        Ok(Self(seen.st_dev, seen.st_ino))
    }
}

/// Looks at a descriptor of `thread`, which has to be a socket.
pub(super) fn held(thread: u32, number: i32) -> Result<Held, Errno> {
    let seen = rustix::fs::statat(CWD, format!("/proc/{thread}/fd/{number}"), AtFlags::empty())
        .map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })?;
    if FileType::from_raw_mode(seen.st_mode) != FileType::Socket {
        return Err(Errno::NOTSOCK);
    }
    let text = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{number}"));
    let text = text.map_err(super::notify::errno)?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).ok_or(Errno::IO)?;
    Ok(Held { id: SocketId(seen.st_dev, seen.st_ino), flags })
}
