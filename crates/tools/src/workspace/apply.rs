//! Writing: a set of changes, all or nothing as far as a file system allows.
//!
//! Every new content lies complete and synced beside its target before the first name changes; then the names change
//! one by one. If one fails, those before it are changed back. A crash between two is settled by [`settle`](super::settle).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use provost_core::path::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha1::{Digest as _, Sha1};

use super::{FileError, FileMode, FileVersion, Kind, Workspace};

/// One file brought from one version to another. The path is a real one: no link on it is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Which file.
    pub path: RelPath,
    /// What must be there now; `None` for nothing.
    pub before: Option<FileVersion>,
    /// What will be there; `None` for nothing.
    pub after: Option<FileVersion>,
}

/// What was peculiar about a set of changes that was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Files with several names (hard links), written in place so that all names see the change. Such a write is not
    /// atomic.
    pub in_place: Vec<RelPath>,
}

/// Why a set of changes was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file is not what it has to be. Nothing was written.
    #[error("`{path}` {found}: it changed meanwhile, and nothing was written; read it again")]
    Stale {
        /// Which file.
        path: RelPath,
        /// What it is now.
        found: String,
    },
    /// The set names a path twice. Nothing was written.
    #[error("`{path}` is changed twice in one set")]
    Twice {
        /// Which path.
        path: RelPath,
    },
    /// A file cannot be used. Nothing was written, or what was written is undone.
    #[error(transparent)]
    File(#[from] FileError),
    /// It failed half-way and the way back failed too.
    #[error(
        "{cause}; and undoing what was written before it failed: {undo}. Changed and not changed back: {}",
        names(left)
    )]
    Torn {
        /// Why it failed.
        cause: Box<FileError>,
        /// Why undoing failed.
        undo: Box<FileError>,
        /// Files that hold their new content.
        left: Vec<RelPath>,
    },
}

fn names(paths: &[RelPath]) -> String {
    let names: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    names.join(", ")
}

/// One change, made ready.
struct Ready<'a> {
    change: &'a FileChange,
    /// The open folder that holds the name.
    folder: OwnedFd,
    name: Vec<u8>,
    /// Folders that were made for it, outermost first.
    made: Vec<RelPath>,
    how: How,
}

enum How {
    /// Rename this temporary name onto it.
    Rename(Vec<u8>),
    /// Write into the file that is there.
    InPlace,
    Remove,
}

impl Workspace {
    /// Applies all of `changes` or none. Each file is compared with its `before` immediately before.
    pub fn apply(&self, changes: &[FileChange]) -> Result<Applied, ApplyError> {
        let mut seen = BTreeSet::new();
        for change in changes {
            if !seen.insert(&change.path) {
                return Err(ApplyError::Twice { path: change.path.clone() });
            }
            self.check(change)?;
        }
        let mut ready = Vec::with_capacity(changes.len());
        for change in changes.iter().filter(|change| change.before != change.after) {
            match self.make_ready(change) {
                Ok(one) => ready.push(one),
                Err(error) => {
                    self.discard(&ready);
                    return Err(error.into());
                }
            }
        }
        for (at, one) in ready.iter().enumerate() {
            let Err(cause) = commit(one) else { continue };
            let (done, waiting) = ready.split_at(at);
            self.discard(waiting);
            let done: Vec<&Ready> = done.iter().rev().collect();
            for (at, one) in done.iter().enumerate() {
                if let Err(undo) = self.undo(one) {
                    let left = done[at..].iter().map(|one| one.change.path.clone()).collect();
                    return Err(ApplyError::Torn { cause: Box::new(cause), undo: Box::new(undo), left });
                }
            }
            return Err(cause.into());
        }
        let in_place = ready.iter().filter(|one| matches!(one.how, How::InPlace));
        Ok(Applied { in_place: in_place.map(|one| one.change.path.clone()).collect() })
    }

