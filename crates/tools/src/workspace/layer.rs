//! Reading what a command's changes gathered in: a layer, as overlayfs writes it, or a copy of the workspace.
//!
//! In a layer a file is new or changed, a character device 0/0 stands for a name that is gone, and a folder with the
//! attribute `user.overlay.opaque` hides what the workspace has there. All of it is the command's making: nothing is
//! opened by following a link, nothing is waited for, and depth is bounded.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use provost_core::path::RelPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::duplicate::Copied;
use super::ignored::Rules;
use super::scan::name_of;
use super::walk::Name;
use super::{FileError, FileMode, FileVersion, Kind, OpenFile, Workspace};
use crate::oid::BlobOid;

/// Deepest folder that is looked into, and longest path, as for guarded names: what lies deeper is left out.
pub(super) const DEEPEST: usize = 64;
pub(super) const LONGEST: usize = 3000;

/// Set-user-id and set-group-id.
pub(super) const RIGHTS: u32 = 0o6000;

/// What a command's changes to a workspace gathered in.
#[derive(Debug)]
pub struct Layer {
    root: OwnedFd,
    /// What was copied, where it is a copy and no layer.
    copied: Option<Copied>,
}

/// How a file looks beside its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Permission bits, of the lower nine.
    pub permissions: u32,
    /// When its content changed, in seconds since the Unix epoch and nanoseconds.
    pub modified: (i64, i64),
}

/// A file or link of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFile {
    /// Where.
    pub path: RelPath,
    /// Its mode.
    pub mode: FileMode,
    /// Bytes.
    pub size: u64,
    /// How it looks.
    pub look: Look,
    /// Whether git would not track it: ignore rules as the command left them leave it out, or it lies in a `.git`.
    pub ignored: bool,
}

/// A folder that is new, or has other permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFolder {
    /// Where.
    pub path: RelPath,
    /// Permission bits, of the lower nine.
    pub permissions: u32,
}

/// What a layer says of the workspace under it. Paths are real ones.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Found {
    /// Files and links that it holds. Not all are another than the workspace's: one that was only opened for writing is
    /// among them.
    pub files: Vec<LayerFile>,
    /// Files and links of the workspace that are gone.
    pub gone: Vec<RelPath>,
    /// Folders that are new or have other permissions, each before what is in it.
    pub folders: Vec<LayerFolder>,
    /// Folders of the workspace that are gone, each after what was in it.
    pub gone_folders: Vec<RelPath>,
    /// What can be no part of a workspace: special files, files that give rights, folders nested too deep.
    pub special: Vec<RelPath>,
    /// Files and folders that have another owner than they had.
    pub owners: Vec<RelPath>,
}

impl Layer {
    /// The layer whose top folder this is.
    pub fn new(root: OwnedFd) -> Self {
        Self { root, copied: None }
    }

    /// A copy of the workspace.
    pub(super) fn of_copy(root: OwnedFd, copied: Copied) -> Self {
        Self { root, copied: Some(copied) }
    }

    /// Reads what it says of `workspace`, which is the one that it lay over.
    pub fn read(&self, workspace: &Workspace) -> Result<Found, FileError> {
        let at = RelPath::root();
        let upper = reopen(self.root.as_fd()).map_err(|error| FileError::io(&at, error))?;
        if let Some(copied) = &self.copied {
            return copied.compare(&upper, workspace);
        }
        let lower = workspace
            .open_real(&at, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| FileError::io(&at, errno))?;
        let rules = Rules::new(&workspace.outer);
        let mut reader = Reader { workspace, path: Vec::new(), rules, found: Found::default() };
        reader.folder(&upper, Some(&lower), Place { depth: 0, ignored: false })?;
        Ok(reader.found)
    }

    /// Opens a file of the layer; a link on the way to it is none that the layer was read through.
    fn open(&self, path: &RelPath) -> Result<OpenFile, FileError> {
        let failed = |error: io::Error| FileError::io(path, error);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let open = |flags| {
            rustix::fs::openat2(&self.root, path.to_os(), flags | OFlags::CLOEXEC, Mode::empty(), resolve)
        };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let fd = match open(flags) {
            Err(Errno::ACCESS) => {
                let closed = open(OFlags::PATH | OFlags::NOFOLLOW).map_err(|errno| failed(errno.into()))?;
                permit(closed.as_fd(), 0o600).map_err(failed)?;
                open(flags)
            }
            other => other,
        };
        let fd = fd.map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| failed(errno.into()))?;
        match Kind::of(&stat) {
            Kind::File => Ok(OpenFile { path: path.clone(), file: File::from(fd), stat }),
            kind => Err(FileError::Kind { path: path.clone(), kind, wanted: "a file" }),
        }
    }

    /// The content of a file that was found, if it is not larger than `limit`; of a link its target.
    pub fn version(&self, file: &LayerFile, limit: u64) -> Result<FileVersion, FileError> {
        if file.mode == FileMode::Link {
            let target = rustix::fs::readlinkat(&self.root, file.path.to_os(), Vec::new());
            let bytes = target.map_err(|errno| FileError::io(&file.path, errno))?.into_bytes();
            return Ok(FileVersion { mode: file.mode, bytes });
        }
        Ok(FileVersion { mode: file.mode, bytes: self.open(&file.path)?.read(limit)? })
    }

    /// A file that was found, open for reading.
    pub fn file(&self, file: &LayerFile) -> Result<File, FileError> {
        Ok(self.open(&file.path)?.file)
    }

    /// The name of a file's content, as a scan of the workspace would give it.
    pub fn oid(&self, file: &LayerFile) -> Result<BlobOid, FileError> {
        let mut open = self.file(file)?;
        name_of(&mut open, file.size).map_err(|error| FileError::io(&file.path, error))
    }
}

