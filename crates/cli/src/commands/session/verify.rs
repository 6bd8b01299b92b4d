//! `provost verify --trust`: a session as its recipient holds it against what they expect; done again and tried, where
//! they ask for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost::core::path::RelPath;
use provost::core::session::{Authorization, Danger};
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};
use provost::evidence::bundle::{self, Bundle};
use provost::evidence::cosign::unverified;
use provost::evidence::git::{NewFile, Repository};
use provost::evidence::replay::read_journal;
use provost::evidence::tree::Mode;
use provost::evidence::trust::Trust;
use provost::evidence::verify::{Code, SessionExpectation, SessionReport, lies_within, verify_session};
use provost::govern::{Again, Bench, Found, Outer, replay};
use provost::sandbox::Ended;
use serde_json::json;
use tempfile::TempDir;

use super::{now_ms, read_trust};
use crate::args::Verify;
use crate::commands::setup::{host, images, probe};
use crate::commands::verify::claim_lines;
use crate::failure::{AtPath, Failure};
use crate::render::{JsonLines, counted, duration, say};
use crate::world::World;

/// Lines of a failed try's output that are shown.
const OUTPUT_LINES: usize = 15;

/// What a recipient expects, in their own words.
pub(super) struct Expected<'a> {
    pub(super) repository: &'a Repository,
    pub(super) commit: &'a str,
    pub(super) scope: &'a RelPath,
    pub(super) task: Option<&'a [u8]>,
    pub(super) audience: Option<&'a str>,
    pub(super) allow: BTreeSet<Danger>,
}

/// A bundle that was read once, and what was found of it. Whatever becomes of its folder, this is what was verified.
pub(super) struct Examined {
    pub(super) report: SessionReport,
    pub(super) bundle: Bundle,
    /// What was authorized; `None` where that does not verify.
    pub(super) authorization: Option<Authorization>,
    scratch: TempDir,
}

/// Reads a bundle, and verifies what was read.
pub(super) fn examine(dir: &Path, trust: &Trust, expected: &Expected<'_>) -> Result<Examined, Failure> {
    let scratch = tempfile::Builder::new().prefix("provost-verify-").tempdir().map_err(Failure::internal)?;
    let read = bundle::read(dir).map_err(|error| malformed(&error.to_string()))?;
    let copy = scratch.path().join("bundle");
    read.write(&copy).map_err(Failure::internal)?;
    let mut report = verify_session(
        &copy,
        &SessionExpectation {
            trust,
            base: Some(expected.repository),
            repository: expected.repository.identifier(expected.commit).ok(),
            commit: expected.commit,
            scope: expected.scope,
            task: expected.task,
            audience: expected.audience,
            allow: &expected.allow,
            now_ms: now_ms(),
        },
    );
    if expected.task.is_none() {
        report.notes.push("the task was not held against one of yours: --task FILE does".to_owned());
    }
    let authorization = match (&read.session, report.ok()) {
        (Some(files), true) => Some(unverified(&files.authorization).map_err(Failure::internal)?),
        _ => None,
    };
    Ok(Examined { report, bundle: read, authorization, scratch })
}

/// A folder that is no bundle: the first of the typed failures.
fn malformed(why: &str) -> Failure {
    Failure::evidence(format!("NOT verified: {why}"))
}

/// Reads whom to trust, from anywhere but the bundle.
pub(super) fn trust_apart(trust: &Path, dir: &Path) -> Result<Trust, Failure> {
    if !dir.is_dir() {
        return Err(Failure::usage(format!("`{}` is not a folder: a bundle is one", dir.display())));
    }
    let read = read_trust(trust)?;
    if lies_within(trust, dir).at(trust)? {
        return Err(Failure::usage(format!(
            "--trust `{}` lies in the bundle: whom to trust must not come from what is checked",
            trust.display()
        )));
    }
    Ok(read)
}

