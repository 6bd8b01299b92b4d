//! The loop: do what the state machine says is next, until it says that nothing is.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::contract::{GATE, Limits};
use provost_core::digest::TreeDigest;
use provost_core::event::{Body, DriverDetached, RunCancelled, RunFinished, RunHeld, SubmitVia, Submitted};
use provost_core::id::AgentId;
use provost_core::outcome::Pause;
use provost_core::state::{Agent, Next};
use provost_core::transcript::{self, Assistant, Message, ToolSpec};
use provost_journal::Word;
use provost_model::Prelude;
use provost_tools::Registry;

use crate::ahead::Ahead;
use crate::door::{Dials, Processes, Servers};
use crate::error::RunError;
use crate::executor::Contained;
use crate::files::Files;
use crate::interrupt::Interrupt;
use crate::mail::{Mail, Stop};
use crate::mandate::{Authority, is_too_late};
use crate::recorder::Recorder;
use crate::removal::remove_at;
use crate::runtime::Runtime;
use crate::schema::Schema;
use crate::talk::{Asked, Talk};
use crate::tree::{Aside, Narrow};
use provost_sandbox::image::Image;

/// How a driver left a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The run is over.
    Over(RunFinished),
    /// The run waits and can be resumed.
    Paused(DriverDetached),
}

impl Ending {
    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Over(finished) => finished.outcome.exit_code(),
            Self::Paused(detached) => detached.why.exit_code(),
        }
    }

    /// One word for the last JSON line.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Over(finished) => finished.outcome.word(),
            Self::Paused(detached) => detached.why.word(),
        }
    }
}

/// Whether somebody wanted the run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Now,
    No,
}

/// One driver at work on one run.
pub(crate) struct Driver<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) recorder: Recorder,
    pub(crate) talk: Talk,
    /// What the dialogue of the agent at hand begins with, and that of the root.
    pub(crate) prelude: Prelude,
    pub(crate) root_prelude: Prelude,
    /// The agent at hand, whose are the dialogue and the answer.
    pub(crate) agent: AgentId,
    pub(crate) aside: Aside,
    /// What the containment in force was made for, beside the run's policy.
    pub(crate) narrow: Narrow,
    /// What the last answer has to satisfy.
    pub(crate) schema: Option<Schema>,
    pub(crate) files: Files,
    pub(crate) sandbox: Arc<dyn Contained>,
    pub(crate) limits: Limits,
    pub(crate) interrupt: Interrupt,
    pub(crate) mail: Mail,
    /// The answer whose calls are being worked on, and why the model stopped there.
    pub(crate) answer: Option<Arc<Assistant>>,
    pub(crate) stop: transcript::Stop,
    /// What was read while the answer was still coming.
    pub(crate) ahead: Ahead,
    /// The image that is the root of commands, where the policy names one.
    pub(crate) image: Option<Image>,
    /// The environment of commands.
    pub(crate) environment: BTreeMap<String, String>,
    /// Records of commands whose result is recorded and not yet durable, and checkouts that are done with.
    pub(crate) stale: Vec<PathBuf>,
    /// Commands that go on.
    pub(crate) background: Processes,
    /// What commands want to dial.
    pub(crate) dials: Dials,
    /// The tools of the run, its servers' among them; how the model is told of those that are its own.
    pub(crate) tools: Registry,
    pub(crate) own_specs: Vec<ToolSpec>,
    /// Servers that run.
    pub(crate) servers: Servers,
}

