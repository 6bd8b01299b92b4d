//! What commands that may commit left in the git folder beside commits.
//!
//! What is there and git takes orders from is closed to them by the sandbox. What is not there cannot be closed (a
//! `commondir`, a `config.worktree`), and links lead git wherever they like: such names are listed before each command and
//! after it, and what is new is removed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use provost_core::path::RelPath;
use provost_core::policy::Policy;
use provost_sandbox::{GitFolder, GitName, GitPart, git_folder};
use provost_tools::workspace::Workspace;
use rustix::fs::{AtFlags, Dir, FileType, statat};

use crate::guard::{kind_of, open, remove};

/// A git folder that commands may commit into.
#[derive(Debug)]
pub(crate) struct GitGuard {
    of: GitFolder,
    folder: Workspace,
}

/// How a folder's names are looked at.
enum In {
    Part(GitPart),
    /// Only links matter.
    Open,
}

impl GitGuard {
    /// That of a workspace, where policy lets commands commit and there is one.
    pub(crate) fn open(workspace: &Path, policy: &Policy) -> io::Result<Option<Self>> {
        // Also where a command has made what nobody commits into: that is what is to be removed.
        let own = workspace.join(".git");
        let is_folder = own.symlink_metadata().is_ok_and(|found| found.is_dir());
        let whole = is_folder.then_some(GitFolder { folder: own, part: GitPart::Whole });
        let Some(of) = whole.or_else(|| git_folder(workspace)).filter(|_| policy.lets_commit()) else {
            return Ok(None);
        };
        let folder = Workspace::open(&of.folder).map_err(io::Error::other)?;
        Ok(Some(Self { of, folder }))
    }

    pub(crate) fn of(&self) -> &GitFolder {
        &self.of
    }

    /// The names, from the git folder, that no command may have made.
    pub(crate) fn scan(&self) -> io::Result<BTreeSet<RelPath>> {
        let mut found = BTreeSet::new();
        let mut rest = vec![(RelPath::root(), In::Part(self.of.part.clone()))];
        while let Some((path, part)) = rest.pop() {
            let Some(folder) = open(&self.folder, &path)? else { continue };
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let raw = entry.file_name().to_bytes();
                if raw == b"." || raw == b".." {
                    continue;
                }
                let name = path.join(raw).map_err(io::Error::other)?;
                let kind = kind_of(&folder, &entry)?;
                let is_folder = kind == FileType::Directory;
                let In::Part(part) = &part else {
                    if kind == FileType::Symlink {
                        found.insert(name);
                    } else if is_folder {
                        rest.push((name, In::Open));
                    }
                    continue;
                };
                let head = path.join(raw).and_then(|name| name.join(b"HEAD")).map_err(io::Error::other)?;
                let holds_head = *part == GitPart::Modules
                    && statat(self.folder.fd(), head.to_os(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
                let judged = part.judge(raw, holds_head);
                let leads = kind == FileType::Symlink && judged != GitName::Closed;
                if part.takes_orders(raw) || leads {
                    found.insert(name);
                    continue;
                }
                match judged {
                    // A folder for each two digits, and their like.
                    GitName::Open if *part == GitPart::Objects => {}
                    GitName::Open if is_folder => rest.push((name, In::Open)),
                    GitName::Within(inner) if is_folder => rest.push((name, In::Part(inner))),
                    GitName::Open | GitName::Closed | GitName::Within(_) => {}
                }
            }
        }
        Ok(found)
    }

    /// Removes a name and what is beneath it.
    pub(crate) fn remove(&self, path: &RelPath) -> io::Result<()> {
        remove(&self.folder, path)
    }
}
