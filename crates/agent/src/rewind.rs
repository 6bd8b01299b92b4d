//! Putting files back to what they were at a step, and telling the model of it.
//!
//! A rewind is several file operations, so a crash may fall between them. Its event is durable before the first; the
//! files then follow one by one, each of them at once. Whoever takes the run up next finds which files still stand as
//! they did before, and carries the rewind to its end. A file that stands as neither is somebody's later work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use provost_core::act::{Change, FileFact};
use provost_core::event::{Body, Event, WorkspaceRestored, WorkspaceRewound};
use provost_core::history;
use provost_core::id::RunId;
use provost_core::path::RelPath;
use provost_core::state::RunState;
use provost_evidence::content::Salt;
use provost_evidence::git::is_git_folder_name;
use provost_tools::Workspace;
use provost_tools::workspace::{FileChange, FileError, FileMode, FileVersion, Kind, Manifest};

use crate::error::RunError;
use crate::files::lock;
use crate::lease::Held;
use crate::recorder::Recorder;
use crate::runtime::Runtime;
use crate::undo::{Undo, fold, names};

/// What files are put back to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The state after so many steps; 0 is the start of the run.
    pub step: u32,
    /// Only these files, and what lies beneath these folders; all where there are none.
    pub paths: Vec<RelPath>,
}

/// What a rewind did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewound {
    /// What is put back. Empty where all stands so already.
    pub changes: Vec<Change>,
    /// Files that an earlier rewind, which was interrupted, had yet to put back.
    pub carried: Vec<Change>,
    /// Files that the run left as they are to be, and that somebody has changed since: left alone.
    pub others: Vec<RelPath>,
}

/// The workspace and the journal of a run, held for a rewind.
struct Ready {
    workspace: Workspace,
    recorder: Recorder,
    events: Vec<Event>,
    _locks: Vec<std::fs::File>,
}

impl Runtime {
    /// Puts files of a run back to what they were. See [`Undo::rewind`].
    pub async fn rewind(&self, run: &RunId, target: &Target, by: &str) -> Result<Rewound, RunError> {
        self.undo().rewind(run, target, by).await
    }
}

impl Undo {
    /// Puts files of a run back to what they were at a step, on the word of `by`.
    ///
    /// All that the journal has a change of is put back, whoever made it. Nobody may drive the run meanwhile. Where a
    /// file is neither as the journal has it nor as it is to be, it is somebody's later work, and nothing is changed.
    pub async fn rewind(&self, run: &RunId, target: &Target, by: &str) -> Result<Rewound, RunError> {
        let held = Held::briefly(self.store.clone(), run, self.clock.clone()).await?;
        let done = self.put_back(run, target, by, &held).await;
        held.give_back().await;
        done
    }

    /// What [`rewind`](Self::rewind) would do, refusals included. Changes nothing.
    pub async fn plan_rewind(&self, run: &RunId, target: &Target) -> Result<Rewound, RunError> {
        let held = Held::briefly(self.store.clone(), run, self.clock.clone()).await?;
        let planned = async {
            let ready = self.ready(run, &held).await?;
            let carried = unfinished(&ready.workspace, ready.recorder.salt(), &ready.events)?;
            let changes = ready.plan(target, &carried).await?;
            let others = ready.changed_since(target, &carried)?;
            Ok(Rewound { changes, carried, others })
        };
        let planned = planned.await;
        held.give_back().await;
        planned
    }

    async fn put_back(
        &self,
        run: &RunId,
        target: &Target,
        by: &str,
        held: &Held,
    ) -> Result<Rewound, RunError> {
        let mut ready = self.ready(run, held).await?;
        let carried = carry_to_the_end(&ready.workspace, &ready.recorder, &ready.events).await?;
        if !newest(&ready.events).is_empty() {
            ready.restored().await?;
        }
        let changes = ready.plan(target, &[]).await?;
        let others = ready.changed_since(target, &[])?;
        if !changes.is_empty() {
            let body = WorkspaceRewound { changes: changes.clone(), by: by.to_owned() };
            ready.recorder.record(Body::WorkspaceRewound(body))?;
            // Only behind this line is a file touched.
            ready.recorder.commit().await?;
            carry_out(&ready.workspace, &ready.recorder, &changes).await?;
            ready.restored().await?;
        }
        Ok(Rewound { changes, carried, others })
    }