impl Driver<'_> {
    pub(crate) async fn drive(&mut self) -> Result<Ending, RunError> {
        loop {
            self.turn().await?;
            let next = self.recorder.state().next();
            match next {
                Next::Over(finished) => return Ok(Ending::Over(finished)),
                Next::Attach => {
                    let left = self.recorder.state().pause().cloned();
                    return left
                        .map(Ending::Paused)
                        .ok_or_else(|| RunError::Internal("the driver lost its run".to_owned()));
                }
                next => {
                    // First whether it may go on at all: that it may not is what stopped it, where that is so.
                    if self.look_at_authority(&next).await? == Authority::Holds
                        && self.stop_if_asked().await? == Stopped::No
                    {
                        self.do_next(next).await?;
                    }
                }
            }
        }
    }

    /// Does what is next. Where the time of the run's authorization ran out in this moment, nothing is done.
    async fn do_next(&mut self, next: Next) -> Result<(), RunError> {
        let act = match &next {
            Next::Perform(act) => Some(*act),
            _ => None,
        };
        // On the heap: it holds what each of them holds.
        match Box::pin(self.carry_out(next)).await {
            Err(error) if is_too_late(&error) => {
                if let Some(act) = act {
                    self.discard_record(act);
                    self.discard_copy();
                }
                Ok(())
            }
            other => other,
        }
    }

    async fn carry_out(&mut self, next: Next) -> Result<(), RunError> {
        match next {
            Next::Create | Next::Dropped | Next::Attach | Next::Over(_) => {
                return Err(RunError::Internal("a run is driven that is not there to be driven".to_owned()));
            }
            Next::Ask { .. } if self.has_ends() => self.notice_ends().await?,
            Next::Ask { step, invocation, route } => {
                self.stop_without_servers().await?;
                self.ask(step, invocation, route).await?;
            }
            Next::Leave => self.detach(Pause::Provider, None).await?,
            Next::Call(call) => self.decide(call)?,
            Next::Approve(act) => self.approve(act).await?,
            Next::Perform(act) => self.perform(act).await?,
            Next::Refuse(act) => self.refuse(act)?,
            Next::StartServer(name) => self.order_server(&name)?,
            Next::EndProcess(act) => self.end_process(act).await?,
            Next::Recover(act) => self.recover(act).await?,
            Next::Submit(via) => self.submit(via)?,
            Next::CountBase => self.count_base().await?,
            Next::RunGate => self.run_gate(GATE)?,
            Next::JudgeGate(act) => self.judge_gate(act).await?,
            Next::Note(why) => self.note(why).await?,
            Next::EndAgent(end) => self.end_agent(end)?,
            Next::Fold(by) => self.fold(by).await?,
            Next::Finish(outcome) => self.finish(outcome).await?,
        }
        Ok(())
    }

    /// Where somebody wants the run stopped, does what they want. A run that is cancelled already goes on to its close.
    async fn stop_if_asked(&mut self) -> Result<Stopped, RunError> {
        if !self.interrupt.is_requested() || self.recorder.state().cancelled().is_some() {
            return Ok(Stopped::No);
        }
        match self.mail.stop() {
            Some((Stop::Cancel, by)) => {
                self.recorder.record(Body::RunCancelled(RunCancelled::by(by)))?;
                self.recorder.commit().await?;
                self.discard(Word::Cancel).await?;
            }
            Some((Stop::Hold, by)) => {
                self.end_processes().await?;
                self.recorder
                    .record(Body::DriverDetached(DriverDetached { why: Pause::Interrupted, act: None }))?;
                let why = self.recorder.content("Somebody holds it.");
                self.recorder.record(Body::RunHeld(RunHeld { by, why }))?;
                self.recorder.commit().await?;
                self.discard(Word::Hold).await?;
            }
            None => self.detach(Pause::Interrupted, None).await?,
        }
        Ok(Stopped::Now)
    }

    /// Throws away a letter whose word is durable in the journal.
    pub(crate) async fn discard(&self, read: Word) -> Result<(), RunError> {
        Ok(self.runtime.store.discard(&self.recorder.lease, vec![read]).await?)
    }

    /// Commits, and pushes what thereby became durable into the dialogue with the model (I2).
    pub(crate) async fn show_model_what_is_durable(&mut self) -> Result<(), RunError> {
        self.recorder.commit().await?;
        self.discard_stale();
        for message in self.recorder.messages(self.agent).await? {
            self.talk.push(&message);
        }
        Ok(())
    }

    /// Says again what was said before this driver came. Where it is not what was sent then, that is on record.
    pub(crate) fn say_again(&mut self, messages: &[Message], asked: &Asked) -> Result<(), RunError> {
        let step = provost_core::id::StepId(self.recorder.state().ledger().steps);
        let route = self.talk.route;
        let provider = self.runtime.asked(route)?;
        let anew = || Talk::open(route, provider.as_ref(), self.prelude.clone(), self.recorder.salt());
        let broke = self.talk.say_again(messages, asked, step, anew);
        let Some(broke) = broke.filter(|_| self.recorder.state().cancelled().is_none()) else {
            return Ok(());
        };
        self.recorder.record(Body::PromptBroke(broke))
    }

    /// Removes what was only needed until the journal was durable, which it now is.
    pub(crate) fn discard_stale(&mut self) {
        for folder in self.stale.drain(..) {
            // One left behind costs some bytes and nothing else.
            let _ = remove_at(&folder);
        }
        // Only where it is empty.
        let _ = std::fs::remove_dir(self.runtime.spool.join(self.recorder.lease.run.as_str()));
    }

    /// The answer whose calls are worked on: in hand, or read back after a restart.
    pub(crate) fn current_answer(&self) -> Result<Arc<Assistant>, RunError> {
        match &self.answer {
            Some(answer) => Ok(answer.clone()),
            None => Err(RunError::Internal("no answer is at hand".to_owned())),
        }
    }

    fn submit(&mut self, via: SubmitVia) -> Result<(), RunError> {
        let step = self.recorder.state().agent(self.agent).and_then(Agent::step);
        let step = step.ok_or_else(|| RunError::Internal("no step is under way".to_owned()))?;
        let summary = self.last_words();
        let wrong = self.schema.as_ref().and_then(|schema| schema.wrong(&summary));
        let wrong = wrong.map(|words| self.recorder.content(words));
        let summary = self.recorder.content(summary);
        self.recorder.record(Body::Submitted(Submitted { step, via, summary, wrong }))
    }

    /// The digest of the workspace as it is now; what changed unnoticed is recorded first.
    pub(crate) async fn tree_now(&mut self) -> Result<TreeDigest, RunError> {
        self.note_drift().await?;
        self.files.tree()
    }
}

/// Makes a folder of the spool, and those above it, for this user alone: they hold copies of what is not public.
pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Rebuilds the dialogue of a resumed run, and the answer whose calls may still be open.
pub(crate) fn last_answer(messages: &[Message]) -> Option<Assistant> {
    messages.iter().rev().find_map(|message| match message {
        Message::Assistant(answer) => Some(answer.clone()),
        _ => None,
    })
}
