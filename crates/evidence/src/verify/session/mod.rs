//! A governed session as its recipient holds it against what they expect, claim by claim.
//!
//! Whom to trust comes from a folder of the recipient's own, and is asked first: until enough authorities signed, the
//! session's key is nobody's. Then the run is checked as any other is, by that key, and held against what was authorized;
//! what came out is held against the recipient's own commit.

mod order;
mod place;
mod watch;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use provost_core::digest::Digest;
use provost_core::outcome::Outcome;
use provost_core::path::RelPath;
use provost_core::session::{Danger, Dangers};

pub use place::lies_within;

use super::check::{Check, Read};
use super::{Base, BaseTree, ClaimId, Code, Report, Require};
use crate::authorization::{self, AuthorizationError, VerifiedAuthorization};
use crate::bundle::{BundleError, Folder, SessionFiles};
use crate::danger::{Edited, flags};
use crate::net::{Blobs, Net};
use crate::scope;
use crate::statement::RunResult;
use crate::tree::Mode;
use crate::trust::Trust;
use watch::Watch;

/// What the recipient of a session expects. Nothing of it may come from the bundle.
pub struct SessionExpectation<'a> {
    /// Whom they trust to authorize.
    pub trust: &'a Trust,
    /// Their own repository; without it nothing is proven of the start.
    pub base: Option<&'a dyn Base>,
    /// Which repository that is, where it is to be the one that was authorized.
    pub repository: Option<Digest>,
    /// The full id of the commit that the session was to begin with.
    pub commit: &'a str,
    /// The subtree that it was to work in.
    pub scope: &'a RelPath,
    /// The task's text, where it is at hand.
    pub task: Option<&'a [u8]>,
    /// The runner that it was meant for, where that matters.
    pub audience: Option<&'a str>,
    /// Kinds of dangerous changes that are taken beside those that were authorized.
    pub allow: &'a BTreeSet<Danger>,
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// What a verification of a session found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// Each claim, in order, what is wrong, and what the signer says.
    pub report: Report,
    /// Whose signatures of the authorization count, in the words of the trust folder.
    pub authorized_by: Vec<String>,
    /// What is worth knowing and no failure.
    pub notes: Vec<String>,
}

impl SessionReport {
    /// Whether all of it holds.
    pub fn ok(&self) -> bool {
        self.report.ok()
    }
}

/// Verifies the session whose bundle lies in `dir`.
pub fn verify_session(dir: &Path, expect: &SessionExpectation<'_>) -> SessionReport {
    let mut session =
        Session { expect, check: Check::new(expect.base), authorized_by: Vec::new(), notes: Vec::new() };
    // `None` is a claim that did not hold: what stands on it stays unchecked.
    let _ = session.run(Folder::open(dir));
    session.report()
}

struct Session<'a> {
    expect: &'a SessionExpectation<'a>,
    check: Check<'a>,
    authorized_by: Vec<String>,
    notes: Vec<String>,
}

