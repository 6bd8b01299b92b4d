//! Landlock for one command: its rules, made before it is ordered, and looked at again when it is.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::bytes::Bytes;
use crate::landlock::{self, Ruleset};
use crate::plan::{Carve, LandlockPlan};
use crate::record::Failure;
use crate::sys::{self, Step};

/// More entries than this in a folder that has to be carved is an error: rules are added one by one.
const CARVE_LIMIT: usize = 20_000;

/// Rules that are made and not in force yet.
pub(super) struct Rules<'plan> {
    plan: &'plan LandlockPlan,
    ruleset: Ruleset,
    /// What each path was when its rule was made; `None` where there was nothing.
    seen: Vec<Option<Inode>>,
}

impl<'plan> Rules<'plan> {
    /// Makes the rules that have nothing to do with what is in the workspace. Paths that are absent are skipped: a rule only
    /// ever adds rights.
    pub(super) fn make(plan: &'plan LandlockPlan) -> Result<Self, Failure> {
        let mut governed = landlock::known_fs(plan.abi);
        if !plan.govern_reads {
            governed &= !(landlock::READS | landlock::IOCTL_DEV);
        }
        let ruleset = Ruleset::new(plan.abi, governed, plan.govern_reads).step("landlock")?;
        let seen = paths(plan).map(|(path, rights)| allow(&ruleset, path, rights));
        let seen = seen.collect::<Result<_, _>>()?;
        Ok(Self { plan, ruleset, seen })
    }

    /// Puts them in force for this process.
    pub(super) fn restrict(self) -> Result<(), Failure> {
        let is_current = paths(self.plan).zip(&self.seen).all(|((path, _), seen)| {
            let found = rustix::fs::stat(path).ok().map(|found| Inode::of(&found));
            found == *seen
        });
        // A rule is for the file that had the name then. One that was moved away meanwhile must not keep it.
        let Self { plan, ruleset, .. } = if is_current { self } else { Self::make(self.plan)? };
        if let Some(carve) = &plan.carve {
            let exceptions = Exceptions::of(carve);
            let rights = if carve.writable { u64::MAX } else { landlock::READS };
            carve_out(&ruleset, carve.root.path(), rights, &exceptions, &mut 0)?;
        }
        ruleset.restrict().step("landlock")
    }
}

/// Each path with the rights on it and below it.
fn paths(plan: &LandlockPlan) -> impl Iterator<Item = (&Path, u64)> {
    let write = landlock::READS | landlock::WRITE_FILE | landlock::TRUNCATE | landlock::IOCTL_DEV;
    let files = write | landlock::MAKE_FILE | landlock::REMOVE_FILE | landlock::REFER;
    let groups =
        [(&plan.read, landlock::READS), (&plan.write, write), (&plan.files, files), (&plan.full, u64::MAX)];
    groups.into_iter().flat_map(|(paths, rights)| paths.iter().map(move |path| (path.path(), rights)))
}

/// Tells files apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Inode(u64, u64);

impl Inode {
    fn of(found: &Stat) -> Self {
        Self(found.st_dev, found.st_ino)
    }
}

/// Adds a rule, where there is something.
fn allow(rules: &Ruleset, path: &Path, rights: u64) -> Result<Option<Inode>, Failure> {
    match sys::open_path(path) {
        Ok(fd) => {
            let found = rustix::fs::fstat(&fd).at("landlock", path)?;
            let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            rules.allow(fd.as_fd(), is_dir, rights).at("landlock", path)?;
            Ok(Some(Inode::of(&found)))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno).at("landlock", path),
    }
}

/// Protected and hidden paths, each also by the name it has without symbolic links.
struct Exceptions {
    protected: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
}

impl Exceptions {
    fn of(carve: &Carve) -> Self {
        let both = |paths: &[Bytes]| -> Vec<PathBuf> {
            let named = paths.iter().map(|path| path.path().to_owned());
            named.flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten().collect()
        };
        Self { protected: both(&carve.protected), hidden: both(&carve.hidden) }
    }

    fn any_in(&self, folder: &Path) -> bool {
        self.protected.iter().chain(&self.hidden).any(|path| path != folder && path.starts_with(folder))
    }

    fn hides_in(&self, folder: &Path) -> bool {
        self.hidden.iter().any(|path| path.starts_with(folder))
    }
}

/// Grants `rights` on every entry below `root` that is not an exception and holds none. A folder that holds one gets
/// no right to change anything itself: Landlock's rights reach downwards without end.
fn carve_out(
    rules: &Ruleset,
    root: &Path,
    rights: u64,
    exceptions: &Exceptions,
    entries: &mut usize,
) -> Result<(), Failure> {
    if exceptions.hidden.iter().any(|hidden| hidden == root) {
        return Ok(());
    }
    let rights = if exceptions.protected.iter().any(|path| path == root) { landlock::READS } else { rights };
    if !exceptions.any_in(root) {
        return allow(rules, root, rights).map(drop);
    }
    // Names may be listed everywhere; contents may be read where nothing below is hidden.
    allow(rules, root, if exceptions.hides_in(root) { landlock::READ_DIR } else { landlock::READS })?;
    let list = |errno: std::io::Error| {
        Failure::new("landlock", errno.raw_os_error().unwrap_or(libc::EIO), root.to_string_lossy())
    };
    for entry in std::fs::read_dir(root).map_err(list)? {
        let entry = entry.map_err(list)?;
        *entries += 1;
        if *entries > CARVE_LIMIT {
            return Err(Failure::new("landlock", libc::E2BIG, "too many entries beside a protected path"));
        }
        // What a link leads to has rules of its own, or none.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            carve_out(rules, &entry.path(), rights, exceptions, entries)?;
        }
    }
    Ok(())
}
