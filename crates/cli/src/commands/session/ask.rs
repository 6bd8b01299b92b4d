//! `provost session init`: what is asked for.

use std::path::Path;

use provost::core::caps::Caps;
use provost::core::contract::Counted;
use provost::core::path::RelPath;
use provost::core::policy::Policy;
use provost::core::session::Request;
use provost::evidence::git::Repository;
use provost::govern::{Ask, Folder, Sessions, TASK_LIMIT, Whereabouts, propose};
use serde_json::json;

use super::summary::summary;
use super::{host_toolchain, now_ms, runner_name, sessions};
use crate::args::{AskArgs, SessionInit};
use crate::commands::model_choice::choose_model;
use crate::commands::price::{price, window};
use crate::commands::routing::{apart, routing};
use crate::commands::run::terms;
use crate::failure::{AtPath, Failure};
use crate::render::{JsonLines, say};
use crate::world::World;

/// What a session's commands may take where its policy does not say: enough to build an ordinary Rust workspace.
const CAPS: Caps =
    Caps { memory_bytes: Some(8 << 30), processes: Some(1024), disk_bytes: Some(4 << 30), ..Caps::none() };

/// Longest that a session's command may run, in milliseconds.
const COMMAND_MS: u64 = 20 * 60 * 1000;

pub(super) async fn init(world: &World, args: SessionInit) -> Result<u8, Failure> {
    let sessions = sessions(world, &args.sessions)?;
    let store = world.store_path(args.store.store.as_deref())?;
    let audience = runner_name(args.runner.as_deref())?;
    let (folder, request) = ask(world, &sessions, &args.ask, &args.task, &store, audience).await?;
    let bytes = folder.request_bytes()?;
    if let Some(out) = &args.out {
        std::fs::write(out, &bytes).at(out)?;
    }
    let path = args.out.clone().unwrap_or_else(|| folder.path().join("request.json"));
    if args.json {
        JsonLines::say(&json!({
            "kind": "session.request", "session": request.session, "request": path, "folder": folder.path(),
        }));
        return Ok(0);
    }
    for line in summary(&request, Some(&folder.task()?)) {
        say!("{line}");
    }
    say!("nothing is signed yet. The request: `{}`", path.display());
    say!("next, by the authority: `provost session authorize {} --key KEY`", path.display());
    Ok(0)
}

/// Makes a session's folder with its request.
pub(super) async fn ask(
    world: &World,
    sessions: &Sessions,
    args: &AskArgs,
    task: &Path,
    store: &Path,
    audience: String,
) -> Result<(Folder, Request), Failure> {
    let goal = read_task(task)?;
    let repository = Repository::discover(&args.repo).map_err(Failure::usage)?;
    let commit = repository.resolve(&args.rev).map_err(Failure::usage)?;
    let scope = RelPath::parse(args.scope.trim_end_matches('/'))
        .map_err(|error| Failure::usage(format!("--scope `{}`: {error}", args.scope)))?;
    let root = repository.root().to_owned();
    let (routing, mut others) = routing(&args.terms.routing)?;
    let mut contract = terms(world, &goal, &root, &args.terms)?.routing(routing);
    held(&mut contract.policy)?;
    contract.limits.command_ms = COMMAND_MS;
    if let Some(gate) = &mut contract.gate {
        // Where what it prints says nothing of tests, there is nothing to count.
        gate.counted = Counted::AgainstBase;
    }
    let mut model = choose_model(&args.terms.model)?;
    apart(&model, &others)?;
    price(world, &args.terms.price, &root, (&mut model, &mut others), &mut contract)?;
    window(world, &mut model).await?;
    let toolchain = if contract.policy.image.is_some() {
        None
    } else {
        let gate = contract.gate.as_ref().and_then(|gate| gate.argv.first()).map(String::as_str);
        Some(host_toolchain(world, gate)?.digest()?)
    };
    let key_env = model.noted_key_env().or_else(|| model.key_env.clone());
    let (request, key) = propose(
        Ask {
            repository: &repository,
            commit: &commit,
            scope,
            contract,
            model: model.fact(),
            audience,
            protect: args.protect.clone(),
            open: args.open.iter().cloned().collect(),
            allowed: args.allow_dangerous.iter().copied().collect(),
            toolchain,
            rollbacks: args.max_rollbacks,
        },
        now_ms(),
    )?;
    let place = Whereabouts { repository: root, store: store.to_owned(), key_env, runner: None };
    let folder = sessions.create(&request, &key, goal.as_bytes(), &place)?;
    Ok((folder, request))
}

fn read_task(path: &Path) -> Result<String, Failure> {
    let bytes = provost::govern::read(path).map_err(|error| Failure::usage(format!("--task {error}")))?;
    if bytes.len() > TASK_LIMIT {
        return Err(Failure::usage(format!(
            "`{}` has {} bytes; a task has at most {TASK_LIMIT}",
            path.display(),
            bytes.len()
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("`{}` is not UTF-8 text", path.display())))
}

/// Holds a policy to what sessions are: contained, staged, within caps. What it says itself stays.
fn held(policy: &mut Policy) -> Result<(), Failure> {
    if policy.containment == provost::core::policy::Containment::LimitsOnly {
        return Err(Failure::usage("a session's commands are contained: `full-access` is no policy for one")
            .hint("leave --policy out, or name `workspace` or a file"));
    }
    if policy.lets_commit() {
        return Err(Failure::usage("a session's commands commit nothing: its result is a patch")
            .hint("leave `git = \"commit\"` out of the policy"));
    }
    if policy.caps == Caps::default() {
        policy.caps = CAPS;
    }
    Ok(())
}
