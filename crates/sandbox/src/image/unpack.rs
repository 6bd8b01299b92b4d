//! One layer onto a root: entries beneath it whatever their names and links say, whiteouts, and nothing that could
//! harm the host or outlive its use.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use tar::EntryType;

use super::ImageError;
use super::blob::Hashing;
use super::layout::{Layer, Packing, open_file};
use crate::sys;

/// What begins the name of an entry that removes another one (OCI image specification, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
/// The entry that removes everything that lower layers have in its folder.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Folders that the sandbox fills itself: what an image has in them is passed over.
const OWN: [&str; 5] = ["dev", "proc", "sys", "tmp", "run"];

/// What an image may take up, against archives that unpack to more than a disk holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// Unpacks layer `number` (from 1) onto `root` and checks both of its digests.
pub(super) fn layer(
    root: &Path,
    layer: &Layer,
    number: usize,
    bounds: Bounds,
    counted: &mut Counted,
) -> Result<(), ImageError> {
    layer.check()?;
    let file = open_file(&layer.file).map_err(ImageError::io(&layer.file))?;
    let file = BufReader::with_capacity(256 * 1024, file);
    let damaged = |error: &dyn std::fmt::Display| ImageError::Entry {
        layer: number,
        entry: String::new(),
        why: format!("which cannot be read ({error})"),
    };
    let stream: Box<dyn Read> = match layer.packing {
        Packing::Plain => Box::new(file),
        // A layer may be several members one after the other.
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
        Packing::Zstd => {
            Box::new(ruzstd::decoding::StreamingDecoder::new(file).map_err(|error| damaged(&error))?)
        }
    };
    let mut stream = Hashing::new(stream);
    let target = Target { root: open_root(root)?, path: root, number };
    target.unpack(&mut stream, bounds, counted)?;
    let (found, _) = stream.finish().map_err(|error| damaged(&error))?;
    if found == layer.content {
        return Ok(());
    }
    let what = format!("the content of layer {number}");
    Err(ImageError::Digest { what, expected: layer.content, found })
}

/// Unpacks an archive of a layout: files and folders only. A link to another file of the archive, as docker writes them for
/// layers that are there twice, is this file once more.
pub(super) fn archive(root: &Path, archive: &Path, bounds: Bounds) -> Result<(), ImageError> {
    let mut file = open_file(archive).map_err(ImageError::io(archive))?;
    let mut magic = [0; 2];
    let count = file.read(&mut magic).map_err(ImageError::io(archive))?;
    let file = io::Cursor::new(magic[..count].to_vec()).chain(file);
    let target = Target { root: open_root(root)?, path: root, number: 0 };
    let mut counted = Counted::default();
    let unpacked = if magic == [0x1f, 0x8b] {
        target.unpack(flate2::read::MultiGzDecoder::new(BufReader::new(file)), bounds, &mut counted)
    } else {
        target.unpack(file, bounds, &mut counted)
    };
    unpacked.map_err(|error| match error {
        ImageError::Entry { entry, why, .. } => ImageError::NotALayout {
            path: archive.to_owned(),
            why: if entry.is_empty() {
                format!("an archive {why}")
            } else {
                format!("it holds `{entry}`, {why}")
            },
        },
        other => other,
    })
}

fn open_root(root: &Path) -> Result<OwnedFd, ImageError> {
    rustix::fs::openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| ImageError::io(root)(errno.into()))
}

/// The most that is read from one entry's content to the next one's, in bytes: names, attributes, padding.
const LONGEST_HEADERS: u64 = 1 << 20;

/// Passes on what it reads as long as there is room.
struct Metered<R> {
    inner: R,
    room: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.room.get().checked_sub(count as u64);
        self.room.set(left.ok_or_else(|| io::Error::other("its header is longer than 1 MiB"))?);
        Ok(count)
    }
}

/// Where entries go.
struct Target<'a> {
    root: OwnedFd,
    path: &'a Path,
    number: usize,
}

/// Where one entry goes: the folder, reached beneath the root, and its name in it.
struct Place {
    folder: OwnedFd,
    name: OsString,
}

