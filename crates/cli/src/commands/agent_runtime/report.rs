//! What `run` prints when it leaves a task. All of it is read from the journal, so a task that is over prints the same again.

use provost::core::budget::Bound;
use provost::core::event::Body;
use provost::core::id::RunId;
use provost::core::outcome::{Outcome, Pause, StopWhy};
use provost::journal::Store;
use provost::model::agent_runtime::shapes::{self, Completed, Failed, FailureKind, Tokens, Verified};

use super::super::held;
use super::super::setup::Place;
use super::account::{Account, Differs};
use super::run::SETTLE;
use crate::failure::Failure;
use crate::render::put;

/// Prints how the run stands, and gives its exit code: as an error where it is one, to be said on standard error as well.
pub(super) async fn say(place: &Place, run: &RunId) -> Result<u8, Failure> {
    let account = Account::of(place, run).await?;
    let state = &account.state;
    let usage = &state.ledger().usage;
    let tokens = Tokens { input: usage.input, output: usage.output };
    let verified = state.outcome().filter(|finished| finished.outcome == Outcome::Done);
    if let (Some(finished), Differs::Yes) = (verified, account.differs()) {
        let summary = summary(place, run).await?;
        put(&shapes::completed(&Completed {
            summary: &summary,
            steps: u64::from(state.ledger().steps),
            tool_runs: u64::from(state.counts().commands),
            changed_files: account.edited,
            verified: if finished.verified { Verified::AfterChange } else { Verified::No },
            tokens,
            provider_duration_ms: account.planner_ms,
        }));
        return Ok(0);
    }
    let (kind, failure) = failure(place, run, &account).await?;
    put(&shapes::failed(&Failed { kind, failure: failure.message(), tokens: Some(tokens) }));
    Err(failure)
}

/// The same where there is no run to speak of.
pub(super) fn refused(failure: Failure) -> Failure {
    let kind = match failure.code() {
        2 => FailureKind::InvalidInput,
        8 => FailureKind::InvalidData,
        9 => FailureKind::PermissionDenied,
        10 => FailureKind::Interrupted,
        _ => FailureKind::Other,
    };
    put(&shapes::failed(&Failed { kind, failure: failure.message(), tokens: None }));
    failure
}

async fn summary(place: &Place, run: &RunId) -> Result<String, Failure> {
    let events = place.store.events(run, 0).await?;
    let newest = events.into_iter().rev().find_map(|event| match event.body {
        Body::Submitted(submitted) => Some(submitted.summary),
        _ => None,
    });
    let text = match newest {
        Some(digest) => held::text(place, run, digest).await?,
        None => None,
    };
    Ok(text.unwrap_or_default())
}

async fn failure(place: &Place, run: &RunId, account: &Account) -> Result<(FailureKind, Failure), Failure> {
    let state = &account.state;
    if let Some(finished) = state.outcome() {
        let code = finished.outcome.exit_code();
        let (kind, code, words) = match finished.outcome {
            // Words that scripts look for.
            Outcome::BudgetSpent { bound: Bound::Steps } => {
                (FailureKind::TimedOut, code, "agent step limit reached".to_owned())
            }
            Outcome::BudgetSpent { bound } => {
                (FailureKind::TimedOut, code, format!("the limit of {bound} is reached"))
            }
            Outcome::Done => (
                FailureKind::Other,
                Outcome::GateFailed.exit_code(),
                "nothing was changed: the files are as they were before".to_owned(),
            ),
            Outcome::GateFailed => (FailureKind::Other, code, finished.outcome.to_string()),
            Outcome::Refused | Outcome::Unauthorized { .. } => {
                (FailureKind::PermissionDenied, code, finished.outcome.to_string())
            }
            Outcome::Stopped { why: StopWhy::Stalled | StopWhy::Schema | StopWhy::RolledBack } => {
                (FailureKind::Other, code, finished.outcome.to_string())
            }
            Outcome::Stopped { why: StopWhy::Cancelled } => (FailureKind::Interrupted, code, by(account)),
        };
        return Ok((kind, Failure::coded(code, words)));
    }
    let Some(left) = state.pause() else {
        let (kind, code) =
            (FailureKind::Interrupted, Outcome::Stopped { why: StopWhy::Cancelled }.exit_code());
        return Ok((kind, Failure::coded(code, by(account))));
    };
    let code = left.why.exit_code();
    Ok(match left.why {
        Pause::Provider => {
            let (class, message) = match &account.failed {
                Some((class, message)) => {
                    (class.as_str(), held::text(place, run, *message).await?.unwrap_or_default())
                }
                None => ("", String::new()),
            };
            let kind = match class {
                "timeout" => FailureKind::TimedOut,
                "malformed" => FailureKind::InvalidData,
                "auth" | "refused" => FailureKind::PermissionDenied,
                "bad_request" | "context_overflow" => FailureKind::InvalidInput,
                _ => FailureKind::Other,
            };
            let words = if class == "timeout" { "provider timed out" } else { "provider failed" };
            let failure = Failure::coded(code, format!("{words}: {message}"));
            (kind, failure.hint("the same command tries it again"))
        }
        Pause::Interrupted => {
            let failure = Failure::coded(code, "interrupted");
            (FailureKind::Interrupted, failure.hint("the same command goes on with it"))
        }
        Pause::Indeterminate => {
            let failure = Failure::coded(code, "nobody can tell whether its last command ran to its end");
            let hint = format!(
                "look at the workspace, then give the same command again with {SETTLE}=happened, did-not or again"
            );
            (FailureKind::Other, failure.hint(hint))
        }
        Pause::Approval => {
            (FailureKind::Other, Failure::coded(code, format!("it waits for a person ({})", left.why.word())))
        }
    })
}

fn by(account: &Account) -> String {
    match account.state.cancelled() {
        Some(cancelled) => format!("cancelled (by {})", cancelled.by),
        None => "it is not over, and nobody drives it".to_owned(),
    }
}
