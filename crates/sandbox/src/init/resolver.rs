//! Where names are looked up by a command with a network: with the stub on its loopback, and not where the host does.
//!
//! Nothing is made on the host's file system: a file of ours covers what is there, be it a link that leads nowhere.
//! Where nothing is there, every resolver asks the loopback by itself.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::mounts;
use crate::record::Failure;
use crate::sys::{self, RDONLY, Step};

const FILES: [(&str, &str); 2] = [
    ("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n"),
    ("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"),
];

/// Covers the files, in the root that the command sees. Call it in there.
pub(super) fn cover() -> Result<(), Failure> {
    let root = sys::open_path(Path::new("/")).step("egress-resolver")?;
    let ours = mounts::tmpfs("64k", "0755").step("egress-resolver")?;
    for (path, text) in FILES {
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&ours, name, flags, Mode::from_raw_mode(0o444));
        let file = file.at("egress-resolver", path)?;
        rustix::io::write(&file, text.as_bytes()).at("egress-resolver", path)?;
        match sys::open_in_root(root.as_fd(), path, false) {
            Ok(place) => put(ours.as_fd(), Path::new(name), place.as_fd()).at("egress-resolver", path)?,
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno).at("egress-resolver", path),
        }
    }
    Ok(())
}

/// Mounts a file of a detached tree onto a place, which may be a link.
fn put(tree: BorrowedFd<'_>, name: &Path, place: BorrowedFd<'_>) -> Result<(), Errno> {
    let file = mounts::clone(tree, name, false)?;
    sys::mount_setattr(file.as_fd(), RDONLY, false)?;
    mounts::attach(file.as_fd(), place, "")
}
