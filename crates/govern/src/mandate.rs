//! Whether a session may go on: asked before each step and each act of its run.

use std::path::PathBuf;
use std::sync::Arc;

use provost_agent::{Mandate, Standing};
use provost_evidence::authorization;
use provost_evidence::trust::Trust;

use crate::SessionError;
use crate::folder::{Folder, Sessions, SignedFile};
use crate::prepare::{Prepared, Runner, check};

/// Who says whether a session that has begun may go on, for whoever takes it up.
///
/// One that was revoked, or whose time is over, while nobody drove it is taken up too: once, and only to be closed. The run
/// ends by that, as it would have had a driver been there. What is refused for any other reason, such as a trust folder
/// that does not know who signed, is an error and leaves the session as it is: the folder may be the wrong one.
pub fn taking_up(
    sessions: &Sessions,
    folder: &Folder,
    signed: &SignedFile,
    trust: PathBuf,
    runner: &Runner<'_>,
) -> Result<Arc<dyn Mandate>, SessionError> {
    match check(sessions, folder, signed, runner) {
        Ok(prepared) => Ok(Arc::new(Revocations::of(sessions, trust, signed, &prepared))),
        Err(SessionError::Revoked(why)) => Ok(Arc::new(TakenBack(why))),
        // The driver looks at the time itself.
        Err(SessionError::Expired(_)) => Ok(Arc::new(Standing)),
        Err(error) => Err(error),
    }
}

/// It was revoked before it was taken up.
struct TakenBack(String);

impl Mandate for TakenBack {
    fn revoked(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

/// Revocations on this machine and in the trust folder, looked up anew each time.
#[derive(Debug)]
pub struct Revocations {
    sessions: Sessions,
    trust: PathBuf,
    signed: SignedFile,
    prepared: Prepared,
}

impl Revocations {
    /// Those that speak of this session or its authorization.
    pub fn of(sessions: &Sessions, trust: PathBuf, signed: &SignedFile, prepared: &Prepared) -> Self {
        Self { sessions: sessions.clone(), trust, signed: signed.clone(), prepared: prepared.clone() }
    }
}

impl Mandate for Revocations {
    fn revoked(&self) -> Option<String> {
        let session = &self.prepared.authorization.request.session;
        let payload = &self.prepared.payload;
        match self.sessions.revoked(&[session.as_str(), &payload.to_string()]) {
            Ok(None) => {}
            Ok(Some(why)) if why.is_empty() => return Some("this machine".to_owned()),
            Ok(Some(why)) => return Some(format!("this machine: {why}")),
            // Who cannot tell whether it was revoked does not go on.
            Err(error) => return Some(format!("the list of revocations cannot be read: {error}")),
        }
        let trust = match Trust::read(&self.trust) {
            Ok(trust) => trust,
            Err(error) => return Some(format!("the trust folder cannot be read: {error}")),
        };
        // As whoever begins it would: a key may be trusted no longer, or be one of too few. Its time is the driver's to look
        // at, so it is asked about the moment from which it holds.
        let at_ms = self.prepared.authorization.not_before_ms;
        let (bytes, signatures) = (&self.signed.bytes, &self.signed.signatures);
        match authorization::verify(bytes, signatures, &trust, at_ms) {
            Ok(_) => None,
            Err(error) => Some(format!("the trust folder: {error}")),
        }
    }
}
