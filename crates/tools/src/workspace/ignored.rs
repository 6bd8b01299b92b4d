//! Which files git would not track: the rules of `.gitignore` files, nested ones included.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use provost_core::path::RelPath;

use super::{Kind, Located, Workspace};

/// Bytes of a `.gitignore` that are read. No real one is near it; a larger one is somebody's attack on memory.
const LIMIT: u64 = 1024 * 1024;

/// The rules of one folder, `depth` bytes of path being the folder's own.
struct Level {
    depth: usize,
    rules: Gitignore,
}

/// The rules that hold in one folder: its own and those of the folders above it.
#[derive(Default)]
pub(super) struct Rules {
    levels: Vec<Level>,
}

impl Rules {
    /// Enters a folder that has a `.gitignore`. `depth` is the length of the folder's path with its `/`.
    pub(super) fn enter(&mut self, workspace: &Workspace, file: &RelPath, depth: usize) {
        if let Some(rules) = read(workspace, file) {
            self.levels.push(Level { depth, rules });
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
        false
    }
}

fn read(workspace: &Workspace, file: &RelPath) -> Option<Gitignore> {
    let located = Located { named: file.clone(), real: file.clone(), kind: Some(Kind::File) };
    // What cannot be read has no rules, as in git. A link is not followed: git does not follow it either.
    let open = workspace.open_located(&located).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in BufReader::new(open.file.take(LIMIT)).split(b'\n') {
        let line = line.ok()?;
        let line = String::from_utf8_lossy(&line);
        // A line that is not a pattern is passed over, as in git.
        let _ = builder.add_line(None, line.trim_end_matches('\r').trim_start_matches('\u{feff}'));
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
