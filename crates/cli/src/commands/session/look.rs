//! Looking at sessions: `show`, `status`, `log`, `result`, `revoke`, `profile`.

use provost::core::digest::Digest;
use provost::core::event::{Body, RunFinished};
use provost::core::id::RunId;
use provost::core::outcome::Outcome;
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};
use provost::govern::{Folder, Fresh, Sessions, give_out};
use provost::journal::{Store, StoreError};
use serde_json::json;

use super::summary::summary;
use super::{host_toolchain, named, sessions};
use crate::args::{Log, Revoke, SessionName, SessionProfile, SessionResult, SessionStatus, Show, StoreArg};
use crate::commands::setup::{Place, images};
use crate::commands::{history, setup};
use crate::failure::{AtPath, Failure};
use crate::render::{JsonLines, counted, say};
use crate::world::World;

/// Longest patch that is printed, in lines.
const PATCH_LINES: usize = 400;

/// How a session's run ended, if it did.
pub(super) async fn over(place: &Place, folder: &Folder) -> Result<Option<RunFinished>, Failure> {
    let events = match place.store.events(folder.session(), 0).await {
        Ok(events) => events,
        Err(StoreError::NoSuchRun { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(events.into_iter().rev().find_map(|event| match event.body {
        Body::RunFinished(finished) => Some(finished),
        _ => None,
    }))
}

pub(super) fn result(world: &World, args: &SessionResult) -> Result<u8, Failure> {
    let folder = sessions(world, &args.sessions)?.find(&args.session)?;
    give_out(&folder, &args.out)?;
    say!("wrote `{}`", args.out.display());
    Ok(0)
}

fn store_arg(folder: &Folder) -> Result<StoreArg, Failure> {
    Ok(StoreArg { store: Some(folder.whereabouts()?.store) })
}

pub(super) async fn show(world: &World, args: SessionName) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let folder = named(&sessions, args.session.as_deref())?;
    for line in summary(&folder.request()?, Some(&folder.task()?)) {
        say!("{line}");
    }
    let standing = standing(world, &sessions, &folder).await?;
    say!("stands    {}", standing.words());
    if !standing.has_run() {
        return Ok(0);
    }
    say!("");
    let run = folder.session().to_string();
    let code = history::show(world, Show { run, store: store_arg(&folder)?, json: false }).await?;
    if folder.is_closed() {
        say!("");
        let path = folder.result().join("changes.patch");
        let patch = std::fs::read(&path).at(&path)?;
        let lines = patch.split(|byte| *byte == b'\n').count();
        if lines <= PATCH_LINES {
            // It stands among words for people, so it is written out wherever it goes. The file itself is there for programs.
            say!("{}", visible(&String::from_utf8_lossy(&patch), Lines::Keep).trim_end());
        } else {
            say!("the patch has {lines} lines: `{}`", path.display());
        }
    }
    Ok(code)
}

pub(super) async fn log(world: &World, args: SessionName) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let folder = named(&sessions, args.session.as_deref())?;
    if !standing(world, &sessions, &folder).await?.has_run() {
        return Err(Failure::usage(format!("session `{}` has not begun", folder.session()))
            .hint(format!("`provost session run {}` begins it", folder.session())));
    }
    let run = folder.session().to_string();
    history::log(world, Log { run, store: store_arg(&folder)?, json: false, act: None }).await
}

/// How a session stands.
enum Standing {
    Asked,
    Revoked { why: String, begun: bool },
    Prepared,
    Begun(&'static str),
    Over(Outcome),
    Closed(Option<Outcome>),
}

impl Standing {
    fn word(&self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Revoked { .. } => "revoked",
            Self::Prepared => "prepared",
            Self::Begun(_) => "begun",
            Self::Over(_) => "over",
            Self::Closed(_) => "closed",
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Asked => "nobody has signed it".to_owned(),
            Self::Revoked { why, begun } => {
                let why =
                    if why.is_empty() { String::new() } else { format!(": {}", visible(why, Lines::Escape)) };
                let left = if *begun { "; `provost session run` closes it" } else { "" };
                format!("revoked{why}{left}")
            }
            Self::Prepared => "authorized and prepared, not begun".to_owned(),
            Self::Begun(pause) => format!("begun, not over ({pause})"),
            Self::Over(outcome) => format!("{outcome}; its result is not signed yet"),
            Self::Closed(Some(outcome)) => format!("closed, its result is signed: {outcome}"),
            Self::Closed(None) => {
                "closed, its result is signed; its run is not in the store any more".to_owned()
            }
        }
    }

    fn has_run(&self) -> bool {
        matches!(
            self,
            Self::Begun(_) | Self::Over(_) | Self::Closed(Some(_)) | Self::Revoked { begun: true, .. }
        )
    }
}

async fn standing(world: &World, sessions: &Sessions, folder: &Folder) -> Result<Standing, Failure> {
    let store = folder.whereabouts()?.store;
    let state = if store.exists() {
        let place = Place::open(world, Some(&store))?;
        match place.store.events(folder.session(), 0).await {
            Ok(events) if events.is_empty() => None,
            Ok(events) => Some(RunState::fold(folder.session().clone(), &events).map_err(|violation| {
                Failure::evidence(format!("the journal of `{}` is not sound: {violation}", folder.session()))
            })?),
            Err(StoreError::NoSuchRun { .. }) => None,
            Err(error) => return Err(error.into()),
        }
    } else {
        None
    };
    let outcome = state.as_ref().and_then(RunState::outcome).map(|finished| finished.outcome);
    if folder.is_closed() {
        return Ok(Standing::Closed(outcome));
    }
    let revoked = sessions.revoked(&[folder.session().as_str()])?;
    if let (Some(why), None) = (revoked, outcome) {
        return Ok(Standing::Revoked { why, begun: state.is_some() });
    }
    Ok(match (&state, outcome) {
        (_, Some(outcome)) => Standing::Over(outcome),
        (Some(state), None) => Standing::Begun(
            state.pause().map_or("somebody drives it, or its driver died", |left| left.why.word()),
        ),
        (None, None) if folder.authorization()?.is_some() => Standing::Prepared,
        (None, None) => Standing::Asked,
    })
}

pub(super) async fn status(world: &World, args: SessionStatus) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let all = match args.session.as_deref() {
        Some(name) => vec![sessions.find(name)?],
        None => sessions.all()?.iter().map(|session| sessions.open(session)).collect::<Result<_, _>>()?,
    };
    if all.is_empty() && !args.json {
        say!("no session");
    }
    for folder in all {
        let standing = standing(world, &sessions, &folder).await?;
        if args.json {
            JsonLines::say(&json!({
                "kind": "session", "session": folder.session(), "standing": standing.word(),
                "words": standing.words(), "folder": folder.path(),
            }));
        } else {
            say!("{}  {}", folder.session(), standing.words());
        }
    }
    Ok(0)
}

