//! The one door. Every act passes it: policy, approval, budget, journal, containment, result. There is no second path
//! to an effect (I1), and what an act is about to do is durable before it does it (I2).

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use provost_core::act::{ActEnd, Change, CommandFact, ExitFact, Intent, Recovery, Touch};
use provost_core::event::{
    ActApproved, ActDecided, ActFinished, ActStarted, Body, CallInvalid, CallRef, InvalidCall, Seen, Verdict,
    WorkspaceDrifted,
};
use provost_core::id::ActId;
use provost_core::outcome::Pause;
use provost_core::path::RelPath;
use provost_core::policy::Effect as Decided;
use provost_core::state::OpenAct;
use provost_core::transcript::Stop;
use provost_sandbox::{Command, Ended, ExitRecord, Recovered, RunError as CommandError};
use provost_tools::command::{self, Output};
use provost_tools::workspace::{ApplyError, FileChange, FileError, FileMode, FileVersion, Settled};
use provost_tools::{BadCall, CommandRequest, Context, Effect, Observation, SeenState, WriteSet};

use crate::driver::Driver;
use crate::error::RunError;
use crate::files::{Undone, fact_of};
use crate::observe::{Question, Word};
use crate::runtime::Answer;

/// How long a supervisor that outlived its driver is waited for.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(10);

/// Whether the workspace changed without an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drift {
    None,
    Recorded,
}

/// The end of an act, before it is recorded.
struct ActResult {
    end: ActEnd,
    text: String,
    changes: Vec<Change>,
    reverted: Vec<RelPath>,
    seen: Vec<Seen>,
    command: Option<CommandFact>,
    duration_ms: u64,
}

impl ActResult {
    fn of(end: ActEnd, text: impl Into<String>) -> Self {
        Self {
            end,
            text: text.into(),
            changes: Vec::new(),
            reverted: Vec::new(),
            seen: Vec::new(),
            command: None,
            duration_ms: 0,
        }
    }
}