/// Why one entry cannot be unpacked.
enum Refused {
    Because(String),
    Errno(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

fn because<T>(why: &str) -> Result<T, Refused> {
    Err(Refused::Because(why.to_owned()))
}

impl Target<'_> {
    fn unpack(&self, stream: impl Read, bounds: Bounds, counted: &mut Counted) -> Result<(), ImageError> {
        let refused = |entry: &Path, why: String| ImageError::Entry {
            layer: self.number,
            entry: entry.to_string_lossy().into_owned(),
            why,
        };
        let unreadable =
            |entry: &Path, error: &io::Error| refused(entry, format!("which cannot be read ({error})"));
        let failed = |entry: &Path| {
            let entry = entry.to_owned();
            move |error| match error {
                Refused::Because(why) => refused(&entry, why),
                Refused::Errno(errno) => ImageError::io(self.path.join(&entry))(errno.into()),
            }
        };
        // Between entries lie headers, which are read whole: names of any length among them.
        let room = Rc::new(Cell::new(LONGEST_HEADERS));
        let mut archive = tar::Archive::new(Metered { inner: stream, room: Rc::clone(&room) });
        let entries = archive.entries().map_err(|error| unreadable(Path::new(""), &error))?;
        // What this layer has put there: its own whiteouts do not touch it.
        let mut own = HashSet::new();
        // Folders get their times last: what is put into them changes those.
        let mut times = Vec::new();
        // An archive's links: what they lead to may come after them.
        let mut later = Vec::new();
        let mut last = PathBuf::new();
        for entry in entries {
            let mut entry = entry.map_err(|error| unreadable(&last, &error))?;
            let named = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
            last.clone_from(&named);
            counted.entries += 1;
            counted.bytes = counted.bytes.saturating_add(entry.size());
            if counted.entries > bounds.entries || counted.bytes > bounds.bytes {
                let why = format!(
                    "with which it has more than {} entries or {} MiB",
                    bounds.entries,
                    bounds.bytes >> 20
                );
                return Err(refused(&named, why));
            }
            room.set(u64::MAX);
            self.put(&mut entry, &named, &mut own, &mut times, &mut later).map_err(failed(&named))?;
            io::copy(&mut entry, &mut io::sink()).map_err(|error| unreadable(&named, &error))?;
            room.set(LONGEST_HEADERS);
        }
        for (path, target) in later {
            let made = self.folder(path.parent().unwrap_or(Path::new("")), &mut own).and_then(|folder| {
                let name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
                self.link(&target, &Place { folder, name })
            });
            made.map_err(failed(&path))?;
        }
        for (folder, seconds) in times.into_iter().rev() {
            // A folder that a later entry removed has no time to set.
            if let Ok(folder) = self.open(&folder) {
                let _ = set_time(folder.as_fd(), OsStr::new(""), AtFlags::EMPTY_PATH, seconds);
            }
        }
        Ok(())
    }

    fn put(
        &self,
        entry: &mut tar::Entry<'_, impl Read>,
        named: &Path,
        own: &mut HashSet<PathBuf>,
        times: &mut Vec<(PathBuf, u64)>,
        later: &mut Vec<(PathBuf, PathBuf)>,
    ) -> Result<(), Refused> {
        let Some(path) = plain(named) else { return because("whose name leads out of the image") };
        let kind = entry.header().entry_type();
        let seconds = entry.header().mtime().unwrap_or(0);
        let mode = Mode::from_raw_mode(entry.header().mode().unwrap_or(0o644) & 0o777);
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            // The root itself.
            return Ok(());
        };
        let first = path.components().next().map(|part| part.as_os_str().to_owned());
        let own_place = self.number > 0 && OWN.iter().any(|own| first.as_deref() == Some(OsStr::new(own)));
        if kind == EntryType::XGlobalHeader || own_place {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        if name.as_bytes() == OPAQUE {
            return self.clear(folder, own);
        }
        if let Some(gone) = name.as_bytes().strip_prefix(WHITEOUT) {
            let gone = Path::new(OsStr::from_bytes(gone));
            if plain(gone).is_none_or(|gone| gone.components().count() != 1) {
                return because("a whiteout of nothing");
            }
            return self.white_out(&folder.join(gone), own);
        }
        if self.number == 0 && matches!(kind, EntryType::Symlink | EntryType::Link) {
            let target = entry.link_name_bytes().filter(|_| kind == EntryType::Symlink);
            let target = target.and_then(|target| within(folder, Path::new(OsStr::from_bytes(&target))));
            let Some(target) = target else { return because("which is a link, and no part of a layout") };
            later.push((path, target));
            return Ok(());
        }
        let place = Place { folder: self.folder(folder, own)?, name };
        match kind {
            EntryType::Directory => {
                place.make_folder(mode)?;
                times.push((path.clone(), seconds));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                place.make_room()?;
                place.make_file(entry, mode, seconds)?;
            }
            EntryType::Symlink => {
                let Some(target) = entry.link_name_bytes() else { return because("a link to nothing") };
                place.make_room()?;
                rustix::fs::symlinkat(target.as_ref(), &place.folder, place.name.as_os_str())?;
                set_time(place.folder.as_fd(), &place.name, AtFlags::SYMLINK_NOFOLLOW, seconds)?;
            }
            EntryType::Link => {
                let Some(target) = entry.link_name_bytes() else { return because("a link to nothing") };
                let Some(target) = plain(Path::new(OsStr::from_bytes(&target))) else {
                    return because("a link that leads out of the image");
                };
                self.link(&target, &place)?;
            }
            EntryType::Block | EntryType::Char | EntryType::Fifo => {
                return because("which is a device or a pipe");
            }
            other => {
                return Err(Refused::Because(format!("an entry of the unknown type {:?}", other.as_byte())));
            }
        }
        own.insert(path);
        Ok(())
    }

    /// A place below the root, links on the way taken as if the root were `/`.
    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        sys::open_in_root(self.root.as_fd(), path, false)
    }

