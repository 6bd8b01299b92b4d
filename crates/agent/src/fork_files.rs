//! The files of a run at one of its steps, written out into a new folder.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
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
use provost_tools::workspace::{Copied, Manifest};

use crate::error::RunError;
use crate::files::BaseFile;
use crate::undo::names;

/// Where a file's content is.
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
        for (path, fact) in history::files_at(events, count) {
            match fact {
                None => drop(self.files.remove(&path)),
                Some(FileFact { mode, content, kept: true, .. }) => {
                    let file = File { mode, content: Content::Blob(content), named: None };
                    self.files.insert(path, file);
                }
                Some(FileFact { mode, content, kept: false, .. }) => {
                    let file = File { mode, content: Content::Workspace, named: Some(content) };
                    self.files.insert(path, file);
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
    pub(crate) async fn write(&self, root: &Path) -> Result<(), RunError> {
        fs::create_dir_all(root).map_err(|error| failed(root, &error))?;
        let mut links = Vec::new();
        let mut objects = Vec::new();
        for (path, file) in &self.files {
            let to = root.join(path.to_os());
            match &file.content {
                Content::Object(id) => objects.push((id.clone(), to, file)),
                Content::Workspace => self.copy(path, &to)?,
                Content::Blob(digest) => {
                    let bytes = self.store.blob(self.run, *digest).await?;
                    let bytes = bytes.ok_or_else(|| RunError::Gone(format!("the content of `{path}`")))?;
                    put(&to, &file.mode, bytes, &mut links)?;
                }
            }
        }
        if let Some(repository) = self.repository {
            let ids: Vec<String> = objects.iter().map(|(id, _, _)| id.clone()).collect();
            let mut ended = Ok(());
            repository.each_blob(&ids, |place, bytes| {
                let (_, to, file) = &objects[place];
                if ended.is_ok() {
                    ended = put(to, &file.mode, bytes, &mut links);
                }
                Ok(())
            })?;
            ended?;
        }
        put_links(links)?;
        let folder = fs::File::open(root).map_err(|error| failed(root, &error))?;
        // The run that stands on these files is durable next.
        rustix::fs::syncfs(&folder).map_err(|errno| failed(root, &std::io::Error::from(errno)))
    }

    fn copy(&self, path: &RelPath, to: &Path) -> Result<(), RunError> {
        let workspace = Workspace::open(self.root).map_err(|error| failed(self.root, &error))?;
        let changed = || RunError::Undo(format!("`{path}` changed while it was copied: try again"));
        let manifest = self.same(&workspace, path)?.ok_or_else(changed)?;
        let entry = manifest.get(path).ok_or_else(changed)?;
        make_parent(to)?;
        match workspace.copy_out(entry, to) {
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
            ended = put(&top.join(entry.path.to_os()), entry.mode.as_str(), bytes, &mut links);
        }
        Ok(())
    })?;
    ended?;
    put_links(links)
}

type Links = Vec<(PathBuf, Vec<u8>)>;

/// Writes a file; a link is left for later.
fn put(to: &Path, mode: &str, bytes: Vec<u8>, links: &mut Links) -> Result<(), RunError> {
    if mode == Mode::Symlink.as_str() {
        links.push((to.to_owned(), bytes));
        return Ok(());
    }
    make_parent(to)?;
    let bits = if mode == Mode::Executable.as_str() { 0o755 } else { 0o644 };
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(bits)
        .open(to)
        .and_then(|mut file| file.write_all(&bytes))
        .map_err(|error| failed(to, &error))
}

fn put_links(links: Links) -> Result<(), RunError> {
    for (to, target) in links {
        make_parent(&to)?;
        symlink(std::ffi::OsStr::from_bytes(&target), &to).map_err(|error| failed(&to, &error))?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), RunError> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(|error| failed(parent, &error)))
}

pub(crate) fn failed(path: &Path, error: &dyn std::fmt::Display) -> RunError {
    RunError::Workspace { path: path.to_owned(), reason: error.to_string() }
}
