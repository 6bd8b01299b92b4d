//! `provost verify`.

use provost::core::act::show_argv;
use provost::core::text::{Lines, visible};
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
        let repository = Repository::discover(&args.repo).map_err(|error| {
            Failure::usage(error)
                .hint("give --repo DIR, your own repository that has the commit, or --no-repo")
        })?;
        Some(repository)
    };
    let require = if args.no_repo { Require::Bundle } else { Require::Repository };
    let report = check(&args.bundle, &keys, base.as_ref().map(|base| base as &dyn Base), require);
    let other = unexpected(args, &report);
    let verified = report.ok() && other.is_none();
    let code = if verified { 0 } else { 8 };
    if args.json {
        for claim in &report.claims {
            JsonLines::say(&json!({ "kind": "claim", "claim": claim }));
        }
        JsonLines::say(&json!({
            "kind": "verdict",
            "verified": verified,
            "exit_code": code,
            "signed_by": report.signed_by,
            "result": report.result,
            "unexpected": other,
        }));
        return Ok(code);
    }
    for line in about(&report).iter().chain(&claim_lines(&report)) {
        say!("{line}");
    }
    match (report.first_failure(), other) {
        (Some((id, reason)), _) => say!("NOT verified: {}: {reason}", id.name()),
        (None, Some(other)) => say!("NOT verified: {other}"),
        (None, None) if !verified => say!("NOT verified: a required claim was not checked"),
        (None, None) if args.no_repo => say!("verified, except against a commit: no repository was given"),
        (None, None) => say!("verified"),
    }
    Ok(code)
}

/// What the bundle is about, if it is not what the recipient expects.
fn unexpected(args: &Verify, report: &Report) -> Option<String> {
    let source = &report.result.as_ref()?.base.source;
    let commit = source.commit().unwrap_or("none");
    if let Some(wanted) = args.commit.as_deref().filter(|wanted| *wanted != commit) {
        return Some(format!("the run began with commit {commit}, not with {wanted}"));
    }
    let scope = source.scope().as_str();
    let wanted = args.scope.as_deref().map(|scope| scope.trim_end_matches('/'));
    let wanted = wanted.filter(|wanted| *wanted != scope)?;
    Some(format!("the run was given `{scope}`, not `{wanted}`"))
}

/// What the signer says of the run; the claims say how far it is proven.
fn about(report: &Report) -> Vec<String> {
    let Some(result) = &report.result else { return Vec::new() };
    let source = &result.base.source;
    let mut lines = vec![
        format!(
            "run {}, {} events, signed by key {}",
            result.run,
            result.events,
            report.signed_by.as_deref().unwrap_or("-")
        ),
        format!("began with commit {}, `{}`", source.commit().unwrap_or("(none)"), source.scope()),
    ];
    let gate = result.gate.as_ref().map_or("no gate was asked for".to_owned(), |gate| {
        format!("gate `{}`", visible(&show_argv(&gate.argv), Lines::Escape))
    });
    let verified = if result.verified { "verified" } else { "not verified" };
    lines.push(format!("ended: {}, {verified} ({gate})", result.outcome));
    let policy: Vec<String> = result.policy.iter().map(|name| visible(name, Lines::Escape)).collect();
    lines.push(format!("under the policy of: {}", policy.join("; ")));
    let contained = result.contained.map_or(String::new(), |rung| format!(", contained by {rung} or more"));
    let approved: Vec<String> = result
        .approvals
        .iter()
        .map(|(by, count)| format!(", {count} approved by {}", visible(by, Lines::Escape)))
        .collect();
    let approved = approved.concat();
    lines.push(format!(
        "did: {}, {}{contained}; {} refused{approved}",
        counted(result.writes, "write"),
        counted(result.commands, "command"),
        result.refusals
    ));
    if let Some(gate) = result.gate.as_ref().filter(|gate| !gate.with.is_empty()) {
        let with: Vec<String> = gate.with.iter().map(|path| visible(path.as_str(), Lines::Escape)).collect();
        lines.push(format!("the gate saw beside the tree, unverified: {}", with.join(", ")));
    }
    lines
}

fn counted(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Each claim: what it proves, or why it does not hold.
pub(crate) fn claim_lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for claim in &report.claims {
        match &claim.finding {
            Finding::Held => lines.push(format!("  holds   {:<12} {}", claim.id.name(), claim.id.proves())),
            Finding::Failed(reason) => lines.push(format!("  FAILS   {:<12} {reason}", claim.id.name())),
            Finding::NotChecked(why) => {
                lines.push(format!("  -       {:<12} not checked: {why}", claim.id.name()));
            }
        }
    }
    lines
}
