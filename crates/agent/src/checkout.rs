//! A checkout of exactly the tree that the workspace holds, for the verification gate.
//!
//! The gate judges the tree that is exported and nothing else. So its command sees a fresh copy of that tree, without
//! what ignore rules leave out: no build folder that an earlier command could have prepared, no file that only this
//! machine has. It may write there as it likes; the copy is thrown away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::containment::Guarantee;
use provost_core::path::RelPath;
use provost_core::policy::Policy;
use provost_sandbox::{Profile, git_reads};
use provost_tools::workspace::Workspace;

use crate::driver::{Driver, make_private};
use crate::error::RunError;
use crate::executor::Contained;
use crate::files::Files;
use crate::guard::Guard;
use crate::host::{private_folders, readable_folders};
use crate::removal::remove_at;

/// Why there is no checkout.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoCheckout {
    /// The gate cannot judge the workspace as it is. Says why, for the model and for the person.
    #[error("{0}")]
    Unfit(String),
    /// The driver cannot go on.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Where a command runs.
pub(crate) struct Place {
    pub(crate) sandbox: Arc<dyn Contained>,
    /// The workspace as the command sees it.
    pub(crate) root: PathBuf,
}

impl Driver<'_> {
    /// The folder of a gate's checkout while it runs.
    pub(crate) fn checkout_dir(&self, act: provost_core::id::ActId) -> PathBuf {
        self.runtime.spool.join(self.recorder.lease.run.as_str()).join(format!("gate-{act}"))
    }

    /// Checks the workspace out into `folder`, beside it `with`, and contains commands in there.
    pub(crate) fn check_out(&self, folder: &Path, with: &[RelPath]) -> Result<Place, NoCheckout> {
        let spool = |source| RunError::Spool { path: folder.to_owned(), source };
        remove_at(folder).map_err(spool)?;
        make_private(folder).map_err(spool)?;
        self.files.copy_tree(folder)?;
        for path in with {
            copy_beside(&self.files, path, folder)?;
        }
        let created = self.recorder.state().created();
        let created = created.ok_or_else(|| RunError::Internal("no contract".to_owned()))?;
        let profile = self.profile_of(folder, &created.policy)?;
        let sandbox = self.runtime.sandbox(&created.policy, profile)?;
        Ok(Place { sandbox, root: folder.to_owned() })
    }

    fn profile_of(&self, folder: &Path, policy: &Policy) -> Result<Profile, RunError> {
        let workspace = self.files.root();
        let spool = |source| RunError::Spool { path: folder.to_owned(), source };
        // At a path of its own, as at the recipient's: what works only at the workspace's path does not pass.
        let mut profile = Profile::for_workspace(folder)?;
        profile.limits = policy.caps;
        // A copy that is thrown away has nothing to protect, and nothing to commit into.
        let meant = |held: &Guarantee| !Guarantee::OF_WORKSPACE.contains(held);
        profile.require = policy.require.iter().copied().filter(meant).collect();
        profile.readable.extend(readable_folders(&self.runtime.host, policy, workspace));
        profile.private.extend(private_folders(&self.runtime.host, workspace));
        let (git, pointer) = (workspace.join(".git"), folder.join(".git"));
        let linked = git_reads(workspace);
        if git.is_dir() {
            fs::write(&pointer, format!("gitdir: {}\n", git.display())).map_err(spool)?;
            profile.readable.push(git);
        } else if !linked.is_empty() {
            fs::copy(&git, &pointer).map_err(spool)?;
            profile.readable.extend(linked);
        }
        // What policy keeps from being read is no less secret for being part of the tree.
        let checkout = Workspace::open(folder).map_err(|error| RunError::Internal(error.to_string()))?;
        let found = Guard::default().scan(&checkout, policy).map_err(spool)?;
        profile.hidden.extend(found.hidden.iter().map(|path| folder.join(path.to_os())));
        Ok(profile)
    }
}

/// Copies an ignored file or folder as it is. What the tree has is not replaced.
fn copy_beside(files: &Files, path: &RelPath, folder: &Path) -> Result<(), NoCheckout> {
    let unfit =
        |why: String| NoCheckout::Unfit(format!("`{path}` cannot be shown to the verification: {why}"));
    let located = files.workspace().locate(path).map_err(|error| unfit(error.to_string()))?;
    if located.kind.is_none() {
        return Err(unfit("it is not there".to_owned()));
    }
    if located.real != *path {
        return Err(unfit("a link leads to it".to_owned()));
    }
    let relative = path.to_os();
    let to = folder.join(&relative);
    for above in Path::new(&relative).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let link = folder.join(above).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        if link {
            return Err(unfit(format!("`{}` is no folder in the tree", above.display())));
        }
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| unfit(error.to_string()))?;
    }
    copy_as_it_is(&files.root().join(&relative), &to)
        .map_err(|error| unfit(format!("{}: {}", error.0.display(), error.1)))
}

fn copy_as_it_is(from: &Path, to: &Path) -> Result<(), (PathBuf, io::Error)> {
    let mut open = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = open.pop() {
        copy_one(&from, &to, &mut open).map_err(|error| (from, error))?;
    }
    Ok(())
}

fn copy_one(from: &Path, to: &Path, open: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    let kind = from.symlink_metadata()?.file_type();
    let there = to.symlink_metadata().ok().map(|meta| meta.file_type());
    if kind.is_dir() {
        match there {
            None => fs::create_dir(to)?,
            Some(there) if there.is_dir() => {}
            Some(_) => return Ok(()),
        }
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            open.push((entry.path(), to.join(entry.file_name())));
        }
    } else if there.is_some() {
    } else if kind.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else if kind.is_file() {
        // Through the kernel, which shares the blocks where the file system can.
        fs::copy(from, to)?;
    }
    Ok(())
}
