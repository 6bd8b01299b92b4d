//! The files of a run at one of its steps, written out into a new folder.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use provost_core::act::FileFact;
use provost_core::digest::Digest;
use provost_core::event::Event;
use provost_core::history;
use provost_core::id::RunId;
use provost_core::path::RelPath;
use provost_evidence::content::Salt;
use provost_evidence::git::{GitError, ObjectFormat, Repository, is_git_folder_name};
use provost_evidence::tree::Mode;
use provost_journal::Store;
use provost_tools::Workspace;
use provost_tools::workspace::{Copied, FileError, Manifest};
use rustix::fs::{FlockOperation, OFlags, flock, fstat, lstat};
use rustix::io::Errno;

use crate::error::RunError;
use crate::files::BaseFile;
use crate::undo::names;

/// Where a file's content is.
#[derive(Clone)]
enum Content {
    /// In the run's journal.
    Blob(Digest),
    /// Among the objects of the repository.
    Object(String),
    /// Nowhere but in the run's own workspace, if the file there is still the same.
    Workspace,
}

/// A file at the step.
struct File {
    mode: String,
    content: Content,
    /// Salted digest of its blob id in git's SHA-256 format, where it is only named so.
    named: Option<Digest>,
}

/// The files of a run at one of its steps, and where their content is.
pub(crate) struct Tree<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) run: &'a RunId,
    pub(crate) salt: &'a Salt,
    pub(crate) repository: Option<&'a Repository>,
    /// The run's own workspace.
    pub(crate) root: &'a Path,
    files: BTreeMap<RelPath, File>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        run: &'a RunId,
        salt: &'a Salt,
        repository: Option<&'a Repository>,
        root: &'a Path,
    ) -> Self {
        Self { store, run, salt, repository, root, files: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// Finds out which files there are after the first `count` events. Refused where content is nowhere any more.
    pub(crate) fn find(
        &mut self,
        base: Vec<BaseFile>,
        events: &[Event],
        count: usize,
    ) -> Result<(), RunError> {
        self.add_base(base)?;
        let known = self.known();
        for (path, fact) in history::files_at(events, count) {
            match fact {
                None => drop(self.files.remove(&path)),
                Some(FileFact { mode, content, kept: true, .. }) => {
                    let file = File { mode, content: Content::Blob(content), named: None };
                    self.files.insert(path, file);
                }
                Some(FileFact { mode, content, kept: false, .. }) => {
                    // What is too large for the journal may still be a file of the start, moved or put back.
                    let source = known.get(&content).cloned().unwrap_or(Content::Workspace);
                    self.files.insert(path, File { mode, content: source, named: Some(content) });
                }
            }
        }
        let git =
            self.files.keys().find(|path| path.to_bytes().split(|b| *b == b'/').any(is_git_folder_name));
        if let Some(path) = git {
            return Err(RunError::Undo(format!("`{path}` is git's own: no fork begins with it")));
        }
        self.check_workspace()
    }

    /// Where the content of the start is, by the digest that facts name it with.
    fn known(&self) -> BTreeMap<Digest, Content> {
        let kept = self.files.values().filter(|file| !matches!(file.content, Content::Workspace));
        kept.filter_map(|file| Some((file.named?, file.content.clone()))).collect()
    }

    fn add_base(&mut self, base: Vec<BaseFile>) -> Result<(), RunError> {
        let id = |file: &BaseFile| match self.repository.map(Repository::format) {
            Some(ObjectFormat::Sha256) => file.sha256.to_string(),
            _ => file.sha1.clone(),
        };
        let ids: Vec<String> = base.iter().filter(|file| file.content.is_none()).map(id).collect();
        let missing = match self.repository {
            Some(repository) => repository.missing(&ids)?,
            None => ids,
        };
        for file in base {
            let id = id(&file);
            let content = match file.content {
                Some(digest) => Content::Blob(digest),
                None if missing.contains(&id) => Content::Workspace,
                None => Content::Object(id),
            };
            let named = Some(self.salt.digest(file.sha256.bytes()));
            self.files.insert(file.path, File { mode: file.mode, content, named });
        }
        Ok(())
    }

    /// Content that is in neither journal nor repository has to be in the workspace still.
    fn check_workspace(&self) -> Result<(), RunError> {
        let needed: Vec<&RelPath> = self
            .files
            .iter()
            .filter(|(_, file)| matches!(file.content, Content::Workspace))
            .map(|(path, _)| path)
            .collect();
        if needed.is_empty() {
            return Ok(());
        }
        let mut lost = Vec::new();
        match Workspace::open(self.root) {
            Ok(workspace) => {
                for path in &needed {
                    if self.same(&workspace, path)?.is_none() {
                        lost.push(*path);
                    }
                }
            }
            Err(_) => lost = needed,
        }
        if lost.is_empty() {
            return Ok(());
        }
        Err(RunError::Undo(format!(
            "the content of {} is nowhere any more: it is in no commit, the journal keeps none that large, and the \
             workspace has another by now. Fork at another step",
            names(lost.into_iter())
        )))
    }

    /// The file of the run's own workspace, if it is the one that is meant.
    fn same(&self, workspace: &Workspace, path: &RelPath) -> Result<Option<Manifest>, RunError> {
        let mut manifest = Manifest::default();
        manifest.refresh(workspace, std::slice::from_ref(path)).map_err(|error| failed(self.root, &error))?;
        let file = self.files.get(path);
        let same = manifest.get(path).zip(file).is_some_and(|(entry, file)| {
            entry.mode.as_git() == file.mode && file.named == Some(self.salt.digest(&entry.oid.sha256))
        });
        Ok(same.then_some(manifest))
    }

    /// Writes all files into `root`, where nothing is but what git needs. Links come last, so that nothing is written
    /// through one.
    pub(crate) async fn write(&self, root: &Path, made: &mut Made<'_>) -> Result<(), RunError> {
        made.folder(root)?;
        let mut links = Vec::new();
        let mut objects = Vec::new();
        for (path, file) in &self.files {
            let to = root.join(path.to_os());
            match &file.content {
                Content::Object(id) => objects.push((id.clone(), to, file)),
                Content::Workspace => self.copy(path, &to, made)?,
                Content::Blob(digest) => {
                    let bytes = self.store.blob(self.run, *digest).await?;
                    let bytes = bytes.ok_or_else(|| RunError::Gone(format!("the content of `{path}`")))?;
                    put(&to, &file.mode, bytes, &mut links, made)?;
                }
            }
        }
        if let Some(repository) = self.repository {
            let ids: Vec<String> = objects.iter().map(|(id, _, _)| id.clone()).collect();
            let mut ended = Ok(());
            repository.each_blob(&ids, |place, bytes| {
                let (_, to, file) = &objects[place];
                if ended.is_ok() {
                    ended = put(to, &file.mode, bytes, &mut links, made);
                }
                Ok(())
            })?;
            ended?;
        }
        put_links(links, made)?;
        let folder = fs::File::open(root).map_err(|error| failed(root, &error))?;
        // The run that stands on these files is durable next.
        rustix::fs::syncfs(&folder).map_err(|errno| failed(root, &std::io::Error::from(errno)))
    }

    fn copy(&self, path: &RelPath, to: &Path, made: &mut Made<'_>) -> Result<(), RunError> {
        let workspace = Workspace::open(self.root).map_err(|error| failed(self.root, &error))?;
        let changed = || RunError::Undo(format!("`{path}` changed while it was copied: try again"));
        let manifest = self.same(&workspace, path)?.ok_or_else(changed)?;
        let entry = manifest.get(path).ok_or_else(changed)?;
        made.parent(to)?;
        let copied = workspace.copy_out(entry, to);
        if !copied.as_ref().is_err_and(stood_there) {
            made.file(to);
        }
        match copied {
            Ok(Copied::Same) => Ok(()),
            Ok(Copied::Changed) => Err(changed()),
            Err(error) => Err(failed(self.root, &error)),
        }
    }
}

/// Writes the files of a commit that lie outside of `scope` into its work tree at `top`.
pub(crate) fn write_around(
    repository: &Repository,
    commit: &str,
    scope: &RelPath,
    top: &Path,
    made: &mut Made<'_>,
) -> Result<(), RunError> {
    if scope.is_root() {
        return Ok(());
    }
    let whole = repository.commit_entries(commit, &RelPath::root())?;
    let outside = |path: &RelPath| !path.ancestors().any(|above| above == scope.as_str());
    let entries: Vec<_> = whole.entries.into_iter().filter(|entry| outside(&entry.path)).collect();
    for entry in &entries {
        if entry.path.to_bytes().split(|byte| *byte == b'/').any(is_git_folder_name) {
            return Err(GitError::BadName(entry.path.to_string()).into());
        }
    }
    let ids: Vec<String> = entries.iter().map(|entry| entry.oid.clone()).collect();
    let mut links = Vec::new();
    let mut ended = Ok(());
    repository.each_blob(&ids, |place, bytes| {
        let entry = &entries[place];
        if ended.is_ok() {
            ended = put(&top.join(entry.path.to_os()), entry.mode.as_str(), bytes, &mut links, made);
        }
        Ok(())
    })?;
    ended?;
    put_links(links, made)
}

type Links = Vec<(PathBuf, Vec<u8>)>;

/// Writes a file; a link is left for later.
fn put(
    to: &Path,
    mode: &str,
    bytes: Vec<u8>,
    links: &mut Links,
    made: &mut Made<'_>,
) -> Result<(), RunError> {
    if mode == Mode::Symlink.as_str() {
        links.push((to.to_owned(), bytes));
        return Ok(());
    }
    made.parent(to)?;
    let bits = if mode == Mode::Executable.as_str() { 0o755 } else { 0o644 };
    let opened = OpenOptions::new().write(true).create_new(true).mode(bits).open(to);
    let mut file = opened.map_err(|error| failed(to, &error))?;
    made.file(to);
    file.write_all(&bytes).map_err(|error| failed(to, &error))
}

fn put_links(links: Links, made: &mut Made<'_>) -> Result<(), RunError> {
    for (to, target) in links {
        made.parent(&to)?;
        symlink(std::ffi::OsStr::from_bytes(&target), &to).map_err(|error| failed(&to, &error))?;
        made.file(&to);
    }
    Ok(())
}

/// Whether nothing was written because something was there before.
fn stood_there(error: &FileError) -> bool {
    matches!(error, FileError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists)
}

/// What a fork has made on the disk, in order. If the fork fails, that is removed and nothing else: others may have put
/// something beside it meanwhile.
#[derive(Default)]
pub(crate) struct Made<'a> {
    things: Vec<Thing<'a>>,
    /// Keeps other forks off the folder, until what was made there is removed again or is there to stay.
    lock: Option<OwnedFd>,
}