    /// The folder at `path`, made with all above it where it is missing.
    fn folder(&self, path: &Path, own: &mut HashSet<PathBuf>) -> Result<OwnedFd, Refused> {
        match sys::open_in_root(self.root.as_fd(), path, true) {
            Ok(found) if kind_of(found.as_fd())? == FileType::Directory => return Ok(found),
            Ok(_) => return because("in a folder that is none"),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return because("in a folder that is none");
        };
        let above = self.folder(above, own)?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                own.insert(path.to_owned());
            }
            // A link that leads to nothing.
            Err(Errno::EXIST) => return because("in a folder that is a broken link"),
            Err(errno) => return Err(errno.into()),
        }
        Ok(sys::open_in_root(self.root.as_fd(), path, true)?)
    }

    fn link(&self, target: &Path, place: &Place) -> Result<(), Refused> {
        let name = target.file_name().map(OsStr::to_owned);
        let folder = target.parent().unwrap_or(Path::new(""));
        let folder = match sys::open_in_root(self.root.as_fd(), folder, true) {
            Err(Errno::NOENT | Errno::NOTDIR) => return because("a link to what is not there"),
            other => other?,
        };
        let Some(name) = name else { return because("a link to the root") };
        let found = match rustix::fs::statat(&folder, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return because("a link to what is not there"),
            other => other?,
        };
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return because("a hard link to a folder");
        }
        // Onto itself: it is there already.
        if rustix::fs::statat(&place.folder, place.name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|here| (here.st_dev, here.st_ino) == (found.st_dev, found.st_ino))
        {
            return Ok(());
        }
        place.make_room()?;
        rustix::fs::linkat(
            &folder,
            name.as_os_str(),
            &place.folder,
            place.name.as_os_str(),
            AtFlags::empty(),
        )?;
        Ok(())
    }

    fn white_out(&self, path: &Path, own: &HashSet<PathBuf>) -> Result<(), Refused> {
        if own.contains(path) {
            return Ok(());
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        match sys::open_in_root(self.root.as_fd(), folder, true) {
            Ok(folder) => Ok(remove(folder.as_fd(), name)?),
            // Nothing below to remove.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes what lower layers have in a folder.
    fn clear(&self, folder: &Path, own: &HashSet<PathBuf>) -> Result<(), Refused> {
        let opened = match sys::open_in_root(self.root.as_fd(), folder, true) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            other => other?,
        };
        for name in names(opened.as_fd())? {
            let path = folder.join(&name);
            if !own.iter().any(|mine| mine.starts_with(&path)) {
                remove(opened.as_fd(), &name)?;
            } else if !own.contains(&path) {
                // A folder of a lower layer in which this layer has put something.
                self.clear(&path, own)?;
            }
        }
        Ok(())
    }
}

impl Place {
    fn make_folder(&self, mode: Mode) -> Result<(), Refused> {
        // Whoever imports must be able to fill and to remove it.
        let mode = mode | Mode::RWXU;
        match rustix::fs::mkdirat(&self.folder, self.name.as_os_str(), mode) {
            Err(Errno::EXIST) => {
                let found =
                    rustix::fs::statat(&self.folder, self.name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                    self.make_room()?;
                    rustix::fs::mkdirat(&self.folder, self.name.as_os_str(), mode)?;
                }
            }
            other => other?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.folder, self.name.as_os_str(), flags, Mode::empty())?;
        Ok(rustix::fs::fchmod(&made, mode)?)
    }

    fn make_file(
        &self,
        entry: &mut tar::Entry<'_, impl Read>,
        mode: Mode,
        seconds: u64,
    ) -> Result<(), Refused> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.folder, self.name.as_os_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let mut made = File::from(made);
        io::copy(entry, &mut made).map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) => Refused::Errno(errno),
            None => Refused::Because(format!("which cannot be read ({error})")),
        })?;
        // Without the bits that lend somebody's rights.
        rustix::fs::fchmod(&made, mode)?;
        Ok(set_time(self.folder.as_fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW, seconds)?)
    }

    /// Removes what a lower layer, or an earlier entry, has at this place.
    fn make_room(&self) -> Result<(), Errno> {
        remove(self.folder.as_fd(), &self.name)
    }
}

/// The path of an entry below the root: without `/` in front and `.` in between; `None` when it has `..`.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Where a link in `folder` leads, by its words alone; `None` where they lead out of the archive.
fn within(folder: &Path, target: &Path) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in target.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

fn kind_of(place: BorrowedFd<'_>) -> Result<FileType, Errno> {
    rustix::fs::fstat(place).map(|found| FileType::from_raw_mode(found.st_mode))
}

fn set_time(folder: BorrowedFd<'_>, name: &OsStr, flags: AtFlags, seconds: u64) -> Result<(), Errno> {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
    rustix::fs::utimensat(folder, name, &Timestamps { last_access: time, last_modification: time }, flags)
}

/// The names in a folder.
fn names(folder: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Removes a file, link or whole folder, never following a link. That nothing is there is fine.
fn remove(folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    for name in names(inside.as_fd())? {
        remove(inside.as_fd(), &name)?;
    }
    rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
}
