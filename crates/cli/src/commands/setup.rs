//! What several commands set up: store, provider, policy, runtime, signals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost::agent::{Always, Approver, Interrupt, Observer, Runtime};
use provost::core::act::show_argv;
use provost::core::event::RunCreated;
use provost::core::id::RunId;
use provost::core::path::RelPath;
use provost::core::policy::{Effect, GitAccess, Keep, Layer, Policy, Preset, WorkspaceMode};
use provost::core::state::RunState;
use provost::core::text::{Lines, visible};
use provost::evidence::keys::SigningKey;
use provost::journal::{SqliteStore, Store};
use provost::sandbox::image::ImageStore;
use provost::sandbox::{Freshness, Probe, ProbeCache};
use provost::tools::command::HostEnvironment;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::routing::Models;
use super::terminal::Terminal;
use crate::args::{Mode, PolicyArgs};
use crate::failure::{AtPath, Failure};
use crate::render::{Preview, words::COMMAND_LINE};
use crate::world::World;

/// The store and the spool beside it.
pub(crate) struct Place {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) spool: PathBuf,
    /// The store as a command line has to name it; empty where it is the one that is taken anyway.
    option: String,
}

impl Place {
    /// The store for whoever makes runs: made where there is none.
    pub(crate) fn open(world: &World, given: Option<&Path>) -> Result<Self, Failure> {
        let path = world.store_path(given)?;
        let mut place = Self::at(&path)?;
        if world.usual_store().is_some_and(|usual| usual == path) {
            place.option.clear();
        }
        Ok(place)
    }

    /// The store for whoever reads runs or goes on with them: it must be there.
    pub(crate) fn existing(world: &World, given: Option<&Path>) -> Result<Self, Failure> {
        let path = world.store_path(given)?;
        if !path.exists() {
            return Err(Failure::usage(format!("no store at `{}`", path.display()))
                .hint("`provost run` makes one; --store FILE or PROVOST_STORE names another"));
        }
        Self::open(world, given)
    }

    pub(crate) fn at(path: &Path) -> Result<Self, Failure> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).at(folder)?;
        }
        let store = Arc::new(SqliteStore::open(path)?);
        let option = show_argv(&["--store".to_owned(), path.display().to_string()]);
        Ok(Self { store, spool: path.with_extension("spool"), option: format!(" {option}") })
    }

    /// The store, for whoever takes any.
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// A run as a command line has to name it.
    pub(crate) fn named(&self, run: &RunId) -> String {
        format!("{run}{}", self.option)
    }

    /// The run whose name begins so, and what its journal amounts to.
    pub(crate) async fn state(&self, name: &str) -> Result<(RunId, RunState), Failure> {
        let run = self.store.find(name).await?;
        let events = self.store.events(&run, 0).await?;
        let state = RunState::fold(run.clone(), &events).map_err(|violation| {
            Failure::evidence(format!("the journal of `{run}` is not sound: {violation}"))
        })?;
        Ok((run, state))
    }

    /// The run whose name begins so, its contract, and what its journal amounts to.
    pub(crate) async fn load(&self, name: &str) -> Result<(RunId, RunCreated, RunState), Failure> {
        let (run, state) = self.state(name).await?;
        match state.created().cloned() {
            Some(created) => Ok((run, created, state)),
            None => Err(never_started(&run, &state)),
        }
    }
}

/// Of a run that has no contract.
pub(super) fn never_started(run: &RunId, state: &RunState) -> Failure {
    match (state.cancelled(), state.queued()) {
        (Some(cancelled), _) => {
            let run = run.to_string();
            provost::agent::RunError::Dropped { run, by: cancelled.by.clone() }.into()
        }
        (None, Some(_)) => Failure::usage(format!("`{run}` was never started: it waits for a worker")),
        (None, None) => Failure::usage(format!("`{run}` was never started: its journal is empty")),
    }
}