enum Thing<'a> {
    Folder(PathBuf),
    File(PathBuf),
    Worktree(&'a Repository, PathBuf),
}

impl<'a> Made<'a> {
    /// Takes `folder`, new or empty, for this fork alone.
    pub(crate) fn claim(&mut self, folder: &Path) -> Result<(), RunError> {
        let failed = |error: io::Error| failed(folder, &error);
        self.parent(folder)?;
        let new = match fs::create_dir(folder) {
            Ok(()) => Some(Thing::Folder(folder.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(failed(error)),
        };
        let lock = lock(folder)?;
        // Not before: where another fork has the lock, the folder is that one's, whoever made it.
        self.things.extend(new);
        self.lock = Some(lock);
        match fs::read_dir(folder).map_err(failed)?.next() {
            Some(_) => Err(refused(folder, "is not empty: choose a new folder")),
            None => Ok(()),
        }
    }

    /// Makes a folder, and those above it that are not there.
    fn folder(&mut self, path: &Path) -> Result<(), RunError> {
        let made = match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.parent(path)?;
                fs::create_dir(path)
            }
            other => other,
        };
        match made {
            Ok(()) => self.things.push(Thing::Folder(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            Err(error) => return Err(failed(path, &error)),
        }
        Ok(())
    }

    fn parent(&mut self, path: &Path) -> Result<(), RunError> {
        path.parent().map_or(Ok(()), |parent| self.folder(parent))
    }

    fn file(&mut self, path: &Path) {
        self.things.push(Thing::File(path.to_owned()));
    }

    /// The work tree of `repository` at `path` was made.
    pub(crate) fn worktree(&mut self, repository: &'a Repository, path: &Path) {
        self.things.push(Thing::Worktree(repository, path.to_owned()));
    }

    /// Removes it all. Best effort, for a fork that failed says why itself; a folder in which somebody has put something
    /// stays.
    pub(crate) fn remove(mut self) {
        while let Some(thing) = self.things.pop() {
            let _ = match thing {
                Thing::Folder(path) => fs::remove_dir(path).map_err(drop),
                Thing::File(path) => fs::remove_file(path).map_err(drop),
                Thing::Worktree(repository, path) => repository.forget_worktree(&path).map_err(drop),
            };
        }
    }
}

/// Keeps other forks off `folder` while it is open.
fn lock(folder: &Path) -> Result<OwnedFd, RunError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = match rustix::fs::open(folder, flags, rustix::fs::Mode::empty()) {
        Ok(lock) => lock,
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(refused(folder, "is no folder: choose a new one")),
        Err(errno) => return Err(failed(folder, &io::Error::from(errno))),
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(refused(folder, "is where another fork is being made: choose a new folder"));
        }
        Err(errno) => return Err(failed(folder, &io::Error::from(errno))),
    }
    // A fork that failed may have removed the folder between the two calls: the lock would keep nobody off.
    match (fstat(&lock), lstat(folder)) {
        (Ok(held), Ok(there)) if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino) => Ok(lock),
        _ => Err(refused(folder, "was removed by another fork that failed: try again")),
    }
}

