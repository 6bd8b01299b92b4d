//! Commands whose changes gather in a layer: what the layer says is judged, made durable, put into the workspace.
//!
//! Nothing of a command is there before `act.staged` is durable. From then on a crash is settled from that event: each
//! file stands as before or as after, and is brought to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;

use provost_core::act::{ActEnd, Change, FileFact};
use provost_core::caps::Cap;
use provost_core::event::{ActStaged, Body, Unapplied, WhyUnapplied};
use provost_core::id::ActId;
use provost_core::path::RelPath;
use provost_core::policy::Policy;
use provost_core::staged::Unclean;
use provost_sandbox::{ExitRecord, NetReport, Recovered};
use provost_tools::workspace::{
    Durable, FileContent, FileError, FileMode, Found, Layer, LayerFile, LayerFolder, Look, Prepared,
};

use super::ActResult;
use super::command::exit_fact;
use crate::driver::{Driver, make_private};
use crate::error::RunError;
use crate::files::{KEEP, KEPT_AT_ONCE, Undone, fact_of};
use crate::guard;
use crate::names::{self, leads_out};

/// Names that a result lists of what was left out.
const NAMED: usize = 20;

/// What is to be put into the workspace.
#[derive(Default)]
struct Plan {
    changes: Vec<Change>,
    unapplied: Vec<Unapplied>,
    beside: Beside,
    /// How recorded files look.
    looks: BTreeMap<RelPath, Look>,
    /// Recorded files whose content the journal does not keep, and where it lies until it is put there.
    large: BTreeMap<RelPath, PathBuf>,
}

impl Plan {
    /// Nothing of it comes into the workspace.
    fn leaving(found: Found, why: WhyUnapplied) -> Self {
        let special = found.special.into_iter().map(|path| (path, WhyUnapplied::Special));
        let files = found.files.into_iter().map(|file| file.path);
        let left: BTreeMap<RelPath, WhyUnapplied> =
            files.chain(found.gone).map(|path| (path, why)).chain(special).collect();
        let unapplied = left.into_iter().map(|(path, why)| Unapplied { path, why }).collect();
        Self { unapplied, ..Self::default() }
    }

    /// Takes back what was to be put there.
    fn roll_back(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        let back = changes.into_iter().map(|change| (change.path, WhyUnapplied::RolledBack));
        self.unapplied.extend(back.map(|(path, why)| Unapplied { path, why }));
        self.beside = Beside::default();
    }
}

/// What is no part of a run and comes into the workspace all the same.
#[derive(Default)]
struct Beside {
    files: Vec<LayerFile>,
    gone: Vec<RelPath>,
    folders: Vec<LayerFolder>,
    gone_folders: Vec<RelPath>,
    /// Files of the same content with another time.
    touched: Vec<(RelPath, Look)>,
}

impl Beside {
    fn count(&self) -> u64 {
        let parts = [
            self.files.len(),
            self.gone.len(),
            self.folders.len(),
            self.gone_folders.len(),
            self.touched.len(),
        ];
        parts.into_iter().sum::<usize>() as u64
    }
}

