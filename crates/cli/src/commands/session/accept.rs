//! `provost session accept`: verified, tried, and put on a branch of its own.

use std::path::PathBuf;

use provost::core::text::is_hidden;
use provost::evidence::git::Repository;
use provost::evidence::verify::Code;
use provost::govern::{Accept as What, accept as put};
use serde_json::json;

use super::verify::{Expected, changed_files, examine, tell_claims, tell_verdict, trust_apart, try_out};
use super::{named, now_ms, sessions};
use crate::args::Accept;
use crate::failure::Failure;
use crate::render::{JsonLines, say};
use crate::world::World;

/// Longest first line of a commit's message, in characters.
const SUBJECT: usize = 68;

pub(super) fn accept(world: &World, args: &Accept) -> Result<u8, Failure> {
    let repository = Repository::discover(&args.repo).map_err(Failure::usage)?;
    // A bundle says itself what it is of: who accepts one that came from elsewhere has verified it against what they
    // expect, and is shown here what it is of.
    let given = args.session.as_deref().map(PathBuf::from).filter(|path| path.is_dir());
    let (dir, session) = if let Some(dir) = given {
        (dir, None)
    } else {
        let folder = named(&sessions(world, &args.sessions)?, args.session.as_deref())?;
        if !folder.is_closed() {
            return Err(provost::govern::SessionError::NotOver(folder.session().clone()).into());
        }
        (folder.result(), Some(folder))
    };
    let trust = trust_apart(&world.trust_path(args.trust.trust.as_deref())?, &dir)?;
    let request = match &session {
        Some(folder) => folder.request()?,
        None => stated(&dir)?,
    };
    let Some(commit) = request.source.commit() else {
        return Err(Failure::evidence("the session did not begin with a commit"));
    };
    let expected = Expected {
        repository: &repository,
        commit,
        scope: request.source.scope(),
        task: None,
        audience: args.trust.runner.as_deref(),
        allow: args.allow.iter().copied().collect(),
    };
    let branch = args.branch.clone().unwrap_or_else(|| format!("provost/{}", request.session));
    if repository.resolve(&format!("refs/heads/{branch}")).is_ok() {
        return Err(Failure::usage(format!("the branch `{branch}` is there already"))
            .hint("--branch NAME names another"));
    }
    if let Some(folder) = &session
        && let Some(why) = sessions(world, &args.sessions)?.revoked(&[folder.session().as_str()])?
    {
        return Err(Failure::coded(3, format!("session `{}` is revoked: {why}", folder.session())));
    }
    let it = examine(&dir, &trust, &expected)?;
    let mut code = it.report.report.code;
    tell_claims(&it.report, args.json);
    if code == Code::Verified && !args.no_test && request.gate.is_some() {
        code = try_out(world, &it, &expected, args.json)?;
    }
    if code != Code::Verified {
        return Ok(tell_verdict(&it.report, code, args.json));
    }
    let result = it.report.report.result.as_ref();
    let (Some(result), Some(files)) = (result, it.bundle.session.as_ref()) else {
        return Err(Failure::internal("a verified session says nothing"));
    };
    let home = world.home();
    let identity = repository.identity(home.as_deref()).map_err(Failure::usage)?;
    let (name, email) = identity.ok_or_else(|| {
        Failure::usage("git does not know your name and address: the commit would be nobody's")
            .hint("git config --global user.name NAME; git config --global user.email ADDRESS")
    })?;
    let tree = provost::evidence::statement::Statement::from_json(&signed(&it.bundle.envelope)?)
        .map_err(Failure::evidence)?
        .tree;
    let made = put(&What {
        repository: &repository,
        commit,
        scope: request.source.scope(),
        files: &changed_files(&it.bundle)?,
        tree: &tree,
        branch: &branch,
        message: &message(&files.task, result.run.as_str(), &it.report.authorized_by),
        author: (&name, &email),
        at: now_ms() / 1000,
    })?;
    if args.json {
        JsonLines::say(&json!({
            "kind": "accepted", "branch": branch, "commit": made.commit, "tree": made.tree, "exit_code": 0,
        }));
    } else {
        say!("accepted: branch `{branch}` is commit {}; your work tree is as it was", made.commit);
        say!("next: `git merge {branch}`, or look at it first: `git diff {commit} {branch}`");
    }
    Ok(0)
}

/// What the bundle at hand says that it is of.
fn stated(dir: &std::path::Path) -> Result<provost::core::session::Request, Failure> {
    let bundle = provost::evidence::bundle::read(dir).map_err(Failure::evidence)?;
    let files =
        bundle.session.ok_or_else(|| Failure::usage("the bundle is of an ordinary run, not of a session"))?;
    let authorization =
        provost::evidence::cosign::unverified(&files.authorization).map_err(Failure::evidence)?;
    Ok(authorization.request)
}

/// The bytes that were signed; that they were has been verified.
fn signed(envelope: &[u8]) -> Result<Vec<u8>, Failure> {
    Ok(provost::evidence::dsse::open(envelope, &[]).map_err(Failure::evidence)?.payload)
}

fn message(task: &[u8], session: &str, authorized_by: &[String]) -> String {
    let text = String::from_utf8_lossy(task);
    let first = text.lines().map(|line| line.trim_start_matches(['#', ' '])).find(|line| !line.is_empty());
    let plain = |text: &str| text.chars().filter(|char| !is_hidden(*char)).collect::<String>();
    let subject: String = plain(first.unwrap_or("A governed session")).chars().take(SUBJECT).collect();
    let by: Vec<String> = authorized_by.iter().map(|who| plain(who)).collect();
    format!("{subject}\n\nProvost-Session: {session}\nAuthorized-By: {}\n", by.join(", "))
}
