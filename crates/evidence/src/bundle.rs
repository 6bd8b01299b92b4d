//! The bundle: a folder with everything that a recipient needs besides the keys and the repository they already have.
//!
//! | name | what it is |
//! | --- | --- |
//! | `changes.patch` | the net change, as a patch for `git apply` at the repository's root |
//! | `journal.jsonl` | every event of the run, one line of canonical JSON each |
//! | `blobs/<digest>` | content of each changed file before and after, named by its salted digest |
//! | `result.dsse.json` | the signed [`Statement`] about the run |
//!
//! The same run gives the same bytes, however often it is written. What is read is bounded, and nothing but these
//! names is accepted; links and special files are refused without following or opening them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use provost_core::digest::Digest;
use provost_core::text::{Lines, visible};

use crate::canonical::NotCanonical;
use crate::dsse;
use crate::keys::SigningKey;
use crate::signer::SignError;
use crate::statement::{JOURNAL, PATCH, Statement};

/// Name of the signed statement's file.
pub const RESULT: &str = "result.dsse.json";
/// Name of the folder of blobs.
pub const BLOBS: &str = "blobs";

/// Largest single file of a bundle that is read, in bytes.
const FILE_LIMIT: u64 = 512 * 1024 * 1024;
/// Most bytes that are read of all blobs together.
const BLOBS_LIMIT: u64 = 1024 * 1024 * 1024;
/// Most names that are read of one folder.
const NAMES_LIMIT: usize = 200_000;

/// A folder that is not a bundle, or that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A file that a bundle has is not there.
    #[error("`{name}` is missing from the bundle")]
    Missing {
        /// Its name in the bundle.
        name: String,
    },
    /// Something that a bundle does not have is there.
    #[error("`{name}` does not belong in the bundle")]
    Unexpected {
        /// Its name in the bundle.
        name: String,
    },
    /// Something is there under the right name and is not what it should be.
    #[error("`{name}` is {found}; expected {expected}")]
    Kind {
        /// Its name in the bundle.
        name: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A file is larger than what is read.
    #[error("`{name}` is larger than {limit} bytes, the most that is read")]
    TooLarge {
        /// Its name in the bundle.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A folder has more names than are read.
    #[error("`{name}` has more than {NAMES_LIMIT} entries, the most that are read")]
    TooMany {
        /// Its name in the bundle.
        name: String,
    },
    /// The folder to write to is in use.
    #[error("{}: the folder is not empty; a bundle is written to a new or empty folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The statement has no canonical JSON.
    #[error(transparent)]
    Statement(#[from] NotCanonical),
    /// The statement was not signed.
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// What goes into a bundle. See [`assemble`](crate::export::assemble), which makes it from a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleContent {
    /// `changes.patch`.
    pub patch: Vec<u8>,
    /// `journal.jsonl`: the events' canonical JSON as stored, each line ended by a line feed.
    pub journal: Vec<u8>,
    /// Content by salted digest.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
    /// What is signed.
    pub statement: Statement,
}

/// A bundle as it was read. Nothing about it has been checked but the names of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// `changes.patch`.
    pub patch: Vec<u8>,
    /// `journal.jsonl`.
    pub journal: Vec<u8>,
    /// Content of each file in `blobs` by its name.
    pub blobs: BTreeMap<Digest, Vec<u8>>,
    /// `result.dsse.json`.
    pub envelope: Vec<u8>,
}

/// Signs `content` and writes it to the folder `dir`, which must be empty or not exist.
///
/// The signed statement is written last: a folder without it is a bundle whose writing was cut short.
pub fn write(dir: &Path, content: &BundleContent, key: &SigningKey) -> Result<(), BundleError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| BundleError::Io { path, source }
    };
    let envelope = dsse::sign(dsse::IN_TOTO, &content.statement.to_json()?, &[key])?;
    std::fs::create_dir_all(dir).map_err(at(dir))?;
    if std::fs::read_dir(dir).map_err(at(dir))?.next().is_some() {
        return Err(BundleError::NotEmpty { path: dir.to_owned() });
    }
    let put = |path: PathBuf, bytes: &[u8]| {
        File::create_new(&path)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .map_err(at(&path))
    };
    let blobs = dir.join(BLOBS);
    std::fs::create_dir(&blobs).map_err(at(&blobs))?;
    for (digest, bytes) in &content.blobs {
        put(blobs.join(digest.to_string()), bytes)?;
    }
    put(dir.join(PATCH), &content.patch)?;
    put(dir.join(JOURNAL), &content.journal)?;
    put(dir.join(RESULT), &envelope)
}

/// Reads the bundle in `dir`, whatever blobs it holds.
pub fn read(dir: &Path) -> Result<Bundle, BundleError> {
    let folder = Folder::open(dir)?;
    folder.check_names()?;
    let named = folder.blob_names()?;
    Ok(Bundle {
        patch: folder.file(PATCH)?,
        journal: folder.file(JOURNAL)?,
        blobs: folder.blobs(&named)?,
        envelope: folder.envelope()?,
    })
}