    async fn ready(&self, run: &RunId, held: &Held) -> Result<Ready, RunError> {
        let salt = self.salt(run).await?;
        let events = self.store.events(run, 0).await?;
        let (created, _) = fold(run, &events)?;
        let (store, observer) = (self.store.clone(), self.observer.clone());
        let mut recorder = Recorder::new(store, observer, self.clock.clone(), salt, held.lease.clone());
        recorder.replay(&events)?;
        let root = Path::new(&created.root);
        let workspace = Workspace::open(root)
            .map_err(|error| RunError::Workspace { path: root.to_owned(), reason: error.to_string() })?;
        let locks = lock(workspace.path())?;
        Ok(Ready { workspace, recorder, events, _locks: locks })
    }
}

impl Ready {
    /// Puts it on record that all is put back: without that, the next would put back again what somebody changes now.
    async fn restored(&mut self) -> Result<(), RunError> {
        self.recorder.record(Body::WorkspaceRestored(WorkspaceRestored {}))?;
        self.recorder.commit().await
    }

    /// What is to be put back. Refused where it cannot be carried to its end.
    async fn plan(&self, target: &Target, carried: &[Change]) -> Result<Vec<Change>, RunError> {
        let state = self.recorder.state();
        if let Some(process) = state.open_processes().first() {
            return Err(RunError::Undo(format!(
                "background command {} has no end yet: `provost resume` accounts for it",
                provost_core::process::name(*process)
            )));
        }
        if let Some((act, _)) = state.open_acts().iter().find(|(_, act)| act.is_under_way()) {
            return Err(RunError::Undo(format!(
                "act {act} has started, and what became of it is not known: `provost resume` finds out"
            )));
        }
        let changes = select(&self.events, state, target)?;
        let refuse = |paths: Vec<&RelPath>, why: &str| {
            Err(RunError::Undo(format!("nothing was put back: {} {why}", names(paths.into_iter()))))
        };
        let of = |which: &dyn Fn(&&Change) -> bool| -> Vec<&RelPath> {
            changes.iter().filter(which).map(|change| &change.path).collect()
        };
        let in_git = of(&|change| change.path.to_bytes().split(|byte| *byte == b'/').any(is_git_folder_name));
        if !in_git.is_empty() {
            return refuse(in_git, "is git's own, which is never touched");
        }
        let large = of(&|change| change.after.as_ref().is_some_and(|fact| !fact.kept));
        if !large.is_empty() {
            return refuse(
                large,
                "was larger than 8 MiB then, and the journal keeps no content of that size; --path leaves it out",
            );
        }
        // An interrupted rewind that is yet to be carried to its end has these where they were before it.
        let waiting: BTreeMap<&RelPath, &Option<FileFact>> =
            carried.iter().map(|change| (&change.path, &change.before)).collect();
        let mut others = Vec::new();
        for change in &changes {
            let salt = self.recorder.salt();
            let expected = waiting.get(&change.path).copied().unwrap_or(&change.before);
            // What somebody has put back by hand is as it is to be: only the journal does not know.
            if !stands(&self.workspace, salt, &change.path, expected.as_ref())?
                && !stands(&self.workspace, salt, &change.path, change.after.as_ref())?
            {
                others.push(&change.path);
            }
        }
        if !others.is_empty() {
            return refuse(
                others,
                "is not as the run left it: it is somebody's later work. Keep that elsewhere and put the file back as \
                 the run left it (`provost diff`), or name with --path what else is to be put back",
            );
        }
        self.check_room(&changes)?;
        for fact in changes.iter().filter_map(|change| change.after.as_ref()) {
            // Once it has begun it is to come to its end: all content must be there.
            self.recorder.bytes(&fact.content).await?;
        }
        Ok(changes)
    }

    /// Files that are in the journal as they are to be, and not on the disk.
    fn changed_since(&self, target: &Target, carried: &[Change]) -> Result<Vec<RelPath>, RunError> {
        let state = self.recorder.state();
        let mut others = Vec::new();
        for (path, then) in wanted(&self.events, target)? {
            let as_recorded = state.files().get(&path).is_some_and(|now| *now == then);
            let waits = carried.iter().any(|change| change.path == path);
            if as_recorded && !waits && !stands(&self.workspace, self.recorder.salt(), &path, then.as_ref())?
            {
                others.push(path);
            }
        }
        Ok(others)
    }

