//! The one door. Every act passes it: policy, approval, budget, journal, containment, result. There is no second path
//! to an effect (I1), and what an act is about to do is durable before it does it (I2).
//!
//! Here: decisions, approvals, reads, and the ends of acts. `write.rs` and `command.rs` carry out the two kinds of effect.

mod background;
mod call;
mod command;
mod network;
mod server;
mod staged;
mod write;

pub(crate) use background::Processes;
pub(crate) use network::{Dials, dials, serve_dial};
pub(crate) use server::Servers;

use std::time::Instant;

use provost_core::act::{ActEnd, Change, CommandFact, Intent, Recovery, Touch};
use provost_core::digest::Digest;
use provost_core::event::{
    ActApproved, ActDecided, ActFinished, ActSettled, ActStarted, Body, CallInvalid, CallRef, InvalidCall,
    ProcessChanged, Seen, Told, Unapplied, Verdict, WorkspaceDrifted,
};
use provost_core::id::{ActId, AgentId};
use provost_core::outcome::Pause;
use provost_core::path::RelPath;
use provost_core::policy::{Effect as Decided, Ordered};
use provost_core::state::OpenAct;
use provost_core::transcript::Stop;
use provost_journal::Word as Letter;
use provost_tools::workspace::FileError;
use provost_tools::{BadCall, Context, Effect, Observation};

use crate::ahead::Sight;
use crate::driver::Driver;
use crate::error::RunError;
use crate::observe::{Asker, Question, Word};
use crate::runtime::{Answer, Says};

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
    unapplied: Vec<Unapplied>,
    seen: Vec<Seen>,
    command: Option<CommandFact>,
    told: Option<Told>,
    duration_ms: u64,
}

