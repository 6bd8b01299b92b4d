//! An unpacked image as the root: the read-only lower layer of an overlay whose upper one is empty, in memory, and
//! written only while the root is furnished.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};

use super::mounts::attach;
use crate::record::Failure;
use crate::sys::Step;

/// Mounts an image's root. `scratch` is a file system in memory that is mounted already, and stays below it.
pub(super) fn root(image: &Path, scratch: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    for folder in ["upper", "work", "root"] {
        rustix::fs::mkdirat(scratch, folder, Mode::from_raw_mode(0o755)).step("image-root")?;
    }
    // The kernel takes the layers by path only; from here the two on top have one.
    rustix::process::fchdir(scratch).step("image-root")?;
    let root = overlay(image).at("image-root", image)?;
    attach(root.as_fd(), scratch, "root").step("image-root")?;
    rustix::process::chdir("/").step("image-root")?;
    Ok(root)
}

fn overlay(image: &Path) -> Result<OwnedFd, Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", escaped(image))?;
    fsconfig_set_string(&context, "upperdir", "upper")?;
    fsconfig_set_string(&context, "workdir", "work")?;
    // Other attributes than these are not an ordinary user's to set.
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A path in a list of lower layers, where `:` divides and `\` escapes.
fn escaped(path: &Path) -> OsString {
    let mut escaped = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if b"\\:".contains(byte) {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    OsString::from_vec(escaped)
}

/// Refuses an image that has something other than a folder where the sandbox puts things of its own: a link there
/// would lead elsewhere.
pub(super) fn check(root: BorrowedFd<'_>) -> Result<(), Failure> {
    for name in ["dev", "proc", "tmp", "run", "var"] {
        match rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {}
            Err(Errno::NOENT) => {}
            Ok(_) => return Err(Errno::NOTDIR).at("image-root", Path::new(name)),
            Err(errno) => return Err(errno).at("image-root", Path::new(name)),
        }
    }
    Ok(())
}
