//! What was ordered, against what the recipient expects and against what was done.

use provost_core::session::Authorization;

use super::super::check::Read;
use super::watch::Watch;
use super::{Code, SessionExpectation};
use crate::authorization::{self, VerifiedAuthorization};
use crate::bundle::{self, SessionFiles};
use crate::canonical::sha256;
use crate::checkpoint::{Checkpoint, Origin};
use crate::dsse;
use crate::provenance::Provenance;
use crate::scope::shown;
use crate::statement::RunResult;
use crate::test_result::TestResult;

/// From when on an authorization says that it holds. Nobody's word yet.
pub(super) fn begins_ms(file: &[u8]) -> Option<u64> {
    let signed = authorization::open(file, &[]).ok()?.payload;
    let authorization = authorization::read(&signed).ok()?;
    Some(authorization.not_before_ms)
}

/// Whether it is for the recipient's task, commit, scope, repository and runner.
pub(super) fn request(
    order: &VerifiedAuthorization,
    files: &SessionFiles,
    expect: &SessionExpectation<'_>,
) -> Result<(), (Code, String)> {
    let Authorization { request, not_before_ms, .. } = &order.authorization;
    let other = |why: String| Err((Code::Other, why));
    let task = sha256(&files.task);
    if task != request.task {
        let (name, folder) = (bundle::TASK, bundle::SESSION);
        return other(format!("`{folder}/{name}` has the SHA-256 {task}; authorized is {}", request.task));
    }
    if let Some(expected) = expect.task
        && sha256(expected) != request.task
    {
        let asked = sha256(expected);
        return other(format!("the task that was authorized is {}; yours is {asked}", request.task));
    }
    match request.source.commit() {
        Some(commit) if commit == expect.commit => {}
        commit => {
            let commit = commit.unwrap_or("none");
            return other(format!("authorized is the commit {commit}; yours is {}", expect.commit));
        }
    }
    let scope = request.source.scope();
    if scope != expect.scope {
        let (scope, yours) = (shown(scope), shown(expect.scope));
        return other(format!("authorized is the scope {scope}; yours is {yours}"));
    }
    if let Some(repository) = expect.repository
        && repository != request.repository
    {
        return other(format!("authorized is the repository {}; yours is {repository}", request.repository));
    }
    if let Some(audience) = expect.audience
        && audience != request.audience
    {
        let named = request.audience.escape_debug();
        return other(format!(
            "it was meant for the runner `{named}`; you expect `{}`",
            audience.escape_debug()
        ));
    }
    let skew = u64::try_from(expect.trust.clock_skew().as_millis()).unwrap_or(u64::MAX);
    if expect.now_ms.saturating_add(skew) < *not_before_ms {
        let from = provost_core::text::moment(*not_before_ms);
        return Err((
            Code::OutOfTime,
            format!("the authorization holds from {from} UTC on, which is to come"),
        ));
    }
    Ok(())
}

/// Whether the log that the session's key signed is that of the journal.
pub(super) fn log(order: &VerifiedAuthorization, files: &SessionFiles, read: &Read) -> Result<(), String> {
    let origin = Origin::session(&order.authorization.request.session);
    let checkpoint = Checkpoint::verify(&files.checkpoint, &origin, &order.session_key)
        .map_err(|error| format!("`{}/{}`: {error}", bundle::SESSION, bundle::CHECKPOINT))?;
    let heads = [("the journal", Some(read.log)), ("the signed result", read.statement.result.log)];
    for (what, head) in heads {
        if head != Some(checkpoint.log) {
            let (size, root) = (checkpoint.log.size, checkpoint.log.root);
            let other = match head {
                Some(head) => format!("{} of root {}", head.size, head.root),
                None => "none".to_owned(),
            };
            return Err(format!("the checkpoint is of {size} events of root {root}; {what} has {other}"));
        }
    }
    Ok(())
}

/// Whether the run is the one that was authorized.
pub(super) fn contract(
    order: &VerifiedAuthorization,
    files: &SessionFiles,
    read: &Read,
    watch: &Watch,
) -> Result<(), String> {
    let authorization = &order.authorization;
    let created = watch.created()?;
    if let Some(part) = authorization.request.differs(&read.statement.result.run, created) {
        return Err(format!("the run's `{part}` is not the one that was authorized"));
    }
    match created.authorized.as_deref() {
        Some(authorized) if *authorized == authorization.fact(order.payload) => {}
        Some(authorized) => {
            return Err(format!(
                "the run was made under the authorization {}; this one is {}",
                authorized.payload, order.payload
            ));
        }
        None => return Err("the run was not made under an authorization".to_owned()),
    }
    if read.statement.result.salt.digest(&files.task) != created.goal {
        return Err("the run's goal is not the task that was authorized".to_owned());
    }
    Ok(())
}

/// What an envelope says that the session's key signed, and nobody beside it: a bundle holds nothing that is not looked at.
pub(super) fn sole(envelope: &[u8], order: &VerifiedAuthorization) -> Result<Vec<u8>, String> {
    let key = std::slice::from_ref(&order.session_key);
    let signed = dsse::verify(envelope, key).map_err(|error| error.to_string())?;
    match dsse::open(envelope, key).map_err(|error| error.to_string())?.others.first() {
        None => Ok(signed.payload),
        Some(other) => Err(format!("it carries a signature beside the session's, of the key `{other}`")),
    }
}

/// Whether the provenance is the one that follows from the result.
pub(super) fn provenance(
    order: &VerifiedAuthorization,
    files: &SessionFiles,
    read: &Read,
) -> Result<(), String> {
    let name = format!("`{}/{}`", bundle::SESSION, bundle::PROVENANCE);
    let opened = sole(&files.provenance, order).map_err(|why| format!("{name}: {why}"))?;
    let origin = Origin::session(&order.authorization.request.session);
    let checkpoint = Checkpoint::verify(&files.checkpoint, &origin, &order.session_key)
        .map_err(|error| format!("it names a checkpoint that does not hold: {error}"))?;
    let expected =
        Provenance::of(&read.statement, &order.authorization, &order.payload, &checkpoint, &files.checkpoint);
    let expected = expected.to_json().map_err(|error| error.to_string())?;
    same(&name, &opened, &expected)
}

/// Whether the test result is the one that follows from the journal; `None` where none does, and none is there.
pub(super) fn test_result(
    order: &VerifiedAuthorization,
    files: &SessionFiles,
    result: &RunResult,
) -> Result<Option<()>, String> {
    let name = format!("`{}/{}`", bundle::SESSION, bundle::TEST_RESULT);
    let expected = TestResult::of(result, &order.authorization).map_err(|error| error.to_string())?;
    let (expected, file) = match (expected, &files.test_result) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(format!("{name} is missing, and the gate said something")),
        (None, Some(_)) => return Err(format!("{name} is there, and the gate said nothing")),
        (Some(expected), Some(file)) => (expected, file),
    };
    let opened = sole(file, order).map_err(|why| format!("{name}: {why}"))?;
    let expected = expected.to_json().map_err(|error| error.to_string())?;
    same(&name, &opened, &expected).map(Some)
}

fn same(name: &str, signed: &[u8], expected: &[u8]) -> Result<(), String> {
    match crate::canonical::first_difference(signed, expected) {
        None => Ok(()),
        Some(at) => Err(format!("{name} differs at byte {at} from what follows from the result")),
    }
}
