//! `provost session prepare` and `provost session run`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use provost::agent::{Always, Ending, Mandate};
use provost::core::id::RunId;
use provost::core::session::{Authorization, Request};
use provost::evidence::signer::Signer;
use provost::evidence::ssh;
use provost::govern::{
    Folder, Fresh, Revocations, Runner, SessionError, Sessions, SignedFile, begin, check, close, give_out,
    go_on as take_up, has_begun, prepare as make_ready, taking_up,
};

use super::ask::ask;
use super::summary::summary;
use super::{host_toolchain, now_ms, read_trust, runner_name, sessions, sign, trust};
use crate::args::{Prepare, SessionRun, TrustArg};
use crate::commands::output::Output;
use crate::commands::queue::model_of;
use crate::commands::routing::Models;
use crate::commands::run::committed_tree;
use crate::commands::setup::{Place, interrupt, keep_outside, runtime};
use crate::failure::{AtPath, Failure};
use crate::render::{duration, say};
use crate::world::World;

pub(super) fn prepare(world: &World, args: &Prepare) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let folder = sessions.find(&args.session)?;
    let signed = SignedFile::read(&args.authorization)?;
    let prepared =
        with_runner(world, &folder, &args.trust, |runner| make_ready(&sessions, &folder, &signed, runner))?;
    if let Some(runner) = &args.trust.runner {
        folder.remember_runner(runner)?;
    }
    say!(
        "session {} is authorized by {} and prepared: `{}`",
        folder.session(),
        prepared.signers.join(", "),
        folder.workspace().display()
    );
    say!("next: `provost session run {}`", folder.session());
    Ok(0)
}

/// Has something done with what this runner knows of itself.
fn with_runner<T>(
    world: &World,
    folder: &Folder,
    args: &TrustArg,
    act: impl FnOnce(&Runner<'_>) -> Result<T, SessionError>,
) -> Result<T, Failure> {
    let request = folder.request()?;
    let gate = request.gate.as_ref().and_then(|gate| gate.argv.first()).map(String::as_str);
    let toolchain = host_toolchain(world, gate)?;
    let remembered = folder.whereabouts()?.runner;
    let audience = runner_name(args.runner.as_deref().or(remembered.as_deref()))?;
    let trust = trust(world, args)?;
    let runner = Runner { audience: &audience, trust: &trust, toolchain: &toolchain, now_ms: now_ms() };
    Ok(act(&runner)?)
}

pub(super) async fn run(world: &World, args: SessionRun) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let folder = match &args.session {
        Some(name) => sessions.find(name)?,
        None => own(world, &sessions, &args).await?,
    };
    if let Some(out) = &args.out {
        keep_outside("--out", out, &folder.workspace())?;
    }
    if folder.is_closed() {
        eprintln!("session {} is closed: its result is signed, nobody is asked again", folder.session());
    }
    let code = go_on(world, &sessions, &folder, &args).await?;
    if let (Some(out), true) = (&args.out, folder.is_closed()) {
        give_out(&folder, out)?;
    }
    Ok(code)
}

/// A session of the person's own: asked for, shown, signed with their key, prepared.
async fn own(world: &World, sessions: &Sessions, args: &SessionRun) -> Result<Folder, Failure> {
    let Some(task) = &args.task else {
        return Err(Failure::usage("neither a session nor a task is named"));
    };
    let signers = sign::signers(world, &args.keys)?;
    trust_oneself(world, &args.trust, &signers)?;
    let store = world.store_path(args.store.store.as_deref())?;
    let audience = runner_name(args.trust.runner.as_deref())?;
    let (folder, request) = ask(world, sessions, &args.ask, task, &store, audience).await?;
    // Nobody is asked to sign what could not be carried out.
    if let Err(unreachable) =
        models(&folder, &request).and_then(|models| models.connect(world, &folder.workspace()))
    {
        folder.discard()?;
        return Err(unreachable);
    }
    for line in summary(&request, Some(&folder.task()?)) {
        eprintln!("{line}");
    }
    eprintln!("  holds    for {} from now on", duration(args.expires.as_millis() as u64));
    if let Err(not_meant) =
        sign::confirm(args.yes, &format!("sign this with {}?", sign::names(&signers).join(", ")))
    {
        folder.discard()?;
        return Err(not_meant);
    }
    let now = now_ms();
    let authorization = Authorization {
        request,
        not_before_ms: now,
        expires_ms: now.saturating_add(args.expires.as_millis() as u64),
    };
    let signed = sign::sign(&authorization, None, &signers)?;
    with_runner(world, &folder, &args.trust, |runner| make_ready(sessions, &folder, &signed, runner))?;
    if let Some(runner) = &args.trust.runner {
        folder.remember_runner(runner)?;
    }
    Ok(folder)
}