impl Session<'_> {
    fn run(&mut self, folder: Result<Folder, BundleError>) -> Option<()> {
        let opened = folder.and_then(|folder| folder.session().map(|files| (folder, files)));
        let opened = opened.map_err(|error| (Code::Malformed, error.to_string()));
        let (folder, files) = self.check.settle_as(ClaimId::Authorization, opened)?;
        let order = self.authorization(&files)?;
        let asked = order::request(&order, &files, self.expect);
        let _ = self.check.settle_as(ClaimId::Request, asked);
        let payload = self.check.signature(&folder, std::slice::from_ref(&order.session_key))?;
        let sole = folder.envelope().map_err(|error| error.to_string());
        let sole = sole.and_then(|envelope| order::sole(&envelope, &order));
        self.check.settle_as(ClaimId::Signature, sole.map_err(|why| (Code::Malformed, why)))?;
        let mut watch = Watch::new(&order.authorization);
        let read = self.check.read(folder, &payload, |event| watch.see(event))?;
        let _ = self.check.settle(ClaimId::Log, order::log(&order, &files, &read));
        let contract = order::contract(&order, &files, &read, &watch);
        let _ = self.check.settle(ClaimId::Contract, contract);
        let _ = self.check.settle(ClaimId::Window, watch.window());
        let _ = self.check.settle(ClaimId::Provenance, order::provenance(&order, &files, &read));
        self.test_result(&order, &files, &read.statement.result);
        self.check.fold(&read)?;
        let net = Net::of(&read.state);
        let blobs = self.check.change(&read, &net)?;
        self.acceptance(&read.statement.result);
        self.changed(&order, &read, &net, &blobs);
        Some(())
    }

    /// Who authorized it. Their keys have to count at the time from which the authorization holds: whether the run kept to
    /// its time is another claim, and whoever verifies it later finds it expired by then.
    fn authorization(&mut self, files: &SessionFiles) -> Option<VerifiedAuthorization> {
        let at_ms = order::begins_ms(&files.authorization).unwrap_or(self.expect.now_ms);
        let checked =
            authorization::verify(&files.authorization, &files.signatures, self.expect.trust, at_ms);
        match checked {
            Ok(order) => {
                self.authorized_by = order.signers.iter().map(|signer| signer.who.clone()).collect();
                let _ = self.check.settle(ClaimId::Authorization, Ok(()));
                let _ = self.check.settle(ClaimId::Revocation, Ok(()));
                Some(order)
            }
            Err(error @ AuthorizationError::Revoked { .. }) => {
                // That is asked once enough have signed.
                let _ = self.check.settle(ClaimId::Authorization, Ok(()));
                self.check.settle(ClaimId::Revocation, Err(error.to_string()))
            }
            Err(error) => {
                let code = Code::of_number(error.code()).unwrap_or(Code::Malformed);
                self.check.settle_as(ClaimId::Authorization, Err((code, error.to_string())))
            }
        }
    }

    fn test_result(&mut self, order: &VerifiedAuthorization, files: &SessionFiles, result: &RunResult) {
        match order::test_result(order, files, result) {
            Ok(Some(())) => drop(self.check.settle(ClaimId::TestResult, Ok(()))),
            Ok(None) => self.check.leave(ClaimId::TestResult, "the gate said nothing, or there was none"),
            Err(why) => drop(self.check.settle::<()>(ClaimId::TestResult, Err(why))),
        }
    }

    /// Of an ordinary run it is told that its gate failed, or that somebody worked beside it. A session is refused for it.
    fn acceptance(&mut self, result: &RunResult) {
        if !result.drifted.is_empty() {
            let paths =
                result.drifted.iter().map(|path| format!("{} also changed by no act", scope::shown(path)));
            let _ = self.check.settle(ClaimId::Acts, scope::none_of(&paths.collect::<Vec<_>>()));
        }
        if result.outcome != Outcome::Done {
            let why = format!("the run ended as `{}`: its work is not done", result.outcome.word());
            let _ = self.check.settle::<()>(ClaimId::Gate, Err(why));
        } else if result.gate.is_some() && !result.verified {
            let why = "the gate did not pass on the tree at the end".to_owned();
            let _ = self.check.settle::<()>(ClaimId::Gate, Err(why));
        }
    }

    /// What changed, against what may change and against the recipient's commit.
    fn changed(&mut self, order: &VerifiedAuthorization, read: &Read, net: &Net<'_>, blobs: &Blobs) {
        let request = &order.authorization.request;
        let keep = |path: &RelPath, mode| mode == Mode::Symlink || request.judges.contains_key(path);
        let base = self.check.ground(read, net, blobs, &keep);
        self.notes.extend(scope::notable(net));

        let mut outside = scope::outside(&request.policy, net);
        let mut judged = scope::touched_judges(&request.judges, net);
        let mut named = Vec::new();
        if let Some(base) = &base {
            outside.extend(scope::submodules(base));
            outside.extend(scope::links_out(net, blobs, base).unwrap_or_else(|why| vec![why]));
            judged.extend(scope::other_judges(&request.judges, base));
            named.extend(scope::bad_names(net, base));
        }
        for (id, found) in [(ClaimId::Scope, outside), (ClaimId::Judges, judged), (ClaimId::Names, named)] {
            self.held_against(id, &found, base.as_ref());
        }
        self.danger(order, net, blobs);
    }

    /// What was found is a failure with or without the recipient's commit; that nothing was found says something only with
    /// it.
    fn held_against(&mut self, id: ClaimId, found: &[String], base: Option<&BaseTree>) {
        if found.is_empty() && base.is_none() {
            self.check.leave(id, "it is held against your commit: see `base`");
        } else {
            let _ = self.check.settle(id, scope::none_of(found));
        }
    }

    fn danger(&mut self, order: &VerifiedAuthorization, net: &Net<'_>, blobs: &Blobs) {
        let request = &order.authorization.request;
        let dangers = Dangers::all();
        let mut refused = Vec::new();
        for change in net.changes() {
            // A link's target is no text that is read: where it leads is looked at elsewhere.
            let content = |side: &Option<provost_core::act::FileFact>| {
                let file = side.as_ref().filter(|file| file.mode != Mode::Symlink.as_str())?;
                blobs.get(&file.content).map(Vec::as_slice)
            };
            let (before, after) = (content(&change.before), content(&change.after));
            for flag in flags(request.source.scope(), &dangers, Edited { path: &change.path, before, after })
            {
                if request.allowed.contains(&flag.kind) {
                    self.notes.push(format!("{flag}; the authorization allows it"));
                } else if self.expect.allow.contains(&flag.kind) {
                    self.notes.push(format!("{flag}; you allow it"));
                } else {
                    refused.push(format!("{flag} (`--allow {}` takes it)", flag.kind));
                }
            }
        }
        let _ = self.check.settle(ClaimId::Danger, scope::none_of(&refused));
    }

    fn report(self) -> SessionReport {
        let mut report = self.check.report(Require::Session);
        let request = report.claims.iter_mut().find(|claim| claim.id == ClaimId::Request);
        if let (Some(claim), None) = (request, self.expect.task) {
            claim.proves = "The order is for your commit, your scope and your repository; its task was held against none of yours.";
        }
        SessionReport { report, authorized_by: self.authorized_by, notes: self.notes }
    }
}
