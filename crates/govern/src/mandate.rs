//! Whether a session may go on: asked before each step and each act of its run.

use std::path::PathBuf;

use provost_agent::Mandate;
use provost_evidence::authorization;
use provost_evidence::trust::Trust;

use crate::folder::{Sessions, SignedFile};
use crate::prepare::Prepared;

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
