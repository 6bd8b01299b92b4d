//! Names that the policy guards, wherever they stand in the workspace.
//!
//! Protection by name must see every name, also in folders that ignore rules hide and in `.git` itself; and a command
//! must not be able to make a guarded name where there was none (a `.git`, a `.cargo/config.toml`), since programs
//! outside of the sandbox would act on it. So all names are listed before each command and after it; what is new is
//! removed. A folder whose `ctime` is what it was has the names that it had, and is not listed again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use provost_core::act::Touch;
use provost_core::containment::Rung;
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Policy};
use provost_evidence::git::is_git_folder_name;
use provost_tools::workspace::Workspace;
use rustix::fs::{Dir, FileType, OFlags, fstat};
use rustix::io::Errno;

use crate::removal::{self, open_up};

/// Deepest folder that is looked into, and longest path. No build makes one; a command that does gains nothing by it,
/// since what it made is removed as a whole.
const DEEPEST: usize = 64;
const LONGEST: usize = 3000;

/// Names that programs look for below a folder of that name. A link of this name stands for the folder.
const BELOW: [&str; 6] = ["config", "config.toml", "hooks", "settings.json", "tasks.json", "any"];

/// What makes a folder a repository without a work tree, which git takes for one wherever it stands.
const BARE: [&[u8]; 3] = [b"HEAD", b"objects", b"refs"];

/// The guarded names of a workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// Where policy denies writing, or asks about it by a rule; and what git would take for its own folder.
    pub(crate) protected: BTreeSet<RelPath>,
    /// Where policy denies reading.
    pub(crate) hidden: BTreeSet<RelPath>,
    /// Folders too deep, or of too long a path, to look into.
    pub(crate) too_deep: BTreeSet<RelPath>,
}

/// A folder as it was last listed.
#[derive(Debug)]
struct Listed {
    stamp: (u64, i64, u64),
    found: Guarded,
    below: Vec<RelPath>,
}

/// Finds guarded names, and remembers folders that have not changed.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    folders: BTreeMap<RelPath, Listed>,
}

impl Guard {
    /// All guarded names of the workspace.
    pub(crate) fn scan(&mut self, workspace: &Workspace, policy: &Policy) -> io::Result<Guarded> {
        let mut all = Guarded::default();
        let mut seen = BTreeMap::new();
        let mut open = vec![(RelPath::root(), 0_usize)];
        while let Some((folder, depth)) = open.pop() {
            let Some(listed) = self.list(workspace, &folder, policy)? else {
                continue;
            };
            all.protected.extend(listed.found.protected.iter().cloned());
            all.hidden.extend(listed.found.hidden.iter().cloned());
            for below in &listed.below {
                if depth < DEEPEST && below.to_bytes().len() < LONGEST {
                    open.push((below.clone(), depth + 1));
                } else {
                    all.too_deep.insert(below.clone());
                }
            }
            seen.insert(folder, listed);
        }
        self.folders = seen;
        Ok(all)
    }

    /// Lists a folder; `None` where it is gone since, or something else by now.
    fn list(&mut self, workspace: &Workspace, path: &RelPath, policy: &Policy) -> io::Result<Option<Listed>> {
        let Some(folder) = open(workspace, path)? else { return Ok(None) };
        let stat = fstat(&folder)?;
        let stamp = (stat.st_ino, stat.st_ctime, stat.st_ctime_nsec);
        if let Some(listed) = self.folders.remove(path)
            && listed.stamp == stamp
        {
            return Ok(Some(listed));
        }
        let mut listed = Listed { stamp, found: Guarded::default(), below: Vec::new() };
        let mut bare = 0;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let raw = entry.file_name().to_bytes();
            if raw == b"." || raw == b".." {
                continue;
            }
            bare += usize::from(BARE.contains(&raw));
            let kind = kind_of(&folder, &entry)?;
            judge(path.join(raw).map_err(io::Error::other)?, raw, kind, policy, &mut listed);
        }
        let in_git = path.to_bytes().split(|byte| *byte == b'/').any(|part| part == b".git");
        if in_git {
            // Then policy has no rule about it.
        } else if bare == BARE.len() && !path.is_root() {
            listed.found.protected.insert(path.clone());
        } else if bare == BARE.len() {
            // The workspace itself, as soon as its `.git` is none any more.
            for name in BARE {
                listed.found.protected.insert(path.join(name).map_err(io::Error::other)?);
            }
        }
        Ok(Some(listed))
    }
}

