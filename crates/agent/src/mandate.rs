//! What holds a run to its authorization while it is driven: its time, and whoever may revoke it.

use std::time::Duration;

use provost_core::event::{Body, RunCancelled};
use provost_core::outcome::Unauthorized;
use provost_core::session::{Authorized, Outside};
use provost_core::state::{Next, Violation};

use crate::driver::Driver;
use crate::error::RunError;

/// Knows whether the authorization that a run is under was revoked. It is asked before each step and each act, and twice a
/// second while something is under way, from a thread of its own: it may block for as long. A run that is under no
/// authorization and revoked all the same is paused.
pub trait Mandate: Send + Sync {
    /// Who or what revoked it, if anybody has: it is put on record, and the run ends.
    fn revoked(&self) -> Option<String>;
}

/// Nobody revokes anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing;

impl Mandate for Standing {
    fn revoked(&self) -> Option<String> {
        None
    }
}

/// Whether a run may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    Holds,
    /// It is on record that it does not, and the run is to be closed.
    Gone,
}

/// Who says that an authorization has expired: nobody but itself.
const ITSELF: &str = "authorization";

impl Driver<'_> {
    /// Puts on record that the authorization of the run holds no longer, if that is so. What is under way is brought to its
    /// end then, and nothing begins.
    pub(crate) async fn look_at_authority(&mut self, next: &Next) -> Result<Authority, RunError> {
        let now = self.recorder.now_ms();
        let state = self.recorder.state();
        let Some(authorized) = state.authorized().filter(|_| state.cancelled().is_none()) else {
            return Ok(Authority::Holds);
        };
        let expired = authorized.at(now) == Err(Outside::TooLate);
        let (why, by) = match self.runtime.mandate.revoked() {
            Some(by) => (Unauthorized::Revoked, by),
            None if expired && !ends(next) => (Unauthorized::Expired, ITSELF.to_owned()),
            None => return Ok(Authority::Holds),
        };
        self.recorder.record(Body::RunCancelled(RunCancelled { by, unauthorized: Some(why) }))?;
        self.recorder.commit().await?;
        Ok(Authority::Gone)
    }

    /// Whether the authorization of the run was revoked, or its time is over; `left` is what is left of that.
    pub(crate) fn is_unauthorized(&self, left: Duration) -> bool {
        let revoked =
            || self.recorder.state().authorized().is_some() && self.runtime.mandate.revoked().is_some();
        left.is_zero() || revoked()
    }

    /// What is left of the time that the run is authorized for; `None` where it is bounded by no authorization.
    pub(crate) fn authorized_left(&self) -> Option<Duration> {
        let now = self.recorder.time_ms();
        self.recorder.state().authorized().map(|authorized| Duration::from_millis(authorized.left_ms(now)))
    }

    /// Comes back once the time of the run's authorization is over.
    pub(crate) async fn authorization_ends(left: Option<Duration>) {
        match left {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    }
}

/// Whether it only ends what has begun: that may come when the time is over.
fn ends(next: &Next) -> bool {
    matches!(next, Next::EndProcess(_) | Next::JudgeGate(_) | Next::Finish(_))
}

/// A session is not begun outside of its time.
pub(crate) fn check_time(authorized: &Authorized, now_ms: u64) -> Result<(), RunError> {
    authorized.at(now_ms).map_err(|outside| {
        RunError::Contract(match outside {
            Outside::TooEarly => "the session's authorization is not valid yet".to_owned(),
            Outside::TooLate => "the session's authorization has expired: have it authorized anew".to_owned(),
        })
    })
}

/// Whether something was refused because the time of the authorization ran out in this very moment. Nothing of it happened.
pub(crate) fn is_too_late(error: &RunError) -> bool {
    matches!(error, RunError::Unsound { violation: Violation::Window { outside: Outside::TooLate, .. }, .. })
}
