//! Removing what a command left, however deep, long-named or closed it is, without following a link.
//!
//! Each folder is moved out of its parent into one place before it is looked into, so that no path grows long, no
//! descriptor is held for each level, and nobody can exchange a folder for a link on the way.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Removes `name` in the folder `parent`; what is in it is moved to `aside`, a folder on the same file system, and
/// removed from there. What is not there is removed already.
pub(crate) fn remove(parent: BorrowedFd<'_>, name: &[u8], aside: BorrowedFd<'_>) -> io::Result<()> {
    let name = CString::new(name)?;
    open_up(parent)?;
    if !is_folder(parent, &name)? {
        return match unlinkat(parent, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
    }
    let place = place_in(aside)?;
    let removed = empty_out(parent, &name, &place.folder);
    let closed = unlinkat(aside, &place.name, AtFlags::REMOVEDIR);
    // Why it could not be removed says more than that something is left.
    removed?;
    Ok(closed?)
}

/// Removes the folder at `path`, which lies in a folder that only its owner can change.
pub(crate) fn remove_at(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match openat(CWD, parent, flags, Mode::empty()) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    remove(parent.as_fd(), name.as_encoded_bytes(), parent.as_fd())
}

struct Place {
    folder: OwnedFd,
    name: CString,
}

fn place_in(aside: BorrowedFd<'_>) -> io::Result<Place> {
    for number in 0_u32.. {
        let name = CString::new(format!(".provost-removing-{}-{number}", std::process::id()))?;
        match mkdirat(aside, &name, Mode::RWXU) {
            Ok(()) => return Ok(Place { folder: open_folder(aside, &name)?, name }),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn empty_out(parent: BorrowedFd<'_>, name: &CString, place: &OwnedFd) -> io::Result<()> {
    let numbered = |number: u64| CString::new(number.to_string());
    let mut made = 1_u64;
    take(parent, name, place, &numbered(0)?)?;
    let mut next = 0;
    while next < made {
        let folder_name = numbered(next)?;
        let folder = open_folder(place.as_fd(), &folder_name)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let inner = entry.file_name();
            if inner.to_bytes() == b"." || inner.to_bytes() == b".." {
                continue;
            }
            if is_folder(folder.as_fd(), inner)? {
                take(folder.as_fd(), inner, place, &numbered(made)?)?;
                made += 1;
            } else {
                unlinkat(&folder, inner, AtFlags::empty())?;
            }
        }
        unlinkat(place, &folder_name, AtFlags::REMOVEDIR)?;
        next += 1;
    }
    Ok(())
}

/// Moves a folder; one that its owner closed is opened first, which moving it needs.
fn take(from: BorrowedFd<'_>, name: &std::ffi::CStr, to: &OwnedFd, as_name: &CString) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open_up(openat(from, name, flags, Mode::empty())?.as_fd())?;
    Ok(renameat(from, name, to, as_name)?)
}

fn open_folder(parent: BorrowedFd<'_>, name: &CString) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn is_folder(parent: BorrowedFd<'_>, name: &std::ffi::CStr) -> io::Result<bool> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives the owner all rights on a folder, through its own descriptor: no name is resolved.
pub(crate) fn open_up(folder: BorrowedFd<'_>) -> io::Result<()> {
    let mode = fstat(folder)?.st_mode & 0o7777;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    std::fs::set_permissions(link, std::fs::Permissions::from_mode(mode | 0o700))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn deep_closed_and_linked_trees_are_removed_and_nothing_behind_the_links() {
        let dir = tempfile::tempdir().expect("a temp folder");
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).expect("a folder");
        fs::write(outside.join("kept"), "").expect("a file");
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).expect("a folder");
        std::os::unix::fs::symlink(&outside, tree.join("link")).expect("a link");
        // Longer than any path may be, and deeper than descriptors reach.
        let name = "n".repeat(200);
        let mut at = openat(CWD, &tree, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("the tree");
        for _ in 0..3000 {
            mkdirat(&at, name.as_str(), Mode::RWXU).expect("a folder");
            at = openat(&at, name.as_str(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it");
        }
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o000)).expect("closed");
        remove_at(&tree).expect("removed");
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "nothing is left aside");
        remove_at(&tree).expect("what is gone is removed");
    }
}
