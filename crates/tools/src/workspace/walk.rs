//! Walking the tree: by descriptors, sorted, without following links, ignore rules applied on the way.

use std::mem::MaybeUninit;

use provost_core::path::RelPath;
use rustix::fs::{OFlags, RawDir};
use rustix::io::Errno;

use super::ignored::Rules;
use super::{FileError, Kind, Workspace};

/// How to walk.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    /// Folder to begin at: a real path.
    pub(crate) from: RelPath,
    /// Whether `.gitignore` files hold. `.git` is left out either way.
    pub(crate) ignore: bool,
}

/// Something that a walk came upon.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// Its path in bytes, from the workspace root.
    pub(crate) path: &'a [u8],
    /// Its kind.
    pub(crate) kind: Kind,
    /// The open folder that holds it, and its name there.
    pub(crate) folder: &'a std::os::fd::OwnedFd,
    pub(crate) name: &'a [u8],
    /// The rules that hold there; `None` where none do.
    rules: Option<&'a Rules<'a>>,
}

impl Found<'_> {
    /// Whether ignore rules leave it out. Folders that they leave out are not come upon.
    pub(crate) fn is_ignored(&self) -> bool {
        self.kind != Kind::Folder && self.rules.is_some_and(|rules| rules.ignores(self.path, false))
    }
}

/// What a visitor says to a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    Stop,
}

pub(super) struct Name {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

impl Workspace {
    /// Visits everything beneath a folder, each folder before what is in it, names in byte order. A folder that
    /// cannot be opened is passed over; which were is returned.
    pub(crate) fn walk(
        &self,
        walk: &Walk,
        visit: &mut dyn FnMut(Found) -> Go,
    ) -> Result<Vec<RelPath>, FileError> {
        self.walk_with_ignored(walk, &mut |found| if found.is_ignored() { Go::On } else { visit(found) })
    }

    /// [`walk`](Self::walk)s, and visits what rules ignore too, ignored folders and what is in them left out. To match a
    /// name against the rules costs more than to look at the file, and a visitor may not need to know.
    pub(crate) fn walk_with_ignored(
        &self,
        walk: &Walk,
        visit: &mut dyn FnMut(Found) -> Go,
    ) -> Result<Vec<RelPath>, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = self.open_real(&walk.from, flags).map_err(|errno| FileError::io(&walk.from, errno))?;
        let mut path = Vec::new();
        let mut rules = Rules::new(&self.outer);
        if !walk.from.is_root() {
            path = walk.from.to_bytes();
            if walk.ignore {
                self.rules_above(&path, &mut rules);
            }
            path.push(b'/');
        }
        let mut walker =
            Walker { workspace: self, ignore: walk.ignore, path, rules, visit, closed: Vec::new() };
        walker.folder(&root)?;
        Ok(walker.closed)
    }

    /// The rules of the folders above `path`. Where they ignore `path` itself they are dropped: whoever names an
    /// ignored folder wants to see what is in it.
    fn rules_above(&self, path: &[u8], rules: &mut Rules<'_>) {
        let mut depth = 0;
        loop {
            let mut file = path[..depth].to_vec();
            file.extend_from_slice(b".gitignore");
            if let Ok(file) = RelPath::from_bytes(&file) {
                rules.enter(self, &file, depth);
            }
            let Some(next) = path[depth..].iter().position(|byte| *byte == b'/') else {
                break;
            };
            depth += next;
            if rules.ignores(&path[..depth], true) {
                rules.drop_all();
                return;
            }
            depth += 1;
        }
        if rules.ignores(path, true) {
            rules.drop_all();
        }
    }
}

struct Walker<'w, 'v> {
    workspace: &'w Workspace,
    ignore: bool,
    /// Path of the folder at hand, with its `/`.
    path: Vec<u8>,
    rules: Rules<'w>,
    visit: &'v mut dyn FnMut(Found) -> Go,
    /// Folders that could not be opened.
    closed: Vec<RelPath>,
}

impl Walker<'_, '_> {
    fn folder(&mut self, folder: &std::os::fd::OwnedFd) -> Result<Go, FileError> {
        let Ok(names) = names(folder) else {
            let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
            self.closed.push(RelPath::from_bytes(path).unwrap_or_else(|_| RelPath::root()));
            return Ok(Go::On);
        };
        let depth = self.path.len();
        let has_rules = |name: &Name| name.bytes == b".gitignore" && name.kind == Kind::File;
        if self.ignore && names.iter().any(has_rules) {
            self.path.extend_from_slice(b".gitignore");
            let file = RelPath::from_bytes(&self.path)?;
            self.path.truncate(depth);
            self.rules.enter(self.workspace, &file, depth);
        }
        for name in names {
            self.path.extend_from_slice(&name.bytes);
            let is_folder = name.kind == Kind::Folder;
            let skipped =
                name.bytes == b".git" || (self.ignore && is_folder && self.rules.ignores(&self.path, true));
            let mut go = Go::On;
            if !skipped {
                go = (self.visit)(Found {
                    path: &self.path,
                    kind: name.kind,
                    folder,
                    name: &name.bytes,
                    rules: self.ignore.then_some(&self.rules),
                });
                if go == Go::On && is_folder {
                    go = self.below(folder, &name)?;
                }
            }
            self.path.truncate(depth);
            if go == Go::Stop {
                return Ok(go);
            }
        }
        self.rules.leave_to(depth.saturating_sub(1));
        Ok(Go::On)
    }

    fn below(&mut self, folder: &std::os::fd::OwnedFd, name: &Name) -> Result<Go, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let below = match rustix::fs::openat(folder, name.bytes.as_slice(), flags, rustix::fs::Mode::empty())
        {
            Ok(below) => below,
            // Gone since, or something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Go::On),
            Err(_) => {
                self.closed.push(RelPath::from_bytes(&self.path)?);
                return Ok(Go::On);
            }
        };
        self.path.push(b'/');
        self.folder(&below)
    }
}

/// The names in a folder, in byte order.
pub(super) fn names(folder: &std::os::fd::OwnedFd) -> rustix::io::Result<Vec<Name>> {
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 16 * 1024];
    let mut entries = RawDir::new(folder, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            continue;
        }
        names.push(Name { bytes: bytes.to_vec(), kind: entry.file_type().into() });
    }
    for name in &mut names {
        // Some file systems do not say the kind in the listing.
        if name.kind == Kind::Unknown {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            if let Ok(stat) = rustix::fs::statat(folder, name.bytes.as_slice(), flags) {
                name.kind = Kind::of(&stat);
            }
        }
    }
    names.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes));
    Ok(names)
}
