//! Whether one folder lies within another, by what the kernel says of them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// Whether the folder `inner` is `outer` or lies beneath it, whatever links and names lead there. Whom to trust must not
/// come from what is checked.
pub fn lies_within(inner: &Path, outer: &Path) -> io::Result<bool> {
    let outer = identity(&open(CWD, outer)?)?;
    let mut folder = open(CWD, inner)?;
    let mut here = identity(&folder)?;
    loop {
        if here == outer {
            return Ok(true);
        }
        folder = open(&folder, Path::new(".."))?;
        let above = identity(&folder)?;
        // Only the root is its own parent.
        if above == here {
            return Ok(false);
        }
        here = above;
    }
}

fn open(at: impl AsFd, path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(at, path, flags, Mode::empty())?))
}

/// Device and inode.
fn identity(folder: &File) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(folder)?;
    Ok((stat.st_dev, stat.st_ino))
}
