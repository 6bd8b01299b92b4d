//! Asking the model: reserve, ask, try again, record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::budget::Bound;
use provost_core::event::{Body, DriverDetached, ModelAnswered, ModelFailed, RunFinished};
use provost_core::id::StepId;
use provost_core::outcome::{Outcome, Pause};
use provost_core::route::RouteId;
use provost_core::transcript::Usage;
use provost_model::{Answer, Failure, Invocation, Sink};

use crate::door::serve_dial;
use crate::driver::Driver;
use crate::error::RunError;
use crate::meter::{limits_told, plausible};
use crate::observe::Observer;
use crate::runtime::jitter;
use crate::talk::{BYTES_PER_TOKEN, Talk};

struct Relay<'a>(&'a dyn Observer);

impl Sink for Relay<'_> {
    fn text(&mut self, delta: &str) {
        self.0.text(delta);
    }
}

/// Longest a single answer may take, and longest silence on its stream.
const ANSWER_LIMIT: Duration = Duration::from_mins(15);
const SILENCE_LIMIT: Duration = Duration::from_mins(3);

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
        let begun = Instant::now();
        let ledger = self.recorder.state().ledger();
        let budget =
            ledger.budget.time_ms.map(|limit| Duration::from_millis(limit.saturating_sub(ledger.time_ms)));
        let left = || budget.map_or(Duration::MAX, |budget| budget.saturating_sub(begun.elapsed()));

        let mut attempt = 0;
        loop {
            attempt += 1;
            // Each time: an attempt that failed may have cost something.
            let state = self.recorder.state();
            let reserved = state.ledger().reserve(state.price_of(route), estimate, self.limits.answer_tokens);
            let max_output = match reserved {
                Ok(tokens) => tokens,
                Err(bound) => return self.finish(Outcome::BudgetSpent { bound }).await,
            };
            // All attempts of a step share what is left of the run's time.
            let timeout = left().min(ANSWER_LIMIT);
            let idle = SILENCE_LIMIT.min(timeout);
            let request = Invocation { id: invocation.clone(), max_output, timeout, idle };
            let observer = self.runtime.observer.clone();
            let mut relay = Relay(observer.as_ref());
            let answer = {
                let asking = self.talk.dialogue.ask(&request, &mut relay);
                tokio::pin!(asking);
                loop {
                    tokio::select! {
                        answer = &mut asking => break answer,
                        // The loop sees what is wanted.
                        () = self.interrupt.requested() => return Ok(()),
                        // Commands go on meanwhile.
                        Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                    }
                }
            };
            match answer {
                Ok(answer) => return self.answered(step, request.id, answer, estimate),
                Err(failure) => {
                    let wait = self.runtime.retry.delay(attempt, &failure, jitter());
                    // A wait that outlasts the run's time ends in no attempt; paused, the run's time stands still.
                    let wait = wait.filter(|wait| *wait < left());
                    self.failed(step, attempt, &failure, wait).await?;
                    if left().is_zero() {
                        return self.finish(Outcome::BudgetSpent { bound: Bound::Time }).await;
                    }
                    let Some(wait) = wait else {
                        // The state knows whether anybody else may be asked.
                        return Ok(());
                    };
                    let waiting = tokio::time::sleep(wait);
                    tokio::pin!(waiting);
                    loop {
                        tokio::select! {
                            () = &mut waiting => break,
                            // The loop sees what is wanted.
                            () = self.interrupt.requested() => return Ok(()),
                            Some(next) = self.dials.1.recv() => serve_dial(&mut self.recorder, next).await?,
                        }
                    }
                }
            }
        }
    }

    /// Turns to another model, which is told all that was said so far.
    async fn talk_to(&mut self, route: RouteId) -> Result<(), RunError> {
        if self.talk.route == route {
            return Ok(());
        }
        let provider = self.runtime.asked(route)?;
        let mut talk = Talk::open(route, provider.as_ref(), self.prelude.clone(), self.recorder.salt());
        for message in self.recorder.all_messages().await? {
            talk.push(&message);
        }
        self.talk = talk;
        Ok(())
    }

    fn answered(
        &mut self,
        step: StepId,
        invocation: String,
        answer: Answer,
        estimate: u64,
    ) -> Result<(), RunError> {
        let json =
            serde_json::to_vec(&answer.assistant).map_err(|error| RunError::Internal(error.to_string()))?;
        let estimated = answer.usage.is_none();
        self.talk.meter(answer.usage.map(plausible));
        let usage = answer.usage.map_or_else(
            || Usage { input: estimate, output: json.len() as u64 / BYTES_PER_TOKEN, ..Usage::default() },
            plausible,
        );
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
        wait: Option<Duration>,
    ) -> Result<(), RunError> {
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
            usage: failure.usage.map(plausible),
            estimated: false,
            rate_limits,
            retry_in_ms: wait.map(|wait| wait.as_millis() as u64),
        }))?;
        self.recorder.commit().await
    }

    /// Ends the run.
    pub(crate) async fn finish(&mut self, outcome: Outcome) -> Result<(), RunError> {
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
        self.recorder.record(Body::RunFinished(RunFinished { outcome, verified, tree }))?;
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
