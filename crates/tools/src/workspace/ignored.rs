//! Which files git would not track: the rules of `.gitignore` files, nested ones included.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use provost_core::path::RelPath;

use super::scan::{Stamp, now_ns};
use super::{Kind, Located, Workspace};

/// Bytes of a `.gitignore` that are read. No real one is near it; a larger one is somebody's attack on memory and time.
const LIMIT: u64 = 64 * 1024;

/// The rules of one folder, `depth` bytes of path being the folder's own.
#[derive(Debug)]
struct Level {
    depth: usize,
    rules: Arc<Gitignore>,
}

/// Rule files that are compiled already, by their path.
#[derive(Debug, Default)]
pub(super) struct Compiled(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    files: HashMap<RelPath, (Stamp, Arc<Gitignore>)>,
    /// Bytes of all of them.
    bytes: usize,
}

/// Bytes of rule files whose compiled form is kept. A tree that has more is somebody's attack on memory: all is dropped
/// then, and compiled again where it is needed.
const KEPT: usize = 1 << 20;

impl Compiled {
    /// The rules of a file that is still what it was.
    fn get(&self, file: &RelPath, stamp: &Stamp) -> Option<Arc<Gitignore>> {
        let shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.files.get(file).filter(|(then, _)| then == stamp).map(|(_, rules)| rules.clone())
    }

    fn keep(&self, file: RelPath, stamp: Stamp, bytes: usize, rules: Arc<Gitignore>) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The path counts too: there may be many files of nothing.
        let bytes = bytes + file.as_str().len();
        if shelf.bytes + bytes > KEPT {
            *shelf = Shelf::default();
        }
        shelf.bytes += bytes;
        shelf.files.insert(file, (stamp, rules));
    }
}

/// Ignore rules from outside of the workspace: of a folder above it in its repository, or of a person.
#[derive(Debug)]
pub struct OuterRules {
    /// The workspace's path from the folder that the rules are for, with its `/`.
    prefix: Vec<u8>,
    rules: Gitignore,
}

impl OuterRules {
    /// The rules of these lines, for a folder from which `workspace` is the workspace's path.
    pub fn new(workspace: &RelPath, lines: &[u8]) -> Self {
        let mut prefix = Vec::new();
        if !workspace.is_root() {
            prefix = workspace.to_bytes();
            prefix.push(b'/');
        }
        Self { prefix, rules: parse(lines).unwrap_or_else(Gitignore::empty) }
    }

    fn says(&self, path: &[u8], folder: bool) -> Match<()> {
        let whole = [self.prefix.as_slice(), path].concat();
        self.rules.matched(Path::new(OsStr::from_bytes(&whole)), folder).map(|_| ())
    }

    /// Whether the workspace itself, or a folder above it, is ignored.
    fn ignores_workspace(&self) -> bool {
        let ends = self.prefix.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        ends.into_iter().any(|end| {
            let above = Path::new(OsStr::from_bytes(&self.prefix[..end]));
            self.rules.matched(above, true).is_ignore()
        })
    }
}

/// Those that hold in a workspace. Whoever works in an ignored folder wants what is in it.
pub(super) fn holding(outer: Vec<OuterRules>) -> Vec<OuterRules> {
    if outer.iter().any(OuterRules::ignores_workspace) { Vec::new() } else { outer }
}

/// The rules that hold in one folder: its own, those of the folders above it, and those from outside.
#[derive(Debug)]
pub(super) struct Rules<'w> {
    levels: Vec<Level>,
    /// The stronger first.
    outer: &'w [OuterRules],
}

impl<'w> Rules<'w> {
    pub(super) fn new(outer: &'w [OuterRules]) -> Self {
        Self { levels: Vec::new(), outer }
    }

    /// Forgets all rules.
    pub(super) fn drop_all(&mut self) {
        *self = Self::new(&[]);
    }

    /// Enters a folder that has a `.gitignore`. `depth` is the length of the folder's path with its `/`.
    pub(super) fn enter(&mut self, workspace: &Workspace, file: &RelPath, depth: usize) {
        if let Some(rules) = read(workspace, file).filter(|rules| !rules.is_empty()) {
            self.levels.push(Level { depth, rules });
        }
    }

    /// The same with the `.gitignore` at hand.
    pub(super) fn enter_file(&mut self, file: &std::fs::File, depth: usize) {
        let mut lines = Vec::new();
        let read = file.take(LIMIT).read_to_end(&mut lines);
        if let Some(rules) = read.ok().and_then(|_| parse(&lines)).filter(|rules| !rules.is_empty()) {
            self.levels.push(Level { depth, rules: Arc::new(rules) });
        }
    }

    /// Leaves every folder deeper than this.
    pub(super) fn leave_to(&mut self, depth: usize) {
        while self.levels.last().is_some_and(|level| level.depth > depth) {
            self.levels.pop();
        }
    }

    /// Whether a path is ignored. The nearest rule file that says anything decides.
    pub(super) fn ignores(&self, path: &[u8], folder: bool) -> bool {
        for level in self.levels.iter().rev() {
            let below = Path::new(OsStr::from_bytes(&path[level.depth..]));
            match level.rules.matched(below, folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        for outer in self.outer {
            match outer.says(path, folder) {
                Match::None => {}
                Match::Ignore(()) => return true,
                Match::Whitelist(()) => return false,
            }
        }
        false
    }
}

impl Workspace {
    /// Whether ignore rules leave out the folder at this real path, or one above it.
    pub fn ignores_folder(&self, real: &RelPath) -> bool {
        let path = real.to_bytes();
        let mut rules = Rules::new(&self.outer);
        let mut depth = 0;
        loop {
            let mut file = path[..depth].to_vec();
            file.extend_from_slice(b".gitignore");
            if let Ok(file) = RelPath::from_bytes(&file) {
                rules.enter(self, &file, depth);
            }
            let next = path[depth..].iter().position(|byte| *byte == b'/').map(|next| depth + next);
            if rules.ignores(&path[..next.unwrap_or(path.len())], true) {
                return true;
            }
            match next {
                Some(next) => depth = next + 1,
                None => return false,
            }
        }
    }
}

fn read(workspace: &Workspace, file: &RelPath) -> Option<Arc<Gitignore>> {
    let located = Located { named: file.clone(), real: file.clone(), kind: Some(Kind::File) };
    let begun = now_ns();
    // What cannot be read has no rules, as in git. A link is not followed: git does not follow it either.
    let open = workspace.open_located(&located).ok()?;
    let stamp = Stamp::of(&open.stat);
    if let Some(rules) = workspace.compiled.get(file, &stamp) {
        return Some(rules);
    }
    let mut lines = Vec::new();
    (&open.file).take(LIMIT).read_to_end(&mut lines).ok()?;
    let rules = Arc::new(parse(&lines).unwrap_or_else(Gitignore::empty));
    // The rule of the manifest: what may have changed again within the clock's grain is read again.
    let after = rustix::fs::fstat(&open.file).ok()?;
    if stamp.older_than(begun) && stamp == Stamp::of(&after) {
        workspace.compiled.keep(file.clone(), stamp, lines.len(), rules.clone());
    }
    Some(rules)
}

fn parse(lines: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    for line in lines.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        // A line that is not a pattern is passed over, as in git.
        let _ = builder.add_line(None, line.trim_end_matches('\r').trim_start_matches('\u{feff}'));
    }
    builder.build().ok()
}
