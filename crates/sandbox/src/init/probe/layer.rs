//! The check of staging: a folder under a layer, changed, and unchanged beneath.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};

use super::{Seen, refused, text, works};
use crate::init::overlay::{self, Layered, Store};
use crate::init::pid1;
use crate::sys;

/// A name that nobody has.
const NAME: &str = ".provost-probe-of-a-layer";

/// Puts a layer over the folder and writes there. Nothing is written to the folder itself.
pub(super) fn overlay(folder: &Path, ids: (u32, u32)) -> Seen {
    pid1::map_ids(ids, ids).map_err(text)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(text)?;
    let mut store = works("a tmpfs", Store::new(1 << 20).map_err(Into::into))?;
    let Layered { tree, upper } = works("an overlay", store.over(folder).map_err(Into::into))?;
    drop(store);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let create = |name: &str| rustix::fs::openat(&tree, name, flags, Mode::RUSR | Mode::WUSR);
    let file = works("a file in it", create(NAME).map_err(Into::into))?;
    if rustix::fs::statat(&upper, NAME, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        return Err("what is written does not arrive in the layer".to_owned());
    }
    if rustix::fs::statat(CWD, folder.join(NAME), AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err("what is written arrives in the folder".to_owned());
    }
    // Its marks: of what is gone, and of a folder that hides the one below it.
    let device = rustix::fs::mknodat(&upper, "gone", FileType::CharacterDevice, Mode::empty(), 0);
    works("a mark of a file that is gone", device.map_err(Into::into))?;
    works("a folder", rustix::fs::mkdirat(&upper, "other", Mode::RWXU).map_err(Into::into))?;
    let other = rustix::fs::openat(&upper, "other", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let other = works("a folder", other.map_err(Into::into))?;
    let mark = rustix::fs::fsetxattr(&other, "user.overlay.opaque", b"y", XattrFlags::empty());
    works("a mark of a folder that was replaced", mark.map_err(Into::into))?;
    let too_much = sys::fill(file.as_fd(), 2 << 20);
    refused("more than the layer's size", too_much.map_err(Into::into), &[Errno::NOSPC])?;
    if !overlay::is_full(&upper) {
        return Err("a full layer does not look full".to_owned());
    }
    Ok("changes gather in a layer that has a size".to_owned())
}