/// The policy as the command line names it.
pub(crate) fn policy(args: &PolicyArgs) -> Result<Policy, Failure> {
    let mut policy = match args.policy.parse::<Preset>() {
        Ok(preset) => Policy::preset(preset),
        Err(not_a_preset) => {
            let path = Path::new(&args.policy);
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("--policy {}: {error}", args.policy)).hint(not_a_preset)
            })?;
            Policy::from_toml(&text, &args.policy).map_err(Failure::usage)?
        }
    };
    if !args.allow.is_empty() || !args.deny.is_empty() {
        let mut layer = Layer::named(COMMAND_LINE);
        for (effect, rules) in [(Effect::Allow, &args.allow), (Effect::Deny, &args.deny)] {
            for rule in rules {
                layer = layer.rule(effect, rule).map_err(Failure::usage)?;
            }
        }
        policy = policy.with(layer);
    }
    for host in policy.allowed_loopback() {
        eprintln!(
            "note: `net {}`: a command that dials it reaches its own loopback, not this host's (only a program that asks \
             the proxy for it does)",
            visible(host, Lines::Escape)
        );
    }
    match args.workspace_mode {
        None => {}
        Some(Mode::Direct) => policy.workspace = WorkspaceMode::Direct,
        // A file that says so too says which build folders there are.
        Some(Mode::Staged) if policy.workspace.is_staged() => {}
        Some(Mode::Staged) => policy.workspace = WorkspaceMode::staged(),
        Some(Mode::AllOrNothing) => match &mut policy.workspace {
            WorkspaceMode::Staged { keep, .. } => *keep = Keep::AllOrNothing,
            WorkspaceMode::Direct => policy.workspace = WorkspaceMode::all_or_nothing(),
        },
    }
    if policy.git == GitAccess::Commit && policy.workspace.is_staged() {
        return Err(Failure::usage(
            "--workspace-mode: the policy lets commands commit, which needs `direct`",
        ));
    }
    Ok(policy)
}

/// Refuses a policy file that lies in the workspace under a name that runs may write: what one run writes there would be
/// the next one's policy. Under a name that presets protect it is taken, and protected whatever it says itself.
pub(crate) fn policy_of_workspace(
    mut policy: Policy,
    args: &PolicyArgs,
    workspace: &Path,
) -> Result<Policy, Failure> {
    if args.policy.parse::<Preset>().is_ok() {
        return Ok(policy);
    }
    let path = Path::new(&args.policy);
    let Ok(workspace) = workspace.canonicalize() else { return Ok(policy) };
    // Where the way turns too: what is a link in the workspace, or can be made one, may lead elsewhere by the next run.
    let way = Way::to(&std::path::absolute(path).at(path)?);
    for file in way.turns.into_iter().chain([way.end]).filter(|file| *file != workspace) {
        let Ok(inside) = file.strip_prefix(&workspace) else { continue };
        let inside = RelPath::from_bytes(inside.as_os_str().as_bytes()).map_err(Failure::usage)?;
        let rule = format!("write {inside}");
        let layer =
            Layer::named("place of the policy file").rule(Effect::Deny, &rule).map_err(Failure::usage)?;
        policy = policy.with(layer);
        if !Policy::preset(Preset::Workspace).guards_writing(&inside) || !policy.guards_writing(&inside) {
            return Err(Failure::usage(format!(
                "the policy file `{}` lies in the workspace, where a run could change what the next one may do",
                path.display()
            ))
            .hint("keep it outside, or call it `provost.toml` or put it into a folder `.provost`, which runs cannot write"));
        }
    }
    Ok(policy)
}

/// The host's environment, as far as commands may have it.
pub(crate) fn host(world: &World) -> HostEnvironment {
    HostEnvironment {
        path: world.var("PATH").unwrap_or_default(),
        home: world.var("HOME"),
        cargo_home: world.var("CARGO_HOME"),
        rustup_home: world.var("RUSTUP_HOME"),
    }
}

/// The user's images.
pub(crate) fn images(world: &World) -> Result<ImageStore, Failure> {
    Ok(ImageStore::new(world.images_path(None)?))
}

/// What this host can enforce, as an earlier process found or by trying now.
pub(crate) fn probe(world: &World) -> Probe {
    match world.cache_folder() {
        Some(folder) => ProbeCache::new(folder).probe(Freshness::Cached).0,
        None => Probe::run(),
    }
}

/// A runtime over all of it.
pub(crate) fn runtime(
    world: &World,
    place: &Place,
    models: &Models,
    workspace: &Path,
    observer: Arc<dyn Observer>,
    approver: Arc<dyn Approver>,
) -> Result<Runtime, Failure> {
    let (store, spool) = (place.store.clone(), place.spool.clone());
    let (provider, others) = models.connect(world, workspace)?;
    let mut runtime = Runtime::on(probe(world), store, spool, provider, models.first.fact());
    runtime.others = others;
    runtime.approver = approver;
    runtime.observer = observer;
    runtime.host = host(world);
    runtime.images = images(world)?;
    runtime.engines = world.variables().clone();
    let variables = world.variables().clone();
    runtime.variables = Arc::new(move |name| variables.get(OsStr::new(name))?.to_str().map(str::to_owned));
    Ok(runtime)
}

