//! Commands: the intent, the sandbox, what changed, the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::act::{ActEnd, Change, CommandFact, ExitFact, Intent};
use provost_core::containment::{Receipt, Rung};
use provost_core::event::Settlement;
use provost_core::id::{ActId, AgentId};
use provost_core::outcome::Pause;
use provost_core::path::RelPath;
use provost_core::policy::Policy;
use provost_sandbox::{
    Command, Ended, ExitRecord, NetReport, Recovered, RunError as CommandError, prepare_record,
};
use provost_tools::CommandRequest;
use provost_tools::command::{self, Output};
use provost_tools::workspace::Layer;

use super::ActResult;
use super::network::{self, Gather};
use crate::checkout::{NoCheckout, Place};
use crate::driver::{Driver, make_private};
use crate::error::RunError;
use crate::files::{Undone, Whose};

impl Driver<'_> {
    /// Where the record of a command lies while it runs.
    pub(super) fn record_dir(&self, act: ActId) -> PathBuf {
        self.runtime.spool.join(self.recorder.lease.run.as_str()).join(format!("act-{act}"))
    }

    /// Runs a command in the workspace and records what it did.
    pub(crate) async fn run_command(&mut self, act: ActId, request: CommandRequest) -> Result<(), RunError> {
        self.look_before_command(self.agent).await?;
        let place = Place { sandbox: self.sandbox.clone(), root: self.files.root().to_owned() };
        if !self.stages(act) || !self.stages_in_copy() {
            return self.run_command_in(place, act, request, None).await;
        }
        match self.duplicate() {
            Ok(copy) => {
                let root = if place.sandbox.receipt().rung == Rung::R2 {
                    self.runtime.copy_of(&self.files)?
                } else {
                    place.root
                };
                self.run_command_in(Place { root, ..place }, act, request, Some(copy)).await
            }
            Err(why) => self.fail(
                act,
                &format!(
                    "the workspace cannot be copied for the command to work in: {why}. Nothing was run."
                ),
            ),
        }
    }

    /// What changed since the journal last looked is on record before a command starts, and its containment knows the
    /// names that are there, and which of them are closed to whose command it is.
    pub(super) async fn look_before_command(&mut self, of: AgentId) -> Result<(), RunError> {
        self.note_drift().await?;
        let policy = self.recorder.state().created().map(|created| created.policy.clone());
        if let Some(policy) = policy
            && (self.names_changed(&policy)? | self.narrowed(of)?
                || self.files.build_folders_changed(&policy)?)
        {
            self.sandbox = self.runtime.contain(&policy, &self.narrow, &mut self.files)?;
        }
        Ok(())
    }

    /// Whether an agent's rules guard other names than the containment knows.
    fn narrowed(&mut self, of: AgentId) -> Result<bool, RunError> {
        let state = self.recorder.state();
        let bound = state.bound_as(of);
        match state.policy_of(bound) {
            Some(policy) => self.narrow.look(bound, policy, &self.files),
            None => Ok(false),
        }
    }

    /// What the agent may do whose act this is.
    pub(super) fn policy_of_act(&self, act: ActId) -> Option<Policy> {
        let state = self.recorder.state();
        state.policy_of(state.agent_of_command(act)).cloned()
    }

    fn names_changed(&mut self, policy: &Policy) -> Result<bool, RunError> {
        let whose = match self.recorder.state() {
            state if state.open_processes().is_empty() => Whose::Anybodys,
            _ => Whose::PerhapsACommands,
        };
        self.files.names_changed(policy, whose)
    }

    /// Runs the gate's command in a fresh checkout of the workspace, with `with` beside it.
    pub(crate) async fn run_gate_command(
        &mut self,
        act: ActId,
        request: CommandRequest,
        with: &[RelPath],
    ) -> Result<(), RunError> {
        self.note_drift().await?;
        let folder = self.checkout_dir(act);
        match self.check_out(&folder, with) {
            Ok(place) => self.run_command_in(place, act, request, None).await,
            Err(NoCheckout::Unfit(why)) => {
                self.stale.push(folder);
                self.fail(act, &format!("{why}. Nothing was run."))
            }
            Err(NoCheckout::Run(error)) => Err(error),
        }
    }

    async fn run_command_in(
        &mut self,
        place: Place,
        act: ActId,
        request: CommandRequest,
        copy: Option<Layer>,
    ) -> Result<(), RunError> {
        self.make_record(act)?;
        let left = self.time_left();
        let limit = left.map_or(request.limit, |left| request.limit.min(left));
        let intent = Intent::Command {
            argv: request.argv.clone(),
            cwd: request.cwd.clone(),
            limit_ms: limit.as_millis() as u64,
        };
        self.start(act, intent).await?;
        let command = self.command(act, &place, &request, limit);
        let cancel = self.interrupt.command().clone();
        let changes = match &copy {
            Some(_) => Gather::InCopy,
            None if self.stages(act) => Gather::InLayer,
            None => Gather::Nowhere,
        };
        let (ended, net) = self.run_with_network(act, &place.sandbox, command, cancel, changes).await?;
        match ended {
            Ok((record, None)) if let Some(copy) = copy => {
                self.staged_command_ended(act, &request.argv, &record, copy, &net).await?;
            }
            Ok((record, None)) => {
                self.command_ended(act, &request.argv, &record, &net, Seen::AtOnce).await?;
            }
            Ok((record, Some(layer))) => {
                let layer = Layer::new(layer);
                self.staged_command_ended(act, &request.argv, &record, layer, &net).await?;
            }
            Err(CommandError::NotStarted(failure)) => {
                self.end(act, ActResult::of(ActEnd::Failed, format!("{failure}. Nothing was run.")))?;
            }
            Err(error) => return Err(RunError::Internal(error.to_string())),
        }
        self.discard_record(act);
        Ok(())
    }

    /// An empty folder for the record of a command.
    pub(super) fn make_record(&self, act: ActId) -> Result<(), RunError> {
        let dir = self.record_dir(act);
        let spool = |source| RunError::Spool { path: dir.clone(), source };
        if dir.exists() {
            // Left by a driver that died before the intent was durable: nothing ran.
            fs::remove_dir_all(&dir).map_err(spool)?;
        }
        make_private(&dir).and_then(|()| prepare_record(&dir)).map_err(spool)
    }

    /// A command as the sandbox takes it.
    pub(super) fn command(
        &self,
        act: ActId,
        place: &Place,
        request: &CommandRequest,
        wall: Duration,
    ) -> Command {
        let half = (self.limits.output_bytes / 2) as usize;
        Command {
            argv: request.argv.iter().map(Into::into).collect(),
            program: request.program.as_ref().map(|program| match program.strip_prefix(self.files.root()) {
                // A program of the workspace is run from where the command sees it.
                Ok(within) => place.root.join(within),
                Err(_) => program.clone(),
            }),
            cwd: place.root.join(request.cwd.to_os()),
            env: request.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            wall,
            keep_head: half,
            keep_tail: half,
            egress: None,
            reaches: self.published().collect(),
            record_dir: self.record_dir(act),
        }
    }

    /// The record is only needed until the result is durable; the next commit makes it so. A record that outlives
    /// that is harmless: its act is finished.
    pub(super) fn discard_record(&mut self, act: ActId) {
        self.stale.push(self.record_dir(act));
        let checkout = self.checkout_dir(act);
        if checkout.exists() {
            self.stale.push(checkout);
        }
    }

    /// Records how a command ended and what it changed; what it may not change is undone.
    async fn command_ended(
        &mut self,
        act: ActId,
        argv: &[String],
        record: &ExitRecord,
        net: &NetReport,
        seen: Seen,
    ) -> Result<(), RunError> {
        let since = match seen {
            Seen::AtOnce => None,
            Seen::Later => Some(record.ended_at_ns),
        };
        let Found { changes, reverted, later } = self.changes_by_command(&[act], since).await?;
        let mut result = self.command_result(argv, record, net);
        result.text.push_str(&undone(&reverted));
        for path in self.files.expel_from_git()? {
            result.text.push_str(&made_for_git(&path));
        }
        result.changes = changes;
        result.reverted = reverted;
        self.end(act, result)?;
        if later.is_empty() { Ok(()) } else { self.record_drift(later) }
    }

    /// What changed since the journal last looked, by a command of one of these acts. With `ended_at_ns` what changed after
    /// that moment is told apart. What none of them may change is undone.
    pub(super) async fn changes_by_command(
        &mut self,
        acts: &[ActId],
        ended_at_ns: Option<u64>,
    ) -> Result<Found, RunError> {
        let theirs: Vec<Policy> = acts.iter().filter_map(|act| self.policy_of_act(*act)).collect();
        let created = self.recorder.state().created().cloned();
        let policy = created.map(|created| created.policy);
        if !self.recorder.state().open_processes().is_empty() {
            // What acts made where policy asks is there by right, also where no command has been started since.
            self.files.know_what_acts_made(self.recorder.state().net_changes());
        }
        // First what was planted, also where ignore rules hide it; then what changed among the files.
        let mut reverted = match &policy {
            Some(policy) => self.files.expel(policy)?,
            None => Vec::new(),
        };
        let all = self.files.observe(&mut self.recorder)?;
        let mut changes = Vec::with_capacity(all.len());
        let mut later = Vec::new();
        for change in all {
            if ended_at_ns.is_some_and(|moment| !self.files.workspace().unchanged_since(&change.path, moment))
            {
                later.push(change);
                continue;
            }
            let guarded =
                !theirs.is_empty() && theirs.iter().all(|policy| policy.guards_writing(&change.path));
            if !guarded {
                changes.push(change);
            } else if self.files.undo(&change, &self.recorder).await? == Undone::Yes {
                reverted.push(change.path);
            } else {
                return Err(RunError::Workspace {
                    path: self.files.root().to_owned(),
                    reason: format!(
                        "a command changed `{}`, which the policy protects, and its content before is \
                                     not kept (it is too large): restore it and resume",
                        change.path
                    ),
                });
            }
        }
        Ok(Found { changes, reverted, later })
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        let ledger = self.recorder.state().ledger();
        let limit = ledger.budget.time_ms?;
        Some(Duration::from_millis(limit.saturating_sub(ledger.time_ms).max(1)))
    }

    /// Ends a command as a person says that it ended. What changed meanwhile is its doing if it happened.
    pub(super) async fn end_settled(&mut self, act: ActId, how: Option<Settlement>) -> Result<(), RunError> {
        let said = match how {
            Some(Settlement::Happened) => "it happened; what it printed is lost",
            _ => "it did not happen",
        };
        let text = format!(
            "The driver was lost while this command was under way. A person looked, and says that {said}."
        );
        let mut result = ActResult::of(ActEnd::Interrupted, text);
        if how == Some(Settlement::Happened) {
            self.files.expel_from_git()?;
            let found = self.changes_by_command(&[act], None).await?;
            (result.changes, result.reverted) = (found.changes, found.reverted);
        }
        self.end(act, result)?;
        self.discard_record(act);
        Ok(())
    }

    /// A command is settled from the record that its supervisor left. Without one nobody can tell.
    pub(super) async fn recover_command(&mut self, act: ActId, argv: &[String]) -> Result<(), RunError> {
        let dir = self.record_dir(act);
        match self.runtime.executor.recover(&dir).await {
            Ok(Recovered::Finished(record)) => {
                // What it dialled is in the journal, and how much that was went with its driver.
                self.command_ended(act, argv, &record, &NetReport::default(), Seen::Later).await?;
            }
            Ok(Recovered::NotStarted(failure)) => {
                let text = format!(
                    "The driver died before this command was let go ({}). It did not run.",
                    failure.step
                );
                self.end(act, ActResult::of(ActEnd::Interrupted, text))?;
            }
            Ok(Recovered::Running | Recovered::Unknown) => return self.cannot_tell(act).await,
            // The folder itself is gone.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return self.cannot_tell(act).await,
            Err(source) => return Err(RunError::Spool { path: dir, source }),
        }
        self.discard_record(act);
        Ok(())
    }

    /// Leaves the question to a person, unless nothing depends on it any more.
    pub(super) async fn cannot_tell(&mut self, act: ActId) -> Result<(), RunError> {
        if self.recorder.state().cancelled().is_none() {
            return self.detach(Pause::Indeterminate, Some(act)).await;
        }
        let text = "The driver was lost while this command was under way, and the run was cancelled before anybody \
                    said what became of it.";
        self.files.expel_from_git()?;
        let found = self.changes_by_command(&[act], None).await?;
        let mut result = ActResult::of(ActEnd::Interrupted, text);
        (result.changes, result.reverted) = (found.changes, found.reverted);
        self.end(act, result)?;
        self.discard_record(act);
        Ok(())
    }
}

