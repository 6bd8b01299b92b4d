//! The files of a trust folder, read whole before anything of them is believed.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

use super::TrustError;

/// Largest file that is read, in bytes.
const FILE_LIMIT: u64 = 1024 * 1024;
/// Most files that are read.
const FILES_LIMIT: usize = 1000;

/// Each file's path, name and content, in the order of the names. Names that begin with a dot are left out.
pub(super) fn read(dir: &Path) -> Result<Vec<(PathBuf, String, Vec<u8>)>, TrustError> {
    let io = |path: &Path, error: rustix::io::Errno| TrustError::Io {
        path: path.to_owned(),
        source: error.into(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, dir, flags, Mode::empty()).map_err(|error| io(dir, error))?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder).map_err(|error| io(dir, error))? {
        let entry = entry.map_err(|error| io(dir, error))?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".") {
            continue;
        }
        if names.len() == FILES_LIMIT {
            let what = format!("more than {FILES_LIMIT} files, the most that are read");
            return Err(TrustError::TooLarge { path: dir.to_owned(), what });
        }
        let name = String::from_utf8_lossy(name).into_owned();
        names.push(name);
    }
    names.sort();
    let mut files = Vec::new();
    for name in names {
        let path = dir.join(&name);
        // No link is followed, and opening a pipe does not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&folder, &name, flags, Mode::empty()) {
            Err(rustix::io::Errno::LOOP) => return Err(TrustError::NotAFile { path }),
            opened => opened.map_err(|error| io(&path, error))?,
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| io(&path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(TrustError::NotAFile { path });
        }
        let mut bytes = Vec::new();
        File::from(file)
            .take(FILE_LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| TrustError::Io { path: path.clone(), source })?;
        if bytes.len() as u64 > FILE_LIMIT {
            let what = format!("larger than {FILE_LIMIT} bytes, the most that is read");
            return Err(TrustError::TooLarge { path, what });
        }
        files.push((path, name, bytes));
    }
    Ok(files)
}

/// A file's content as text.
pub(super) fn text(path: &Path, bytes: Vec<u8>) -> Result<String, TrustError> {
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        TrustError::Line { path: path.to_owned(), line, what: "not UTF-8".to_owned() }
    })
}
