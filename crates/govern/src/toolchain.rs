//! Which programs of the host's commands run with, by their content.
//!
//! A session without an image works with the host's toolchain. Its manifest names each program and library that a build
//! or a gate comes by, with its SHA-256; the request is bound to the manifest's digest, so that a session is carried out
//! with the very toolchain that was authorized, or not at all. What else a host has may differ.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use provost_core::digest::Digest;
use provost_evidence::canonical::{sha256, to_canonical};
use sha2::{Digest as _, Sha256};

use crate::SessionError;
use crate::folder::at;

/// Programs that are looked for along `PATH`, beside what a toolchain folder holds.
const PROGRAMS: [&str; 22] = [
    "cargo", "rustc", "rustdoc", "cc", "gcc", "clang", "c++", "g++", "ld", "as", "ar", "make", "cmake",
    "git", "sh", "bash", "python3", "node", "npm", "go", "pytest", "env",
];

/// Most files of a manifest.
const MOST_FILES: usize = 20_000;

/// The manifest of a host's toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// SHA-256 of each file, by its absolute path, links resolved.
    pub files: BTreeMap<String, Digest>,
}

impl Toolchain {
    /// SHA-256 of the manifest's canonical JSON (RFC 8785).
    pub fn digest(&self) -> Result<Digest, SessionError> {
        let json = to_canonical(&self.files).map_err(|error| SessionError::Internal(error.to_string()))?;
        Ok(sha256(&json))
    }

    /// The first file in which it differs from another, for a message.
    pub fn differs(&self, other: &Self) -> Option<String> {
        let all = self.files.keys().chain(other.files.keys());
        all.filter(|path| self.files.get(*path) != other.files.get(*path)).min().cloned()
    }
}

/// The manifest of the programs along `path`, of `also` (a gate's program), and of the Rust toolchains in `rustup`.
pub fn toolchain(path: &str, also: Option<&str>, rustup: Option<&Path>) -> Result<Toolchain, SessionError> {
    let mut files = Vec::new();
    for program in PROGRAMS.into_iter().chain(also) {
        let found = path
            .split(':')
            .filter(|folder| folder.starts_with('/'))
            .map(|folder| Path::new(folder).join(program))
            .find(|file| file.is_file());
        files.extend(found.and_then(|file| file.canonicalize().ok()));
    }
    if let Some(rustup) = rustup {
        for toolchain in folders(&rustup.join("toolchains"))? {
            gather(&toolchain.join("bin"), &mut files)?;
            gather(&toolchain.join("lib"), &mut files)?;
            for target in folders(&toolchain.join("lib/rustlib"))? {
                gather(&target.join("lib"), &mut files)?;
                gather(&target.join("bin"), &mut files)?;
            }
        }
    }
    let mut manifest = BTreeMap::new();
    for file in files {
        if manifest.len() == MOST_FILES {
            return Err(SessionError::Refused(format!("the toolchain has more than {MOST_FILES} files")));
        }
        if let std::collections::btree_map::Entry::Vacant(place) =
            manifest.entry(file.to_string_lossy().into_owned())
        {
            place.insert(digest_of(&file).map_err(at(&file))?);
        }
    }
    Ok(Toolchain { files: manifest })
}

/// The folders in a folder, links resolved; none where it is not there.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(folder)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(at(folder))?.path();
        if path.is_dir() {
            found.extend(path.canonicalize().ok());
        }
    }
    Ok(found)
}

/// The files right in a folder; none where it is not there.
fn gather(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), SessionError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(folder)(error)),
    };
    for entry in entries {
        let path = entry.map_err(at(folder))?.path();
        if path.is_file() {
            into.extend(path.canonicalize().ok());
        }
    }
    Ok(())
}

fn digest_of(file: &Path) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut from = File::open(file)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(Digest::new(hasher.finalize().into())),
            read => hasher.update(&buffer[..read]),
        }
    }
}
