//! The manifest: every file that git would track, and what changed since it was last looked at.
//!
//! A rescan reads only files whose `stat` changed. The rule that makes this safe is git's for its index: a file whose
//! times are not older than the scan that read it may have changed again within the clock's grain, so it is read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::path::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::walk::{Go, Walk};
use super::{FileError, FileMode, Kind, Workspace};
use crate::oid::{BlobHasher, BlobOid};

/// How far the file system's clock may lag behind the system's: it ticks every 4 to 10 ms.
pub(super) const GRAIN_NS: i128 = 20_000_000;

/// A file of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path.
    pub path: RelPath,
    /// Its mode.
    pub mode: FileMode,
    /// Bytes.
    pub size: u64,
    /// Its content, named as git names it.
    pub oid: BlobOid,
}

/// Content found by a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it.
    Bytes(Vec<u8>),
    /// It is larger than the scan's cap: hashed, not kept.
    NotKept,
}

/// A path that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// Which.
    pub path: RelPath,
    /// What it was; `None` where it is new.
    pub before: Option<Entry>,
    /// What it is; `None` where it is gone.
    pub after: Option<(Entry, Content)>,
}

/// The workspace could not be scanned to its end.
#[derive(Debug, thiserror::Error)]
#[error("the workspace cannot be scanned: {0}")]
pub struct ScanError(#[from] FileError);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: i64,
    mode: u32,
    modified_ns: i128,
    changed_ns: i128,
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        let ns = |seconds, nanos| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: stat.st_size,
            mode: stat.st_mode,
            modified_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            changed_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Nanoseconds since the Unix epoch.
    pub(super) fn changed_ns(&self) -> i128 {
        self.changed_ns
    }

    pub(super) fn older_than(&self, moment_ns: i128) -> bool {
        self.modified_ns.max(self.changed_ns) < moment_ns - GRAIN_NS
    }
}

/// Nanoseconds since the Unix epoch.
pub(super) fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128
}

#[derive(Debug, Clone)]
struct Record {
    entry: Entry,
    stamp: Stamp,
    /// Whether an unchanged stamp proves unchanged content.
    settled: bool,
    /// The scan that last met it.
    met: u64,
}

/// Every file that git would track, with its content's name, and what is needed to find changes fast.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    /// By path in bytes.
    records: BTreeMap<Vec<u8>, Record>,
    /// Paths that git tracks.
    tracked: BTreeSet<RelPath>,
    /// Those of them that have no record.
    absent: BTreeSet<RelPath>,
    unreadable: BTreeSet<RelPath>,
    cap: u64,
    scans: u64,
}

impl Manifest {
    /// Reads the whole workspace: what no `.gitignore` excludes, and every path of `tracked` even if one does. `.git`
    /// and special files are left out. Content up to `cap` bytes is handed to `each`, larger content is only hashed.
    pub fn scan(
        workspace: &Workspace,
        tracked: &BTreeSet<RelPath>,
        cap: u64,
        each: &mut dyn FnMut(&Entry, Content),
    ) -> Result<Self, ScanError> {
        let mut manifest = Self { tracked: tracked.clone(), absent: tracked.clone(), cap, ..Self::default() };
        manifest.pass(workspace, &mut |delta| {
            if let Some((entry, content)) = delta.after {
                each(&entry, content);
            }
        })?;
        Ok(manifest)
    }

    /// Finds what changed since the last scan, and remembers it as it is now. A path that was met once stays watched
    /// even if an ignore rule comes to match it: a file does not vanish because somebody edited `.gitignore`.
    pub fn rescan(&mut self, workspace: &Workspace) -> Result<Vec<Delta>, ScanError> {
        let mut deltas = Vec::new();
        self.pass(workspace, &mut |delta| deltas.push(delta))?;
        deltas.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(deltas)
    }

    /// Looks at these paths only: after a write whose paths are known.
    pub fn refresh(&mut self, workspace: &Workspace, paths: &[RelPath]) -> Result<Vec<Delta>, ScanError> {
        let mut deltas = Vec::new();
        self.scans += 1;
        let pass = Pass::begin(self.scans, self.cap);
        for path in paths {
            self.look(workspace, path, &pass, &mut |delta| deltas.push(delta))?;
        }
        Ok(deltas)
    }

