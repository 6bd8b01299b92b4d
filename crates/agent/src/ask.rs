//! Asking the model: reserve, ask, try again, record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::agents::AgentEnd;
use provost_core::budget::{Bound, LEAST_OUTPUT};
use provost_core::event::{Body, DriverDetached, FoldedBy, ModelAnswered, ModelFailed, NoteWhy, RunFinished};
use provost_core::id::{AgentId, StepId};
use provost_core::outcome::{Outcome, Pause};
use provost_core::route::RouteId;
use provost_core::state::leaves_open;
use provost_core::transcript::{Call, Usage};
use provost_model::{Answer, Billed, Failure, FailureClass, Invocation, Sink};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::ahead::{Ahead, Sight};
use crate::asking::{Asking, Kept};
use crate::door::serve_dial;
use crate::driver::Driver;
use crate::error::RunError;
use crate::fold::Room;
use crate::mandate::is_too_late;
use crate::meter::{Reserved, charge, is_half, limits_told, plausible};
use crate::observe::Observer;
use crate::runtime::jitter;
use crate::talk::BYTES_PER_TOKEN;

/// Passes on what is heard of an answer that is coming.
struct Relay<'a> {
    observer: &'a dyn Observer,
    calls: UnboundedSender<Call>,
    /// Bytes of an answer that came.
    heard: u32,
    kept: Kept,
}

impl Relay<'_> {
    fn hear(&mut self, piece: &str) {
        self.heard = self.heard.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
        self.kept.heard(self.heard);
    }
}

impl Sink for Relay<'_> {
    fn text(&mut self, delta: &str) {
        self.hear(delta);
        self.observer.text(delta);
    }

    fn reasoning(&mut self, delta: &str) {
        self.hear(delta);
    }

    fn call(&mut self, call: &Call) {
        self.hear(&call.arguments);
        // Nobody listens any more where the attempt is over.
        let _ = self.calls.send(call.clone());
    }
}

/// Whether a wait came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Over,
    /// Somebody wants the run stopped.
    Interrupted,
}

/// Longest a single answer may take, and longest silence on its stream.
const ANSWER_LIMIT: Duration = Duration::from_mins(15);
const SILENCE_LIMIT: Duration = Duration::from_mins(3);

/// An answer that came when the authorization of its run had expired.
fn came_too_late(answer: &Answer, heard: u32) -> Failure {
    let failure = Failure::new(FailureClass::Cancelled, "the answer came when the authorization had expired");
    match answer.usage {
        Some(_) => failure.with_usage(answer.usage),
        None => failure.with_billed(Billed::Perhaps { answer_bytes: heard }),
    }
}

