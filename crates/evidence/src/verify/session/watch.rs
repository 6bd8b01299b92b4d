//! What is seen of a journal while its events go by: how it begins, and its times.

use provost_core::event::{Body, Event, RunCreated};
use provost_core::session::Authorization;
use provost_core::text::moment;

/// The journal's beginning and times, held against an authorization's.
pub(super) struct Watch {
    not_before_ms: u64,
    expires_ms: u64,
    created: Result<Box<RunCreated>, String>,
    /// The first event that begins something outside of the time, in words.
    outside: Option<String>,
}

impl Watch {
    pub(super) fn new(authorization: &Authorization) -> Self {
        Self {
            not_before_ms: authorization.not_before_ms,
            expires_ms: authorization.expires_ms,
            created: Err("the journal holds no event".to_owned()),
            outside: None,
        }
    }

    pub(super) fn see(&mut self, event: &Event) {
        if event.seq == 0 {
            self.created = match &event.body {
                Body::RunCreated(created) => Ok(created.clone()),
                other => {
                    Err(format!("the journal begins with `{}`, not with what was authorized", other.kind()))
                }
            };
        }
        if self.outside.is_some() {
            return;
        }
        let (seq, kind) = (event.seq, event.body.kind());
        if event.at_ms < self.not_before_ms {
            let (at, from) = (moment(event.at_ms), moment(self.not_before_ms));
            self.outside = Some(format!(
                "event {seq} ({kind}) is of {at} UTC; the authorization holds from {from} UTC on"
            ));
        } else if begins(&event.body) && event.at_ms >= self.expires_ms {
            let (at, until) = (moment(event.at_ms), moment(self.expires_ms));
            self.outside = Some(format!(
                "event {seq} ({kind}) begins something at {at} UTC; the authorization expired at {until} UTC"
            ));
        }
    }

    /// The first event, where it is one that can begin a session.
    pub(super) fn created(&self) -> Result<&RunCreated, String> {
        self.created.as_deref().map_err(Clone::clone)
    }

    /// Whether all began in time.
    pub(super) fn window(&self) -> Result<(), String> {
        self.outside.clone().map_or(Ok(()), Err)
    }
}

/// Whether an event begins something that was not under way.
fn begins(body: &Body) -> bool {
    matches!(
        body,
        Body::RunCreated(_)
            | Body::ModelAnswered(_)
            | Body::ActDecided(_)
            | Body::ActStarted(_)
            | Body::NetDecided(_)
            | Body::Note(_)
            | Body::ContextFolded(_)
            | Body::Submitted(_)
    )
}