    /// Whether there is room for each file that comes back: no file where its folders are to be, no folder in its place
    /// that holds what stays.
    fn check_room(&self, changes: &[Change]) -> Result<(), RunError> {
        let gone: BTreeSet<&RelPath> = gone(changes).collect();
        for change in changes.iter().filter(|change| change.after.is_some()) {
            for above in change.path.ancestors().skip(1) {
                let above = RelPath::try_from(above.to_owned())
                    .map_err(|error| RunError::Internal(error.to_string()))?;
                let is_folder = match self.workspace.version(&above, 0) {
                    Ok(None) | Err(FileError::Kind { kind: Kind::Folder, .. }) => true,
                    Ok(Some(_)) | Err(FileError::TooLarge { .. } | FileError::Kind { .. }) => false,
                    Err(error) => return Err(self.failed(&error)),
                };
                if !is_folder && !gone.contains(&above) {
                    return Err(in_the_way(&change.path, &above));
                }
            }
            if let Err(FileError::Kind { kind, .. }) = self.workspace.version(&change.path, 0) {
                if kind != Kind::Folder {
                    return Err(in_the_way(&change.path, &change.path));
                }
                self.check_goes(&change.path, &change.path, &gone)?;
            }
        }
        Ok(())
    }

    /// Whether all that a folder holds is removed.
    fn check_goes(
        &self,
        wanted: &RelPath,
        folder: &RelPath,
        gone: &BTreeSet<&RelPath>,
    ) -> Result<(), RunError> {
        let located = self.workspace.locate(folder).map_err(|error| self.failed(&error))?;
        let items = self.workspace.list(&located).map_err(|error| self.failed(&error))?;
        if items.is_empty() {
            // Nothing that is removed lies in it, so nothing would remove it.
            return Err(in_the_way(wanted, folder));
        }
        for item in items {
            let path = folder.join(&item.name).map_err(|error| RunError::Internal(error.to_string()))?;
            if item.kind == Kind::Folder {
                self.check_goes(wanted, &path, gone)?;
            } else if !gone.contains(&path) {
                return Err(in_the_way(wanted, &path));
            }
        }
        Ok(())
    }

    fn failed(&self, error: &FileError) -> RunError {
        failed(&self.workspace, error)
    }
}

fn in_the_way(wanted: &RelPath, what: &RelPath) -> RunError {
    RunError::Undo(format!(
        "nothing was put back: there is no room for `{wanted}`, since `{what}` stands there and the run did not make it. \
         Move it aside, or name with --path what else is to be put back"
    ))
}

fn failed(workspace: &Workspace, error: &dyn std::fmt::Display) -> RunError {
    RunError::Workspace { path: workspace.path().to_owned(), reason: error.to_string() }
}

/// The files of the target, as they were then.
fn wanted(
    events: &[Event],
    target: &Target,
) -> Result<impl Iterator<Item = (RelPath, Option<FileFact>)>, RunError> {
    let Some(count) = history::settled_after(events, target.step) else {
        return Err(RunError::Undo(no_step(events, target.step)));
    };
    let then = history::files_at(events, count);
    for path in &target.paths {
        if !then.keys().any(|changed| is_beneath(changed, path)) {
            return Err(RunError::Undo(format!("the run changed nothing at `{path}`")));
        }
    }
    Ok(then
        .into_iter()
        .filter(|(path, _)| target.paths.is_empty() || target.paths.iter().any(|top| is_beneath(path, top))))
}

/// What leads from the files as they are to those of the target.
fn select(events: &[Event], state: &RunState, target: &Target) -> Result<Vec<Change>, RunError> {
    let change = |(path, after): (RelPath, Option<FileFact>)| {
        let before = state.files().get(&path).cloned().flatten();
        (before != after).then_some(Change { path, before, after })
    };
    Ok(wanted(events, target)?.filter_map(change).collect())
}

pub(crate) fn no_step(events: &[Event], step: u32) -> String {
    let steps = history::steps(events);
    let has = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
    format!("the run has {has}: there is no step {step}")
}

fn is_beneath(path: &RelPath, top: &RelPath) -> bool {
    top.is_root() || path.ancestors().any(|above| above == top.as_str())
}

/// Whether a file stands as the journal has it.
pub(crate) fn stands(
    workspace: &Workspace,
    salt: &Salt,
    path: &RelPath,
    fact: Option<&FileFact>,
) -> Result<bool, RunError> {
    let Some(fact) = fact else {
        return match workspace.version(path, 0) {
            Ok(None) | Err(FileError::Kind { .. }) => Ok(true),
            Ok(Some(_)) | Err(FileError::TooLarge { .. }) => Ok(false),
            Err(error) => Err(failed(workspace, &error)),
        };
    };
    if !fact.kept {
        // Too large to be held in memory.
        let mut manifest = Manifest::default();
        manifest.refresh(workspace, std::slice::from_ref(path)).map_err(|error| failed(workspace, &error))?;
        return Ok(manifest.get(path).is_some_and(|entry| {
            entry.mode.as_git() == fact.mode
                && entry.size == fact.size
                && salt.digest(&entry.oid.sha256) == fact.content
        }));
    }
    match workspace.version(path, fact.size) {
        Ok(Some(version)) => {
            Ok(version.mode.as_git() == fact.mode && salt.digest(&version.bytes) == fact.content)
        }
        Ok(None) | Err(FileError::TooLarge { .. } | FileError::Kind { .. }) => Ok(false),
        Err(error) => Err(failed(workspace, &error)),
    }
}