impl Driver<'_> {
    pub(crate) async fn ask(
        &mut self,
        step: StepId,
        invocation: String,
        route: RouteId,
    ) -> Result<(), RunError> {
        self.show_model_what_is_durable().await?;
        self.talk_to(route).await?;
        let estimate = self.talk.estimate();
        match self.room(estimate) {
            Room::Enough => {}
            Room::Little => return self.note(NoteWhy::ContextFull).await,
            Room::None => return self.fold(FoldedBy::Runtime).await,
        }
        if let Some(failure) = self.too_long() {
            // The state knows whether anybody else may be asked, whose window may be larger.
            return self.failed(step, 1, &failure, Reserved { input: 0, output: 0 }, None).await;
        }
        let begun = Instant::now();
        let ledger = self.recorder.state().ledger();
        let budget =
            ledger.budget.time_ms.map(|limit| Duration::from_millis(limit.saturating_sub(ledger.time_ms)));
        let left = || budget.map_or(Duration::MAX, |budget| budget.saturating_sub(begun.elapsed()));
        let authorized = self.authorized_left();
        let authorized = || authorized.map_or(Duration::MAX, |time| time.saturating_sub(begun.elapsed()));

        let mut attempt = 0;
        loop {
            attempt += 1;
            // The loop sees that the authorization holds no longer.
            if self.pace(left().min(authorized())).await? == Waited::Interrupted
                || self.is_unauthorized(authorized())
            {
                return Ok(());
            }
            // Each time: an attempt that failed may have cost something.
            let state = self.recorder.state();
            let reserved = state.ledger().reserve(state.price_of(route), estimate, self.limits.answer_tokens);
            let max_output = match reserved {
                Ok(tokens) => self.fitting(tokens, estimate),
                Err(bound) => {
                    let needed = state.ledger().need(bound, state.price_of(route), estimate);
                    return self.spent(bound, needed).await;
                }
            };
            // All attempts of a step share what is left of the run's time.
            let timeout = left().min(authorized()).min(ANSWER_LIMIT);
            let idle = SILENCE_LIMIT.min(timeout);
            let request = Invocation { id: invocation.clone(), max_output, timeout, idle };
            let observer = self.runtime.observer.clone();
            let (calls, mut heard) = unbounded_channel();
            let kept = self.keep_asking(&invocation, attempt, estimate, max_output)?;
            let mut relay = Relay { observer: observer.as_ref(), calls, heard: 0, kept };
            // Another attempt may ask for something else.
            self.ahead = Ahead::default();
            let answer = {
                let asking = self.talk.dialogue.ask(&request, &mut relay);
                tokio::pin!(asking);
                loop {
                    tokio::select! {
                        biased;
                        Some(call) = heard.recv() => {
                            // Only what is allowed outright is read ahead.
                            let sight = Sight::new(
                                (&self.recorder, &self.files),
                                &self.limits,
                                &self.environment,
                                self.image.as_ref(),
                            );
                            self.ahead.hear(call, &self.tools, &sight);
                        }
                        answer = &mut asking => break Some(answer),
                        () = self.interrupt.requested() => break None,
                        // Commands go on meanwhile.
                        Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                    }
                }
            };
            let reserved = Reserved { input: estimate, output: max_output };
            // Gone with the next commit, which has what became of it.
            self.stale.push(relay.kept.path().to_owned());
            let answer = answer.unwrap_or_else(|| {
                let failure = Failure::new(FailureClass::Cancelled, "given up: the run is to stop");
                Err(failure.with_billed(Billed::Perhaps { answer_bytes: relay.heard }))
            });
            match answer {
                Ok(answer) => {
                    let too_late = came_too_late(&answer, relay.heard);
                    return match self.answered(step, request.id, answer, reserved, u64::from(relay.heard)) {
                        // It is paid for, and nothing follows from it.
                        Err(error) if is_too_late(&error) => {
                            self.failed(step, attempt, &too_late, reserved, None).await
                        }
                        other => other,
                    };
                }
                Err(failure) => {
                    // A window that nobody knew, or that is smaller than what was said of it.
                    let fold =
                        failure.class == FailureClass::ContextOverflow && self.recorder.state().can_fold();
                    let wait = if fold {
                        Some(Duration::ZERO)
                    } else {
                        self.runtime.retry.delay(attempt, begun.elapsed(), &failure, jitter())
                    };
                    // A wait that outlasts the run's time ends in no attempt; paused, the run's time stands still.
                    let wait = wait.filter(|wait| *wait < left().min(authorized()));
                    // What may have been answered, and charged for, is not asked again under an authorization by itself.
                    let again =
                        !leaves_open(failure.class.word()) || self.recorder.state().authorized().is_none();
                    let wait = wait.filter(|_| again);
                    self.failed(step, attempt, &failure, reserved, wait).await?;
                    if failure.class == FailureClass::Cancelled {
                        // The loop sees what is wanted.
                        return Ok(());
                    }
                    if left().is_zero() {
                        return self.spent(Bound::Time, None).await;
                    }
                    let Some(wait) = wait else {
                        // The state knows whether anybody else may be asked.
                        return Ok(());
                    };
                    if fold {
                        return self.fold(FoldedBy::Runtime).await;
                    }
                    if self.wait(wait).await? == Waited::Interrupted {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Keeps, beside the journal, what is about to be asked.
    fn keep_asking(&self, invocation: &str, attempt: u32, input: u64, output: u64) -> Result<Kept, RunError> {
        let asking = Asking {
            invocation: invocation.to_owned(),
            route: self.talk.route,
            attempt,
            failed_before: self.recorder.state().counts().failed_requests,
            input,
            output,
            answer_bytes: 0,
        };
        Kept::begin(&self.runtime.spool, self.recorder.lease.run.as_str(), asking)
    }

    /// Waits, while commands go on.
    async fn wait(&mut self, wait: Duration) -> Result<Waited, RunError> {
        let waiting = tokio::time::sleep(wait);
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                () = &mut waiting => return Ok(Waited::Over),
                () = self.interrupt.requested() => return Ok(Waited::Interrupted),
                Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
            }
        }
    }

    /// Waits until the vendor grants something again, where the last response said that nothing is left and when there
    /// will be, and the caller wants to wait so long.
    async fn pace(&mut self, left: Duration) -> Result<Waited, RunError> {
        let Some((told, limits)) = self.talk.limits_told.take() else { return Ok(Waited::Over) };
        let wait = limits.spent_until().map_or(Duration::ZERO, |reset| reset.saturating_sub(told.elapsed()));
        if wait.is_zero() || wait > self.runtime.pace.min(left) {
            return Ok(Waited::Over);
        }
        self.wait(wait).await
    }

    /// Says so where the prompt cannot fit into the model's window: the vendor would say it after having been sent it.
    fn too_long(&self) -> Option<Failure> {
        let (model, _) = self.recorder.state().model_of(self.talk.route)?;
        let window = model.window?;
        let least = self.talk.least();
        (least >= window).then(|| {
            let message = format!(
                "the prompt has more than {least} tokens, and the window of `{}` holds {window}; it was not sent",
                model.name
            );
            Failure::new(FailureClass::ContextOverflow, message)
        })
    }

    /// No more tokens of output than the window has room for, where the vendor has counted the prompt: some refuse to be
    /// asked for more. Before that it is not known well enough.
    fn fitting(&self, output: u64, prompt: u64) -> u64 {
        let window = self.recorder.state().model_of(self.talk.route).and_then(|(model, _)| model.window);
        match window {
            Some(window) if self.talk.is_metered() => {
                output.min(window.saturating_sub(prompt).max(LEAST_OUTPUT))
            }
            _ => output,
        }
    }

    /// Turns to another model, which is told all that was said so far.
    async fn talk_to(&mut self, route: RouteId) -> Result<(), RunError> {
        if self.talk.route == route {
            return Ok(());
        }
        self.begin_talk(route).await
    }

    fn answered(
        &mut self,
        step: StepId,
        invocation: String,
        answer: Answer,
        reserved: Reserved,
        heard: u64,
    ) -> Result<(), RunError> {
        let json =
            serde_json::to_vec(&answer.assistant).map_err(|error| RunError::Internal(error.to_string()))?;
        let bytes = (json.len() as u64).max(heard);
        // Half of a count is no count: what is missing would be free.
        let prompt_bytes = self.talk.text_bytes();
        let told = answer.usage.map(plausible).filter(|usage| !is_half(usage, bytes, prompt_bytes));
        let estimated = told.is_none();
        self.talk.meter(told);
        if !answer.rate_limits.is_empty() {
            self.talk.limits_told = Some((Instant::now(), answer.rate_limits.clone()));
        }
        let usage = told.unwrap_or_else(|| {
            let least = answer.usage.map(plausible).unwrap_or_default();
            let cached = least.cache_read.saturating_add(least.cache_write);
            let output = bytes.div_ceil(BYTES_PER_TOKEN).min(reserved.output);
            Usage {
                input: reserved.input.saturating_sub(cached).max(least.input),
                output: output.max(least.output),
                ..least
            }
        });
        let body = ModelAnswered {
            step,
            invocation,
            route: self.talk.route,
            prompt: self.talk.prompt(),
            answer: self.recorder.content(json),
            calls: answer.assistant.calls.len() as u32,
            text: !answer.assistant.text.trim().is_empty(),
            stop: answer.stop,
            usage,
            estimated,
            raw_usage: answer.raw_usage.map(|json| self.recorder.content(json)),
            rate_limits: limits_told(&mut self.recorder, &answer.rate_limits),
            model: answer.model,
            latency_ms: answer.latency_ms,
            ttft_ms: answer.ttft_ms,
        };
        self.recorder.record(Body::ModelAnswered(body))?;
        if let Some(missed) = self.recorder.state().cache_miss() {
            self.recorder.record(Body::CacheMissed(missed))?;
        }
        self.answer = Some(Arc::new(answer.assistant));
        self.stop = answer.stop;
        Ok(())
    }

    /// Each attempt is in the journal before the next is made.
    async fn failed(
        &mut self,
        step: StepId,
        attempt: u32,
        failure: &Failure,
        reserved: Reserved,
        wait: Option<Duration>,
    ) -> Result<(), RunError> {
        if let Some(limits) = &failure.rate_limits {
            self.talk.limits_told = Some((Instant::now(), limits.as_ref().clone()));
        }
        let (usage, estimated) = charge(failure, reserved);
        let message = self.recorder.content(failure.message.as_bytes());
        let limits = failure.rate_limits.as_deref();
        let rate_limits = limits.and_then(|told| limits_told(&mut self.recorder, told));
        self.recorder.record(Body::ModelFailed(ModelFailed {
            step,
            route: self.talk.route,
            attempt,
            class: failure.class.word().to_owned(),
            status: failure.status,
            message,
            usage,
            estimated,
            rate_limits,
            retry_in_ms: wait.map(|wait| wait.as_millis() as u64),
        }))?;
        self.recorder.commit().await
    }

    /// Ends whoever asks: the budget has no more for it, who needed so much.
    async fn spent(&mut self, bound: Bound, needed: Option<u64>) -> Result<(), RunError> {
        if self.agent == AgentId::ROOT {
            return self.finish_short(Outcome::BudgetSpent { bound }, needed).await;
        }
        for process in self.recorder.state().open_processes_of(self.agent) {
            self.end_process(process).await?;
        }
        self.end_agent(AgentEnd::BudgetSpent { bound })
    }

    /// Ends the run.
    pub(crate) async fn finish(&mut self, outcome: Outcome) -> Result<(), RunError> {
        self.finish_short(outcome, None).await
    }

    /// Ends the run; where a bound does not let the next call be made, with what that would have needed.
    async fn finish_short(&mut self, outcome: Outcome, needed: Option<u64>) -> Result<(), RunError> {
        self.end_processes().await?;
        let tree = self.tree_now().await?;
        let state = self.recorder.state();
        let verified = state.gate_holds() && state.last_gate().is_some_and(|judged| judged.tree == tree);
        if outcome == Outcome::Done
            && state.created().is_some_and(|created| created.gate.is_some())
            && !verified
        {
            // Something changed between the gate and now: the drift is recorded, so the gate is due again.
            return self.recorder.commit().await;
        }
        self.recorder.record(Body::RunFinished(RunFinished { outcome, verified, tree, needed }))?;
        self.recorder.commit().await
    }

    /// Leaves the run for later.
    pub(crate) async fn detach(
        &mut self,
        why: Pause,
        act: Option<provost_core::id::ActId>,
    ) -> Result<(), RunError> {
        self.end_processes().await?;
        self.recorder.record(Body::DriverDetached(DriverDetached { why, act }))?;
        self.recorder.commit().await
    }
}
