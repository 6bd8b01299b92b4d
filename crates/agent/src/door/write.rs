//! Writes: the intent with content before and after, then the files, then the result.

use std::time::Instant;

use provost_core::act::{ActEnd, Change, FileFact, Intent, Touch};
use provost_core::event::{Seen, WhyUnapplied};
use provost_core::id::ActId;
use provost_core::path::RelPath;
use provost_core::state::OpenAct;
use provost_tools::WriteSet;
use provost_tools::workspace::{ApplyError, FileChange, FileMode, FileVersion, Settled};

use super::{ActResult, millis};
use crate::driver::Driver;
use crate::error::RunError;
use crate::files::fact_of;
use crate::names::leads_out;

impl Driver<'_> {
    pub(super) async fn write(
        &mut self,
        act: ActId,
        open: &OpenAct,
        set: WriteSet,
        begun: Instant,
    ) -> Result<(), RunError> {
        let drifted = self.files.drift_of(&set.changes, &mut self.recorder)?;
        if !drifted.is_empty() {
            self.record_drift(drifted)?;
        }
        let changes: Vec<Change> = set
            .changes
            .iter()
            .map(|change| Change {
                path: change.path.clone(),
                before: fact_of(change.before.as_ref(), &mut self.recorder),
                after: fact_of(change.after.as_ref(), &mut self.recorder),
            })
            .filter(|change| change.before != change.after)
            .collect();
        if let Some(denied) = stray_write(&changes, open) {
            return self.end(act, ActResult::of(ActEnd::Failed, denied));
        }
        if let Some(unfit) = self.unfit(&changes, &set.changes) {
            return self.end(act, ActResult::of(ActEnd::Failed, unfit));
        }
        self.start(act, Intent::Write { changes }).await?;
        let mut result = match self.files.workspace().apply(&set.changes) {
            Ok(applied) => {
                let mut text = set.report;
                for path in applied.in_place {
                    text.push_str(&format!(
                        "\n`{path}` has several names (hard links): all of them changed."
                    ));
                }
                let mut result = ActResult::of(ActEnd::Done, text);
                result.seen = self.seen(set.seen);
                result
            }
            Err(error) => {
                let text = error.to_string();
                let found = self.files.differences_at(&set.changes, &mut self.recorder)?;
                let mut result = ActResult::of(ActEnd::Failed, text);
                if matches!(error, ApplyError::Torn { .. }) {
                    result.changes = found;
                } else if !found.is_empty() {
                    // Nothing of ours is there: somebody else changed these files in this very moment.
                    self.record_drift(found)?;
                }
                result
            }
        };
        let paths: Vec<RelPath> = set.changes.into_iter().map(|change| change.path).collect();
        result.duration_ms = millis(begun);
        self.end(act, result)?;
        self.files.refresh(&paths)
    }

    /// Why a write is none that a workspace takes of which a command is rolled back for the same.
    fn unfit(&self, changes: &[Change], set: &[FileChange]) -> Option<String> {
        if !self.recorder.state().rolls_back() {
            return None;
        }
        let out = |change: &&FileChange| {
            let after = change.after.as_ref().filter(|after| after.mode == FileMode::Link);
            after.is_some_and(|link| leads_out(&change.path, &link.bytes))
        };
        let leads_out = set.iter().find(out).map(|change| (change.path.clone(), WhyUnapplied::LeadsOut));
        let collides =
            || self.colliding(changes).into_iter().next().map(|path| (path, WhyUnapplied::Collides));
        let (path, why) = leads_out.or_else(collides)?;
        Some(format!("`{path}` cannot be written: {}. Nothing was written.", why.words()))
    }

    /// A write is compared with its digests: on which side of it are we? Then it is carried to its end (I4).
    pub(super) async fn recover_write(&mut self, act: ActId, changes: &[Change]) -> Result<(), RunError> {
        let salt = self.recorder.salt().clone();
        let settled = self.files.workspace().settle(changes, &|bytes| salt.digest(bytes));
        let settled = settled.map_err(|error| RunError::Workspace {
            path: self.files.root().to_owned(),
            reason: error.to_string(),
        })?;
        let mut text =
            "Written. (The driver was restarted meanwhile; the files were found complete.)".to_owned();
        if settled != Settled::AllAfter {
            let mut set = Vec::with_capacity(changes.len());
            for change in changes {
                set.push(FileChange {
                    path: change.path.clone(),
                    before: self.version_of(change.before.as_ref()).await?,
                    after: self.version_of(change.after.as_ref()).await?,
                });
            }
            if let Err(error) = self.files.workspace().complete(&set) {
                let found = self.files.differences_at(&set, &mut self.recorder)?;
                let mut result = ActResult::of(
                    ActEnd::Failed,
                    format!(
                        "The driver was restarted during this write, and it could not be completed: {error}"
                    ),
                );
                result.changes = found;
                return self.end(act, result);
            }
            text = "Written. (The driver was restarted meanwhile; the write was completed.)".to_owned();
        }
        let mut result = ActResult::of(ActEnd::Done, text);
        result.seen = changes
            .iter()
            .filter_map(|change| {
                let content = change.after.as_ref()?.content;
                Some(Seen { path: change.path.clone(), content })
            })
            .collect();
        self.end(act, result)?;
        let paths: Vec<RelPath> = changes.iter().map(|change| change.path.clone()).collect();
        self.files.refresh(&paths)
    }

    async fn version_of(&self, fact: Option<&FileFact>) -> Result<Option<FileVersion>, RunError> {
        let Some(fact) = fact else { return Ok(None) };
        let mode = FileMode::from_git(&fact.mode)
            .ok_or_else(|| RunError::Internal(format!("`{}` is not a file mode", fact.mode)))?;
        Ok(Some(FileVersion { mode, bytes: self.recorder.bytes(&fact.content).await? }))
    }
}

/// A tool may only write where its touches said it would; the state machine refuses anything else.
fn stray_write(changes: &[Change], open: &OpenAct) -> Option<String> {
    let stray = changes.iter().find(|change| {
        !open.touches.iter().any(|touch| matches!(touch, Touch::Write { path } if *path == change.path))
    })?;
    Some(format!("`{}` was not put before the policy. Nothing was written.", stray.path))
}