    /// All files, by path in byte order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.records.values().map(|record| &record.entry)
    }

    /// The file at a path.
    pub fn get(&self, path: &RelPath) -> Option<&Entry> {
        self.records.get(&path.to_bytes()).map(|record| &record.entry)
    }

    /// Whether this path is looked at by each scan: it was met once, or git tracks it.
    pub fn watches(&self, path: &RelPath) -> bool {
        self.records.contains_key(&path.to_bytes()) || self.tracked.contains(path)
    }

    /// Files and folders that the last look could not open for want of permission, or did not read because there was too
    /// much. What is in them is not known to be
    /// unchanged, and files that are new in them are not known at all.
    pub fn unreadable(&self) -> impl ExactSizeIterator<Item = &RelPath> {
        self.unreadable.iter()
    }

    fn pass(&mut self, workspace: &Workspace, report: &mut dyn FnMut(Delta)) -> Result<(), ScanError> {
        self.scans += 1;
        let pass = Pass::begin(self.scans, self.cap);
        let walk = Walk { from: RelPath::root(), ignore: true };
        self.unreadable.clear();
        let (records, unreadable) = (&mut self.records, &mut self.unreadable);
        let mut failed = None;
        let closed = workspace.walk_with_ignored(&walk, &mut |found| {
            if !matches!(found.kind, Kind::File | Kind::Link) {
                return Go::On;
            }
            // One that was met stays watched, so of that it need not be known.
            let new = || !found.is_ignored();
            match pass.visit(records, new, found.path, found.folder, found.name, report) {
                Ok(_) => Go::On,
                Err(error) => match pass.pass_over(error, records) {
                    Ok(path) => {
                        unreadable.insert(path);
                        Go::On
                    }
                    Err(error) => {
                        failed = Some(error);
                        Go::Stop
                    }
                },
            }
        })?;
        self.unreadable.extend(closed);
        if let Some(error) = failed {
            return Err(error.into());
        }
        // Not met: gone, or ignored but watched.
        let unmet = self.records.iter().filter(|(_, record)| record.met != pass.number);
        let unmet = unmet.map(|(_, record)| record.entry.path.clone());
        self.absent.retain(|path| !self.records.contains_key(&path.to_bytes()));
        let paths: Vec<RelPath> = unmet.chain(self.absent.iter().cloned()).collect();
        for path in paths {
            self.look(workspace, &path, &pass, report)?;
        }
        Ok(())
    }

    fn look(
        &mut self,
        workspace: &Workspace,
        path: &RelPath,
        pass: &Pass,
        report: &mut dyn FnMut(Delta),
    ) -> Result<(), FileError> {
        let key = path.to_bytes();
        let (parent, name) = match key.iter().rposition(|byte| *byte == b'/') {
            Some(cut) => (RelPath::from_bytes(&key[..cut])?, &key[cut + 1..]),
            None => (RelPath::root(), key.as_slice()),
        };
        let looked = match workspace.open_real(&parent, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(folder) => pass.visit(&mut self.records, || true, &key, &folder, name, report),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(errno) => Err(FileError::io(path, errno)),
        };
        let there = match looked {
            Ok(there) => there,
            Err(error) => {
                self.unreadable.insert(pass.pass_over(error, &mut self.records)?);
                return Ok(());
            }
        };
        if !there && let Some(record) = self.records.remove(&key) {
            if self.tracked.contains(path) {
                self.absent.insert(path.clone());
            }
            report(Delta { path: path.clone(), before: Some(record.entry), after: None });
        }
        Ok(())
    }
}

/// One pass over the workspace.
struct Pass {
    number: u64,
    cap: u64,
    begun_ns: i128,
    /// Bytes of large files that may still be hashed.
    left: std::cell::Cell<u64>,
}

impl Pass {
    fn begin(number: u64, cap: u64) -> Self {
        // The first look is at what a person has there.
        let left = if number == 1 { u64::MAX } else { HASHED_AT_ONCE };
        Self { number, cap, begun_ns: now_ns(), left: left.into() }
    }