pub(super) fn revoke(world: &World, args: &Revoke) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let what = match args.what.parse::<Digest>() {
        Ok(digest) => digest.to_string(),
        Err(_) => sessions.find(&args.what)?.session().to_string(),
    };
    match sessions.revoke(&what, &args.why)? {
        Fresh::Yes => say!("{what} is revoked: nothing more is done for it on this machine"),
        Fresh::No => say!("{what} was revoked before"),
    }
    if what
        .parse::<RunId>()
        .is_ok_and(|session| sessions.open(&session).is_ok_and(|folder| folder.is_closed()))
    {
        say!("its result is signed already: whoever has it refuses it once their trust folder says so");
    }
    say!("others learn of it by a line `{what}` in the file `revoked` of their trust folder");
    Ok(0)
}

pub(super) fn profile(world: &World, args: &SessionProfile) -> Result<u8, Failure> {
    let image = match &args.image {
        Some(name) => Some(images(world)?.find(name)?),
        None => None,
    };
    let toolchain = host_toolchain(world, None)?;
    let digest = toolchain.digest()?;
    let found = setup::probe(world);
    if args.json {
        JsonLines::say(&json!({
            "kind": "session.profile",
            "image": image.as_ref().map(|image| image.digest),
            "toolchain": digest,
            "files": toolchain.files,
            "strongest": found.strongest,
        }));
        return Ok(0);
    }
    match &image {
        Some(image) => say!("image      {}, as `--image {}`", image.digest, image.digest),
        None => say!("toolchain  {digest} ({})", counted(toolchain.files.len() as u64, "file")),
    }
    if args.files {
        for (path, digest) in &toolchain.files {
            say!("  {digest}  {}", visible(path, Lines::Escape));
        }
    }
    say!(
        "commands   no network, no secrets of yours, changes staged and rolled back whole where a command does not end well"
    );
    say!(
        "caps       8 GiB of memory, 1,024 processes, 4 GiB of changes, 20 min a command, where the policy says no other"
    );
    Ok(0)
}
