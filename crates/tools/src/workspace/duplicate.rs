//! A copy of the workspace that a command works in, and what it changed there.
//!
//! Each file that is copied is known by inode, size, mode and both of its times. The kernel alone sets the time of the last
//! change of a file's state, and the copy is no younger than a grain of its clock before anybody works in it: what has the
//! same stamp afterwards is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::path::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, SeekFrom, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::ignored::Rules;
use super::layer::{
    DEEPEST, Found, LONGEST, Layer, LayerFile, LayerFolder, Look, RIGHTS, names, open_folder,
};
use super::scan::{GRAIN_NS, Stamp};
use super::{FileError, FileMode, Kind, Workspace};

/// What stands in the copy for what is not copied. What becomes of it there is nobody's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandIn {
    /// An empty folder.
    Folder,
    /// An empty file or folder, whichever it is, that nobody may read.
    Closed,
    /// A link to this.
    Link(PathBuf),
    /// A file that names this git folder, as git has it for a linked work tree.
    GitFolder(PathBuf),
}

/// What was copied, and how it was when nobody had worked in the copy yet.
#[derive(Debug, Default)]
pub(super) struct Copied {
    had: BTreeMap<Vec<u8>, Had>,
    left_out: BTreeSet<Vec<u8>>,
}

#[derive(Debug)]
enum Had {
    Folder {
        permissions: u32,
    },
    /// A file or a link.
    File(Stamp),
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Workspace {
    /// Copies the workspace into the empty folder `to`, but for what something stands in for, and for what a command cannot
    /// read or that is no file, link or folder. Files share their blocks where the file system can do that.
    pub fn duplicate(&self, to: &Path, stand_ins: &BTreeMap<RelPath, StandIn>) -> Result<Layer, FileError> {
        let failed = |source: io::Error| FileError::Root { path: to.to_owned(), source };
        let root = rustix::fs::open(to, FOLDER, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let mut copier = Copier { from: self, to: &root, stand_ins, copied: Copied::default(), last_ns: 0 };
        let mut folders = vec![(RelPath::root(), 0_usize)];
        let mut closed = Vec::new();
        while let Some((path, depth)) = folders.pop() {
            let Some(stat) = copier.folder(&path, depth, &mut folders)? else { continue };
            closed.push((path, stat));
        }
        // Each after what is in it: one that may not be written could not be filled.
        for (path, stat) in closed.into_iter().rev().filter(|(path, _)| !path.is_root()) {
            copier.close_folder(&path, &stat)?;
        }
        let Copier { copied, last_ns, .. } = copier;
        // Never longer than a grain, whatever the clock does.
        let young = (last_ns + GRAIN_NS - super::scan::now_ns()).clamp(0, GRAIN_NS);
        std::thread::sleep(Duration::from_nanos(u64::try_from(young).unwrap_or_default()));
        Ok(Layer::of_copy(root, copied))
    }
}

struct Copier<'w> {
    from: &'w Workspace,
    to: &'w OwnedFd,
    stand_ins: &'w BTreeMap<RelPath, StandIn>,
    copied: Copied,
    /// When the youngest file was made.
    last_ns: i128,
}

impl Copier<'_> {
    /// Copies what is in a folder, but for what is in its folders; `None` where it cannot be read.
    fn folder(
        &mut self,
        path: &RelPath,
        depth: usize,
        below: &mut Vec<(RelPath, usize)>,
    ) -> Result<Option<Stat>, FileError> {
        let io = |errno: Errno| FileError::io(path, errno);
        let from = match self.from.open_folder(path, OFlags::RDONLY | OFlags::NOFOLLOW) {
            Ok(from) if depth < DEEPEST && path.to_bytes().len() < LONGEST => from,
            // Too deep, or closed, or gone meanwhile.
            Ok(_) | Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.copied.had.remove(&path.to_bytes());
                self.copied.left_out.insert(path.to_bytes());
                return Ok(None);
            }
            Err(errno) => return Err(io(errno)),
        };
        let stat = rustix::fs::fstat(&from).map_err(io)?;
        let to = open_beneath(self.to, path).map_err(io)?;
        for name in names(&from).map_err(io)? {
            let inner = path.join(name.bytes.as_slice())?;
            if let Some(with) = self.stand_ins.get(&inner) {
                let there = name.kind;
                stand_in(&to, &name.bytes, there, with).map_err(|source| FileError::io(&inner, source))?;
                self.copied.left_out.insert(inner.to_bytes());
                continue;
            }
            match self.entry(&from, &to, &name.bytes, &inner) {
                Ok(true) => below.push((inner, depth + 1)),
                Ok(false) => {}
                Err(source) => return Err(FileError::io(&inner, source)),
            }
        }
        Ok(Some(stat))
    }

    /// Copies one entry; true where it is a folder, which is empty yet.
    fn entry(&mut self, from: &OwnedFd, to: &OwnedFd, name: &[u8], path: &RelPath) -> io::Result<bool> {
        let stat = match rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            other => other?,
        };
        let key = path.to_bytes();
        match Kind::of(&stat) {
            Kind::Folder => {
                rustix::fs::mkdirat(to, name, Mode::RWXU)?;
                self.copied.had.insert(key, Had::Folder { permissions: stat.st_mode & 0o777 });
                return Ok(true);
            }
            Kind::Link => {
                let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(target.as_c_str(), to, name)?;
                let times = times_of(&stat);
                rustix::fs::utimensat(to, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Kind::File => {
                let flags =
                    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                let source = match rustix::fs::openat(from, name, flags, Mode::empty()) {
                    Ok(source) => source,
                    Err(Errno::ACCESS | Errno::NOENT | Errno::LOOP) => {
                        return self.leave(to, name, Kind::File, key);
                    }
                    Err(errno) => return Err(errno.into()),
                };
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let target = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
                copy_content(&source, &target, stat.st_size as u64)?;
                rustix::fs::futimens(&target, &times_of(&stat))?;
                rustix::fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode & 0o777))?;
            }
            kind => return self.leave(to, name, kind, key),
        }
        let made = Stamp::of(&rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW)?);
        self.last_ns = self.last_ns.max(made.changed_ns());
        self.copied.had.insert(key, Had::File(made));
        Ok(false)
    }

    /// What a command could not read there it cannot read here; what is special is not there.
    fn leave(&mut self, to: &OwnedFd, name: &[u8], kind: Kind, key: Vec<u8>) -> io::Result<bool> {
        if kind == Kind::File {
            stand_in(to, name, kind, &StandIn::Closed)?;
        }
        self.copied.left_out.insert(key);
        Ok(false)
    }

    fn close_folder(&self, path: &RelPath, stat: &Stat) -> Result<(), FileError> {
        let io = |errno: Errno| FileError::io(path, errno);
        let folder = open_beneath(self.to, path).map_err(io)?;
        rustix::fs::futimens(&folder, &times_of(stat)).map_err(io)?;
        rustix::fs::fchmod(&folder, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(io)
    }
}