/// An open bundle, read piece by piece so that a verifier can check the signature before it reads the rest. Every piece
/// comes from the one folder that was opened, even if its name is given to another one meanwhile.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    root: OwnedFd,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, BundleError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| BundleError::Io { path: path.to_owned(), source: error.into() })?;
        Ok(Self { path: path.to_owned(), root })
    }

    /// `result.dsse.json`.
    pub(crate) fn envelope(&self) -> Result<Vec<u8>, BundleError> {
        self.read(&self.root, RESULT, RESULT, dsse::ENVELOPE_LIMIT as u64)
    }

    /// `changes.patch` or `journal.jsonl`.
    pub(crate) fn file(&self, name: &str) -> Result<Vec<u8>, BundleError> {
        self.read(&self.root, name, name, FILE_LIMIT)
    }

    /// Holds the top folder to exactly the names of a bundle.
    pub(crate) fn check_names(&self) -> Result<(), BundleError> {
        let expected = [RESULT, PATCH, JOURNAL, BLOBS];
        let found = self.names(&self.root, ".")?;
        for name in &found {
            if !expected.iter().any(|known| *known == name) {
                return Err(BundleError::Unexpected { name: shown(name) });
            }
        }
        for name in expected {
            let is_there = found.contains(OsStr::new(name));
            if !is_there {
                return Err(BundleError::Missing { name: name.to_owned() });
            }
        }
        Ok(())
    }

    /// The digests that name the files in `blobs`.
    pub(crate) fn blob_names(&self) -> Result<BTreeSet<Digest>, BundleError> {
        self.names(&self.blobs_folder()?, BLOBS)?
            .iter()
            .map(|name| {
                name.to_str()
                    .and_then(|text| text.parse().ok())
                    .ok_or_else(|| BundleError::Unexpected { name: format!("{BLOBS}/{}", shown(name)) })
            })
            .collect()
    }

    /// The content of exactly these blobs: one missing or one more is an error.
    pub(crate) fn blobs(
        &self,
        expected: &BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, Vec<u8>>, BundleError> {
        let named = self.blob_names()?;
        let name_of = |digest: &Digest| format!("{BLOBS}/{digest}");
        if let Some(extra) = named.difference(expected).next() {
            return Err(BundleError::Unexpected { name: name_of(extra) });
        }
        if let Some(missing) = expected.difference(&named).next() {
            return Err(BundleError::Missing { name: name_of(missing) });
        }
        let folder = self.blobs_folder()?;
        let mut left = BLOBS_LIMIT;
        let mut blobs = BTreeMap::new();
        for digest in expected {
            let bytes = self.read(&folder, &digest.to_string(), &name_of(digest), left.min(FILE_LIMIT))?;
            left -= bytes.len() as u64;
            blobs.insert(*digest, bytes);
        }
        Ok(blobs)
    }

    fn blobs_folder(&self) -> Result<OwnedFd, BundleError> {
        self.expect_kind(&self.root, BLOBS, BLOBS, FileType::Directory, "a folder")?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.root, BLOBS, flags, Mode::empty())
            .map_err(|error| self.io(BLOBS, error.into()))
    }

    fn names(&self, folder: &OwnedFd, name: &str) -> Result<BTreeSet<std::ffi::OsString>, BundleError> {
        let entries = rustix::fs::Dir::read_from(folder).map_err(|error| self.io(name, error.into()))?;
        let mut names = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.io(name, error.into()))?;
            let entry = entry.file_name().to_bytes();
            if entry == b"." || entry == b".." {
                continue;
            }
            if names.len() == NAMES_LIMIT {
                return Err(BundleError::TooMany { name: name.to_owned() });
            }
            names.insert(OsStr::from_bytes(entry).to_owned());
        }
        Ok(names)
    }

    fn read(&self, folder: &OwnedFd, file: &str, name: &str, limit: u64) -> Result<Vec<u8>, BundleError> {
        self.expect_kind(folder, file, name, FileType::RegularFile, "a regular file")?;
        // Should the file be exchanged between the look and the opening: a link is not followed, and opening a pipe
        // does not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(folder, file, flags, Mode::empty());
        let opened = File::from(opened.map_err(|error| self.io(name, error.into()))?);
        let mut bytes = Vec::new();
        opened.take(limit + 1).read_to_end(&mut bytes).map_err(|error| self.io(name, error))?;
        if bytes.len() as u64 > limit {
            return Err(BundleError::TooLarge { name: name.to_owned(), limit });
        }
        Ok(bytes)
    }

    fn expect_kind(
        &self,
        folder: &OwnedFd,
        file: &str,
        name: &str,
        kind: FileType,
        expected: &'static str,
    ) -> Result<(), BundleError> {
        let stat = match rustix::fs::statat(folder, file, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => return Err(BundleError::Missing { name: name.to_owned() }),
            Err(error) => return Err(self.io(name, error.into())),
        };
        let found = FileType::from_raw_mode(stat.st_mode);
        if found == kind {
            return Ok(());
        }
        Err(BundleError::Kind {
            name: name.to_owned(),
            found: match found {
                FileType::RegularFile => "a regular file",
                FileType::Directory => "a folder",
                FileType::Symlink => "a symbolic link",
                FileType::Fifo => "a named pipe",
                FileType::Socket => "a socket",
                FileType::CharacterDevice | FileType::BlockDevice => "a device",
                FileType::Unknown => "something unknown",
            },
            expected,
        })
    }

    fn io(&self, name: &str, source: io::Error) -> BundleError {
        BundleError::Io { path: self.path.join(name), source }
    }
}

fn shown(name: &OsStr) -> String {
    visible(&name.to_string_lossy(), Lines::Escape).chars().take(120).collect()
}
