//! `provost verify`.

use provost::evidence::git::Repository;
use provost::evidence::keys::VerifyingKey;
use provost::evidence::verify::{Base, Finding, Report, Require, verify as check};
use serde_json::json;

use crate::args::Verify;
use crate::failure::Failure;
use crate::render::{JsonLines, say};

pub(crate) fn verify(args: &Verify) -> Result<u8, Failure> {
    let keys = args
        .keys
        .iter()
        .map(|path| VerifyingKey::read(path).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()?;
    if !args.bundle.is_dir() {
        return Err(Failure::usage(format!("`{}` is not a folder: a bundle is one", args.bundle.display())));
    }
    let base = if args.no_repo {
        None
    } else {
        let repository = Repository::discover(&args.repo)
            .map_err(|error| Failure::usage(error).hint("give --repo DIR, your own repository that has the commit, or --no-repo"))?;
        Some(repository)
    };
    let require = if args.no_repo { Require::Bundle } else { Require::Repository };
    let report = check(&args.bundle, &keys, base.as_ref().map(|base| base as &dyn Base), require);
    if args.json {
        for claim in &report.claims {
            JsonLines::say(&json!({ "kind": "claim", "claim": claim }));
        }
        JsonLines::say(&json!({ "kind": "verdict", "verified": report.ok(), "exit_code": if report.ok() { 0 } else { 8 } }));
    } else {
        for line in claim_lines(&report) {
            say!("{line}");
        }
        match report.first_failure() {
            None if report.ok() => say!("verified"),
            None => say!("NOT verified: a required claim was not checked"),
            Some((id, reason)) => say!("NOT verified: {}: {reason}", id.name()),
        }
    }
    Ok(if report.ok() { 0 } else { 8 })
}

/// Each claim: what it proves, or why it does not hold.
pub(crate) fn claim_lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for claim in &report.claims {
        match &claim.finding {
            Finding::Held => lines.push(format!("  holds   {:<12} {}", claim.id.name(), claim.id.proves())),
            Finding::Failed(reason) => lines.push(format!("  FAILS   {:<12} {reason}", claim.id.name())),
            Finding::NotChecked(why) => lines.push(format!("  -       {:<12} not checked: {why}", claim.id.name())),
        }
    }
    lines
}