    /// What may not be read is passed over, and stays as it was last known: it is in the list of what was not read.
    fn pass_over(
        &self,
        error: FileError,
        records: &mut BTreeMap<Vec<u8>, Record>,
    ) -> Result<RelPath, FileError> {
        match error {
            FileError::Io { path, source }
                if matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::FileTooLarge) =>
            {
                if let Some(record) = records.get_mut(&path.to_bytes()) {
                    record.met = self.number;
                    record.settled = false;
                }
                Ok(path)
            }
            error => Err(error),
        }
    }

    /// Looks at one name. Says whether a file or link is there. One that has no record is taken in if it is `wanted`.
    fn visit(
        &self,
        records: &mut BTreeMap<Vec<u8>, Record>,
        wanted: impl FnOnce() -> bool,
        key: &[u8],
        folder: &OwnedFd,
        name: &[u8],
        report: &mut dyn FnMut(Delta),
    ) -> Result<bool, FileError> {
        let failed = |errno: io::Error| match RelPath::from_bytes(key) {
            Ok(path) => FileError::Io { path, source: errno },
            Err(bad) => FileError::Path(bad),
        };
        let known = records.get_mut(key);
        if known.is_none() && !wanted() {
            return Ok(false);
        }
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            Err(errno) => return Err(failed(errno.into())),
        };
        if !matches!(Kind::of(&stat), Kind::File | Kind::Link) {
            return Ok(false);
        }
        if let Some(known) = known
            && known.settled
            && known.stamp == Stamp::of(&stat)
        {
            known.met = self.number;
            return Ok(true);
        }
        let Some(read) = self.read(folder, name, &stat).map_err(failed)? else {
            return Ok(false);
        };
        let path = RelPath::from_bytes(key)?;
        let entry = Entry { path: path.clone(), mode: read.mode, size: read.size, oid: read.oid };
        let record = Record {
            entry: entry.clone(),
            stamp: read.stamp,
            settled: read.steady && read.stamp.older_than(self.begun_ns),
            met: self.number,
        };
        let before = records.insert(key.to_vec(), record).map(|record| record.entry);
        if before.as_ref() != Some(&entry) {
            report(Delta { path, before, after: Some((entry, read.content)) });
        }
        Ok(true)
    }

    /// Reads and hashes one file or link; `None` where it is gone or became something else.
    fn read(&self, folder: &OwnedFd, name: &[u8], stat: &Stat) -> io::Result<Option<ReadFile>> {
        if Kind::of(stat) == Kind::Link {
            let target = match rustix::fs::readlinkat(folder, name, Vec::new()) {
                Ok(target) => target.into_bytes(),
                Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
            return Ok(Some(ReadFile {
                mode: FileMode::Link,
                size: target.len() as u64,
                oid: BlobOid::of(&target),
                stamp: Stamp::of(stat),
                steady: true,
                content: Content::Bytes(target),
            }));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&fd)?;
        if Kind::of(&stat) != Kind::File {
            return Ok(None);
        }
        let mut file = File::from(fd);
        let mode = FileMode::of(&stat).unwrap_or(FileMode::Regular);
        let expected = stat.st_size as u64;
        let (oid, size, content) = if expected <= self.cap {
            let mut bytes = Vec::with_capacity(expected as usize + 1);
            (&file).take(self.cap.saturating_add(1)).read_to_end(&mut bytes)?;
            // One that grew beyond the cap meanwhile is what was read of it; it is not steady, so it is read again.
            bytes.truncate(self.cap as usize);
            (BlobOid::of(&bytes), bytes.len() as u64, Content::Bytes(bytes))
        } else {
            let oid = if expected > HASHED {
                unhashed(expected)
            } else if let Some(left) = self.left.get().checked_sub(expected) {
                self.left.set(left);
                stream(&mut file, expected)?
            } else {
                return Err(io::ErrorKind::FileTooLarge.into());
            };
            (oid, expected, Content::NotKept)
        };
        let after = rustix::fs::fstat(&file)?;
        Ok(Some(ReadFile {
            mode,
            size,
            oid,
            stamp: Stamp::of(&stat),
            steady: Stamp::of(&stat) == Stamp::of(&after) && size == expected,
            content,
        }))
    }
}

struct ReadFile {
    mode: FileMode,
    size: u64,
    oid: BlobOid,
    stamp: Stamp,
    /// Whether it stayed the same while it was read.
    steady: bool,
    content: Content,
}

/// Largest file that is hashed, in bytes: a sparse one of terabytes costs a command nothing to make.
const HASHED: u64 = 1 << 30;

/// Bytes of large files that one look at the workspace hashes, after the first. What is beyond is not read, and listed
/// with what may not be read: a command that makes a hundred sparse files costs no more than one that makes a few.
const HASHED_AT_ONCE: u64 = 512 << 20;

/// The name given to a file that is too large to hash. No content has it, so a tree that holds one is never another's.
fn unhashed(size: u64) -> BlobOid {
    BlobOid::of(format!("provost: {size} bytes, too large to be hashed").as_bytes())
}

/// The name of a file's content; of one that is too large to be hashed, one that no content has.
pub(super) fn name_of(file: &mut File, size: u64) -> io::Result<BlobOid> {
    if size > HASHED { Ok(unhashed(size)) } else { stream(file, size) }
}

/// Hashes exactly `size` bytes: git's name of a blob begins with its length. A file that shrinks meanwhile is padded
/// with nothing, gets a name that no content has, and is read again.
fn stream(file: &mut File, size: u64) -> io::Result<BlobOid> {
    let mut hasher = BlobHasher::new(size);
    let mut buffer = vec![0; 128 * 1024];
    let mut left = size;
    while left > 0 {
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..want])?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        left -= read as u64;
    }
    Ok(hasher.finish())
}
