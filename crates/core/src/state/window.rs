//! The time of an authorization: what may happen inside of it only, and what afterwards too.

use super::check::{Checked, must};
use super::{RunState, Violation};
use crate::act::Intent;
use crate::event::{Body, Event, RunCancelled};
use crate::outcome::Unauthorized;
use crate::session::Authorized;

/// Whether an event begins something. That is in the authorization's time, or is not. What ends something or accounts for
/// it may come later: what is under way when the time is over is brought to an end, and that takes a moment.
///
/// A request to the model that was under way ends with `model.failed`: an answer begins a step.
fn begins(body: &Body) -> bool {
    match body {
        Body::RunQueued(_)
        | Body::RunCreated(_)
        | Body::ModelAnswered(_)
        | Body::CallInvalid(_)
        | Body::ActDecided(_)
        | Body::ActStarted(_)
        | Body::NetDecided(_)
        | Body::ServerListed(_)
        | Body::ServerAccepted(_)
        | Body::Note(_)
        | Body::ContextFolded(_)
        | Body::Submitted(_) => true,
        // A driver may have to come to close it.
        Body::DriverAttached(_)
        | Body::DriverDetached(_)
        | Body::ModelFailed(_)
        | Body::PromptBroke(_)
        | Body::CacheMissed(_)
        // A word on an act, which starts later or not at all.
        | Body::ActApproved(_)
        | Body::ActSettled(_)
        | Body::ActStaged(_)
        | Body::ActFinished(_)
        | Body::ProcessChanged(_)
        | Body::ProcessEnded(_)
        | Body::AgentEnded(_)
        | Body::WorkspaceDrifted(_)
        // What a person does with the files is no doing of the run's.
        | Body::WorkspaceRewound(_)
        | Body::WorkspaceRestored(_)
        | Body::GateJudged(_)
        | Body::RunHeld(_)
        | Body::RunCancelled(_)
        | Body::RunFinished(_) => false,
    }
}

impl RunState {
    /// What an authority signed for the run, where it is a governed session.
    pub fn authorized(&self) -> Option<&Authorized> {
        self.created.as_ref().and_then(|created| created.authorized.as_deref())
    }

    /// What begins, begins in the authorization's time.
    pub(super) fn check_window(&self, event: &Event) -> Result<(), Violation> {
        let authorized = match &event.body {
            Body::RunCreated(created) => created.authorized.as_deref(),
            _ => self.authorized(),
        };
        let Some(authorized) = authorized.filter(|_| begins(&event.body)) else {
            return Ok(());
        };
        let window = |outside| Violation::Window { seq: event.seq, kind: event.body.kind(), outside };
        authorized.at(event.at_ms).map_err(window)
    }

    /// A command is over when the authorization is: it gets no more time than was left when it was looked at last.
    pub(super) fn check_time_left(&self, intent: &Intent) -> Checked {
        let (Some(authorized), Intent::Command { .. } | Intent::Background { .. }) =
            (self.authorized(), intent)
        else {
            return Ok(());
        };
        let left = authorized.left_ms(self.last_at_ms);
        let within = match intent {
            Intent::Command { limit_ms, .. } => *limit_ms <= left,
            Intent::Background { limit_ms, .. } => limit_ms.is_some_and(|limit| limit <= left),
            _ => true,
        };
        must(within, "it gives a command more time than its authorization has left")
    }

    /// That an authorization holds no longer can only be said of a run that has one, and that it expired once it has.
    /// That it was revoked is the word of whoever says so.
    pub(super) fn check_cancelled(&self, body: &RunCancelled, at_ms: u64) -> Checked {
        let Some(why) = body.unauthorized else {
            return Ok(());
        };
        let authorized = self.authorized().ok_or("the run was not made under an authorization")?;
        let expired = at_ms >= authorized.expires_ms;
        must(why != Unauthorized::Expired || expired, "its authorization has not expired")
    }
}
