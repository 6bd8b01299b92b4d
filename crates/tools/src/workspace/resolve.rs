//! From a name to the real path that it stands for.

use std::collections::VecDeque;

use provost_core::path::RelPath;
use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::{FileError, Kind, Workspace};

/// Links followed before a path counts as a circle; the kernel's own number.
const MOST_LINKS: u32 = 40;

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The name as asked for.
    pub named: RelPath,
    /// The path without any symbolic link that it stands for; the same as `named` where no link is on the way.
    pub real: RelPath,
    /// What is there; `None` where nothing is.
    pub kind: Option<Kind>,
}

impl Located {
    /// The name, and the real path where that is another one: what policy has to decide on.
    pub fn paths(&self) -> impl Iterator<Item = &RelPath> {
        let real = (self.real != self.named).then_some(&self.real);
        std::iter::once(&self.named).chain(real)
    }
}

impl Workspace {
    /// Finds out where `path` leads. A name where nothing is yet is fine; one that leads out of the workspace is not.
    pub fn locate(&self, path: &RelPath) -> Result<Located, FileError> {
        let real = match self.stat_real(path) {
            Ok(stat) if Kind::of(&stat) != Kind::Link => {
                return Ok(Located { named: path.clone(), real: path.clone(), kind: Some(Kind::of(&stat)) });
            }
            Err(Errno::NOENT) => {
                return Ok(Located { named: path.clone(), real: path.clone(), kind: None });
            }
            Ok(_) | Err(Errno::LOOP) => self.follow(path)?,
            Err(errno) => return Err(FileError::io(path, errno)),
        };
        let kind = match self.stat_real(&real) {
            Ok(stat) => Some(Kind::of(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(FileError::io(path, errno)),
        };
        Ok(Located { named: path.clone(), real, kind })
    }

    /// `lstat` of a path on which no link may be: the last part may be one, and is described, not followed.
    pub(crate) fn stat_real(&self, real: &RelPath) -> Result<Stat, Errno> {
        let fd = self.open_real(real, OFlags::PATH | OFlags::NOFOLLOW)?;
        rustix::fs::fstat(&fd)
    }

    /// Opens a path on which no link may be.
    /// Opens the folder at a real path; `flags` say what for. Nothing on the way to it may be a link.
    pub fn open_folder(&self, real: &RelPath, flags: OFlags) -> Result<std::os::fd::OwnedFd, Errno> {
        self.open_real(real, flags | OFlags::DIRECTORY)
    }

    pub(crate) fn open_real(&self, real: &RelPath, flags: OFlags) -> Result<std::os::fd::OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let name = real.to_os();
        // EAGAIN: something was renamed while the kernel resolved the path; its manual says to try again.
        for _ in 0..16 {
            match rustix::fs::openat2(&self.root, &name, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Follows the links on `path` by reading them. What comes out is opened with links forbidden, so a link that is
    /// put there meanwhile makes that fail.
    fn follow(&self, path: &RelPath) -> Result<RelPath, FileError> {
        let mut real: Vec<Vec<u8>> = Vec::new();
        let mut rest: VecDeque<Vec<u8>> = parts(&path.to_bytes());
        let mut links = 0;
        // The link followed last: what `..` climbs from, since the path itself holds none.
        let mut last = (path.clone(), String::new());
        let leaves =
            |(link, target): (RelPath, String)| FileError::Leaves { path: path.clone(), link, target };
        while let Some(part) = rest.pop_front() {
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    if real.pop().is_none() {
                        return Err(leaves(last));
                    }
                    continue;
                }
                _ => real.push(part),
            }
            let here = rel(&real)?;
            let target = match rustix::fs::readlinkat(&self.root, here.to_os(), Vec::new()) {
                Ok(target) => target.into_bytes(),
                // Not a link, or nothing there (a file about to be created).
                Err(Errno::INVAL | Errno::NOENT) => continue,
                Err(errno) => return Err(FileError::io(path, errno)),
            };
            links += 1;
            if links > MOST_LINKS {
                return Err(FileError::Loop { path: path.clone() });
            }
            last = (here, String::from_utf8_lossy(&target).into_owned());
            real.pop();
            let inside = if target.first() == Some(&b'/') {
                real.clear();
                match self.beneath(&target) {
                    Some(inside) => inside,
                    None => return Err(leaves(last)),
                }
            } else {
                &target
            };
            for part in parts(inside).into_iter().rev() {
                rest.push_front(part);
            }
        }
        rel(&real)
    }
}

fn parts(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()
}

fn rel(parts: &[Vec<u8>]) -> Result<RelPath, FileError> {
    if parts.is_empty() {
        return Ok(RelPath::root());
    }
    Ok(RelPath::from_bytes(&parts.join(&b'/'))?)
}
