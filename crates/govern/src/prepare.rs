//! From a request and what an authority signed to a workspace that can be worked in.

use std::fs;
use std::io;

use provost_core::contract::Source;
use provost_core::digest::Digest;
use provost_core::session::{Authorization, Request};
use provost_evidence::authorization::{self, AuthorizationError};
use provost_evidence::git::Repository;
use provost_evidence::trust::{Distrust, Trust};

use crate::carry::order_of;
use crate::folder::{Folder, Sessions, SignedFile, at, sync};
use crate::{SessionError, Toolchain};

/// An authorization that holds for a session here and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// What was signed.
    pub authorization: Authorization,
    /// SHA-256 of the bytes that were signed.
    pub payload: Digest,
    /// Who signed, as the trust folder calls them.
    pub signers: Vec<String>,
}

/// What the runner knows of itself.
#[derive(Debug)]
pub struct Runner<'a> {
    /// The name it goes by.
    pub audience: &'a str,
    /// Whom it trusts to authorize.
    pub trust: &'a Trust,
    /// The toolchain of this host.
    pub toolchain: &'a Toolchain,
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// Checks that what was signed allows this session, here and now. Nothing is written.
pub fn check(
    sessions: &Sessions,
    folder: &Folder,
    signed: &SignedFile,
    runner: &Runner<'_>,
) -> Result<Prepared, SessionError> {
    let verified = authorization::verify(&signed.bytes, &signed.signatures, runner.trust, runner.now_ms)
        .map_err(|error| {
            let words = error.to_string();
            match error {
                AuthorizationError::Expired { .. } => SessionError::Expired(words),
                AuthorizationError::Revoked { .. } => SessionError::Revoked(words),
                // Too few are left of those who signed it.
                AuthorizationError::NotEnough { others, .. }
                    if others.iter().any(|(_, why)| *why == Distrust::Revoked) =>
                {
                    SessionError::Revoked(words)
                }
                error if error.code() == 10 => SessionError::Refused(words),
                _ => SessionError::NotAuthorized(words),
            }
        })?;
    order_of(folder, &verified.authorization.request)?;
    let refuse = |why: String| Err(SessionError::NotAuthorized(why));
    let request = folder.request()?;
    if let Some(part) = first_difference(&verified.authorization.request, &request) {
        return refuse(format!(
            "it is for another request than session `{}` has: `{part}` differs",
            folder.session()
        ));
    }
    if request.audience != runner.audience {
        return refuse(format!(
            "it is for the runner `{}`; this one is `{}`",
            request.audience, runner.audience
        ));
    }
    let payload = verified.payload.to_string();
    if let Some(why) = sessions.revoked(&[request.session.as_str(), &payload])? {
        return Err(SessionError::Revoked(format!(
            "it is revoked: {}",
            if why.is_empty() { "no reason is given" } else { &why }
        )));
    }
    if let Some(expected) = request.toolchain {
        let found = runner.toolchain.digest()?;
        if found != expected {
            return refuse(format!(
                "it is for the toolchain {}; this host's is {} (`provost session profile` lists it)",
                expected.short(),
                found.short()
            ));
        }
    }
    Ok(Prepared {
        authorization: verified.authorization,
        payload: verified.payload,
        signers: verified.signers.into_iter().map(|signer| signer.who).collect(),
    })
}

/// The first part in which what was signed is not what is asked for here.
fn first_difference(signed: &Request, asked: &Request) -> Option<String> {
    let fields = |request: &Request| match serde_json::to_value(request) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (signed, asked) = (fields(signed), fields(asked));
    asked
        .keys()
        .chain(signed.keys())
        .find(|name| signed.get(name.as_str()) != asked.get(name.as_str()))
        .cloned()
}

/// Takes an authorization: it is spent by this session from here on, and the workspace is made from the commit's
/// objects. The same again, after a crash too, comes to the same.
pub fn prepare(
    sessions: &Sessions,
    folder: &Folder,
    signed: &SignedFile,
    runner: &Runner<'_>,
) -> Result<Prepared, SessionError> {
    let prepared = check(sessions, folder, signed, runner)?;
    sessions.spend(&prepared.payload.to_string(), folder.session())?;
    let workspace = folder.workspace();
    if !workspace.is_dir() {
        let new = folder.at("workspace.new");
        match fs::remove_dir_all(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&new)(error)),
            _ => {}
        }
        let Source::Commit { commit, scope } = &prepared.authorization.request.source else {
            return Err(SessionError::Refused("a session works on a commit".to_owned()));
        };
        let repository = Repository::discover(&folder.whereabouts()?.repository)?;
        repository.export(commit, scope, &new)?;
        fs::rename(&new, &workspace).map_err(at(&workspace))?;
        sync(folder.path())?;
    }
    // Last: a session with an authorization is prepared.
    folder.keep_authorization(signed)?;
    Ok(prepared)
}