impl Driver<'_> {
    /// Reads a call as an act and puts it before the policy.
    pub(crate) fn decide(&mut self, at: CallRef) -> Result<(), RunError> {
        let answer = self.current_answer()?;
        let call = answer
            .calls
            .get(at.index as usize)
            .ok_or_else(|| RunError::Internal("the answer has fewer calls than its event says".to_owned()))?;
        if self.stop == Stop::Length {
            let text = "The answer was cut off by its length limit, so this call may be incomplete. It was not run. \
                        Make it again, in smaller pieces.";
            return self.invalid(at, InvalidCall::CutOff, text);
        }
        let read = self.runtime.tools.decode(&call.name, &call.arguments).and_then(|(tool, args)| {
            let touches = self.in_context(|ctx| tool.touches(&args, ctx))?;
            Ok((tool, args, touches))
        });
        let (tool, args, touches) = match read {
            Ok(read) => read,
            Err(bad) => return self.invalid(at, why_invalid(&bad), &bad.to_string()),
        };
        let act = self.put_before_policy(Some(at), &tool.spec().name, &args, touches, tool.recovery())?;
        self.refuse_if_denied(act)
    }

    /// Records the policy's decision on an act.
    pub(crate) fn put_before_policy(
        &mut self,
        call: Option<CallRef>,
        tool: &str,
        args: &serde_json::Value,
        touches: Vec<Touch>,
        recovery: Recovery,
    ) -> Result<ActId, RunError> {
        let state = self.recorder.state();
        let created = state.created().ok_or_else(|| RunError::Internal("no contract".to_owned()))?;
        let decision = match call {
            Some(_) => created.policy.decide(&touches, state.rung()),
            None => created.policy.decide_ordered(&touches, state.rung()),
        };
        let act = state.next_act();
        let args = self.recorder.content(args.to_string());
        self.recorder.record(Body::ActDecided(ActDecided {
            act,
            call,
            tool: tool.to_owned(),
            args,
            touches,
            recovery,
            decision,
        }))?;
        Ok(act)
    }

    pub(crate) fn refuse_if_denied(&mut self, act: ActId) -> Result<(), RunError> {
        let denied = self.recorder.state().open_acts().get(&act).is_some_and(OpenAct::is_refused);
        if denied { self.refuse(act) } else { Ok(()) }
    }

    fn invalid(&mut self, call: CallRef, why: InvalidCall, text: &str) -> Result<(), RunError> {
        let result = self.recorder.content(text);
        self.recorder.record(Body::CallInvalid(CallInvalid { call, why, result }))
    }

    /// Ends a refused act with an observation that the model can act on.
    pub(crate) fn refuse(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        let touch = open.touches.get(open.decision.touch as usize);
        let what = touch.map_or_else(|| open.tool.clone(), ToString::to_string);
        let text = if open.decision.effect == Decided::Deny {
            format!("Refused: `{what}` is not allowed ({}). It was not tried.", open.decision)
        } else {
            format!("Refused: a person was asked about `{what}` and said no. It was not tried.")
        };
        self.end(act, ActResult::of(ActEnd::Refused, text))
    }

    fn open_act(&self, act: ActId) -> Result<OpenAct, RunError> {
        self.recorder
            .state()
            .open_acts()
            .get(&act)
            .cloned()
            .ok_or_else(|| RunError::Internal(format!("act {act} is not open")))
    }

    /// Asks whoever answers for the policy, or parks the run.
    pub(crate) async fn approve(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        // What a person is asked about is on record first, so that it can still be answered later.
        self.recorder.commit().await?;
        let args = self.recorder.bytes(&open.args).await?;
        let question = Question {
            act,
            tool: open.tool,
            args: String::from_utf8_lossy(&args).into_owned(),
            touches: open.touches,
            decision: open.decision,
        };
        let approver = self.runtime.approver.clone();
        let verdict = tokio::select! {
            word = approver.decide(&question) => match word {
                Word::Approve => Verdict::Approved,
                Word::Deny => Verdict::Denied,
                Word::Later => return self.detach(Pause::Approval, Some(act)).await,
            },
            () = self.interrupt.requested() => return self.detach(Pause::Interrupted, None).await,
        };
        self.record_verdict(act, verdict, approver.name())
    }

    fn record_verdict(&mut self, act: ActId, verdict: Verdict, by: &str) -> Result<(), RunError> {
        self.recorder.record(Body::ActApproved(ActApproved { act, verdict, by: by.to_owned() }))
    }

    /// Takes the words that were given with `resume`.
    pub(crate) fn take_answers(&mut self, answers: &[Answer]) -> Result<(), RunError> {
        for answer in answers {
            let waits = self
                .recorder
                .state()
                .open_acts()
                .get(&answer.act)
                .is_some_and(|open| open.decision.effect == Decided::Ask && open.verdict.is_none());
            if !waits {
                return Err(RunError::Contract(format!("act {} does not wait for an answer", answer.act)));
            }
            self.record_verdict(answer.act, answer.verdict, "resume")?;
        }
        Ok(())
    }

    /// Carries out an act that may be carried out.
    pub(crate) async fn perform(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        if open.call.is_none() {
            return self.perform_gate(act).await;
        }
        let begun = Instant::now();
        let effect = match self.prepare(&open)? {
            Ok(effect) => effect,
            Err(text) => {
                let mut failed = ActResult::of(ActEnd::Failed, text);
                failed.duration_ms = millis(begun);
                return self.end(act, failed);
            }
        };
        match effect {
            Effect::Observe(observation) => self.observed(act, observation, begun),
            Effect::Submit { .. } => self.end(act, ActResult::of(ActEnd::Done, "Submitted.")),
            Effect::Write(set) => self.write(act, &open, set, begun).await,
            Effect::Command(request) => self.run_command(act, request).await,
        }
    }

    /// Reads the call again and prepares it. The decision was made on exactly these touches; anything else is refused.
    fn prepare(&mut self, open: &OpenAct) -> Result<Result<Effect, String>, RunError> {
        let answer = self.current_answer()?;
        let call = open.call.and_then(|call| answer.calls.get(call.index as usize));
        let call = call.ok_or_else(|| RunError::Internal("the act's call is gone".to_owned()))?;
        let prepared =
            self.runtime.tools.decode(&call.name, &call.arguments).map_err(|bad| bad.to_string()).and_then(
                |(tool, args)| {
                    self.in_context(|ctx| {
                        let touches = tool.touches(&args, ctx).map_err(|bad| bad.to_string())?;
                        if touches != open.touches {
                            return Err(
                                "The workspace changed between the decision and the act: it would now touch \
                                    something else. Nothing was done; try again."
                                    .to_owned(),
                            );
                        }
                        tool.prepare(&args, ctx).map_err(|failure| failure.to_string())
                    })
                },
            );
        Ok(prepared)
    }

    /// Gives a tool its view of the run.
    pub(crate) fn in_context<R>(&self, f: impl FnOnce(&Context<'_>) -> R) -> R {
        let state = self.recorder.state();
        let salt = self.recorder.salt();
        let seen = |path: &RelPath, bytes: &[u8]| match state.seen(path) {
            None => SeenState::Unseen,
            Some(digest) if *digest == salt.digest(bytes) => SeenState::Same,
            Some(_) => SeenState::Different { last: None },
        };
        let readable = |path: &RelPath| {
            let touch = [Touch::Read { path: path.clone() }];
            state
                .created()
                .is_some_and(|created| created.policy.decide(&touch, state.rung()).effect != Decided::Deny)
        };
        f(&Context {
            workspace: self.files.workspace(),
            limits: &self.limits,
            seen: &seen,
            readable: &readable,
            environment: &self.environment,
        })
    }

    /// Ends an act that could not be tried.
    pub(crate) fn fail(&mut self, act: ActId, why: &str) -> Result<(), RunError> {
        self.end(act, ActResult::of(ActEnd::Failed, why))
    }

    fn observed(&mut self, act: ActId, observation: Observation, begun: Instant) -> Result<(), RunError> {
        let mut result = ActResult::of(ActEnd::Done, observation.text);
        result.seen = self.seen(observation.seen);
        result.duration_ms = millis(begun);
        self.end(act, result)
    }

    fn seen(&self, seen: Vec<(RelPath, Vec<u8>)>) -> Vec<Seen> {
        let salt = self.recorder.salt();
        seen.into_iter().map(|(path, bytes)| Seen { path, content: salt.digest(&bytes) }).collect()
    }

    async fn write(
        &mut self,
        act: ActId,
        open: &OpenAct,
        set: WriteSet,
        begun: Instant,
    ) -> Result<(), RunError> {
        let drifted = self.files.drift_of(&set.changes, &mut self.recorder)?;
        if !drifted.is_empty() {
            self.recorder.record(Body::WorkspaceDrifted(WorkspaceDrifted { changes: drifted }))?;
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
        self.start(act, Intent::Write { changes: changes.clone() }).await?;
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
                result.changes = changes;
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
                    self.recorder.record(Body::WorkspaceDrifted(WorkspaceDrifted { changes: found }))?;
                }
                result
            }
        };
        let paths: Vec<RelPath> = set.changes.into_iter().map(|change| change.path).collect();
        result.duration_ms = millis(begun);
        self.end(act, result)?;
        self.files.refresh(&paths)
    }

    /// Makes the intent durable. Only behind this line may anything happen.
    async fn start(&mut self, act: ActId, intent: Intent) -> Result<(), RunError> {
        self.recorder.record(Body::ActStarted(ActStarted { act, intent }))?;
        self.recorder.commit().await
    }

    fn end(&mut self, act: ActId, result: ActResult) -> Result<(), RunError> {
        let text = self.recorder.content(result.text);
        self.recorder.record(Body::ActFinished(Box::new(ActFinished {
            act,
            end: result.end,
            result: text,
            changes: result.changes,
            reverted: result.reverted,
            seen: result.seen,
            command: result.command,
            duration_ms: result.duration_ms,
        })))
    }

    /// Where the record of a command lies while it runs.
    fn record_dir(&self, act: ActId) -> PathBuf {
        self.runtime.spool.join(self.recorder.lease.run.as_str()).join(format!("act-{act}"))
    }

    /// Runs a command under the sandbox and records what it did.
    pub(crate) async fn run_command(&mut self, act: ActId, request: CommandRequest) -> Result<(), RunError> {
        self.note_drift()?;
        let dir = self.record_dir(act);
        let spool = |source| RunError::Spool { path: dir.clone(), source };
        if dir.exists() {
            // Left by a driver that died before the intent was durable: nothing ran.
            fs::remove_dir_all(&dir).map_err(spool)?;
        }
        fs::create_dir_all(&dir).map_err(spool)?;
        let left = self.time_left();
        let limit = left.map_or(request.limit, |left| request.limit.min(left));
        let intent = Intent::Command {
            argv: request.argv.clone(),
            cwd: request.cwd.clone(),
            limit_ms: limit.as_millis() as u64,
        };
        self.start(act, intent).await?;
        let half = (self.limits.output_bytes / 2) as usize;
        let command = Command {
            argv: request.argv.iter().map(Into::into).collect(),
            cwd: self.files.root().join(request.cwd.to_os()),
            env: request.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            wall: limit,
            keep_head: half,
            keep_tail: half,
            record_dir: dir.clone(),
        };
        let (sandbox, cancel) = (self.sandbox.clone(), self.interrupt.command().clone());
        let ran = tokio::task::spawn_blocking(move || sandbox.run(&command, &cancel))
            .await
            .map_err(|error| RunError::Internal(format!("the command's thread: {error}")))?;
        match ran {
            Ok(record) => self.command_ended(act, &request.argv, &record).await?,
            Err(CommandError::NotStarted(failure)) => {
                self.end(act, ActResult::of(ActEnd::Failed, format!("{failure}. Nothing was run.")))?;
            }
            Err(error) => return Err(RunError::Internal(error.to_string())),
        }
        self.discard_record(act);
        Ok(())
    }

    /// The record is only needed until the result is durable; the next commit makes it so. A record that outlives
    /// that is harmless: its act is finished.
    fn discard_record(&mut self, act: ActId) {
        self.stale_records.push(self.record_dir(act));
    }

    /// Records how a command ended and what it changed; what it may not change is undone.
    async fn command_ended(
        &mut self,
        act: ActId,
        argv: &[String],
        record: &ExitRecord,
    ) -> Result<(), RunError> {
        let (changes, reverted) = self.changes_by_command().await?;
        let exit = exit_fact(record.ended);
        let output =
            Output { head: &record.output.head, tail: &record.output.tail, total: record.output.total };
        let mut text = command::report(argv, &exit, output);
        for path in &reverted {
            text.push_str(&format!("\nThe command changed `{path}`, which the policy protects: undone."));
        }
        let end = match exit {
            ExitFact::Exited { code: 0 } => ActEnd::Done,
            ExitFact::Exited { .. } | ExitFact::Signalled { .. } => ActEnd::Failed,
            ExitFact::TimedOut { .. } => ActEnd::TimedOut,
            ExitFact::Cancelled | ExitFact::DriverLost => ActEnd::Interrupted,
        };
        let mut result = ActResult::of(end, text);
        result.changes = changes;
        result.reverted = reverted;
        result.duration_ms = record.duration_ms;
        result.command = Some(CommandFact {
            exit,
            duration_ms: record.duration_ms,
            output_bytes: record.output.total,
            survivors: record.survivors,
            containment: record.receipt.clone(),
        });
        self.end(act, result)
    }

    async fn changes_by_command(&mut self) -> Result<(Vec<Change>, Vec<RelPath>), RunError> {
        let all = self.files.observe(&mut self.recorder)?;
        let mut changes = Vec::with_capacity(all.len());
        let mut reverted = Vec::new();
        for change in all {
            let touch = [Touch::Write { path: change.path.clone() }];
            let state = self.recorder.state();
            let denied = state
                .created()
                .is_some_and(|created| created.policy.decide(&touch, state.rung()).effect == Decided::Deny);
            if !denied {
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
        Ok((changes, reverted))
    }

    /// Records what changed without an act.
    pub(crate) fn note_drift(&mut self) -> Result<Drift, RunError> {
        let changes = self.files.observe(&mut self.recorder)?;
        if changes.is_empty() {
            return Ok(Drift::None);
        }
        self.recorder.record(Body::WorkspaceDrifted(WorkspaceDrifted { changes }))?;
        Ok(Drift::Recorded)
    }

    fn time_left(&self) -> Option<Duration> {
        let ledger = self.recorder.state().ledger();
        let limit = ledger.budget.time_ms?;
        Some(Duration::from_millis(limit.saturating_sub(ledger.time_ms).max(1)))
    }

    /// Settles an act whose driver died.
    pub(crate) async fn recover(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        match open.started {
            Some(Intent::Write { changes }) => self.recover_write(act, &changes).await,
            Some(Intent::Command { argv, .. }) => self.recover_command(act, &argv).await,
            None => Err(RunError::Internal(format!("act {act} did not start"))),
        }
    }

    /// A write is compared with its digests: on which side of it are we? Then it is carried to its end (I4).
    async fn recover_write(&mut self, act: ActId, changes: &[Change]) -> Result<(), RunError> {
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
        result.changes = changes.to_vec();
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

    async fn version_of(
        &self,
        fact: Option<&provost_core::act::FileFact>,
    ) -> Result<Option<FileVersion>, RunError> {
        let Some(fact) = fact else { return Ok(None) };
        let mode = FileMode::from_git(&fact.mode)
            .ok_or_else(|| RunError::Internal(format!("`{}` is not a file mode", fact.mode)))?;
        Ok(Some(FileVersion { mode, bytes: self.recorder.bytes(&fact.content).await? }))
    }

    /// A command is settled from the record that its supervisor left. Without one nobody can tell.
    async fn recover_command(&mut self, act: ActId, argv: &[String]) -> Result<(), RunError> {
        let dir = self.record_dir(act);
        let found = {
            let dir = dir.clone();
            tokio::task::spawn_blocking(move || provost_sandbox::recover(&dir, SUPERVISOR_WAIT))
                .await
                .map_err(|error| RunError::Internal(error.to_string()))?
        };
        match found {
            Ok(Recovered::Finished(record)) => self.command_ended(act, argv, &record).await?,
            Ok(Recovered::NotStarted(failure)) => {
                let text = format!(
                    "The driver died before this command was let go ({}). It did not run.",
                    failure.step
                );
                self.end(act, ActResult::of(ActEnd::Interrupted, text))?;
            }
            Ok(Recovered::Running | Recovered::Unknown) => {
                return self.detach(Pause::Indeterminate, Some(act)).await;
            }
            // The folder itself is gone.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.detach(Pause::Indeterminate, Some(act)).await;
            }
            Err(source) => return Err(RunError::Spool { path: dir, source }),
        }
        self.discard_record(act);
        Ok(())
    }
}

/// A tool may only write where its touches said it would; the state machine refuses anything else.
fn stray_write(changes: &[Change], open: &OpenAct) -> Option<String> {
    let stray = changes.iter().find(|change| {
        !open.touches.iter().any(|touch| matches!(touch, Touch::Write { path } if *path == change.path))
    })?;
    Some(format!("`{}` was not put before the policy. Nothing was written.", stray.path))
}

fn why_invalid(bad: &BadCall) -> InvalidCall {
    match bad {
        BadCall::UnknownTool { .. } => InvalidCall::UnknownTool,
        BadCall::File(FileError::Outside { .. } | FileError::Leaves { .. } | FileError::Path(_)) => {
            InvalidCall::Outside
        }
        _ => InvalidCall::BadArguments,
    }
}

fn exit_fact(ended: Ended) -> ExitFact {
    match ended {
        Ended::Exited(code) => ExitFact::Exited { code },
        Ended::Signalled(signal) => ExitFact::Signalled { signal },
        Ended::TimedOut { limit_ms } => ExitFact::TimedOut { limit_ms },
        Ended::Cancelled => ExitFact::Cancelled,
        Ended::DriverLost => ExitFact::DriverLost,
    }
}

fn millis(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64
}