impl Driver<'_> {
    /// Records what a command changed in its layer, puts it into the workspace and ends the act.
    pub(super) async fn staged_command_ended(
        &mut self,
        act: ActId,
        argv: &[String],
        record: &ExitRecord,
        layer: Layer,
        net: &NetReport,
    ) -> Result<(), RunError> {
        // What changed in the workspace meanwhile is somebody else's: the command had no way to it.
        let drifted = self.files.observe(&mut self.recorder)?;
        let others: BTreeSet<RelPath> = drifted.iter().map(|change| change.path.clone()).collect();
        if !drifted.is_empty() {
            self.record_drift(drifted)?;
        }
        let found = layer.read(self.files.workspace()).map_err(|error| self.unreadable(&error))?;
        let mut plan = self.judge(act, &layer, found, &others)?;
        let exit = exit_fact(record.ended);
        if self.recorder.state().rolls_back() && Unclean::of(exit, &record.caps, &plan.unapplied).is_some() {
            plan.roll_back();
        }
        let staged = ActStaged {
            act,
            changes: plan.changes.clone(),
            unapplied: plan.unapplied.clone(),
            beside: plan.beside.count(),
        };
        self.recorder.record(Body::ActStaged(Box::new(staged.clone())))?;
        if !staged.changes.is_empty() || staged.beside > 0 {
            self.recorder.commit().await?;
        }
        let mut unapplied = plan.unapplied.clone();
        unapplied.extend(self.put_into_workspace(&plan, &layer).await?);
        let result = self.command_result(argv, record, net);
        self.end_staged(act, &staged, unapplied, result)?;
        self.discard_copy();
        Ok(())
    }

    /// Decides of each thing in a layer whether it comes into the workspace, and whether it is recorded.
    fn judge(
        &mut self,
        act: ActId,
        layer: &Layer,
        found: Found,
        others: &BTreeSet<RelPath>,
    ) -> Result<Plan, RunError> {
        let policy = self.policy_of_act(act).ok_or_else(|| RunError::Internal("no contract".into()))?;
        if policy.caps.limit(Cap::Disk).is_some_and(|cap| written_out(&found) > cap) {
            return Ok(Plan::leaving(found, WhyUnapplied::Cap));
        }
        let mut plan = Plan::default();
        let mut conflict = false;
        let mut room = KEPT_AT_ONCE;
        let leave = |plan: &mut Plan, path: RelPath, why| plan.unapplied.push(Unapplied { path, why });
        for path in found.special {
            leave(&mut plan, path, WhyUnapplied::Special);
        }
        let all_or_nothing = self.recorder.state().rolls_back();
        if all_or_nothing {
            for path in found.owners {
                leave(&mut plan, path, WhyUnapplied::Owner);
            }
        }
        for path in found.gone {
            if guard::guards(&policy, &path) {
                leave(&mut plan, path, WhyUnapplied::Guarded);
                continue;
            }
            match self.files.expected(&path, &mut self.recorder)? {
                None => plan.beside.gone.push(path),
                before => {
                    conflict |= others.contains(&path);
                    plan.changes.push(Change { path, before, after: None });
                }
            }
        }
        for file in found.files {
            if guard::guards(&policy, &file.path) || is_guarded_link(&policy, &file) {
                leave(&mut plan, file.path, WhyUnapplied::Guarded);
                continue;
            }
            if file.ignored && !self.files.watches(&file.path) {
                plan.beside.files.push(file);
                continue;
            }
            if all_or_nothing && file.mode == FileMode::Link {
                let target = layer.version(&file, 0).map_err(|error| self.unreadable(&error))?;
                if leads_out(&file.path, &target.bytes) {
                    leave(&mut plan, file.path, WhyUnapplied::LeadsOut);
                    continue;
                }
            }
            let before = self.files.expected(&file.path, &mut self.recorder)?;
            let after = self.layer_fact(layer, &file, room)?;
            if before.as_ref() == Some(&after) {
                plan.beside.touched.push((file.path, file.look));
                continue;
            }
            if after.kept {
                room = room.saturating_sub(after.size);
            } else {
                let kept = self.keep_large(act, layer, &file, plan.large.len())?;
                plan.large.insert(file.path.clone(), kept);
            }
            conflict |= others.contains(&file.path);
            plan.looks.insert(file.path.clone(), file.look);
            plan.changes.push(Change { path: file.path, before, after: Some(after) });
        }
        let guarded = |path: &RelPath| guard::guards(&policy, path);
        for folder in found.folders {
            if guarded(&folder.path) {
                leave(&mut plan, folder.path, WhyUnapplied::Guarded);
            } else {
                plan.beside.folders.push(folder);
            }
        }
        if all_or_nothing {
            for path in self.colliding(&plan.changes) {
                leave(&mut plan, path, WhyUnapplied::Collides);
            }
        }
        plan.beside.gone_folders = found.gone_folders.into_iter().filter(|path| !guarded(path)).collect();
        if conflict {
            hold_back(&mut plan, others);
        }
        let mut said = BTreeSet::new();
        plan.unapplied.retain(|left| said.insert(left.path.clone()));
        plan.changes.retain(|change| !said.contains(&change.path));
        Ok(plan)
    }

    fn unreadable(&self, error: &FileError) -> RunError {
        RunError::Workspace {
            path: self.files.root().to_owned(),
            reason: format!("what the command changed cannot be read: {error}"),
        }
    }

    /// New files among `changes` whose names some file systems would take for another's.
    pub(super) fn colliding(&self, changes: &[Change]) -> BTreeSet<RelPath> {
        let new = changes.iter().filter(|change| change.before.is_none() && change.after.is_some());
        let new: Vec<&RelPath> = new.map(|change| &change.path).collect();
        let gone = changes.iter().filter(|change| change.after.is_none());
        let gone: BTreeSet<&RelPath> = gone.map(|change| &change.path).collect();
        names::colliding(self.files.paths().filter(|path| !gone.contains(path)), &new)
    }

    /// A file of a layer as a fact; its content goes into the journal where that keeps it.
    fn layer_fact(&mut self, layer: &Layer, file: &LayerFile, room: u64) -> Result<FileFact, RunError> {
        match layer.version(file, KEEP.min(room)) {
            Ok(version) => fact_of(Some(&version), &mut self.recorder)
                .ok_or_else(|| RunError::Internal("a version without a fact".to_owned())),
            Err(FileError::TooLarge { size, .. }) => {
                let oid = layer.oid(file).map_err(|error| self.unreadable(&error))?;
                Ok(FileFact {
                    mode: file.mode.as_git().to_owned(),
                    size,
                    content: self.recorder.salt().digest(&oid.sha256),
                    kept: false,
                })
            }
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    /// Where content lies that the journal does not keep, until it is in the workspace.
    fn large_dir(&self, act: ActId) -> PathBuf {
        self.runtime.spool.join(self.recorder.lease.run.as_str()).join(format!("staged-{act}"))
    }

    /// Copies such content out of the layer, synced: it has to outlive this driver once it is said to be staged.
    fn keep_large(
        &mut self,
        act: ActId,
        layer: &Layer,
        file: &LayerFile,
        number: usize,
    ) -> Result<PathBuf, RunError> {
        let folder = self.large_dir(act);
        let to = folder.join(number.to_string());
        let copied = (|| -> io::Result<()> {
            make_private(&folder)?;
            let mut from = layer.file(file).map_err(io::Error::other)?;
            let mut into = fs::File::create(&to)?;
            io::copy(&mut from, &mut into)?;
            into.sync_all()
        })();
        copied.map_err(|source| RunError::Spool { path: to.clone(), source })?;
        Ok(to)
    }

    /// Puts all of a plan into the workspace. What could not be put there is returned; where a file is not what it has to
    /// be, that is all of it.
    async fn put_into_workspace(&mut self, plan: &Plan, layer: &Layer) -> Result<Vec<Unapplied>, RunError> {
        let moved = self.moved(&plan.changes)?;
        if !moved.is_empty() {
            return Ok(all_held_back(&plan.changes, &moved));
        }
        let mut unapplied = Vec::new();
        // Content first: a disk that is full, or a folder that may not be written, is found before any name changes.
        let mut ready = Vec::new();
        for change in &plan.changes {
            if change.after.is_none() {
                continue;
            }
            match self.lay_down(change, plan.looks.get(&change.path).copied(), &plan.large).await? {
                Ok(prepared) => ready.push((change, Some(prepared))),
                // A file stands where a folder comes: once that is gone.
                Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {
                    ready.push((change, None));
                }
                Err(_) => return Ok(all_held_back(&plan.changes, &BTreeSet::new())),
            }
        }
        for change in plan.changes.iter().filter(|change| change.after.is_none()) {
            if self.files.workspace().remove_file(&change.path).is_err() {
                unapplied.push(Unapplied { path: change.path.clone(), why: WhyUnapplied::Failed });
            }
        }
        self.clear_away(&plan.beside);
        for (change, prepared) in ready {
            let prepared = match prepared {
                Some(prepared) => Ok(prepared),
                None => self.lay_down(change, plan.looks.get(&change.path).copied(), &plan.large).await?,
            };
            let why = if self.files.moved(&change.path)? {
                Some(WhyUnapplied::Conflict)
            } else if prepared.and_then(Prepared::put).is_err() {
                Some(WhyUnapplied::Failed)
            } else {
                None
            };
            unapplied.extend(why.map(|why| Unapplied { path: change.path.clone(), why }));
        }
        if !unapplied.is_empty() && self.recorder.state().rolls_back() {
            self.take_back(&plan.changes, &mut unapplied).await?;
        } else {
            self.put_beside(&plan.beside, layer);
        }
        Ok(unapplied)
    }

    /// Takes back what was put into the workspace of a command of which not all could be. What it was before and is not kept
    /// stays.
    async fn take_back(
        &mut self,
        changes: &[Change],
        unapplied: &mut Vec<Unapplied>,
    ) -> Result<(), RunError> {
        let left: BTreeSet<RelPath> = unapplied.iter().map(|left| left.path.clone()).collect();
        for change in changes.iter().filter(|change| !left.contains(&change.path)) {
            if self.files.undo(change, &self.recorder).await? == Undone::Yes {
                unapplied.push(Unapplied { path: change.path.clone(), why: WhyUnapplied::RolledBack });
            }
        }
        Ok(())
    }

    /// Those of the changes whose file is not what it was when it was last looked at.
    fn moved(&mut self, changes: &[Change]) -> Result<BTreeSet<RelPath>, RunError> {
        let mut moved = BTreeSet::new();
        for change in changes {
            if self.files.moved(&change.path)? {
                moved.insert(change.path.clone());
            }
        }
        Ok(moved)
    }

    /// Lays the content of a change down beside its target.
    async fn lay_down(
        &self,
        change: &Change,
        look: Option<Look>,
        large: &BTreeMap<RelPath, PathBuf>,
    ) -> Result<Result<Prepared, FileError>, RunError> {
        let Some(fact) = &change.after else {
            return Err(RunError::Internal("a removal has no content".to_owned()));
        };
        let mode = FileMode::from_git(&fact.mode)
            .ok_or_else(|| RunError::Internal(format!("`{}` is not a file mode", fact.mode)))?;
        let workspace = self.files.workspace();
        let laid =
            |content: FileContent<'_>| workspace.lay_down(&change.path, content, mode, look, Durable::Synced);
        if fact.kept {
            let bytes = self.recorder.bytes(&fact.content).await?;
            return Ok(laid(FileContent::Bytes(&bytes)));
        }
        let Some(path) = large.get(&change.path) else {
            return Err(RunError::Internal("content that was not kept is nowhere".to_owned()));
        };
        match fs::File::open(path) {
            Ok(file) => Ok(laid(FileContent::File(file))),
            Err(source) => Err(RunError::Spool { path: path.clone(), source }),
        }
    }

    /// Takes away what is no part of the run: it may stand where something comes. What cannot be, stays.
    fn clear_away(&self, beside: &Beside) {
        let workspace = self.files.workspace();
        for path in &beside.gone {
            let _ = workspace.remove_file(path);
        }
        for path in &beside.gone_folders {
            let _ = workspace.remove_folder(path);
        }
    }

    /// Puts there what is no part of the run. What cannot be put there is as if the command had not made it.
    fn put_beside(&self, beside: &Beside, layer: &Layer) {
        let workspace = self.files.workspace();
        for folder in &beside.folders {
            // With all rights of its owner's until what belongs in it is in it.
            let _ = workspace.make_folder(&folder.path, folder.permissions | 0o700);
        }
        for file in &beside.files {
            let put = || -> Result<(), FileError> {
                let content = match file.mode {
                    FileMode::Link => FileContent::Bytes(&layer.version(file, 0)?.bytes),
                    _ => FileContent::File(layer.file(file)?),
                };
                workspace.lay_down(&file.path, content, file.mode, Some(file.look), Durable::Not)?.put()
            };
            let _ = put();
        }
        for (path, look) in &beside.touched {
            let _ = workspace.set_look(path, *look);
        }
        for folder in beside.folders.iter().rev().filter(|folder| folder.permissions & 0o700 != 0o700) {
            let _ = workspace.make_folder(&folder.path, folder.permissions);
        }
    }

    /// Ends an act whose changes were staged and are in the workspace now, but for `unapplied`.
    fn end_staged(
        &mut self,
        act: ActId,
        staged: &ActStaged,
        unapplied: Vec<Unapplied>,
        mut result: ActResult,
    ) -> Result<(), RunError> {
        let paths: Vec<RelPath> = staged.changes.iter().map(|change| change.path.clone()).collect();
        self.files.refresh(&paths)?;
        let policy = self.recorder.state().created().map(|created| created.policy.clone());
        // What only shows in the whole, and what was made in folders that are changed at once.
        result.reverted = match &policy {
            Some(policy) => self.files.expel(policy)?,
            None => Vec::new(),
        };
        for path in &result.reverted {
            result
                .text
                .push_str(&format!("\nThe command made `{path}`, which the policy protects: removed."));
        }
        if self.recorder.state().rolls_back()
            && let Some(unclean) = Unclean::of_command(result.command.as_ref(), &staged.unapplied)
        {
            result.text.push_str(&format!("\n{}", unclean.words()));
        }
        result.text.push_str(&left_out(&unapplied));
        result.changes = staged.applied(&unapplied, &result.reverted);
        result.unapplied = unapplied;
        self.end(act, result)?;
        self.stale.push(self.large_dir(act));
        Ok(())
    }

    /// Settles a command of which it is known what it changed and not whether that is in the workspace.
    pub(super) async fn recover_staged(
        &mut self,
        act: ActId,
        argv: &[String],
        staged: &ActStaged,
    ) -> Result<(), RunError> {
        let mut unapplied = staged.unapplied.clone();
        unapplied.extend(self.put_again(act, staged).await?);
        let mut result = match self.runtime.executor.recover(&self.record_dir(act)).await {
            Ok(Recovered::Finished(record)) => self.command_result(argv, &record, &NetReport::default()),
            _ => ActResult::of(ActEnd::Interrupted, "The record of how this command ended is lost."),
        };
        result.text.push_str(
            "\n(The driver was restarted while what the command changed was put into the workspace.",
        );
        if staged.beside > 0 {
            result.text.push_str(" Files that git ignores, and empty folders, may be missing.");
        }
        result.text.push(')');
        self.end_staged(act, staged, unapplied, result)?;
        self.discard_record(act);
        Ok(())
    }

    /// Brings each staged file that stands as before to what it is to be.
    async fn put_again(&mut self, act: ActId, staged: &ActStaged) -> Result<Vec<Unapplied>, RunError> {
        let mut unapplied = Vec::new();
        let mut left = Vec::new();
        let paths: Vec<RelPath> = staged.changes.iter().map(|change| change.path.clone()).collect();
        self.files.sweep(&paths);
        for change in &staged.changes {
            let now = self.files.stands_at(&change.path, &mut self.recorder)?;
            if now == change.after {
                continue;
            }
            if now == change.before {
                left.push(change);
            } else {
                unapplied.push(Unapplied { path: change.path.clone(), why: WhyUnapplied::Conflict });
            }
        }
        let large = large_of(&self.large_dir(act), &staged.changes);
        for change in left.iter().filter(|change| change.after.is_none()) {
            if self.files.workspace().remove_file(&change.path).is_err() {
                unapplied.push(Unapplied { path: change.path.clone(), why: WhyUnapplied::Failed });
            }
        }
        for change in left {
            let Some(fact) = &change.after else { continue };
            let why = if !fact.kept && !large.get(&change.path).is_some_and(|path| path.exists()) {
                Some(WhyUnapplied::Lost)
            } else {
                let laid = self.lay_down(change, None, &large).await?;
                laid.and_then(Prepared::put).err().map(|_| WhyUnapplied::Failed)
            };
            unapplied.extend(why.map(|why| Unapplied { path: change.path.clone(), why }));
        }
        Ok(unapplied)
    }

    /// Settles a staged command whose driver died before it was known what it changed: that is gone with the driver.
    pub(super) async fn recover_unstaged(&mut self, act: ActId, argv: &[String]) -> Result<(), RunError> {
        const LOST: &str = "What it changed in the workspace was kept apart and is gone with its driver: the workspace \
                            is as it was before it.";
        let result = match self.runtime.executor.recover(&self.record_dir(act)).await {
            Ok(Recovered::NotStarted(failure)) => ActResult::of(
                ActEnd::Interrupted,
                format!("The driver died before this command was let go ({}). It did not run.", failure.step),
            ),
            Ok(Recovered::Finished(record)) if record.ended == provost_sandbox::Ended::DriverLost => {
                let mut result = self.command_result(argv, &record, &NetReport::default());
                result.text.push_str(&format!("\n{LOST}"));
                result
            }
            Ok(Recovered::Finished(record)) => {
                let mut result = ActResult::of(
                    ActEnd::Interrupted,
                    self.command_result(argv, &record, &NetReport::default()).text,
                );
                result.duration_ms = record.duration_ms;
                result.text.push_str(&format!("\n{LOST} Run it again if its changes are wanted."));
                result
            }
            Ok(Recovered::Running) => return self.cannot_tell(act).await,
            Ok(Recovered::Unknown) => ActResult::of(ActEnd::Interrupted, lost_record(LOST)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                ActResult::of(ActEnd::Interrupted, lost_record(LOST))
            }
            Err(source) => return Err(RunError::Spool { path: self.record_dir(act), source }),
        };
        self.end(act, result)?;
        self.stale.push(self.large_dir(act));
        self.discard_record(act);
        Ok(())
    }

    /// Whether what this command changes is staged: the contract says so, and it is not the gate, which has a checkout of
    /// its own.
    pub(super) fn stages(&self, act: ActId) -> bool {
        let state = self.recorder.state();
        state.created().is_some_and(|created| created.policy.workspace.is_staged())
            && state.open_acts().get(&act).is_some_and(|open| open.call.is_some())
    }

    /// What is said of a command that ended, before what it changed is known.
    pub(super) fn command_result(&self, argv: &[String], record: &ExitRecord, net: &NetReport) -> ActResult {
        super::command::result_of(argv, record, net, self.recorder.state().containment())
    }
}

fn lost_record(lost: &str) -> String {
    format!("The driver was lost while this command was under way, and nobody knows how it ended. {lost}")
}

/// A link by which programs would find a guarded file.
fn is_guarded_link(policy: &Policy, file: &LayerFile) -> bool {
    file.mode == FileMode::Link && guard::guards_link(policy, &file.path)
}

/// What the files of a layer take up in the workspace, in bytes: there each hole and each further name is written out.
fn written_out(found: &Found) -> u64 {
    found.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
}

/// In conflict a part of what a command did is not what it did: nothing of it is applied.
fn hold_back(plan: &mut Plan, others: &BTreeSet<RelPath>) {
    let changes = std::mem::take(&mut plan.changes);
    plan.unapplied.extend(all_held_back(&changes, others));
    plan.beside = Beside::default();
}

fn all_held_back(changes: &[Change], conflicts: &BTreeSet<RelPath>) -> Vec<Unapplied> {
    let none = if conflicts.is_empty() { WhyUnapplied::Failed } else { WhyUnapplied::HeldBack };
    let why = |path: &RelPath| if conflicts.contains(path) { WhyUnapplied::Conflict } else { none };
    changes.iter().map(|change| Unapplied { path: change.path.clone(), why: why(&change.path) }).collect()
}

/// Where content that the journal does not keep lies: in the order of the changes.
fn large_of(folder: &std::path::Path, changes: &[Change]) -> BTreeMap<RelPath, PathBuf> {
    let large = changes.iter().filter(|change| change.after.as_ref().is_some_and(|fact| !fact.kept));
    large.enumerate().map(|(number, change)| (change.path.clone(), folder.join(number.to_string()))).collect()
}

/// What the model is told of what was left out.
fn left_out(unapplied: &[Unapplied]) -> String {
    let mut text = String::new();
    if unapplied.iter().any(|left| left.why == WhyUnapplied::Conflict) {
        text.push_str(
            "\nNothing of what this command changed was put into the workspace that is not said to be: it is in conflict \
             with what somebody else did meanwhile. Look at these files and run it again.",
        );
    }
    // What was rolled back is all the rest, and is said already.
    let causes = || unapplied.iter().filter(|left| left.why != WhyUnapplied::RolledBack);
    for left in causes().take(NAMED) {
        text.push_str(&format!("\nNot put into the workspace: `{}`: {}.", left.path, left.why.words()));
    }
    let more = causes().count().saturating_sub(NAMED);
    if more > 0 {
        text.push_str(&format!("\nNor were {more} more."));
    }
    text
}