pub(in crate::commands) fn verify(world: &World, args: &Verify, trust: &Path) -> Result<u8, Failure> {
    let trust = trust_apart(trust, &args.bundle)?;
    let repository = Repository::discover(&args.repo).map_err(|error| {
        Failure::usage(error).hint("give --repo DIR, your own repository that has the commit")
    })?;
    let task = args.task.as_ref().map(|task| provost::govern::read(task)).transpose()?;
    let scope = scope_of(args.scope.as_deref().unwrap_or_default())?;
    let expected = Expected {
        repository: &repository,
        commit: args.commit.as_deref().unwrap_or_default(),
        scope: &scope,
        task: task.as_deref(),
        audience: args.runner.as_deref(),
        allow: args.allow.iter().copied().collect(),
    };
    let examined = match examine(&args.bundle, &trust, &expected) {
        Ok(examined) => examined,
        Err(failure) if args.json && failure.code() == 8 => {
            JsonLines::say(&json!({
                "kind": "verdict", "verified": false, "exit_code": 8, "code": Code::Malformed,
                "why": failure.message(),
            }));
            return Ok(8);
        }
        Err(failure) => return Err(failure),
    };
    let mut code = examined.report.report.code;
    tell_claims(&examined.report, args.json);
    if args.replay && code == Code::Verified {
        code = do_again(world, &examined, &expected, args.json)?;
    }
    if args.test && code == Code::Verified {
        code = try_out(world, &examined, &expected, args.json)?;
    }
    Ok(tell_verdict(&examined.report, code, args.json))
}

/// A scope as it is typed.
pub(super) fn scope_of(text: &str) -> Result<RelPath, Failure> {
    RelPath::parse(text.trim_end_matches('/'))
        .map_err(|error| Failure::usage(format!("--scope `{text}`: {error}")))
}

pub(super) fn tell_claims(report: &SessionReport, json: bool) {
    if json {
        for claim in &report.report.claims {
            JsonLines::say(&json!({ "kind": "claim", "claim": claim }));
        }
        return;
    }
    if !report.authorized_by.is_empty() {
        let who: Vec<_> = report.authorized_by.iter().map(|who| visible(who, Lines::Escape)).collect();
        say!("authorized by {}", who.join(", "));
    }
    for line in claim_lines(&report.report) {
        say!("{line}");
    }
    for note in &report.notes {
        say!("  note    {}", visible(note, Lines::Escape));
    }
}

pub(super) fn tell_verdict(report: &SessionReport, code: Code, json: bool) -> u8 {
    let lack = report.report.first_lack();
    let exit = if code == Code::Verified { 0 } else { 8 };
    if json {
        JsonLines::say(&json!({
            "kind": "verdict",
            "verified": exit == 0,
            "exit_code": exit,
            "code": code,
            "claim": lack.map(|(id, _)| id),
            "why": lack.map(|(_, why)| why),
            "authorized_by": report.authorized_by,
            "notes": report.notes,
            "result": report.report.result,
        }));
        return exit;
    }
    match (code, lack) {
        (Code::Verified, _) => {
            say!("verified: an authority ordered exactly this, and this is what came of it");
        }
        (code, Some((id, why))) => {
            say!("NOT verified ({}, {}): {id}: {}", code.number(), code.words(), visible(why, Lines::Escape));
        }
        (code, None) => say!("NOT verified ({}, {})", code.number(), code.words()),
    }
    exit
}

/// The files of the change as they are at its end, named from the scope.
pub(super) fn changed_files(bundle: &Bundle) -> Result<Vec<(RelPath, NewFile)>, Failure> {
    let (events, _) = read_journal(&bundle.journal).map_err(Failure::internal)?;
    let first = events.first().ok_or_else(|| Failure::internal("an empty journal"))?;
    let state = RunState::fold(first.stream.clone(), &events).map_err(Failure::internal)?;
    let mut files = Vec::new();
    for (path, change) in state.net_changes() {
        let wanted = match &change.after {
            None => None,
            Some(after) => {
                let mode: Mode = after.mode.parse().map_err(Failure::internal)?;
                let content = bundle.blobs.get(&after.content).cloned();
                Some((mode, content.ok_or_else(|| Failure::internal("verified content is not there"))?))
            }
        };
        files.push((path.clone(), wanted));
    }
    Ok(files)
}

