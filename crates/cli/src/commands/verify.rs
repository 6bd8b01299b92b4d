//! `provost verify`.

use provost::core::act::show_argv;
use provost::core::outcome::Outcome;
use provost::core::text::{Lines, visible};
use provost::evidence::git::Repository;
use provost::evidence::keys::VerifyingKey;
use provost::evidence::verify::{Base, ClaimId, Finding, Report, Require, verify as check};
use serde_json::json;

use super::session;
use crate::args::Verify;
use crate::failure::Failure;
use crate::render::{JsonLines, counted, say};
use crate::world::World;

pub(crate) fn verify(world: &World, args: &Verify) -> Result<u8, Failure> {
    if let Some(trust) = &args.trust {
        return session::verify(world, args, trust);
    }
    let keys = args
        .keys
        .iter()
        .map(|path| VerifyingKey::read(path).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()?;
    if !args.bundle.exists() {
        return Err(Failure::usage(format!("`{}` does not exist", args.bundle.display())));
    }
    if !args.bundle.is_dir() {
        return Err(Failure::usage(format!("`{}` is not a folder: a bundle is one", args.bundle.display())));
    }
    if args.bundle.join(provost::evidence::bundle::SESSION).exists() {
        return Err(Failure::usage(
            "the bundle is of a governed session: a key alone says nothing of who ordered it",
        )
        .hint(
            "give --trust DIR (whom you trust to authorize), --rev FULLSHA, --scope PATH and --task FILE",
        ));
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
    let gate = *report.finding(ClaimId::Gate) == Finding::Held;
    let verified = report.ok() && other.is_none() && (gate || !args.require_gate);
    let code = if verified { 0 } else { 8 };
    if args.json {
        for claim in &report.claims {
            JsonLines::say(&json!({ "kind": "claim", "claim": claim }));
        }
        JsonLines::say(&json!({
            "kind": "verdict",
            "verified": verified,
            "gate_holds": gate,
            "exit_code": code,
            "signed_by": report.signed_by,
            "result": report.result,
            "unexpected": other,
            "by_word": report.by_word,
        }));
        return Ok(code);
    }
    for line in about(&report).iter().chain(&claim_lines(&report)) {
        say!("{line}");
    }
    for words in &report.by_word {
        say!("  -       not claimed: {words}");
    }
    say!("{}", last_line(args, &report, other));
    Ok(code)
}

/// What it all comes to.
fn last_line(args: &Verify, report: &Report, other: Option<String>) -> String {
    // Where only the repository speaks against it, or is not there to speak.
    let alone = |id: ClaimId| match id {
        ClaimId::Base | ClaimId::Tree if !args.no_repo => "; --no-repo checks what the bundle shows alone",
        _ => "",
    };
    if let Some((id, reason)) = report.first_failure() {
        return format!("NOT verified: {id}: {}{}", visible(reason, Lines::Escape), alone(id));
    }
    if let Some(other) = other {
        return format!("NOT verified: {other}");
    }
    if !report.ok() {
        let unchecked = report.claims.iter().find_map(|claim| match &claim.finding {
            Finding::NotChecked(why) if claim.id != ClaimId::Acts => Some((claim.id, why)),
            _ => None,
        });
        let (id, why) = unchecked.map_or((ClaimId::Base, ""), |(id, why)| (id, why.as_str()));
        return format!("NOT verified: {id} was not checked: {}{}", visible(why, Lines::Escape), alone(id));
    }
    let gate = report.finding(ClaimId::Gate);
    if let Finding::NotChecked(why) = gate
        && args.require_gate
    {
        return format!("NOT verified: gate: {why}");
    }
    let verified = if args.no_repo {
        "verified, except against a commit (no repository was given): the evidence holds"
    } else {
        "verified: the evidence holds"
    };
    let result = report.result.as_ref();
    let ordered = result.is_some_and(|result| result.gate.is_some());
    match result.map(|result| result.outcome) {
        _ if *gate == Finding::Held => format!("{verified}, and the gate passed on this very tree"),
        Some(Outcome::Done) if !ordered => format!(
            "{verified}. The run was ordered without a gate: only the agent says that the work is done"
        ),
        Some(outcome) => format!("{verified}, of a run that is NOT done: {outcome}"),
        None => format!("{verified}, of a run that says nothing of how it ended"),
    }
}

/// What the bundle is about, if it is not what the recipient expects.
fn unexpected(args: &Verify, report: &Report) -> Option<String> {
    let source = &report.result.as_ref()?.base.source;
    let commit = source.commit().unwrap_or("none");
    if let Some(wanted) = args.commit.as_deref().filter(|wanted| *wanted != commit) {
        return Some(format!(
            "the run began with commit {}, not with {wanted}",
            visible(commit, Lines::Escape)
        ));
    }
    let scope = &visible(source.scope().as_str(), Lines::Escape);
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
        format!(
            "began with commit {}, `{}`",
            visible(source.commit().unwrap_or("(none)"), Lines::Escape),
            visible(source.scope().as_str(), Lines::Escape)
        ),
    ];
    if let Some(forked) = &result.forked {
        lines.push(format!(
            "forked from run {}: what the first {} tell, that run did elsewhere (the last of them has the hash {} there)",
            forked.run,
            counted(forked.events, "event"),
            forked.head
        ));
    }
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
    if let Some(tests) = result.gate.as_ref().and_then(|gate| gate.tests) {
        lines.push(format!("the gate's tests, by what it printed: {tests}"));
    }
    if let Some(gate) = result.gate.as_ref().filter(|gate| !gate.with.is_empty()) {
        let with: Vec<String> = gate.with.iter().map(|path| visible(path.as_str(), Lines::Escape)).collect();
        lines.push(format!("the gate saw beside the tree, unverified: {}", with.join(", ")));
    }
    lines
}

/// Each claim: what it proves, or why it does not hold. Those that were not come to for the same reason share a line.
pub(crate) fn claim_lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let mut unchecked: Vec<(&str, Vec<&str>)> = Vec::new();
    for claim in &report.claims {
        match &claim.finding {
            Finding::Held => lines.push(format!("  holds   {:<12} {}", claim.id.name(), claim.proves)),
            Finding::Failed(reason) => {
                let reason = visible(reason, Lines::Escape);
                lines.push(format!("  FAILS   {:<12} {reason}", claim.id.name()));
            }
            Finding::NotChecked(why) => match unchecked.iter_mut().find(|(same, _)| *same == why.as_str()) {
                Some((_, names)) => names.push(claim.id.name()),
                None => unchecked.push((why, vec![claim.id.name()])),
            },
        }
    }
    lines.extend(unchecked.into_iter().map(|(why, names)| {
        let why = visible(why, Lines::Escape);
        match names.as_slice() {
            [name] => format!("  -       {name:<12} not checked: {why}"),
            names => format!(
                "  -       {:<12} not checked: {why}: {}",
                counted(names.len() as u64, "claim"),
                names.join(", ")
            ),
        }
    }));
    lines
}