    fn check(&self, change: &FileChange) -> Result<(), ApplyError> {
        let stale =
            |found: &str| Err(ApplyError::Stale { path: change.path.clone(), found: found.to_owned() });
        // One byte more than it should have is enough to tell that it is another.
        let limit = change.before.as_ref().map_or(0, |before| before.bytes.len() as u64);
        let now = match self.version(&change.path, limit) {
            Err(FileError::TooLarge { .. }) if change.before.is_none() => return stale("exists"),
            Err(FileError::TooLarge { .. }) => return stale("is longer than it was"),
            other => other?,
        };
        match (&change.before, now) {
            (None, None) => Ok(()),
            (None, Some(_)) => stale("exists"),
            (Some(_), None) => stale("is gone"),
            (Some(before), Some(now)) if *before == now => Ok(()),
            (Some(before), Some(now)) if before.bytes == now.bytes => stale("has another mode"),
            (Some(_), Some(_)) => stale("has another content"),
        }
    }

    fn make_ready<'a>(&self, change: &'a FileChange) -> Result<Ready<'a>, FileError> {
        let raw = change.path.to_bytes();
        let (parent, name) = match raw.iter().rposition(|byte| *byte == b'/') {
            Some(cut) => (RelPath::from_bytes(&raw[..cut])?, raw[cut + 1..].to_vec()),
            None => (RelPath::root(), raw),
        };
        let mut made = Vec::new();
        let folder = match self.folder(&parent, &mut made) {
            Ok(folder) => folder,
            Err(error) => {
                self.remove_folders(&made);
                return Err(error);
            }
        };
        let mut ready = Ready { change, folder, name, made, how: How::Remove };
        if let Some(after) = &change.after {
            match prepare(&ready, after) {
                Ok(how) => ready.how = how,
                Err(source) => {
                    self.remove_folders(&ready.made);
                    return Err(FileError::io(&change.path, source));
                }
            }
        }
        Ok(ready)
    }

    /// The open folder at a real path; folders that are missing are made.
    pub(super) fn folder(&self, path: &RelPath, made: &mut Vec<RelPath>) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = |path: &RelPath| self.open_real(path, flags);
        match open(path) {
            Err(Errno::NOENT) if !path.is_root() => {}
            other => return other.map_err(|errno| FileError::io(path, errno)),
        }
        let raw = path.to_bytes();
        let (parent, name) = match raw.iter().rposition(|byte| *byte == b'/') {
            Some(cut) => (RelPath::from_bytes(&raw[..cut])?, &raw[cut + 1..]),
            None => (RelPath::root(), raw.as_slice()),
        };
        let above = self.folder(&parent, made)?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.push(path.clone()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(FileError::io(path, errno)),
        }
        open(path).map_err(|errno| FileError::io(path, errno))
    }

    /// Throws away what was made ready and not committed. Best effort: what stays is a temporary file or empty folder.
    fn discard(&self, ready: &[Ready]) {
        for one in ready {
            if let How::Rename(temporary) = &one.how {
                let _ = rustix::fs::unlinkat(&one.folder, temporary.as_slice(), AtFlags::empty());
            }
            self.remove_folders(&one.made);
        }
    }

    fn remove_folders(&self, made: &[RelPath]) {
        for path in made.iter().rev() {
            let _ = rustix::fs::unlinkat(self.fd(), path.to_os(), AtFlags::REMOVEDIR);
        }
    }

    fn undo(&self, done: &Ready) -> Result<(), FileError> {
        let change = done.change;
        let failed = |source| FileError::io(&change.path, source);
        let how = match &change.before {
            Some(before) => prepare(done, before).map_err(failed)?,
            None => How::Remove,
        };
        let back = FileChange {
            path: change.path.clone(),
            before: change.after.clone(),
            after: change.before.clone(),
        };
        let folder = done.folder.try_clone().map_err(failed)?;
        commit(&Ready { change: &back, folder, name: done.name.clone(), made: Vec::new(), how })?;
        self.remove_folders(&done.made);
        Ok(())
    }

    /// Removes temporary files that a crash may have left beside these paths.
    pub fn sweep(&self, paths: impl Iterator<Item = RelPath>) {
        for path in paths {
            let raw = path.to_bytes();
            let (parent, name) = match raw.iter().rposition(|byte| *byte == b'/') {
                Some(cut) => (RelPath::from_bytes(&raw[..cut]), &raw[cut + 1..]),
                None => (Ok(RelPath::root()), raw.as_slice()),
            };
            let folder =
                parent.ok().and_then(|path| self.open_real(&path, OFlags::PATH | OFlags::DIRECTORY).ok());
            if let Some(folder) = folder {
                let _ = rustix::fs::unlinkat(&folder, temporary_name(name).as_slice(), AtFlags::empty());
            }
        }
    }
}