impl ActResult {
    fn of(end: ActEnd, text: impl Into<String>) -> Self {
        Self {
            end,
            text: text.into(),
            changes: Vec::new(),
            reverted: Vec::new(),
            unapplied: Vec::new(),
            seen: Vec::new(),
            command: None,
            told: None,
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
        if self.stop == Stop::Refused {
            let text =
                "The vendor's filter stopped the answer, so this call may be incomplete. It was not run.";
            return self.invalid(at, InvalidCall::CutOff, text);
        }
        if self.recorder.state().is_folding() {
            let text = "You were asked for a summary: nothing else is done before it. This call was not run.";
            return self.invalid(at, InvalidCall::InsteadOfSummary, text);
        }
        let read = self.tools.decode(&call.name, &call.arguments).and_then(|(tool, args)| {
            let touches = self.in_context(&[], |ctx| tool.touches(&args, ctx))?;
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
        // What the contract orders is decided by its policy, whoever's turn it is.
        let policy = state.policy_of(call.map_or(AgentId::ROOT, |_| state.acting()));
        let policy = policy.ok_or_else(|| RunError::Internal("no contract".to_owned()))?;
        let decision = match call {
            Some(_) => policy.decide(&touches, state.rung()),
            None => policy.decide_ordered(&touches, state.rung(), Ordered::by(tool)),
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

    /// An agent for whoever is asked about what it wants; `None` for the root.
    async fn asker(&self, agent: AgentId) -> Result<Option<Asker>, RunError> {
        let Some(found) = self.recorder.state().agent(agent) else { return Ok(None) };
        let Some((name, goal)) = found.name().map(str::to_owned).zip(found.goal()) else { return Ok(None) };
        let goal = self.recorder.bytes(&goal).await?;
        Ok(Some(Asker { agent, name, goal: String::from_utf8_lossy(&goal).into_owned() }))
    }

    /// Asks whoever answers for the policy, or parks the run.
    pub(crate) async fn approve(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        // What a person is asked about is on record first, so that it can still be answered later.
        self.recorder.commit().await?;
        let args = self.recorder.bytes(&open.args).await?;
        let asker = self.asker(open.agent).await?;
        let question = Question {
            act,
            asker,
            tool: open.tool,
            args: String::from_utf8_lossy(&args).into_owned(),
            touches: open.touches,
            decision: open.decision,
        };
        let approver = self.runtime.approver.clone();
        let decides = approver.decide(&question);
        tokio::pin!(decides);
        let verdict = loop {
            tokio::select! {
                biased;
                (verdict, by) = self.mail.verdict_on(act) => return self.take_letter(act, verdict, &by).await,
                word = &mut decides => match word {
                    Word::Approve => break Verdict::Approved,
                    Word::Deny => break Verdict::Denied,
                    Word::Later => return self.detach(Pause::Approval, Some(act)).await,
                },
                // The loop sees what is wanted.
                () = self.interrupt.requested() => return Ok(()),
                // Commands go on meanwhile.
                Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
            }
        };
        self.record_verdict(act, verdict, approver.name())
    }

    /// Takes an answer that came by letter. Whoever wrote it waits for it to be in the journal.
    async fn take_letter(&mut self, act: ActId, verdict: Verdict, by: &str) -> Result<(), RunError> {
        self.record_verdict(act, verdict, by)?;
        self.recorder.commit().await?;
        self.discard(Letter::Verdict { act, verdict }).await
    }

    /// Takes the answers that came by letter while nobody drove the run. Of what does not wait any more they are thrown
    /// away: their authors find in the journal who was first.
    pub(crate) async fn take_letters(&mut self) -> Result<(), RunError> {
        let state = self.recorder.state();
        // Of a run that is cancelled no act waits any more.
        let waiting: Vec<ActId> = match state.cancelled() {
            Some(_) => Vec::new(),
            None => state.waiting_acts().collect(),
        };
        for (act, verdict, by) in self.mail.verdicts() {
            if waiting.contains(&act) {
                self.take_letter(act, verdict, &by).await?;
            } else {
                self.discard(Letter::Verdict { act, verdict }).await?;
            }
        }
        Ok(())
    }

    fn record_verdict(&mut self, act: ActId, verdict: Verdict, by: &str) -> Result<(), RunError> {
        self.recorder.record(Body::ActApproved(ActApproved { act, verdict, by: by.to_owned() }))
    }

    /// Takes the words that were given with `resume`.
    pub(crate) fn take_answers(&mut self, answers: &[Answer]) -> Result<(), RunError> {
        for answer in answers {
            let verdict = match answer.says {
                Says::Verdict(verdict) => verdict,
                Says::Settled(how) => {
                    let settled = ActSettled { act: answer.act, how, by: "settle".to_owned() };
                    self.recorder.record(Body::ActSettled(settled))?;
                    continue;
                }
            };
            // Checked before the run was taken; what is answered by now was answered by letter.
            if self.recorder.state().waiting_acts().any(|act| act == answer.act) {
                self.record_verdict(answer.act, verdict, "resume")?;
            }
        }
        Ok(())
    }

    /// Carries out an act that may be carried out.
    pub(crate) async fn perform(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        if let Some(server) = self.recorder.state().starts_server(&open).cloned() {
            return self.perform_server(act, &server).await;
        }
        if open.call.is_none() {
            return self.perform_gate(act).await;
        }
        let begun = Instant::now();
        if let Some(observation) = self.read_ahead(&open) {
            return self.observed(act, observation, begun);
        }
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
            Effect::Start { request, publish } => self.start_background(act, request, publish).await,
            Effect::Poll { process, wait } => self.poll(act, process, wait).await,
            Effect::Call { server, tool, args } => {
                self.call_tool(act, call::Wanted { server, tool, args }, begun).await
            }
            Effect::Kill { process } => self.kill(act, process).await,
            Effect::Delegate(work) => self.delegate(act, work).await,
        }
    }

    /// What was read for the act while its answer was still coming, if it was.
    fn read_ahead(&mut self, open: &OpenAct) -> Option<Observation> {
        let at = open.call?;
        let answer = self.answer.clone()?;
        self.ahead.take(at.index, answer.calls.get(at.index as usize)?, &open.touches)
    }

    /// Reads the call again and prepares it. The decision was made on exactly these touches; anything else is refused.
    fn prepare(&mut self, open: &OpenAct) -> Result<Result<Effect, String>, RunError> {
        let answer = self.current_answer()?;
        let call = open.call.and_then(|call| answer.calls.get(call.index as usize));
        let call = call.ok_or_else(|| RunError::Internal("the act's call is gone".to_owned()))?;
        let prepared =
            self.tools.decode(&call.name, &call.arguments).map_err(|bad| bad.to_string()).and_then(
                |(tool, args)| {
                    self.in_context(&open.touches, |ctx| {
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
    pub(crate) fn in_context<R>(&self, cleared: &[Touch], f: impl FnOnce(&Context<'_>) -> R) -> R {
        let sight =
            Sight::new((&self.recorder, &self.files), &self.limits, &self.environment, self.image.as_ref())
                .cleared(cleared);
        sight.look(f)
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

    /// Makes the intent durable. Only behind this line may anything happen.
    pub(crate) async fn start(&mut self, act: ActId, intent: Intent) -> Result<(), RunError> {
        self.recorder.record(Body::ActStarted(ActStarted { act, intent }))?;
        self.recorder.commit().await
    }

    fn end(&mut self, act: ActId, result: ActResult) -> Result<(), RunError> {
        let text = self.recorder.content(result.text.as_bytes());
        self.end_with(act, result, text)
    }

    /// Ends an act that changed nothing by itself, with words that the journal has.
    pub(crate) fn end_saying(
        &mut self,
        act: ActId,
        end: ActEnd,
        said: Digest,
        duration_ms: u64,
    ) -> Result<(), RunError> {
        let result = ActResult { duration_ms, ..ActResult::of(end, "") };
        self.end_with(act, result, said)
    }

    fn end_with(&mut self, act: ActId, result: ActResult, text: Digest) -> Result<(), RunError> {
        self.recorder.record(Body::ActFinished(Box::new(ActFinished {
            act,
            end: result.end,
            result: text,
            changes: result.changes,
            reverted: result.reverted,
            unapplied: result.unapplied,
            seen: result.seen,
            command: result.command,
            told: result.told,
            duration_ms: result.duration_ms,
        })))
    }

    /// Records what changed without an act.
    pub(crate) async fn note_drift(&mut self) -> Result<Drift, RunError> {
        if !self.recorder.state().open_processes().is_empty() {
            self.note_changes_in_background().await?;
            return Ok(Drift::None);
        }
        let changes = self.files.observe(&mut self.recorder)?;
        if changes.is_empty() {
            return Ok(Drift::None);
        }
        self.record_drift(changes)?;
        Ok(Drift::Recorded)
    }

    /// What a rule protects from all writing has no place in the result, whoever wrote it: the person decides.
    pub(super) fn record_drift(&mut self, changes: Vec<Change>) -> Result<(), RunError> {
        let created = self.recorder.state().created();
        let denied = |change: &&Change| {
            created.is_some_and(|created| created.policy.denies_writing_by_rule(&change.path))
        };
        if let Some(change) = changes.iter().find(denied) {
            return Err(RunError::Workspace {
                path: self.files.root().to_owned(),
                reason: format!(
                    "`{}` changed, and no act of the run changed it; a rule of the policy protects it. Put it back and \
                     resume",
                    change.path
                ),
            });
        }
        // Where a command goes on it is its doing.
        let body = if self.recorder.state().open_processes().is_empty() {
            Body::WorkspaceDrifted(WorkspaceDrifted { changes })
        } else {
            Body::ProcessChanged(ProcessChanged { changes, reverted: Vec::new() })
        };
        self.recorder.record(body)
    }

    /// Settles an act whose driver died.
    pub(crate) async fn recover(&mut self, act: ActId) -> Result<(), RunError> {
        let open = self.open_act(act)?;
        match open.started {
            Some(Intent::Command { .. }) if open.settled.is_some() => {
                self.end_settled(act, open.settled).await
            }
            Some(Intent::Call { .. }) => self.recover_call(act, &open).await,
            Some(Intent::Background { .. }) => self.recover_background(act).await,
            Some(Intent::Spawn(spawn)) => self.end_spawn(act, &spawn),
            Some(Intent::Write { changes }) => self.recover_write(act, &changes).await,
            Some(Intent::Command { argv, .. }) => match &open.staged {
                Some(staged) => self.recover_staged(act, &argv, staged).await,
                None if self.stages(act) => self.recover_unstaged(act, &argv).await,
                None => self.recover_command(act, &argv).await,
            },
            None => Err(RunError::Internal(format!("act {act} did not start"))),
        }
    }
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

fn millis(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64
}
