//! What a name can stand for, and a file at one moment.

use std::fmt;

use rustix::fs::{FileType, Stat};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
    /// Something that this kernel has and this program does not know.
    Unknown,
}

impl Kind {
    pub(crate) fn of(stat: &Stat) -> Self {
        FileType::from_raw_mode(stat.st_mode).into()
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::Unknown => Self::Unknown,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Fifo => "a named pipe (FIFO)",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Unknown => "neither a file nor a folder",
        })
    }
}

/// A file's mode, as far as git keeps it. The exact permission bits of an existing file are kept by whoever writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileMode {
    /// `100644`.
    Regular,
    /// `100755`.
    Executable,
    /// `120000`: a symbolic link, whose content is its target.
    Link,
}

impl FileMode {
    /// The mode as git writes it.
    pub fn as_git(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }

    /// Reads a mode as git writes it; `None` for any other text.
    pub fn from_git(text: &str) -> Option<Self> {
        [Self::Regular, Self::Executable, Self::Link].into_iter().find(|mode| mode.as_git() == text)
    }

    /// The mode of what a `stat` describes; `None` for what git does not track.
    pub(crate) fn of(stat: &Stat) -> Option<Self> {
        match Kind::of(stat) {
            Kind::File if stat.st_mode & 0o100 != 0 => Some(Self::Executable),
            Kind::File => Some(Self::Regular),
            Kind::Link => Some(Self::Link),
            _ => None,
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_git())
    }
}

/// A file at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// Its mode.
    pub mode: FileMode,
    /// Its content; for a link its target.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileVersion({}, {} bytes)", self.mode, self.bytes.len())
    }
}
