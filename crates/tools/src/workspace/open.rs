//! Reading: regular files only, never blocking, never more than was asked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use provost_core::path::RelPath;
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::{FileError, FileMode, FileVersion, Kind, Located, Workspace};

/// A regular file of the workspace, open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The real path.
    pub path: RelPath,
    /// The open file.
    pub file: File,
    pub(crate) stat: Stat,
}

impl OpenFile {
    /// Bytes at the time of opening.
    pub fn size(&self) -> u64 {
        self.stat.st_size as u64
    }

    /// Names that this file has (hard links).
    pub fn names(&self) -> u64 {
        self.stat.st_nlink
    }

    /// Its mode.
    pub fn mode(&self) -> FileMode {
        FileMode::of(&self.stat).unwrap_or(FileMode::Regular)
    }

    /// The whole content, if it is not larger than `limit`. A file that grows while it is read is refused as too large.
    pub fn read(self, limit: u64) -> Result<Vec<u8>, FileError> {
        let too_large = |size| FileError::TooLarge { path: self.path.clone(), size, limit };
        if self.size() > limit {
            return Err(too_large(self.size()));
        }
        let mut bytes = Vec::with_capacity(self.size() as usize);
        let read = (&self.file).take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|source| FileError::io(&self.path, source))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }

    /// Lines `first..=last` (from 1), without holding more of the file than these, at most `limit` bytes of them.
    pub fn lines(self, first: u64, last: u64, limit: u64) -> Result<Lines, FileError> {
        let failed = |source| FileError::io(&self.path, source);
        let mut reader = BufReader::with_capacity(64 * 1024, &self.file);
        let mut out = Lines::default();
        let mut at = 1;
        while at < first {
            if skip_line(&mut reader).map_err(failed)? == 0 {
                out.total = Some(at - 1);
                return Ok(out);
            }
            at += 1;
        }
        let mut left = limit.saturating_add(1);
        while at <= last {
            let read = (&mut reader).take(left).read_until(b'\n', &mut out.bytes).map_err(failed)? as u64;
            if read == 0 {
                out.total = Some(at - 1);
                return Ok(out);
            }
            left -= read;
            if left == 0 {
                out.cut = true;
                return Ok(out);
            }
            at += 1;
        }
        if reader.fill_buf().map_err(failed)?.is_empty() {
            out.total = Some(at - 1);
        }
        Ok(out)
    }
}

/// Some lines of a file.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lines with their endings.
    pub bytes: Vec<u8>,
    /// How many lines the file has, where reading came to its end.
    pub total: Option<u64>,
    /// Whether the limit was reached: `bytes` is not all that was asked for.
    pub cut: bool,
}

/// Passes over one line however long it is; says how many bytes that was.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut passed = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(passed);
        }
        let (used, done) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(used);
        passed += used as u64;
        if done {
            return Ok(passed);
        }
    }
}

impl Workspace {
    /// Opens the regular file that `path` leads to.
    pub fn open_file(&self, path: &RelPath) -> Result<OpenFile, FileError> {
        let located = self.locate(path)?;
        self.open_located(&located)
    }

    /// Opens the regular file at a place found before. A pipe, device, socket or folder is refused, and never waited for.
    pub fn open_located(&self, located: &Located) -> Result<OpenFile, FileError> {
        let refused = |kind| FileError::Kind { path: located.named.clone(), kind, wanted: "a file" };
        match located.kind {
            Some(Kind::File) => {}
            Some(kind) => return Err(refused(kind)),
            None => return Err(FileError::missing(&located.named)),
        }
        // NONBLOCK: what was a file a moment ago may be a pipe now.
        let fd = self
            .open_real(&located.real, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
            .map_err(|errno| FileError::io(&located.named, errno))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| FileError::io(&located.named, errno))?;
        match Kind::of(&stat) {
            Kind::File => Ok(OpenFile { path: located.real.clone(), file: File::from(fd), stat }),
            kind => Err(refused(kind)),
        }
    }

    /// The whole file that `path` leads to, links followed.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<FileVersion, FileError> {
        let open = self.open_file(path)?;
        let mode = open.mode();
        Ok(FileVersion { mode, bytes: open.read(limit)? })
    }

    /// What stands at a real path, a link being itself; `None` where nothing is. Folders and special files are refused.
    pub fn version(&self, real: &RelPath, limit: u64) -> Result<Option<FileVersion>, FileError> {
        let stat = match self.stat_real(real) {
            Ok(stat) => stat,
            // A link on the way is no folder: what was beneath the folder is gone.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(FileError::io(real, errno)),
        };
        match Kind::of(&stat) {
            Kind::File => {
                let located = Located { named: real.clone(), real: real.clone(), kind: Some(Kind::File) };
                let open = self.open_located(&located)?;
                Ok(Some(FileVersion { mode: open.mode(), bytes: open.read(limit)? }))
            }
            Kind::Link => Ok(Some(FileVersion { mode: FileMode::Link, bytes: self.link_target(real)? })),
            kind => Err(FileError::Kind { path: real.clone(), kind, wanted: "a file" }),
        }
    }

    /// Whether what stands at a real path certainly was as it is now at that moment, in nanoseconds since the Unix epoch:
    /// by its `ctime`, which nobody can set back. What is not there may have gone at any time.
    pub fn unchanged_since(&self, real: &RelPath, moment_ns: u64) -> bool {
        self.stat_real(real).is_ok_and(|stat| {
            let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
            changed <= i128::from(moment_ns)
        })
    }

    /// The target of the link at a real path.
    pub(crate) fn link_target(&self, real: &RelPath) -> Result<Vec<u8>, FileError> {
        let fd = self
            .open_real(real, OFlags::PATH | OFlags::NOFOLLOW)
            .map_err(|errno| FileError::io(real, errno))?;
        let target =
            rustix::fs::readlinkat(&fd, "", Vec::new()).map_err(|errno| FileError::io(real, errno))?;
        Ok(target.into_bytes())
    }
}