/// Where a reader is.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    ignored: bool,
}

struct Reader<'w> {
    workspace: &'w Workspace,
    /// Path of the folder at hand, with its `/`.
    path: Vec<u8>,
    rules: Rules<'w>,
    found: Found,
}

impl Reader<'_> {
    /// Reads one folder of the layer. `lower` is the workspace's, where that is seen through it.
    fn folder(&mut self, upper: &OwnedFd, lower: Option<&OwnedFd>, place: Place) -> Result<(), FileError> {
        let held = names(upper).map_err(|errno| FileError::Io { path: self.here(), source: errno.into() })?;
        let length = self.path.len();
        self.enter_rules(upper, lower, &held)?;
        for name in &held {
            self.path.extend_from_slice(&name.bytes);
            let done = self.entry(upper, lower, name, place);
            self.path.truncate(length);
            done?;
        }
        self.rules.leave_to(length.saturating_sub(1));
        Ok(())
    }

    /// The rules of this folder as the command left them.
    fn enter_rules(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        held: &[Name],
    ) -> Result<(), FileError> {
        const RULES: &[u8] = b".gitignore";
        let depth = self.path.len();
        match held.iter().find(|name| name.bytes == RULES).map(|name| name.kind) {
            Some(Kind::File) => {
                // What cannot be read has no rules, as in git.
                if let Ok(file) = open_file(upper, RULES) {
                    self.rules.enter_file(&file, depth);
                }
            }
            None if lower.is_some() => {
                let mut path = self.path.clone();
                path.extend_from_slice(RULES);
                self.rules.enter(self.workspace, &RelPath::from_bytes(&path)?, depth);
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn entry(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &Name,
        place: Place,
    ) -> Result<(), FileError> {
        let path = RelPath::from_bytes(&self.path)?;
        let failed = |errno: Errno| FileError::Io { path: path.clone(), source: errno.into() };
        let stat =
            rustix::fs::statat(upper, name.bytes.as_slice(), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let beneath = match lower {
            Some(lower) => lstat(lower, &name.bytes).map_err(failed)?,
            None => None,
        };
        let was_folder = beneath.as_ref().is_some_and(|stat| Kind::of(stat) == Kind::Folder);
        // What is written to for the first time is copied with its owner.
        let owner = |of: &Stat| (of.st_uid, of.st_gid, FileType::from_raw_mode(of.st_mode));
        let is_same = |was: &&Stat| owner(was).2 == owner(&stat).2;
        if beneath.as_ref().filter(is_same).is_some_and(|was| owner(was) != owner(&stat)) {
            self.found.owners.push(path.clone());
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::CharacterDevice && stat.st_rdev == 0 {
            return match (lower, was_folder) {
                (Some(lower), true) => self.folder_is_gone(lower, &name.bytes, place.depth),
                _ if beneath.is_some() => {
                    self.found.gone.push(path);
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        if self.path.len() > LONGEST {
            self.found.special.push(path);
            return Ok(());
        }
        let in_git = name.bytes == b".git";
        match Kind::of(&stat) {
            Kind::Folder => {
                let ignored = place.ignored || in_git || self.rules.ignores(&self.path, true);
                let beneath = beneath.as_ref();
                self.held_folder(upper, lower, name, &stat, beneath, Place { ignored, ..place })
            }
            Kind::File | Kind::Link => {
                if let (Some(lower), true) = (lower, was_folder) {
                    self.folder_is_gone(lower, &name.bytes, place.depth)?;
                }
                let Some(mode) =
                    FileMode::of(&stat).filter(|_| stat.st_mode & RIGHTS == 0 || kind.is_symlink())
                else {
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
                    ignored: place.ignored || in_git || self.rules.ignores(&self.path, false),
                    path,
                });
                Ok(())
            }
            _ => {
                self.found.special.push(path);
                Ok(())
            }
        }
    }

    fn held_folder(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &Name,
        stat: &Stat,
        beneath: Option<&Stat>,
        place: Place,
    ) -> Result<(), FileError> {
        let path = RelPath::from_bytes(&self.path)?;
        let failed = |error: io::Error| FileError::Io { path: path.clone(), source: error };
        let permissions = stat.st_mode & 0o777;
        let was_folder = beneath.is_some_and(|stat| Kind::of(stat) == Kind::Folder);
        if beneath.is_some() && !was_folder {
            self.found.gone.push(path.clone());
        }
        if !beneath.is_some_and(|stat| was_folder && stat.st_mode & 0o777 == permissions) {
            self.found.folders.push(LayerFolder { path: path.clone(), permissions });
        }
        if place.depth >= DEEPEST {
            self.found.special.push(path);
            return Ok(());
        }
        let held = open_folder(upper, &name.bytes).map_err(failed)?;
        let opaque = is_opaque(&held).map_err(|errno| failed(errno.into()))?;
        let mut below = None;
        if let (Some(lower), true) = (lower, was_folder) {
            if opaque {
                self.names_are_gone(lower, &name.bytes, &held, place.depth)?;
            } else {
                below = Some(open_lower(lower, &name.bytes).map_err(failed)?);
            }
        }
        self.path.push(b'/');
        self.folder(&held, below.as_ref(), Place { depth: place.depth + 1, ..place })
    }

    /// All that is in a folder of the workspace is gone, but for folders that the layer has too: those are other ones by
    /// now, and what is in them is gone all the same.
    fn names_are_gone(
        &mut self,
        lower: &OwnedFd,
        name: &[u8],
        held: &OwnedFd,
        depth: usize,
    ) -> Result<(), FileError> {
        let here = |reader: &Self| reader.here();
        let folder = open_lower(lower, name).map_err(|source| FileError::Io { path: here(self), source })?;
        let failed = |path, errno: Errno| FileError::Io { path, source: errno.into() };
        let stays = names(held).map_err(|errno| failed(self.here(), errno))?;
        let length = self.path.len();
        for name in names(&folder).map_err(|errno| failed(self.here(), errno))? {
            self.path.truncate(length);
            self.path.push(b'/');
            self.path.extend_from_slice(&name.bytes);
            let other = stays.iter().find(|other| other.bytes == name.bytes);
            match (name.kind, other.map(|other| other.kind)) {
                // Replaced by a folder: it stays, and what is in it is looked at in turn.
                (Kind::Folder, Some(Kind::Folder)) => {
                    let below = open_folder(held, &name.bytes);
                    let below = below.map_err(|source| FileError::Io { path: self.here(), source })?;
                    self.names_are_gone(&folder, &name.bytes, &below, depth + 1)?;
                }
                (Kind::Folder, _) => self.folder_is_gone(&folder, &name.bytes, depth + 1)?,
                // Written over.
                (_, Some(Kind::File | Kind::Link)) => {}
                (_, _) => self.found.gone.push(RelPath::from_bytes(&self.path)?),
            }
        }
        self.path.truncate(length);
        Ok(())
    }

    /// A folder of the workspace is gone, with all that is in it.
    fn folder_is_gone(&mut self, lower: &OwnedFd, name: &[u8], depth: usize) -> Result<(), FileError> {
        let path = RelPath::from_bytes(&self.path)?;
        let failed = |source: io::Error| FileError::Io { path: path.clone(), source };
        if depth >= DEEPEST {
            // Nobody works there; it stays.
            self.found.special.push(path);
            return Ok(());
        }
        let folder = open_lower(lower, name).map_err(failed)?;
        let length = self.path.len();
        for name in names(&folder).map_err(|errno| failed(errno.into()))? {
            self.path.truncate(length);
            self.path.push(b'/');
            self.path.extend_from_slice(&name.bytes);
            if name.kind == Kind::Folder {
                self.folder_is_gone(&folder, &name.bytes, depth + 1)?;
            } else {
                self.found.gone.push(RelPath::from_bytes(&self.path)?);
            }
        }
        self.path.truncate(length);
        self.found.gone_folders.push(path);
        Ok(())
    }

    fn here(&self) -> RelPath {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        RelPath::from_bytes(path).unwrap_or_else(|_| RelPath::root())
    }
}

/// The names in a folder, however much of it was read before.
pub(super) fn names(folder: &OwnedFd) -> Result<Vec<Name>, Errno> {
    rustix::fs::seek(folder, SeekFrom::Start(0))?;
    super::walk::names(folder)
}

fn lstat(folder: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_lower(folder: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(folder, name, FOLDER, Mode::empty())?)
}

/// Opens a folder of the layer. One that the command closed is opened up first: the layer is ours.
pub(super) fn open_folder(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let closed = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            permit(closed.as_fd(), 0o700)?;
            Ok(rustix::fs::openat(parent, name, FOLDER, Mode::empty())?)
        }
        other => Ok(other?),
    }
}

pub(super) fn open_file(folder: &OwnedFd, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// The same folder, open for listing.
fn reopen(folder: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            permit(folder, 0o700)?;
            Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?)
        }
        other => Ok(other?),
    }
}

/// Gives the owner rights on what a descriptor stands for; no name is resolved.
fn permit(what: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(format!("/proc/self/fd/{}", what.as_raw_fd()), Permissions::from_mode(mode))
}

fn is_opaque(folder: &OwnedFd) -> Result<bool, Errno> {
    let mut value = [0u8; 8];
    match rustix::fs::fgetxattr(folder, "user.overlay.opaque", &mut value[..]) {
        Ok(length) => Ok(&value[..length] == b"y"),
        Err(Errno::NODATA | Errno::RANGE | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}