/// Puts something in the place of what is not copied.
fn stand_in(to: &OwnedFd, name: &[u8], there: Kind, with: &StandIn) -> io::Result<()> {
    let file = |mode: Mode| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(to, name, flags, mode).map(File::from)
    };
    match with {
        StandIn::Folder => rustix::fs::mkdirat(to, name, Mode::from_raw_mode(0o755))?,
        StandIn::Closed if there == Kind::Folder => rustix::fs::mkdirat(to, name, Mode::empty())?,
        StandIn::Closed => drop(file(Mode::empty())?),
        StandIn::Link(target) => rustix::fs::symlinkat(target, to, name)?,
        StandIn::GitFolder(folder) => {
            let line = [b"gitdir: ", folder.as_os_str().as_encoded_bytes(), b"\n"].concat();
            io::Write::write_all(&mut file(Mode::RUSR | Mode::WUSR)?, &line)?;
        }
    }
    Ok(())
}

/// Shares the blocks where the file system can, and copies otherwise. A hole stays one: a file can be larger than any disk.
fn copy_content(from: &OwnedFd, to: &OwnedFd, size: u64) -> io::Result<()> {
    if size == 0 || rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let (mut source, mut target) = (File::from(from.try_clone()?), File::from(to.try_clone()?));
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        at = rustix::fs::seek(from, SeekFrom::Hole(start))?;
        source.seek(io::SeekFrom::Start(start))?;
        target.seek(io::SeekFrom::Start(start))?;
        io::copy(&mut (&mut source).take(at - start), &mut target)?;
    }
    // Nothing at its end, or a file that shrank meanwhile.
    target.set_len(size.max(target.metadata()?.len()))
}

fn times_of(stat: &Stat) -> Timestamps {
    let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec.cast_signed() };
    Timestamps { last_access: time, last_modification: time }
}

fn open_beneath(root: &OwnedFd, path: &RelPath) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, path.to_os(), FOLDER, Mode::empty(), resolve)
}