/// Who answers where the policy asks.
pub(crate) fn approver(yes: Yes, preview: Preview) -> Arc<dyn Approver> {
    if yes == Yes::Always {
        Arc::new(Always::APPROVE)
    } else if World::can_ask() {
        Arc::new(Terminal::new(preview))
    } else {
        Arc::new(Always::LATER)
    }
}

/// Whether `--yes` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yes {
    Always,
    Ask,
}

impl From<bool> for Yes {
    fn from(flag: bool) -> Self {
        if flag { Self::Always } else { Self::Ask }
    }
}

/// An interrupt that Ctrl-C, SIGTERM and SIGHUP request. A second one ends the process at once: the run is resumable
/// anyway.
pub(crate) fn interrupt() -> Result<Interrupt, Failure> {
    let interrupt = Interrupt::new().map_err(Failure::internal)?;
    let mut stop = Stop::new()?;
    let handle = interrupt.clone();
    tokio::spawn(async move {
        stop.asked().await;
        handle.request();
        // A terminal that goes away may say so more than once.
        stop.hangup = None;
        stop.asked().await;
        std::process::exit(130);
    });
    Ok(interrupt)
}

/// The signals that ask a program to end.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where whoever started this process (`nohup`) has it ignored: it is to outlive its terminal.
    hangup: Option<Signal>,
}

impl Stop {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::internal);
        let hangup = if World::ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Resolves when one comes.
    pub(crate) async fn asked(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// The runner's key pair, made on first use.
pub(crate) fn signing_key(path: &Path) -> Result<SigningKey, Failure> {
    if path.exists() {
        return SigningKey::read(path).map_err(Failure::usage);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).at(folder)?;
    }
    let key = SigningKey::generate().map_err(Failure::internal)?;
    key.write_private(path).map_err(Failure::usage)?;
    let public = key.verifying_key().to_pem().map_err(Failure::internal)?;
    let beside = path.with_extension("pub.pem");
    std::fs::write(&beside, public).at(&beside)?;
    Ok(key)
}

/// Refuses a path in the workspace, or one that leads through it: the agent could put a link in its place, or read and
/// change what is there.
pub(crate) fn keep_outside(what: &str, path: &Path, workspace: &Path) -> Result<(), Failure> {
    let Ok(workspace) = workspace.canonicalize() else { return Ok(()) };
    let absolute = std::path::absolute(path).at(path)?;
    if leads_into(&absolute, &workspace) {
        return Err(Failure::usage(format!(
            "{what} `{}` lies in the workspace, which is the agent's: choose a place outside of it",
            path.display()
        )));
    }
    Ok(())
}

/// Whether any name on the way to `path` is one in `folder`, which has no links in it.
fn leads_into(path: &Path, folder: &Path) -> bool {
    let way = Way::to(path);
    way.names.iter().any(|name| name != folder && name.starts_with(folder)) || way.end.starts_with(folder)
}

/// What is passed on the way to a file, links followed one by one as the kernel does.
struct Way {
    /// Every name that is looked up, with no link in what stands before it.
    names: Vec<PathBuf>,
    /// Those at which it turns: links, and folders that it leaves again by `..`.
    turns: Vec<PathBuf>,
    /// Where it ends.
    end: PathBuf,
}

impl Way {
    /// The way to an absolute path.
    fn to(path: &Path) -> Self {
        /// Links that are followed, as many as the kernel does.
        const MOST_LINKS: usize = 40;
        let parts =
            |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
        let mut way = Self { names: Vec::new(), turns: Vec::new(), end: PathBuf::from("/") };
        let (mut ahead, mut links) = (parts(path), 0);
        while let Some(name) = ahead.pop() {
            if name == ".." {
                way.turns.push(way.end.clone());
                way.end.pop();
                continue;
            }
            // A part that is absolute begins anew.
            let next = way.end.join(&name);
            way.names.push(next.clone());
            match std::fs::read_link(&next) {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    way.turns.push(next);
                    ahead.extend(parts(&target));
                }
                _ => way.end = next,
            }
        }
        way
    }
}
