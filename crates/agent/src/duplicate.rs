//! The copy of the workspace that staged commands work in where no layer can be put over it.
//!
//! It lies in the spool, in a folder of its own for each workspace, which only one driver works in at a time. What a crash
//! left there is removed when the workspace is next contained, before and after each command.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use provost_core::containment::{Rung, StagedBy};
use provost_core::path::RelPath;
use provost_tools::workspace::{Layer, StandIn};

use crate::driver::{Driver, make_private};
use crate::error::RunError;
use crate::files::Files;
use crate::removal::remove_at;
use crate::runtime::Runtime;

impl Runtime {
    /// Where copies of this workspace lie.
    pub(crate) fn copy_of(&self, files: &Files) -> Result<PathBuf, RunError> {
        let spool = |source| RunError::Spool { path: self.spool.clone(), source };
        make_private(&self.spool).map_err(spool)?;
        // What contains commands knows folders by their real names.
        let copies = self.spool.canonicalize().map_err(spool)?.join("copies");
        let found = files.root().metadata().map_err(spool)?;
        Ok(copies.join(format!("{:x}-{:x}", found.dev(), found.ino())))
    }

    /// An empty folder for a copy of this workspace.
    pub(crate) fn clear_copy(&self, files: &Files) -> Result<PathBuf, RunError> {
        let folder = self.copy_of(files)?;
        let cleared = remove_at(&folder).and_then(|()| make_private(&folder));
        cleared.map_err(|source| RunError::Spool { path: folder.clone(), source })?;
        Ok(folder)
    }
}

impl Driver<'_> {
    /// Whether staged commands work in a copy.
    pub(crate) fn stages_in_copy(&self) -> bool {
        self.sandbox.receipt().staged.is_some_and(StagedBy::is_copy)
    }

    /// Copies the workspace anew.
    pub(crate) fn duplicate(&self) -> Result<Layer, String> {
        let folder = self.runtime.clear_copy(&self.files).map_err(|error| error.to_string())?;
        let stand_ins = self.files.stand_ins(self.sandbox.receipt().rung);
        self.files.workspace().duplicate(&folder, &stand_ins).map_err(|error| error.to_string())
    }

    /// Removes the copy of a command that is over. What cannot be removed now is before the next one.
    pub(crate) fn discard_copy(&self) {
        if self.stages_in_copy()
            && let Ok(folder) = self.runtime.copy_of(&self.files)
        {
            let _ = remove_at(&folder);
        }
    }
}

impl Files {
    /// What stands in a copy for what is not copied: build folders, the history, what nobody may read. Namespaces show the
    /// first two as they are; without them links and a file of git's lead there.
    fn stand_ins(&self, rung: Rung) -> BTreeMap<RelPath, StandIn> {
        let has_mounts = rung >= Rung::R3;
        let whole = |path: &RelPath| self.root().join(path.to_os());
        let build = self.build_folders().iter().map(|path| {
            (path.clone(), if has_mounts { StandIn::Folder } else { StandIn::Link(whole(path)) })
        });
        let is_history = |path: &&RelPath| {
            let whole = whole(path);
            whole.file_name().is_some_and(|name| name == ".git") && whole.is_dir() && !whole.is_symlink()
        };
        let history = self.shown().protected.iter().filter(is_history).map(|path| {
            (path.clone(), if has_mounts { StandIn::Folder } else { StandIn::GitFolder(whole(path)) })
        });
        let hidden = self.shown().hidden.iter().map(|path| (path.clone(), StandIn::Closed));
        build.chain(history).chain(hidden).collect()
    }
}