/// Whom a session asks.
fn models(folder: &Folder, request: &Request) -> Result<Models, Failure> {
    let first = model_of(&request.model, folder.whereabouts()?.key_env.as_deref())?;
    Models::of_run(first, request.routing.as_deref())
}

/// Where nobody is trusted yet, the person's own key is: the first session of their own says so.
fn trust_oneself(world: &World, args: &TrustArg, signers: &[Box<dyn Signer>]) -> Result<(), Failure> {
    let path = world.trust_path(args.trust.as_deref())?;
    if path.exists() {
        return read_trust(&path).map(drop);
    }
    fs::create_dir_all(&path).at(&path)?;
    let allowed = path.join("allowed_signers");
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&allowed).at(&allowed)?;
    for signer in signers {
        let line = ssh::public::line(&signer.public());
        writeln!(file, "me {line}").at(&allowed)?;
    }
    eprintln!("`{}` did not exist: it trusts your own key now", path.display());
    Ok(())
}

async fn go_on(
    world: &World,
    sessions: &Sessions,
    folder: &Folder,
    args: &SessionRun,
) -> Result<u8, Failure> {
    let signed =
        folder.authorization()?.ok_or_else(|| SessionError::Unauthorized(folder.session().clone()))?;
    let whereabouts = folder.whereabouts()?;
    let request = folder.request()?;
    let place = Place::open(world, Some(&whereabouts.store))?;
    let output = Output::new(args.json);
    if let Output::People(console) = &output {
        let tree = committed_tree(Some(&whereabouts.repository), &request.source).ok().flatten();
        console.expect_tree(tree);
    }
    let models = models(folder, &request)?;
    let ending = if let Some(finished) = super::look::over(&place, folder).await? {
        // What is over is closed whatever the time is: nothing begins any more.
        Ending::Over(finished)
    } else {
        let mut runtime =
            runtime(world, &place, &models, &folder.workspace(), output.observer(), Arc::new(Always::LATER))?;
        runtime.pace = args.pace.pace.unwrap_or_default();
        let trust = world.trust_path(args.trust.trust.as_deref())?;
        if has_begun(place.store.as_ref(), folder).await? {
            runtime.mandate = with_runner(world, folder, &args.trust, |runner| {
                taking_up(sessions, folder, &signed, trust, runner)
            })?;
            take_up(&runtime, folder, interrupt()?).await?
        } else {
            let prepared =
                with_runner(world, folder, &args.trust, |runner| check(sessions, folder, &signed, runner))?;
            runtime.mandate = Arc::new(Revocations::of(sessions, trust, &signed, &prepared));
            begin(&runtime, folder, &prepared, interrupt()?).await?
        }
    };
    let code = output.ended(&place, folder.session(), &ending, None).await?;
    if matches!(ending, Ending::Paused(_)) {
        eprintln!("`provost session run {}` goes on with it", folder.session());
        return Ok(code);
    }
    if close(place.store.as_ref(), folder).await? == Fresh::Yes {
        eprintln!("the result is signed, and the session's key is destroyed");
    }
    if code == 0 {
        eprintln!(
            "next: `provost session show {0}`, `provost session accept {0}`, or `provost session result {0} -o DIR`",
            folder.session()
        );
    } else {
        eprintln!(
            "its work is not done, so nobody will accept it; `provost session show {0}` shows what it did",
            folder.session()
        );
    }
    Ok(code)
}

/// Who says whether a session's run may go on, for whoever takes it up by the run's name.
pub(in crate::commands) fn mandate(world: &World, run: &RunId) -> Result<Arc<dyn Mandate>, Failure> {
    let named = |name: &str| world.var(name).map(PathBuf::from);
    let sessions = Sessions::at(world.sessions_path(named("PROVOST_SESSIONS").as_deref())?);
    let folder = sessions.open(run)?;
    let signed = folder.authorization()?.ok_or_else(|| SessionError::Unauthorized(run.clone()))?;
    let args = TrustArg { trust: named("PROVOST_TRUST"), runner: world.var("PROVOST_RUNNER") };
    let trust = world.trust_path(args.trust.as_deref())?;
    with_runner(world, &folder, &args, |runner| taking_up(&sessions, &folder, &signed, trust, runner))
}