/// The temporary name beside `name`. Always the same, so that what a crash leaves behind is found again.
pub(super) fn temporary_name(name: &[u8]) -> Vec<u8> {
    let digest = Sha1::digest(name);
    let mut out = b".provost-tmp-".to_vec();
    for byte in &digest[..8] {
        out.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    out
}

fn lstat(ready: &Ready) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(&ready.folder, ready.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Puts the new version beside the name, complete and synced; or finds that it has to be written in place.
fn prepare(ready: &Ready, version: &FileVersion) -> io::Result<How> {
    let old = lstat(ready)?.filter(|stat| Kind::of(stat) == Kind::File);
    if let Some(old) = &old
        && old.st_nlink > 1
        && version.mode != FileMode::Link
    {
        return Ok(How::InPlace);
    }
    let temporary = temporary_name(&ready.name);
    match rustix::fs::unlinkat(&ready.folder, temporary.as_slice(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    if version.mode == FileMode::Link {
        rustix::fs::symlinkat(version.bytes.as_slice(), &ready.folder, temporary.as_slice())?;
        return Ok(How::Rename(temporary));
    }
    let create = match version.mode {
        FileMode::Executable => 0o777,
        _ => 0o666,
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&ready.folder, temporary.as_slice(), flags, Mode::from_raw_mode(create))?;
    let written = (|| {
        let mut file = File::from(fd);
        file.write_all(&version.bytes)?;
        if let Some(old) = &old {
            // Owner first: the system drops setuid bits when the owner changes. Not being allowed to is no failure.
            let _ = std::os::unix::fs::fchown(&file, Some(old.st_uid), Some(old.st_gid));
            rustix::fs::fchmod(&file, Mode::from_raw_mode(permissions(old.st_mode, version.mode)))?;
        }
        file.sync_data()
    })();
    match written {
        Ok(()) => Ok(How::Rename(temporary)),
        Err(error) => {
            let _ = rustix::fs::unlinkat(&ready.folder, temporary.as_slice(), AtFlags::empty());
            Err(error)
        }
    }
}

/// The permission bits of the file that was there, with the executable bits as the new mode wants them.
fn permissions(old: u32, mode: FileMode) -> u32 {
    let old = old & 0o7777;
    let executable = old & 0o100 != 0;
    match mode {
        // Whoever may read it may run it, as git does.
        FileMode::Executable if !executable => old | ((old & 0o444) >> 2),
        FileMode::Regular if executable => old & !0o111,
        _ => old,
    }
}

/// Changes the name.
fn commit(ready: &Ready) -> Result<(), FileError> {
    let failed = |source: io::Error| FileError::io(&ready.change.path, source);
    match (&ready.how, &ready.change.after) {
        (How::Rename(temporary), _) => {
            let name = ready.name.as_slice();
            rustix::fs::renameat(&ready.folder, temporary.as_slice(), &ready.folder, name).map_err(|errno| {
                let _ = rustix::fs::unlinkat(&ready.folder, temporary.as_slice(), AtFlags::empty());
                failed(errno.into())
            })
        }
        (How::InPlace, Some(after)) => write_in_place(ready, after).map_err(failed),
        (How::Remove | How::InPlace, _) => {
            rustix::fs::unlinkat(&ready.folder, ready.name.as_slice(), AtFlags::empty())
                .map_err(|e| failed(e.into()))
        }
    }
}

fn write_in_place(ready: &Ready, after: &FileVersion) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&ready.folder, ready.name.as_slice(), flags, Mode::empty())?;
    let mode = rustix::fs::fstat(&fd)?.st_mode;
    let mut file = File::from(fd);
    // Written over first and shortened last: at no moment is the file empty.
    file.write_all_at(&after.bytes, 0)?;
    file.set_len(after.bytes.len() as u64)?;
    file.rewind()?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(permissions(mode, after.mode)))?;
    file.sync_data()
}