/// Whether writing at a path is kept from commands: the policy guards it, or a part of it is a name that some file system
/// takes for `.git`.
pub(crate) fn guards(policy: &Policy, path: &RelPath) -> bool {
    let alias = |part: &[u8]| part != b".git" && is_git_folder_name(part);
    policy.guards_writing(path) || path.to_bytes().split(|byte| *byte == b'/').any(alias)
}

/// Whether a link at a path would be found in the place of a folder with guarded names.
pub(crate) fn guards_link(policy: &Policy, path: &RelPath) -> bool {
    BELOW.iter().any(|below| path.join(below.as_bytes()).is_ok_and(|path| policy.guards_writing(&path)))
}

/// What the policy has to say of one name.
fn judge(name: RelPath, raw: &[u8], kind: FileType, policy: &Policy, listed: &mut Listed) {
    let denies = |touch: Touch| policy.decide(&[touch], Rung::R3).effect == Effect::Deny;
    let guards = |path: &RelPath| policy.guards_writing(path);
    let by_link = || kind == FileType::Symlink && guards_link(policy, &name);
    // A name that some file system takes for `.git` cannot be part of any patch.
    let alias = raw != b".git" && is_git_folder_name(raw);
    let is_hidden = denies(Touch::Read { path: name.clone() });
    let is_protected = alias || guards(&name) || by_link();
    if kind == FileType::Directory && !is_hidden && !is_protected {
        listed.below.push(name.clone());
    }
    if is_hidden {
        listed.found.hidden.insert(name.clone());
    }
    if is_protected {
        listed.found.protected.insert(name);
    }
}

pub(crate) fn kind_of(folder: &OwnedFd, entry: &rustix::fs::DirEntry) -> io::Result<FileType> {
    if entry.file_type() != FileType::Unknown {
        return Ok(entry.file_type());
    }
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statat(folder, entry.file_name(), flags) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => Ok(FileType::Unknown),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a folder without following a link; one that its owner closed is opened up first, for nothing may hide there.
pub(crate) fn open(workspace: &Workspace, path: &RelPath) -> io::Result<Option<OwnedFd>> {
    let gone = |errno: Errno| matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
    match workspace.open_folder(path, OFlags::RDONLY) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::ACCESS) => {
            let closed = match workspace.open_folder(path, OFlags::PATH) {
                Err(errno) if gone(errno) => return Ok(None),
                other => other?,
            };
            open_up(closed.as_fd())?;
            Ok(Some(workspace.open_folder(path, OFlags::RDONLY)?))
        }
        Err(errno) if gone(errno) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a name and all beneath it. Links are not followed, on the way or at its end.
pub(crate) fn remove(workspace: &Workspace, path: &RelPath) -> io::Result<()> {
    let whole = path.to_bytes();
    let (parent, name) = match whole.iter().rposition(|byte| *byte == b'/') {
        Some(cut) => (RelPath::from_bytes(&whole[..cut]).map_err(io::Error::other)?, &whole[cut + 1..]),
        None => (RelPath::root(), whole.as_slice()),
    };
    let Some(parent) = open(workspace, &parent)? else { return Ok(()) };
    let root = workspace.open_folder(&RelPath::root(), OFlags::RDONLY)?;
    removal::remove(parent.as_fd(), name, root.as_fd())
}