impl Copied {
    /// What is another by now than it was copied.
    pub(super) fn compare(&self, root: &OwnedFd, workspace: &Workspace) -> Result<Found, FileError> {
        let rules = Rules::new(&workspace.outer);
        let of = |errno: Errno| FileError::io(&RelPath::root(), errno);
        let owner = rustix::fs::fstat(root).map_err(of)?.st_uid;
        let (seen, found) = (BTreeSet::new(), Found::default());
        let mut reader = Reader { copied: self, path: Vec::new(), rules, seen, found, owner };
        reader.folder(root, 0, false)?;
        let Reader { seen, mut found, .. } = reader;
        // Backwards: what is in a folder comes before it.
        for (path, had) in self.had.iter().rev().filter(|(path, _)| !seen.contains(*path)) {
            let path = RelPath::from_bytes(path)?;
            match had {
                Had::Folder { .. } => found.gone_folders.push(path),
                Had::File(_) => found.gone.push(path),
            }
        }
        Ok(found)
    }
}

struct Reader<'w> {
    copied: &'w Copied,
    /// Path of what is at hand; of a folder with its `/`.
    path: Vec<u8>,
    rules: Rules<'w>,
    /// What is there still, as what it was.
    seen: BTreeSet<Vec<u8>>,
    found: Found,
    /// Whose all of the copy was.
    owner: u32,
}

impl Reader<'_> {
    fn folder(&mut self, folder: &OwnedFd, depth: usize, ignored: bool) -> Result<(), FileError> {
        let length = self.path.len();
        let here = match self.path.strip_suffix(b"/") {
            Some(path) => RelPath::from_bytes(path)?,
            None => RelPath::root(),
        };
        let held = names(folder).map_err(|errno| FileError::io(&here, errno))?;
        if held.iter().any(|name| name.bytes == b".gitignore" && name.kind == Kind::File)
            && let Ok(file) = super::layer::open_file(folder, b".gitignore")
        {
            self.rules.enter_file(&file, length);
        }
        for name in &held {
            self.path.extend_from_slice(&name.bytes);
            let done = self.entry(folder, &name.bytes, depth, ignored);
            self.path.truncate(length);
            done?;
        }
        self.rules.leave_to(length.saturating_sub(1));
        Ok(())
    }

    fn entry(&mut self, folder: &OwnedFd, name: &[u8], depth: usize, ignored: bool) -> Result<(), FileError> {
        if self.copied.left_out.contains(&self.path) {
            return Ok(());
        }
        let path = RelPath::from_bytes(&self.path)?;
        let failed = |source: io::Error| FileError::Io { path: path.clone(), source };
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(errno.into()))?;
        if stat.st_uid != self.owner {
            self.found.owners.push(path.clone());
        }
        let had = self.copied.had.get(&self.path);
        if self.path.len() > LONGEST {
            self.found.special.push(path);
            return Ok(());
        }
        let in_git = name == b".git";
        match Kind::of(&stat) {
            Kind::Folder => {
                let permissions = stat.st_mode & 0o777;
                match had {
                    Some(Had::Folder { permissions: before }) => {
                        self.seen.insert(self.path.clone());
                        if *before != permissions {
                            self.found.folders.push(LayerFolder { path: path.clone(), permissions });
                        }
                    }
                    // A file that was there is among those that are gone.
                    Some(Had::File(_)) | None => {
                        self.found.folders.push(LayerFolder { path: path.clone(), permissions });
                    }
                }
                if depth >= DEEPEST {
                    self.found.special.push(path);
                    return Ok(());
                }
                let ignored = ignored || in_git || self.rules.ignores(&self.path, true);
                let held = open_folder(folder, name).map_err(failed)?;
                self.path.push(b'/');
                self.folder(&held, depth + 1, ignored)
            }
            Kind::File | Kind::Link => {
                match had {
                    Some(Had::File(before)) => {
                        self.seen.insert(self.path.clone());
                        if *before == Stamp::of(&stat) {
                            return Ok(());
                        }
                    }
                    Some(Had::Folder { .. }) | None => {}
                }
                let gives_rights = stat.st_mode & RIGHTS != 0 && Kind::of(&stat) == Kind::File;
                let Some(mode) = FileMode::of(&stat).filter(|_| !gives_rights) else {
                    self.found.special.push(path);
                    return Ok(());
                };
                self.found.files.push(LayerFile {
                    mode,
                    size: stat.st_size as u64,
                    look: Look {
                        permissions: stat.st_mode & 0o777,
                        modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
                    },
                    ignored: ignored || in_git || self.rules.ignores(&self.path, false),
                    path,
                });
                Ok(())
            }
            _ => {
                self.seen.insert(self.path.clone());
                self.found.special.push(path);
                Ok(())
            }
        }
    }
}
