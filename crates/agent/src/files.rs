//! The workspace as the journal has it, beside the workspace as it is.
//!
//! What the journal expects of a path is its base at the start of the run, or what the last recorded change left
//! there. A scan finds paths that may differ; [`Files::observe`] compares each with what is expected and makes the
//! difference a [`Change`]. So what a command did, and what somebody else did, is found the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use provost_core::act::{Change, FileFact};
use provost_core::contract::Source;
use provost_core::digest::{Digest, TreeDigest};
use provost_core::event::RunCreated;
use provost_core::path::RelPath;
use provost_core::policy::{GitAccess, Policy};
use provost_core::server::Server;
use provost_evidence::git::{ObjectFormat, Repository};
use provost_evidence::tree::{BlobOid, Mode, TreeEntry, hex, tree_digest};
use provost_sandbox::{Changes, GitFolder, Profile, WorkspaceAccess, git_folder, git_reads};
use provost_tools::Workspace;
use provost_tools::command::HostEnvironment;
use provost_tools::workspace::{Copied, Entry, FileChange, FileError, FileMode, FileVersion, Manifest};
use serde::{Deserialize, Serialize};

use crate::checkout::NoCheckout;
use crate::error::RunError;
use crate::git_guard::GitGuard;
use crate::guard::{self, Guard, Guarded};
use crate::host::{private_folders, readable_folders, server_reads};
use crate::ignores::{committed_rules, outer_rules};
use crate::recorder::Recorder;

/// Largest content that the journal keeps of one file, in bytes. Larger ones are named, not kept.
pub(crate) const KEEP: u64 = 8 * 1024 * 1024;

/// Most content that the journal keeps of the changes that one look finds, in bytes. It is in memory until it is durable.
pub(crate) const KEPT_AT_ONCE: u64 = 64 * 1024 * 1024;

/// A file at the start of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BaseFile {
    pub(crate) path: RelPath,
    pub(crate) mode: String,
    pub(crate) size: u64,
    pub(crate) sha1: String,
    pub(crate) sha256: Digest,
    /// Salted digest, where the journal keeps the content because no commit does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Digest>,
}

/// The workspace at the start of the run, as the journal keeps it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    files: Vec<BaseFile>,
    /// Names that the policy guards and that were there.
    guarded: BTreeSet<RelPath>,
    /// Folders too deep to look into that were there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    too_deep: BTreeSet<RelPath>,
    /// Names in the git folder that no command may make and that were there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    git: BTreeSet<RelPath>,
}

/// The files at the start of the run, from the list that the journal keeps of them.
pub(crate) fn base_files(json: &[u8]) -> Result<Vec<BaseFile>, RunError> {
    Ok(read_base(json)?.files)
}

fn read_base(json: &[u8]) -> Result<Base, RunError> {
    serde_json::from_slice(json)
        .map_err(|error| RunError::Gone(format!("the list of files at the start does not parse: {error}")))
}

/// The workspace of one run.
pub(crate) struct Files {
    workspace: Workspace,
    /// Where the files came from.
    source: Source,
    repository: Option<Repository>,
    manifest: Manifest,
    base: BTreeMap<RelPath, BaseFile>,
    /// Paths that may differ from what the journal expects, whatever the next scan says.
    suspect: BTreeSet<RelPath>,
    guard: Guard,
    /// The git folder that commands may commit into, and the names in it that no command made.
    git: Option<GitGuard>,
    git_known: Option<BTreeSet<RelPath>>,
    /// The one that the containment in force was made for.
    git_shown: Option<GitFolder>,
    /// Guarded names that were there before the first command.
    known: Option<Guarded>,
    /// Those that the containment in force was made for.
    shown: Guarded,
    /// Build folders that commands change at once although changes are staged, in the containment in force.
    build_folders: Vec<RelPath>,
    /// What servers of tools may read outside of the workspace.
    server_reads: Vec<PathBuf>,
    /// Held while this driver works here: two in one workspace, or one in a folder of the other's, would book each other's
    /// changes. Exclusive on the workspace, shared on the folders above it.
    _locks: Vec<std::fs::File>,
}