/// What the newest rewind puts back, if it was interrupted. Once it has come to its end, what is otherwise since then is
/// somebody's doing.
fn newest(events: &[Event]) -> &[Change] {
    let newest = events.iter().rev().find_map(|event| match &event.body {
        Body::DriverAttached(_) | Body::WorkspaceRestored(_) => Some([].as_slice()),
        Body::WorkspaceRewound(rewound) => Some(rewound.changes.as_slice()),
        _ => None,
    });
    newest.unwrap_or_default()
}

/// What the newest rewind had yet to put back when it was interrupted.
fn unfinished(workspace: &Workspace, salt: &Salt, events: &[Event]) -> Result<Vec<Change>, RunError> {
    let mut left = Vec::new();
    for change in newest(events) {
        if stands(workspace, salt, &change.path, change.before.as_ref())? {
            left.push(change.clone());
        }
    }
    Ok(left)
}

/// Carries a rewind that was interrupted to its end. Says what it had yet to put back.
pub(crate) async fn carry_to_the_end(
    workspace: &Workspace,
    recorder: &Recorder,
    events: &[Event],
) -> Result<Vec<Change>, RunError> {
    // It may have been interrupted between a file and the folder that it left empty, where another file is to stand.
    workspace.remove_empty_above(gone(newest(events)));
    let left = unfinished(workspace, recorder.salt(), events)?;
    carry_out(workspace, recorder, &left).await?;
    workspace.remove_empty_above(gone(newest(events)));
    Ok(left)
}

/// Files that go.
fn gone(changes: &[Change]) -> impl Iterator<Item = &RelPath> {
    changes.iter().filter(|change| change.after.is_none()).map(|change| &change.path)
}

/// Puts files back that stand as before. First those go that are to go: one of them may stand where a folder has to be.
async fn carry_out(workspace: &Workspace, recorder: &Recorder, changes: &[Change]) -> Result<(), RunError> {
    let unfinished = |error: &dyn std::fmt::Display| RunError::Workspace {
        path: workspace.path().to_owned(),
        reason: format!(
            "{error}. The files are only partly put back: `provost rewind` or `provost resume` goes on with it"
        ),
    };
    // A file that changed in this very moment is somebody's, and stays.
    let as_before =
        |change: &Change| stands(workspace, recorder.salt(), &change.path, change.before.as_ref());
    for change in changes.iter().filter(|change| change.after.is_none()) {
        if as_before(change)? {
            workspace.remove_file(&change.path).map_err(|error| unfinished(&error))?;
        }
    }
    workspace.remove_empty_above(gone(changes));
    for change in changes {
        let Some(fact) = &change.after else { continue };
        if !as_before(change)? {
            continue;
        }
        let mode = FileMode::from_git(&fact.mode)
            .ok_or_else(|| RunError::Internal(format!("`{}` is not a file mode", fact.mode)))?;
        let after = Some(FileVersion { mode, bytes: recorder.bytes(&fact.content).await? });
        let limit = change.before.as_ref().map_or(0, |before| before.size);
        let before = workspace.version(&change.path, limit).map_err(|error| unfinished(&error))?;
        let back = FileChange { path: change.path.clone(), before, after };
        workspace.complete(&[back]).map_err(|error| unfinished(&error))?;
    }
    Ok(())
}

/// What the model is told of files that were put back.
pub(crate) fn told(state: &RunState) -> String {
    let (gone, back): (Vec<&RelPath>, Vec<&RelPath>) =
        state.put_back().iter().partition(|path| state.files().get(*path).is_some_and(Option::is_none));
    let mut text =
        "A person has put files of the workspace back to what they were earlier. Your work on them is undone.\n"
            .to_owned();
    for (what, paths) in [("Put back", back), ("Removed", gone)] {
        if !paths.is_empty() {
            text.push_str(&format!("{what}: {}\n", names(paths.into_iter())));
        }
    }
    text.push_str(
        "Read them again before you go on. If you had said that the work is done, say so anew when it is.",
    );
    text
}