/// A folder that no fork can be made in.
pub(crate) fn refused(folder: &Path, why: &str) -> RunError {
    RunError::Undo(format!("`{}` {why}", folder.display()))
}

pub(crate) fn failed(path: &Path, error: &dyn std::fmt::Display) -> RunError {
    RunError::Workspace { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_put_there_outlives_a_fork_that_fails() {
        let dir = tempfile::tempdir().expect("a temp folder");
        let to = dir.path().join("above/to");
        let mut made = Made::default();
        made.claim(&to).expect("claimed");
        let mut links = vec![(to.join("link"), b"deep".to_vec())];
        put(&to.join("deep/er/file"), "100644", b"ours".to_vec(), &mut links, &mut made).expect("written");
        put_links(links, &mut made).expect("linked");
        fs::write(to.join("deep/theirs"), "theirs").expect("a file");
        let there = put(&to.join("deep/theirs"), "100644", b"ours".to_vec(), &mut Links::new(), &mut made);
        there.expect_err("nothing is overwritten");
        made.remove();
        assert_eq!(fs::read(to.join("deep/theirs")).expect("it stays"), b"theirs");
        assert!(!to.join("deep/er").exists());
        assert!(fs::symlink_metadata(to.join("link")).is_err());
        assert!(matches!(Made::default().claim(&to), Err(RunError::Undo(_))), "it is not empty");
    }

    #[test]
    fn a_folder_is_one_forks_and_goes_if_that_made_it() {
        let dir = tempfile::tempdir().expect("a temp folder");
        let (new, empty) = (dir.path().join("above/new"), dir.path().join("empty"));
        fs::create_dir(&empty).expect("a folder");
        for to in [&new, &empty] {
            let (mut first, mut second) = (Made::default(), Made::default());
            first.claim(to).expect("claimed");
            second.claim(to).expect_err("another has it");
            second.remove();
            assert!(to.exists(), "the first still has it");
            first.remove();
        }
        assert!(empty.exists());
        assert!(!dir.path().join("above").exists());
        let link = dir.path().join("link");
        for target in ["empty", "nowhere"] {
            symlink(target, &link).expect("a link");
            let mut made = Made::default();
            made.claim(&link).expect_err("a link is no folder");
            made.remove();
            fs::remove_file(&link).expect("the link stays");
        }
    }
}
