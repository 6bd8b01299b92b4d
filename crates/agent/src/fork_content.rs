//! The content that events name: what a fork takes with them.

use provost_core::act::{Change, Intent};
use provost_core::brief::BriefFact;
use provost_core::digest::Digest;
use provost_core::event::{Body, Event, RateLimitFact};
use provost_core::id::RunId;
use provost_journal::{Blob, Head, Lease, Salt, Store};

use crate::error::RunError;

/// Content that is written at once, in bytes. It is in memory until it is written.
const AT_ONCE: usize = 16 * 1024 * 1024;

/// Digests of all content that an event names.
pub(crate) fn named_by(event: &Event) -> Vec<Digest> {
    match &event.body {
        Body::RunQueued(body) => [vec![body.goal], briefed(body.brief.as_deref())].concat(),
        Body::RunHeld(body) => vec![body.why],
        Body::RunCreated(body) => {
            let words = vec![body.goal, body.system, body.tools, body.manifest];
            [words, briefed(body.brief.as_deref())].concat()
        }
        Body::ModelAnswered(body) => [Some(body.answer), body.raw_usage, extras(body.rate_limits.as_ref())]
            .into_iter()
            .flatten()
            .collect(),
        Body::ModelFailed(body) => {
            [Some(body.message), extras(body.rate_limits.as_ref())].into_iter().flatten().collect()
        }
        Body::CallInvalid(body) => vec![body.result],
        Body::ActDecided(body) => vec![body.args],
        Body::ActStarted(body) => match &body.intent {
            Intent::Write { changes } => sides(changes),
            Intent::Spawn(spawn) => vec![spawn.goal, spawn.briefing],
            Intent::Command { .. } | Intent::Background { .. } | Intent::Call { .. } => Vec::new(),
        },
        Body::AgentEnded(body) => vec![body.result],
        Body::ActStaged(body) => sides(&body.changes),
        Body::ActFinished(body) => [vec![body.result], sides(&body.changes)].concat(),
        Body::ProcessChanged(body) => sides(&body.changes),
        Body::ProcessEnded(body) => [vec![body.report], sides(&body.changes)].concat(),
        Body::ServerListed(body) => body.tools.values().copied().collect(),
        Body::WorkspaceDrifted(body) => sides(&body.changes),
        Body::WorkspaceRewound(body) => sides(&body.changes),
        Body::Note(body) => vec![body.text],
        Body::ContextFolded(body) => vec![body.text],
        Body::Submitted(body) => [Some(body.summary), body.wrong].into_iter().flatten().collect(),
        Body::DriverAttached(_)
        | Body::DriverDetached(_)
        | Body::ActApproved(_)
        | Body::ActSettled(_)
        | Body::NetDecided(_)
        | Body::PromptBroke(_)
        | Body::CacheMissed(_)
        | Body::ServerAccepted(_)
        | Body::GateJudged(_)
        | Body::RunCancelled(_)
        | Body::WorkspaceRestored(_)
        | Body::RunFinished(_) => Vec::new(),
    }
}

fn briefed(brief: Option<&BriefFact>) -> Vec<Digest> {
    let images = brief.into_iter().flat_map(|brief| &brief.images).map(|image| image.data);
    brief.and_then(|brief| brief.schema).into_iter().chain(images).collect()
}

fn extras(limits: Option<&RateLimitFact>) -> Option<Digest> {
    limits?.extras
}

fn sides(changes: &[Change]) -> Vec<Digest> {
    let sides = changes.iter().flat_map(|change| [&change.before, &change.after]).flatten();
    sides.filter(|fact| fact.kept).map(|fact| fact.content).collect()
}

/// Copies content from one run to another of the same salt.
pub(crate) async fn copy(
    store: &dyn Store,
    from: &RunId,
    to: &Lease,
    salt: &Salt,
    digests: impl IntoIterator<Item = Digest>,
) -> Result<(), RunError> {
    let (mut blobs, mut held) = (Vec::new(), 0);
    for digest in digests {
        let bytes = store
            .blob(from, digest)
            .await?
            .ok_or_else(|| RunError::Gone(format!("content {} of `{from}`", digest.short())))?;
        held += bytes.len();
        blobs.push(Blob::new(salt, bytes));
        if held >= AT_ONCE {
            held = 0;
            store.append(to, &Head::empty(), Vec::new(), std::mem::take(&mut blobs)).await?;
        }
    }
    store.append(to, &Head::empty(), Vec::new(), blobs).await?;
    Ok(())
}
