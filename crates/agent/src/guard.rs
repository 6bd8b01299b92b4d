//! Names that the policy guards, wherever they stand in the workspace.
//!
//! Protection by name must see every name, also in folders that ignore rules hide and in `.git` itself; and a command
//! must not be able to make a guarded name where there was none (a `.git`, a `.cargo/config.toml`), since programs
//! outside of the sandbox would act on it. So all names are listed before the first command and after each; what is
//! new is removed. A folder whose `ctime` is what it was has the names that it had, and is not listed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use provost_core::act::Touch;
use provost_core::containment::Rung;
use provost_core::path::RelPath;
use provost_core::policy::{Effect, Policy};

/// Deepest folder that is looked into. No build makes one; a command that does gains nothing by it, since what it
/// made is removed as a whole.
const DEEPEST: usize = 64;

/// Names that programs look for below a folder of that name. A link of this name stands for the folder.
const BELOW: [&str; 4] = ["config", "config.toml", "hooks", "any"];

/// The guarded names of a workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Guarded {
    /// Where policy denies writing, or asks about it by a rule.
    pub(crate) protected: BTreeSet<RelPath>,
    /// Where policy denies reading.
    pub(crate) hidden: BTreeSet<RelPath>,
    /// Folders too deep to look into.
    pub(crate) too_deep: BTreeSet<RelPath>,
}

/// A folder as it was last listed.
#[derive(Debug)]
struct Listed {
    ctime: (i64, i64),
    found: Guarded,
    below: Vec<PathBuf>,
}

/// Finds guarded names, and remembers folders that have not changed.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    folders: BTreeMap<PathBuf, Listed>,
}

impl Guard {
    /// All guarded names beneath `root`.
    pub(crate) fn scan(&mut self, root: &Path, policy: &Policy) -> io::Result<Guarded> {
        let mut all = Guarded::default();
        let mut seen = BTreeMap::new();
        let mut open = vec![(PathBuf::new(), 0_usize)];
        while let Some((folder, depth)) = open.pop() {
            let listed = match self.list(root, &folder, policy) {
                Ok(listed) => listed,
                // Gone since, or made into something else.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            all.protected.extend(listed.found.protected.iter().cloned());
            all.hidden.extend(listed.found.hidden.iter().cloned());
            if depth < DEEPEST {
                open.extend(listed.below.iter().map(|below| (below.clone(), depth + 1)));
            } else if !listed.below.is_empty() {
                all.too_deep.insert(name(&folder)?);
            }
            seen.insert(folder, listed);
        }
        self.folders = seen;
        Ok(all)
    }

    fn list(&mut self, root: &Path, folder: &Path, policy: &Policy) -> io::Result<Listed> {
        let absolute = root.join(folder);
        let meta = fs::symlink_metadata(&absolute)?;
        let ctime = (meta.ctime(), meta.ctime_nsec());
        if let Some(listed) = self.folders.remove(folder)
            && listed.ctime == ctime
        {
            return Ok(listed);
        }
        let mut found = Guarded::default();
        let mut below = Vec::new();
        for entry in open_folder(&absolute, &meta)? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let name = name(&path)?;
            let kind = entry.file_type()?;
            let denies = |touch: Touch| policy.decide(&[touch], Rung::R3).effect == Effect::Deny;
            let guards = |path: &RelPath| policy.guards_writing(path);
            let by_link = || {
                kind.is_symlink()
                    && BELOW.iter().any(|below| name.join(below.as_bytes()).is_ok_and(|path| guards(&path)))
            };
            let is_hidden = denies(Touch::Read { path: name.clone() });
            let is_protected = guards(&name) || by_link();
            if kind.is_dir() && !is_hidden && !is_protected {
                below.push(path);
            }
            if is_hidden {
                found.hidden.insert(name.clone());
            }
            if is_protected {
                found.protected.insert(name);
            }
        }
        Ok(Listed { ctime, found, below })
    }
}

/// Lists a folder; one that its owner closed to reading is opened first, for nothing may hide there.
fn open_folder(path: &Path, meta: &fs::Metadata) -> io::Result<fs::ReadDir> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mode = meta.permissions().mode() | 0o700;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            fs::read_dir(path)
        }
        other => other,
    }
}

/// Removes a name and all beneath it, opening folders that were closed against that. Links are not followed.
pub(crate) fn remove(root: &Path, path: &RelPath) -> io::Result<()> {
    let absolute = root.join(path.to_os());
    if let Some(parent) = absolute.parent().filter(|parent| *parent != root) {
        let meta = fs::symlink_metadata(parent)?;
        let _ = fs::set_permissions(parent, fs::Permissions::from_mode(meta.permissions().mode() | 0o700));
    }
    let removed = match fs::symlink_metadata(&absolute) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&absolute),
        Ok(_) => fs::remove_file(&absolute),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn name(path: &Path) -> io::Result<RelPath> {
    let raw = path.as_os_str().as_bytes();
    let raw = if raw.is_empty() { b"." } else { raw };
    RelPath::from_bytes(raw).map_err(io::Error::other)
}