impl Files {
    pub(crate) fn open(
        root: &Path,
        repository: Option<&Path>,
        source: &Source,
        host: &HostEnvironment,
    ) -> Result<Self, RunError> {
        let mut workspace = Workspace::open(root).map_err(|error| unusable(root, &error))?;
        let repository = repository.map(Repository::discover).transpose()?;
        if let Some(repository) =
            repository.as_ref().filter(|repository| workspace.path().starts_with(repository.root()))
        {
            let home = host.home.as_deref().map(Path::new);
            let rules = outer_rules(repository, workspace.path(), home)?;
            workspace = workspace.ignoring(rules);
        } else if let (Some(repository), Source::Commit { commit, scope }) = (&repository, source) {
            workspace = workspace.ignoring(committed_rules(repository, commit, scope)?);
        }
        let locks = lock(workspace.path())?;
        Ok(Self {
            workspace,
            repository,
            source: source.clone(),
            manifest: Manifest::default(),
            base: BTreeMap::new(),
            suspect: BTreeSet::new(),
            guard: Guard::default(),
            git: None,
            git_known: None,
            git_shown: None,
            known: None,
            shown: Guarded::default(),
            build_folders: Vec::new(),
            server_reads: Vec::new(),
            _locks: locks,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        self.workspace.path()
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    fn error(&self, error: impl std::fmt::Display) -> RunError {
        RunError::Workspace { path: self.root().to_owned(), reason: error.to_string() }
    }

    /// Reads the workspace as it is at the start. Returns how many files it has.
    pub(crate) fn scan_base(&mut self) -> Result<u64, RunError> {
        let tracked = self.tracked()?;
        self.scan(&tracked)?;
        Ok(self.manifest.entries().len() as u64)
    }

    fn scan(&mut self, tracked: &BTreeSet<RelPath>) -> Result<(), RunError> {
        self.manifest = Manifest::scan(&self.workspace, tracked, KEEP, &mut |_, _| {})
            .map_err(|error| self.error(error))?;
        Ok(())
    }

    /// A file's id in the repository's own object format.
    fn git_id(&self, oid: &provost_tools::BlobOid) -> String {
        match self.repository.as_ref().map(Repository::format) {
            Some(ObjectFormat::Sha256) => hex(&oid.sha256),
            _ => hex(&oid.sha1),
        }
    }

    /// What git tracks in the workspace, whatever the ignore rules say.
    fn tracked(&self) -> Result<BTreeSet<RelPath>, RunError> {
        match &self.repository {
            Some(repository) if self.root().starts_with(repository.root()) => {
                Ok(repository.tracked(self.root())?.into_iter().collect())
            }
            Some(repository) => match &self.source {
                Source::Commit { commit, scope } => {
                    let entries = repository.commit_entries(commit, scope)?.entries;
                    Ok(entries.into_iter().map(|entry| entry.path).collect())
                }
                Source::Directory { .. } => Ok(BTreeSet::new()),
            },
            None => Ok(BTreeSet::new()),
        }
    }

    /// Remembers the files at the start, and keeps the content of those that no commit holds.
    pub(crate) fn keep_base(&mut self, recorder: &mut Recorder) -> Result<Digest, RunError> {
        let entries: Vec<Entry> = self.manifest.entries().cloned().collect();
        let missing: BTreeSet<String> = match &self.repository {
            Some(repository) => {
                let oids: Vec<String> = entries.iter().map(|entry| self.git_id(&entry.oid)).collect();
                repository.missing(&oids)?.into_iter().collect()
            }
            None => entries.iter().map(|entry| self.git_id(&entry.oid)).collect(),
        };
        for entry in entries {
            let sha1 = hex(&entry.oid.sha1);
            let mut content = None;
            if missing.contains(&self.git_id(&entry.oid)) && entry.size <= KEEP {
                let version = self.version(&entry.path)?;
                content = version.map(|version| recorder.content(version.bytes));
            }
            self.base.insert(
                entry.path.clone(),
                BaseFile {
                    path: entry.path,
                    mode: entry.mode.as_git().to_owned(),
                    size: entry.size,
                    sha1,
                    sha256: Digest::new(entry.oid.sha256),
                    content,
                },
            );
        }
        let base = Base {
            files: self.base.values().cloned().collect(),
            guarded: self.known.as_ref().map(|known| known.protected.clone()).unwrap_or_default(),
            too_deep: self.known.as_ref().map(|known| known.too_deep.clone()).unwrap_or_default(),
            git: self.git_known.clone().unwrap_or_default(),
        };
        let json = serde_json::to_vec(&base).map_err(|error| RunError::Internal(error.to_string()))?;
        Ok(recorder.content(json))
    }

    /// Reads the workspace of a run that is taken up again. Every path that is not as the journal expects is suspect.
    pub(crate) async fn restore(
        &mut self,
        created: &RunCreated,
        recorder: &Recorder,
    ) -> Result<(), RunError> {
        let json = recorder.bytes(&created.manifest).await?;
        let base = read_base(&json)?;
        self.base = base.files.into_iter().map(|file| (file.path.clone(), file)).collect();
        let net = recorder.state().net_changes();
        // What acts made where the policy asks is there by right, and so are the folders that it is in.
        let mut protected = base.guarded;
        protected.extend(made_by_acts(net));
        self.known = Some(Guarded { protected, too_deep: base.too_deep, ..Guarded::default() });
        self.git_known = Some(base.git);
        let watched: BTreeSet<RelPath> = self.base.keys().chain(net.keys()).cloned().collect();
        self.scan(&watched)?;
        let mut suspect: BTreeSet<RelPath> = net.keys().cloned().collect();
        for path in &watched {
            let as_base = match (self.manifest.get(path), self.base.get(path)) {
                (None, None) => true,
                (Some(entry), Some(base)) => {
                    entry.mode.as_git() == base.mode && *base.sha256.bytes() == entry.oid.sha256
                }
                _ => false,
            };
            if !as_base {
                suspect.insert(path.clone());
            }
        }
        suspect.extend(
            self.manifest
                .entries()
                .filter(|entry| !watched.contains(&entry.path))
                .map(|entry| entry.path.clone()),
        );
        self.suspect = suspect;
        Ok(())
    }

    /// The digest of the files as last seen.
    pub(crate) fn tree(&self) -> Result<TreeDigest, RunError> {
        let entries: Vec<TreeEntry> = self.manifest.entries().map(tree_entry).collect();
        tree_digest(&entries).map_err(|error| self.error(error))
    }

    /// All that differs from what the journal expects, since this was last asked.
    pub(crate) fn observe(&mut self, recorder: &mut Recorder) -> Result<Vec<Change>, RunError> {
        let deltas = self.manifest.rescan(&self.workspace).map_err(|error| self.error(error))?;
        self.suspect.extend(deltas.into_iter().map(|delta| delta.path));
        self.differences(recorder)
    }

    /// The suspects that do differ.
    fn differences(&mut self, recorder: &mut Recorder) -> Result<Vec<Change>, RunError> {
        let mut changes = Vec::new();
        let mut room = KEPT_AT_ONCE;
        for path in std::mem::take(&mut self.suspect) {
            let before = self.expected(&path, recorder)?;
            let after = self.actual(&path, recorder, room)?;
            if let Some(fact) = after.as_ref().filter(|fact| fact.kept) {
                room = room.saturating_sub(fact.size);
            }
            if before != after {
                changes.push(Change { path, before, after });
            }
        }
        Ok(changes)
    }

    /// Looks at these paths again after they were written.
    pub(crate) fn refresh(&mut self, paths: &[RelPath]) -> Result<(), RunError> {
        let deltas = self.manifest.refresh(&self.workspace, paths).map_err(|error| self.error(error))?;
        self.suspect.extend(deltas.into_iter().map(|delta| delta.path));
        Ok(())
    }

    /// Differences at these paths from what the journal expects, before they are written.
    pub(crate) fn drift_of(
        &mut self,
        changes: &[FileChange],
        recorder: &mut Recorder,
    ) -> Result<Vec<Change>, RunError> {
        for change in changes {
            let expected = self.expected(&change.path, recorder)?;
            if expected != fact_of(change.before.as_ref(), recorder) {
                self.suspect.insert(change.path.clone());
            }
        }
        if self.suspect.is_empty() {
            return Ok(Vec::new());
        }
        self.differences(recorder)
    }

    /// Differences at these paths from what the journal expects, whatever the last scan says.
    pub(crate) fn differences_at(
        &mut self,
        changes: &[FileChange],
        recorder: &mut Recorder,
    ) -> Result<Vec<Change>, RunError> {
        self.suspect.extend(changes.iter().map(|change| change.path.clone()));
        self.differences(recorder)
    }

    /// A file as the journal expects it.
    pub(crate) fn expected(
        &mut self,
        path: &RelPath,
        recorder: &mut Recorder,
    ) -> Result<Option<FileFact>, RunError> {
        if let Some(change) = recorder.state().net_changes().get(path) {
            return Ok(change.after.clone());
        }
        let Some(base) = self.base.get_mut(path) else {
            return Ok(None);
        };
        if base.content.is_none()
            && base.size <= KEEP
            && let Some(repository) = &self.repository
        {
            let id = match repository.format() {
                ObjectFormat::Sha1 => base.sha1.clone(),
                ObjectFormat::Sha256 => base.sha256.to_string(),
            };
            let held = repository.blobs(&[id])?.pop();
            base.content = held.map(|bytes| recorder.content(bytes));
        }
        Ok(Some(FileFact {
            mode: base.mode.clone(),
            size: base.size,
            content: base.content.unwrap_or_else(|| recorder.salt().digest(base.sha256.bytes())),
            kept: base.content.is_some(),
        }))
    }

    /// A file as it is; its content goes into the journal.
    fn actual(
        &self,
        path: &RelPath,
        recorder: &mut Recorder,
        room: u64,
    ) -> Result<Option<FileFact>, RunError> {
        match self.workspace.version(path, KEEP.min(room)) {
            Ok(version) => Ok(fact_of(version.as_ref(), recorder)),
            Err(FileError::TooLarge { size, .. }) => {
                let entry = self.manifest.get(path);
                Ok(entry.map(|entry| FileFact {
                    mode: entry.mode.as_git().to_owned(),
                    size,
                    content: recorder.salt().digest(&entry.oid.sha256),
                    kept: false,
                }))
            }
            // A folder or a special file took its place: as a file it is gone.
            Err(FileError::Kind { .. }) => Ok(None),
            Err(error) => Err(self.error(error)),
        }
    }

    fn version(&self, path: &RelPath) -> Result<Option<FileVersion>, RunError> {
        self.workspace.version(path, KEEP).map_err(|error| self.error(error))
    }

    /// Undoes a change that policy does not let stand. Says whether it could.
    pub(crate) async fn undo(&mut self, change: &Change, recorder: &Recorder) -> Result<Undone, RunError> {
        let before = match &change.before {
            None => None,
            Some(fact) if fact.kept => Some(FileVersion {
                mode: FileMode::from_git(&fact.mode).unwrap_or(FileMode::Regular),
                bytes: recorder.bytes(&fact.content).await?,
            }),
            Some(_) => return Ok(Undone::No),
        };
        let now = self.version(&change.path)?;
        let back = FileChange { path: change.path.clone(), before: now, after: before };
        self.workspace.apply(&[back]).map_err(|error| self.error(error))?;
        self.manifest
            .refresh(&self.workspace, std::slice::from_ref(&change.path))
            .map_err(|error| self.error(error))?;
        Ok(Undone::Yes)
    }

    /// The files of the tree, as last seen.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.manifest.entries().map(|entry| &entry.path)
    }

    /// Whether the tree has a file at or beneath this path.
    pub(crate) fn has_beneath(&self, path: &RelPath) -> bool {
        self.manifest.get(path).is_some()
            || self
                .manifest
                .entries()
                .any(|entry| entry.path.to_bytes().starts_with(&[&path.to_bytes(), b"/".as_slice()].concat()))
    }

    /// Copies every file of the tree, as last seen, into an empty folder.
    pub(crate) fn copy_tree(&self, to: &Path) -> Result<(), NoCheckout> {
        let unfit = |path: &RelPath, why: &dyn std::fmt::Display| {
            NoCheckout::Unfit(format!("`{path}` cannot be copied for the verification: {why}"))
        };
        if let Some(path) = self.manifest.unreadable().next() {
            return Err(unfit(path, &"it is not readable, or there is too much to read"));
        }
        let mut made: Option<PathBuf> = None;
        for entry in self.manifest.entries() {
            let to = to.join(entry.path.to_os());
            // What lies in one folder mostly stands together.
            if let Some(folder) = to.parent().filter(|folder| made.as_deref() != Some(*folder)) {
                std::fs::create_dir_all(folder).map_err(|error| unfit(&entry.path, &error))?;
                made = Some(folder.to_owned());
            }
            match self.workspace.copy_out(entry, &to) {
                Ok(Copied::Same) => {}
                Ok(Copied::Changed) => {
                    return Err(unfit(&entry.path, &"it changes all the time, or is too large"));
                }
                Err(error) => return Err(unfit(&entry.path, &error)),
            }
        }
        Ok(())
    }

    /// What commands may see and change.
    /// Has the containment show what these servers need.
    pub(crate) fn show_servers(&mut self, servers: &[Server], host: &HostEnvironment) {
        self.server_reads = server_reads(servers, host, self.root());
    }

    pub(crate) fn profile(&mut self, policy: &Policy, host: &HostEnvironment) -> Result<Profile, RunError> {
        let mut profile = Profile::for_workspace(self.root())?;
        if policy.forbids_all_writes() {
            profile.workspace_access = WorkspaceAccess::ReadOnly;
        }
        profile.limits = policy.caps;
        if policy.workspace.is_staged() {
            self.make_build_folders(policy)?;
            self.build_folders = self.direct_folders(policy);
            let direct = self.build_folders.iter().map(|path| self.root().join(path.to_os())).collect();
            profile.changes = Changes::Staged { direct, copy: None };
        }
        profile.require = policy.require.clone();
        profile.readable.extend(readable_folders(host, policy, self.root()));
        profile.readable.extend(self.server_reads.iter().cloned());
        profile.private.extend(private_folders(host, self.root()));
        profile.readable.extend(git_reads(self.root()));
        if policy.git == GitAccess::Full {
            profile.writable.extend(git_reads(self.root()));
        }
        self.git = GitGuard::open(self.root(), policy).map_err(|error| unusable(self.root(), &error))?;
        if let Some(git) = &self.git {
            let there = git.scan().map_err(|error| unusable(&git.of().folder, &error))?;
            self.git_known.get_or_insert(there);
        }
        self.git_shown = git_folder(self.root()).filter(|_| policy.lets_commit());
        profile.git = self.git_shown.clone();
        let found = self.guarded(policy)?;
        let absolute = |path: &RelPath| self.root().join(path.to_os());
        profile.protected.extend(found.protected.iter().map(absolute));
        profile.hidden.extend(found.hidden.iter().map(absolute));
        self.shown = found.clone();
        // Of a run that was taken up in the middle of a command it is known which names were there at its start.
        self.known.get_or_insert(found);
        Ok(profile)
    }

    /// Under R2 a protected name at the top of the workspace keeps commands from making new names beside it, so cargo
    /// could not make its `target`. It is made here; a cargo package has it anyway after the first build.
    pub(crate) fn make_build_folder(&self, profile: &Profile) -> Result<Made, RunError> {
        let target = self.root().join("target");
        let wanted = profile.workspace_access == WorkspaceAccess::Writable
            && profile.protected.iter().any(|path| path.parent() == Some(self.root()))
            && self.root().join("Cargo.toml").is_file();
        if !wanted || target.exists() {
            return Ok(Made::Not);
        }
        std::fs::create_dir(&target).map_err(|error| unusable(&target, &error))?;
        Ok(Made::Now)
    }

    /// The build folders that are there, that git ignores and in which nothing is part of the run: what git tracks is
    /// changed by way of the layer, wherever it lies.
    fn direct_folders(&self, policy: &Policy) -> Vec<RelPath> {
        let is_folder = |path: &RelPath| {
            let whole = self.root().join(path.to_os());
            // No link on the way: what it leads to may be anybody's.
            whole.is_dir() && whole.canonicalize().is_ok_and(|real| real == whole)
        };
        let fits = |path: &&RelPath| {
            is_folder(path) && self.workspace.ignores_folder(path) && !self.has_beneath(path)
        };
        policy.workspace.build_folders().iter().filter(fits).cloned().collect()
    }

    /// A folder can be changed at once only where it is there when the command starts: those that the first build would
    /// make are made here, where it is sure that it would.
    fn make_build_folders(&self, policy: &Policy) -> Result<(), RunError> {
        if policy.forbids_all_writes() {
            return Ok(());
        }
        for (name, of) in [("target", "Cargo.toml"), ("node_modules", "package.json")] {
            let (folder, file) = (self.root().join(name), self.root().join(of));
            let wanted = policy.workspace.build_folders().iter().find(|path| path.as_str() == name);
            let ignored = wanted.is_some_and(|path| self.workspace.ignores_folder(path));
            if ignored && file.is_file() && folder.symlink_metadata().is_err() {
                std::fs::create_dir(&folder).map_err(|error| unusable(&folder, &error))?;
            }
        }
        Ok(())
    }

    /// Before a command: whether other build folders are changed at once than its containment knows.
    pub(crate) fn build_folders_changed(&self, policy: &Policy) -> Result<bool, RunError> {
        if !policy.workspace.is_staged() {
            return Ok(false);
        }
        self.make_build_folders(policy)?;
        Ok(self.direct_folders(policy) != self.build_folders)
    }

    /// Whether a path is part of the run, whatever ignore rules say.
    pub(crate) fn watches(&self, path: &RelPath) -> bool {
        self.manifest.watches(path)
    }

    /// Whether what stands at a path is another than when it was last looked at.
    pub(crate) fn moved(&mut self, path: &RelPath) -> Result<bool, RunError> {
        let looked = self.manifest.refresh(&self.workspace, std::slice::from_ref(path));
        let deltas = looked.map_err(|error| self.error(error))?;
        let moved = !deltas.is_empty();
        self.suspect.extend(deltas.into_iter().map(|delta| delta.path));
        Ok(moved)
    }

    /// What stands at a path, whatever the journal expects there.
    pub(crate) fn stands_at(
        &mut self,
        path: &RelPath,
        recorder: &mut Recorder,
    ) -> Result<Option<FileFact>, RunError> {
        self.refresh(std::slice::from_ref(path))?;
        self.actual(path, recorder, KEEP)
    }

    /// Removes what a crash may have left beside these paths.
    pub(crate) fn sweep(&self, paths: &[RelPath]) {
        self.workspace.sweep(paths.iter().cloned());
    }

    /// Guarded names that the containment in force was made for.
    pub(crate) fn shown(&self) -> &Guarded {
        &self.shown
    }

    /// Build folders that commands change at once although changes are staged.
    pub(crate) fn build_folders(&self) -> &[RelPath] {
        &self.build_folders
    }

    fn guarded(&mut self, policy: &Policy) -> Result<Guarded, RunError> {
        if policy.layers.iter().all(|layer| layer.rules.is_empty()) {
            return Ok(Guarded::default());
        }
        self.guard.scan(&self.workspace, policy).map_err(|error| unusable(self.root(), &error))
    }

    /// Before a command: whether the guarded names are no longer those that its containment knows. Where no command goes
    /// on, those that are there now are nobody's command's.
    pub(crate) fn names_changed(&mut self, policy: &Policy, whose: Whose) -> Result<bool, RunError> {
        let found = self.guarded(policy)?;
        let changed = (&found.protected, &found.hidden) != (&self.shown.protected, &self.shown.hidden);
        if whose == Whose::Anybodys {
            self.known = Some(found);
        }
        if whose == Whose::Anybodys
            && let Some(git) = &self.git
        {
            self.git_known = Some(git.scan().map_err(|error| unusable(&git.of().folder, &error))?);
        }
        let folder = git_folder(self.root()).filter(|_| policy.lets_commit());
        Ok(changed || folder != self.git_shown)
    }

    /// Under whose name commands commit: a command sees no home folder with a configuration of git's.
    pub(crate) fn identity(&self, host: &HostEnvironment) -> Result<Vec<(String, String)>, RunError> {
        let Some(repository) = &self.repository else { return Ok(Vec::new()) };
        let Some((name, email)) = repository.identity(host.home.as_deref().map(Path::new))? else {
            return Ok(Vec::new());
        };
        let set = |variable: &str, value: &str| (variable.to_owned(), value.to_owned());
        Ok(vec![
            set("GIT_AUTHOR_NAME", &name),
            set("GIT_AUTHOR_EMAIL", &email),
            set("GIT_COMMITTER_NAME", &name),
            set("GIT_COMMITTER_EMAIL", &email),
        ])
    }

    /// Removes what a command made in the git folder beside commits, and names it for people.
    pub(crate) fn expel_from_git(&mut self) -> Result<Vec<PathBuf>, RunError> {
        let Some(git) = &self.git else { return Ok(Vec::new()) };
        let folder = &git.of().folder;
        let found = git.scan().map_err(|error| unusable(folder, &error))?;
        let known = self.git_known.get_or_insert_default();
        let mut expelled = Vec::new();
        for path in found.difference(known) {
            let whole = folder.join(path.to_os());
            git.remove(path).map_err(|error| unusable(&whole, &error))?;
            expelled.push(whole);
        }
        Ok(expelled)
    }

    /// Guarded names that acts made are there by right, and so are the folders that they are in.
    pub(crate) fn know_what_acts_made(&mut self, net: &BTreeMap<RelPath, Change>) {
        self.known.get_or_insert_default().protected.extend(made_by_acts(net));
    }

    /// Forgets which guarded names were there: those that are there now were.
    pub(crate) fn know_again(&mut self) {
        self.git_known = None;
        self.known = None;
    }

    /// Removes guarded names that a command made where there were none, and what it nested too deep to look into.
    pub(crate) fn expel(&mut self, policy: &Policy) -> Result<Vec<RelPath>, RunError> {
        let found = self.guarded(policy)?;
        let known = self.known.get_or_insert_default();
        let new = found.protected.difference(&known.protected);
        let deep = found.too_deep.difference(&known.too_deep);
        let expelled: Vec<RelPath> = new.chain(deep).cloned().collect();
        for path in &expelled {
            guard::remove(&self.workspace, path)
                .map_err(|error| unusable(&self.root().join(path.to_os()), &error))?;
        }
        Ok(expelled)
    }

    /// Whether something could not be read: then nobody can say that it is unchanged.
    pub(crate) fn is_whole(&self) -> bool {
        self.manifest.unreadable().len() == 0
    }
}

/// Locks a workspace against other drivers in it, in a folder of it, or in a folder above it.
pub(crate) fn lock(root: &Path) -> Result<Vec<std::fs::File>, RunError> {
    let occupied = |error| match error {
        std::fs::TryLockError::WouldBlock => RunError::Occupied(root.to_owned()),
        std::fs::TryLockError::Error(error) => unusable(root, &error),
    };
    let own = std::fs::File::open(root).map_err(|error| unusable(root, &error))?;
    own.try_lock().map_err(occupied)?;
    let mut locks = vec![own];
    // A folder that may not be read cannot be anybody's workspace who could read it; it has no lock to take.
    for above in root.ancestors().skip(1).filter_map(|above| std::fs::File::open(above).ok()) {
        above.try_lock_shared().map_err(occupied)?;
        locks.push(above);
    }
    Ok(locks)
}

/// Who may have made the guarded names that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// No command of the run.
    Anybodys,
    /// A command that goes on.
    PerhapsACommands,
}

/// Files that acts made, and the folders that they are in.
fn made_by_acts(net: &BTreeMap<RelPath, Change>) -> impl Iterator<Item = RelPath> {
    let made = net.values().filter(|change| change.after.is_some());
    made.flat_map(|change| {
        let above = change.path.ancestors().filter_map(|above| RelPath::parse(above).ok());
        above.chain([change.path.clone()]).collect::<Vec<_>>()
    })
}

/// Whether a folder was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Now,
    Not,
}

/// Whether a change could be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undone {
    Yes,
    No,
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> RunError {
    RunError::Workspace { path: PathBuf::from(path), reason: error.to_string() }
}

/// A version as a fact; its content goes into the journal.
pub(crate) fn fact_of(version: Option<&FileVersion>, recorder: &mut Recorder) -> Option<FileFact> {
    version.map(|version| FileFact {
        mode: version.mode.as_git().to_owned(),
        size: version.bytes.len() as u64,
        content: recorder.content(version.bytes.as_slice()),
        kept: true,
    })
}

fn tree_entry(entry: &Entry) -> TreeEntry {
    TreeEntry {
        path: entry.path.clone(),
        mode: match entry.mode {
            FileMode::Regular => Mode::File,
            FileMode::Executable => Mode::Executable,
            FileMode::Link => Mode::Symlink,
        },
        oid: BlobOid { sha1: entry.oid.sha1, sha256: entry.oid.sha256 },
    }
}