/// What the model is told of changes that were undone.
pub(super) fn undone(reverted: &[RelPath]) -> String {
    let line = |path| format!("\nThe command changed `{path}`, which the policy protects: undone.");
    reverted.iter().map(line).collect()
}

/// What it is told of what git would act on.
pub(super) fn made_for_git(path: &Path) -> String {
    format!("\nThe command made `{}`, which git takes orders from: removed.", path.display())
}

/// When the workspace was looked at after a command.
#[derive(Debug, Clone, Copy)]
enum Seen {
    AtOnce,
    /// By the driver after the one that ran it. Others had time to work there.
    Later,
}

/// What changed around a command.
pub(super) struct Found {
    /// By the command.
    pub(super) changes: Vec<Change>,
    /// By the command and undone.
    pub(super) reverted: Vec<RelPath>,
    /// After it had ended.
    pub(super) later: Vec<Change>,
}

/// What is said of a command that ended, but for what it changed. `containment` is what the driver said of its commands.
pub(super) fn result_of(
    argv: &[String],
    record: &ExitRecord,
    net: &NetReport,
    containment: Option<&Receipt>,
) -> ActResult {
    let exit = exit_fact(record.ended);
    let output = Output { head: &record.output.head, tail: &record.output.tail, total: record.output.total };
    let mut text = command::report(argv, &exit, output);
    text.push_str(&notes_of(record, net));
    let mut result = ActResult::of(exit.end(), text);
    result.duration_ms = record.duration_ms;
    result.command = Some(fact_of(record, net, containment));
    result
}