/// Does the session's commands again, and says what became of each.
fn do_again(world: &World, it: &Examined, expected: &Expected<'_>, json: bool) -> Result<Code, Failure> {
    let (Some(authorization), Some(result)) = (&it.authorization, &it.report.report.result) else {
        return Ok(Code::CannotCheck);
    };
    let host = host(world);
    let (probe, images) = (probe(world), images(world)?);
    let bench = Bench { probe: &probe, host: &host, images: &images, scratch: scratch(it, "again")? };
    bench.lay_out(expected.repository, expected.commit, expected.scope)?;
    let (events, _) = read_journal(&it.bundle.journal).map_err(Failure::internal)?;
    let contents = |digest: &_| it.bundle.blobs.get(digest).cloned();
    let policy = &authorization.request.policy;
    let outer = Outer::of(expected.repository, expected.commit, expected.scope)?;
    let all = match replay(&bench, &outer, policy, &events, &result.salt, &contents) {
        Ok(all) => all,
        Err(error) => {
            eprintln!("replay: {}", visible(&error.to_string(), Lines::Escape));
            return Ok(Code::CannotCheck);
        }
    };
    let mut differs = 0;
    for again in &all {
        differs += u32::from(matches!(again.found, Found::Differs(..)));
        tell_again(again, json);
    }
    if !json {
        let count = |of: fn(&Found) -> bool| all.iter().filter(|again| of(&again.found)).count();
        let (same, skipped) =
            (count(|found| *found == Found::Same), count(|found| matches!(found, Found::Skipped(_))));
        say!(
            "done again: {} left the same files, {differs} others, {skipped} skipped",
            counted(same as u64, "command")
        );
    }
    Ok(if differs == 0 { Code::Verified } else { Code::Replay })
}

fn tell_again(again: &Again, json: bool) {
    let (word, why) = match &again.found {
        Found::Same => ("same", String::new()),
        Found::Differs(path, why) => ("DIFFERS", format!(": `{path}`: {why}")),
        Found::Skipped(why) => ("skipped", format!(": {why}")),
    };
    if json {
        JsonLines::say(&json!({
            "kind": "replay", "act": again.act.0, "command": again.command, "found": word, "why": why,
        }));
        return;
    }
    let why = visible(&why, Lines::Escape);
    say!("  {word:<8} #{} {}{why}", again.act, visible(&again.command, Lines::Escape));
}

/// Runs the gate's command on the commit with the change, in this host's own sandbox.
pub(super) fn try_out(
    world: &World,
    it: &Examined,
    expected: &Expected<'_>,
    json: bool,
) -> Result<Code, Failure> {
    let Some(authorization) = &it.authorization else { return Ok(Code::CannotCheck) };
    let request = &authorization.request;
    let Some(gate) = &request.gate else {
        eprintln!("nothing is tried: the session was ordered without a verification");
        return Ok(Code::CannotCheck);
    };
    let host = host(world);
    let (probe, images) = (probe(world), images(world)?);
    let bench = Bench { probe: &probe, host: &host, images: &images, scratch: scratch(it, "trial")? };
    bench.lay_out(expected.repository, expected.commit, expected.scope)?;
    // The files that judge are the commit's: that none of them changed was verified.
    bench.put(&changed_files(&it.bundle)?)?;
    let limit = Duration::from_millis(gate.limit_ms);
    let record = bench.run(&request.policy, &gate.argv, &RelPath::root(), limit)?;
    let passed = record.ended == Ended::Exited(0);
    let command = provost::core::act::show_argv(&gate.argv);
    if json {
        JsonLines::say(&json!({
            "kind": "trial", "command": command, "passed": passed, "duration_ms": record.duration_ms,
        }));
    } else {
        let word = if passed { "passed" } else { "FAILED" };
        say!("tried here: {word}: {} ({})", visible(&command, Lines::Escape), duration(record.duration_ms));
        if !passed {
            let mut output = record.output.head;
            output.extend_from_slice(&record.output.tail);
            let text = String::from_utf8_lossy(&output).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
                say!("  |  {}", visible(line, Lines::Escape));
            }
        }
    }
    Ok(if passed { Code::Verified } else { Code::Acceptance })
}

fn scratch(it: &Examined, name: &str) -> Result<PathBuf, Failure> {
    let path = it.scratch.path().join(name);
    std::fs::create_dir(&path).at(&path)?;
    Ok(path)
}
