//! Closes a git folder that commands may commit into, but for what a commit writes.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::mounts::{attach, clone, cover_with_itself};
use crate::git::{GitName, GitPart};
use crate::record::Failure;
use crate::sys::{self, RDONLY, Step};

/// Makes each closed name read-only and pins it, and pins the open folders, so that none can be exchanged for a link. A
/// name that is not there cannot be closed: who made the sandbox looks afterwards.
pub(super) fn close(
    root: BorrowedFd<'_>,
    folder: &Path,
    part: &GitPart,
    unprotected: &mut Vec<String>,
) -> Result<(), Failure> {
    let place = match sys::open_in_root(root, folder, false) {
        Ok(place) => place,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(errno) => return Err(errno).at("protect", folder),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let listed = rustix::fs::openat(&place, ".", flags, Mode::empty()).at("protect", folder)?;
    for entry in Dir::read_from(&listed).at("protect", folder)? {
        let entry = entry.at("protect", folder)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name_here = Path::new(OsStr::from_bytes(name));
        let at = folder.join(name_here);
        let head = || rustix::fs::statat(&listed, name_here.join("HEAD"), AtFlags::SYMLINK_NOFOLLOW);
        let holds_head = *part == GitPart::Modules && head().is_ok();
        let judged = part.judge(name, holds_head);
        // What is open beneath the objects is a folder for each two digits, and their like.
        if judged == GitName::Open && *part == GitPart::Objects {
            continue;
        }
        let place = match sys::open_in_root(root, &at, false) {
            Ok(place) => place,
            // Somebody else's git is at work here: a lock was there and is gone.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno).at("protect", &at),
        };
        let stat = rustix::fs::fstat(&place).at("protect", &at)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match judged {
            GitName::Open if is_folder => cover_with_itself(place.as_fd(), 0).at("protect", &at)?,
            GitName::Open => {}
            // Closed whole: nobody who commits makes a work tree, or says anything of objects.
            GitName::Within(GitPart::ObjectsInfo) => closed(place.as_fd(), &at, unprotected),
            GitName::Within(GitPart::Worktrees(own)) if is_folder => {
                let at_own = at.join(OsStr::from_bytes(&own));
                let own = sys::open_in_root(root, &at_own, false).at("protect", &at_own)?;
                // Taken before what it lies in is closed.
                let tree = clone(own.as_fd(), Path::new(""), false).at("protect", &at_own)?;
                closed(place.as_fd(), &at, unprotected);
                let own = sys::open_in_root(root, &at_own, false).at("protect", &at_own)?;
                attach(tree.as_fd(), own.as_fd(), "").at("protect", &at_own)?;
                close(root, &at_own, &GitPart::Worktree, unprotected)?;
            }
            GitName::Within(inner) if is_folder => {
                cover_with_itself(place.as_fd(), 0).at("protect", &at)?;
                close(root, &at, &inner, unprotected)?;
            }
            GitName::Within(_) | GitName::Closed => {
                closed(place.as_fd(), &at, unprotected);
            }
        }
    }
    Ok(())
}

fn closed(place: BorrowedFd<'_>, at: &Path, unprotected: &mut Vec<String>) {
    if cover_with_itself(place, RDONLY).is_err() {
        unprotected.push(at.to_string_lossy().into_owned());
    }
}