/// What is said of a command's caps and network.
pub(super) fn notes_of(record: &ExitRecord, net: &NetReport) -> String {
    let mut text = String::new();
    for hit in &record.caps {
        text.push_str(&format!("\nIt reached a cap: {hit}."));
    }
    text.push_str(&network::refusals(net));
    text
}

/// The numbers of a command that ended. `containment` is what the driver said of its commands.
pub(super) fn fact_of(record: &ExitRecord, net: &NetReport, containment: Option<&Receipt>) -> CommandFact {
    CommandFact {
        exit: exit_fact(record.ended),
        duration_ms: record.duration_ms,
        output_bytes: record.output.total,
        survivors: record.survivors,
        caps: record.caps.clone(),
        traffic: network::traffic(net),
        containment: (containment != Some(&record.receipt)).then(|| record.receipt.clone()),
    }
}

pub(super) fn exit_fact(ended: Ended) -> ExitFact {
    match ended {
        Ended::Exited(code) => ExitFact::Exited { code },
        Ended::Signalled(signal) => ExitFact::Signalled { signal },
        Ended::TimedOut { limit_ms } => ExitFact::TimedOut { limit_ms },
        Ended::Capped(hit) => ExitFact::Capped { hit },
        Ended::Cancelled => ExitFact::Cancelled,
        Ended::DriverLost => ExitFact::DriverLost,
    }
}
