//! The driver's side: chooses a rung, makes the plan once, starts a supervisor per command and reads its record.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::containment::{Engine, Guarantee, Receipt, Rung, StagedBy, Strength};
use provost_core::digest::Digest;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use crate::broker::Broker;
use crate::bytes::Bytes;
use crate::command::{Cancel, Command};
use crate::egress::{self, Egress, Joined, MOST_PUBLISHED, Publish, Role, Server};
use crate::engine::{self, ByEngine};
use crate::git::GitFolder;
use crate::launcher::{Launcher, failure};
use crate::plan::{Carve, LandlockPlan, Order, Plan};
use crate::probe::Probe;
use crate::profile::{Changes, MASKED, Profile, ProfileError, WorkspaceAccess};
use crate::record::{self, ExitRecord, Failure, Recovered};
use crate::running::{Running, Shared, Wake};
use crate::seccomp::Sockets;
use crate::sys::Step;
use crate::system::system;
use crate::wire::{self, Report};
use crate::{broker, entry, group, init, reflink, seccomp, view};

/// Which rungs are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RungChoice {
    /// The strongest that the probe established, and never a weaker one than `at_least`.
    Strongest {
        /// The weakest acceptable rung.
        at_least: Rung,
    },
    /// This one, or nothing.
    Exactly(Rung),
}

/// The containment that was asked for is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The probe did not establish the rung on this host.
    #[error("{asked} is not available here; the strongest that is: {strongest}; missing: {}", missing.join("; "))]
    Rung {
        /// What was asked for.
        asked: Rung,
        /// What there is.
        strongest: Rung,
        /// The probe's facts that do not hold, each `name: detail`.
        missing: Vec<String>,
    },
    /// Changes were to be staged, and there is no layer to be had over this workspace.
    #[error("changes to `{}` cannot be staged here: {why}", workspace.display())]
    Staging {
        /// The workspace.
        workspace: PathBuf,
        /// Why not.
        why: String,
    },
    /// The rung does not enforce what has to be enforced.
    #[error("{by} does not enforce here what is required: {}", missing.join("; "))]
    Required {
        /// The strongest acceptable rung, in words.
        by: String,
        /// Each guarantee that is not enforced, and why.
        missing: Vec<String>,
    },
    /// The profile cannot be contained.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Commands cannot run by the container engine that was named.
    #[error("commands cannot run by {engine} here: {why}")]
    Engine {
        /// Which.
        engine: Engine,
        /// Why not, and what to do.
        why: String,
    },
    /// The probe saw control groups, and there is no folder for them any more.
    #[error(
        "commands cannot have control groups of their own any more: {why}; `provost doctor --fresh` looks again"
    )]
    Groups {
        /// Why not.
        why: String,
    },
    /// The plan could not be stored.
    #[error("cannot keep the sandbox's plan in memory")]
    Io(#[from] io::Error),
}

/// Why there is no exit record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The command has provably not run.
    #[error(transparent)]
    NotStarted(#[from] Failure),
    /// The command was let go and its supervisor left no record: what happened cannot be told.
    #[error("the command started and left no exit record: {0}")]
    Unknown(String),
}

/// A containment made ready for many commands. Cheap to use from several threads at once.
#[derive(Debug)]
pub struct Sandbox {
    rung: Rung,
    receipt: Receipt,
    profile: Profile,
    /// The plan as JSON in a memfd, which each supervisor reads for itself.
    plan: OwnedFd,
    launcher: Launcher,
    /// The container engine that runs commands, where not this program itself.
    engine: Option<engine::Ready>,
    /// Everything that commands can see; no record folder may lie in it.
    seen: Vec<PathBuf>,
}

impl Sandbox {
    /// Chooses the rung and prepares everything that is the same for all commands.
    ///
    /// # Errors
    ///
    /// [`Unavailable::Rung`] when the probe did not establish an acceptable rung, [`Unavailable::Required`] when the rung
    /// does not enforce what the profile requires, [`Unavailable::Profile`] when the profile cannot be contained.
    pub fn new(probe: &Probe, mut profile: Profile, rungs: RungChoice) -> Result<Self, Unavailable> {
        profile.check()?;
        if let Some((by, image)) =
            profile.image.as_ref().and_then(|image| Some((image.by.clone()?, image.digest)))
        {
            return Self::by_engine(probe, profile, rungs, &by, image);
        }
        let strongest = probe.strongest_for(profile.image.as_ref());
        let (asked, rung) = match rungs {
            // An image that was named is the root, or nothing is.
            RungChoice::Strongest { at_least } if profile.image.is_some() => {
                (at_least.max(Rung::R4), strongest)
            }
            RungChoice::Strongest { at_least } => (at_least, strongest),
            RungChoice::Exactly(rung) => (rung, rung),
        };
        // A binary without the entry would run its own `main` instead of the supervisor.
        let found_wanting = probe.disabled.iter().any(|disabled| disabled.is(rung, None));
        let has_root = (rung == Rung::R4) == profile.image.is_some();
        if asked > strongest || found_wanting || !has_root || !entry::linked() {
            return Err(Unavailable::Rung {
                asked,
                strongest,
                missing: probe.missing(asked, profile.image.as_ref()),
            });
        }
        let workspace = profile.workspace.canonicalize()?;
        let mut receipt = probe.receipt(rung);
        if profile.protected.is_empty() {
            // Nothing to protect was asked for: that is neither held nor broken.
            receipt.guarantees.remove(&Guarantee::Protected);
        } else if profile.workspace_access == WorkspaceAccess::ReadOnly && rung < Rung::R2 {
            receipt.guarantees.insert(Guarantee::Protected, Strength::Absent);
        }
        if profile.git.is_none() {
            receipt.guarantees.remove(&Guarantee::GitCommit);
        }
        for (guarantee, wanted) in profile.limits.guarantees() {
            if !wanted {
                receipt.guarantees.remove(&guarantee);
            }
        }
        receipt.staged = staged_by(probe, &profile, &workspace, rung)?;
        tell_staging(&mut receipt);
        if let (Some(StagedBy::Overlay), Changes::Staged { copy, .. }) =
            (receipt.staged, &mut profile.changes)
        {
            *copy = None;
        }
        let not_enforced = profile.require.iter().filter(|guarantee| !receipt.enforces(**guarantee));
        let missing: Vec<String> =
            not_enforced.map(|guarantee| probe.why_not_enforced(&receipt, *guarantee)).collect();
        if !missing.is_empty() {
            return Err(Unavailable::Required { by: receipt.contained_by(), missing });
        }
        receipt.image = profile.image.as_ref().map(|image| image.digest);
        let sockets = match rung {
            Rung::R0 | Rung::R1 => None,
            // The probe has seen the broker at work, or it is not there.
            Rung::R2 if receipt.can_dial() => Some(Sockets::Brokered),
            Rung::R2 => Some(Sockets::UnixOnly),
            Rung::R3 | Rung::R4 => Some(Sockets::Namespace),
        };
        let groups = probe.groups(rung, &profile.limits).then(group::home).transpose();
        let groups = groups.map_err(|why| Unavailable::Groups { why })?;
        groups.iter().for_each(|home| group::sweep(home));
        let plan = Plan {
            require: profile.require.clone(),
            rung,
            receipt: receipt.clone(),
            view: (rung >= Rung::R3).then(|| view::view(&profile, &workspace)),
            landlock: probe.landlock_abi.and_then(|abi| match profile.changes.copy() {
                Some(copy) if rung == Rung::R2 => {
                    landlock_plan(abi, rung, &in_copy(&profile, &workspace), copy)
                }
                _ => landlock_plan(abi, rung, &profile, &workspace),
            }),
            seccomp: Bytes(sockets.map_or_else(Vec::new, seccomp::program)),
            brokered: sockets == Some(Sockets::Brokered),
            limits: profile.limits,
            groups: groups.as_deref().map(Bytes::from),
        };
        let real = |path: &PathBuf| path.canonicalize().ok();
        let system = system().iter().cloned();
        let copy = profile.changes.copy().map(Path::to_owned);
        let workspace = match &copy {
            Some(copy) if rung == Rung::R2 => copy.clone(),
            _ => workspace,
        };
        let seen = profile
            .readable
            .iter()
            .chain(copy.as_ref())
            .chain(&profile.private)
            .chain(&profile.writable)
            .chain(profile.git.as_ref().map(|git| &git.folder))
            .cloned()
            .chain(system)
            .chain([workspace]);
        let seen = seen.filter_map(|path| real(&path)).collect();
        let (plan, launcher) = (memory(&plan)?, Launcher::default());
        Ok(Self { rung, receipt, plan, launcher, engine: None, seen, profile })
    }

    /// The same where a container engine runs commands.
    fn by_engine(
        probe: &Probe,
        profile: Profile,
        rungs: RungChoice,
        by: &ByEngine,
        image: Digest,
    ) -> Result<Self, Unavailable> {
        let refuse = |why: &str| Unavailable::Engine { engine: by.engine(), why: why.to_owned() };
        match rungs {
            RungChoice::Strongest { .. } | RungChoice::Exactly(Rung::R4) => {}
            RungChoice::Exactly(_) => {
                return Err(refuse("the policy contains commands by limits only; name no engine with it"));
            }
        }
        if !entry::linked() {
            return Err(refuse("the supervisor's entry is not in this binary"));
        }
        if let Some(disabled) =
            probe.disabled.iter().find(|disabled| disabled.is(Rung::R4, Some(by.engine())))
        {
            return Err(refuse(&disabled.why()));
        }
        let workspace = profile.workspace.canonicalize()?;
        if matches!(profile.changes, Changes::Staged { copy: None, .. }) {
            let why = format!("it takes an overlay, and {} mounts none for us", by.engine());
            return Err(Unavailable::Staging { workspace, why });
        }
        let (ready, receipt) = engine::prepare(by, image, &profile, &workspace, &probe.kernel)
            .map_err(|why| Unavailable::Engine { engine: by.engine(), why })?;
        let not_enforced = profile.require.iter().filter(|guarantee| !receipt.enforces(**guarantee));
        let missing: Vec<String> =
            not_enforced.map(|guarantee| probe.why_not_enforced(&receipt, *guarantee)).collect();
        if !missing.is_empty() {
            return Err(Unavailable::Required { by: receipt.contained_by(), missing });
        }
        let copy = profile.changes.copy().map(Path::to_owned);
        let shown = profile.readable.iter().chain(&profile.private).chain(&profile.writable).chain(&copy);
        let seen = shown.chain([&workspace]).filter_map(|path| path.canonicalize().ok()).collect();
        let (plan, launcher) = (memory(&engine::plan(&profile, &receipt))?, Launcher::default());
        Ok(Self { rung: Rung::R4, receipt, plan, launcher, engine: Some(ready), seen, profile })
    }

    /// The rung in force.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// What each command's record will say contained it.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Runs a command to its end, its limit, or its cancellation. Blocks the calling thread.
    ///
    /// When it returns, the command's tree is gone (or counted in [`ExitRecord::survivors`]) and no zombie is left.
    ///
    /// # Errors
    ///
    /// [`RunError::NotStarted`] names the set-up step that failed: the command has not run. [`RunError::Unknown`]
    /// means that its supervisor was killed while it ran.
    pub fn run(&self, command: &Command, cancel: &Cancel) -> Result<ExitRecord, RunError> {
        // With the layer, if there is one, its changes are gone.
        self.run_with_layer(command, cancel).map(|(record, _)| record)
    }

    /// Runs a command whose changes to the workspace gather in a layer ([`Changes::Staged`]), and gives that layer.
    /// It lies in memory and is gone with the descriptor; the workspace is as it was.
    ///
    /// # Errors
    ///
    /// As of [`run`](Self::run). [`RunError::NotStarted`] with the step `overlay` where changes are not staged by a layer:
    /// those that gather in a copy are looked for there after a [`run`](Self::run).
    pub fn run_staged(&self, command: &Command, cancel: &Cancel) -> Result<Ran, RunError> {
        if self.receipt.staged != Some(StagedBy::Overlay) {
            return Err(Failure::new("overlay", libc::EINVAL, "this sandbox does not stage changes").into());
        }
        match self.run_with_layer(command, cancel)? {
            (record, Some(layer)) => Ok(Ran { record, layer }),
            (_, None) => Err(RunError::Unknown("the layer of its changes did not arrive".to_owned())),
        }
    }

    /// Starts a command and comes back as soon as it runs; `wake` is called when something happens to it. Blocks the
    /// calling thread until then. `publish` leads to its port from then on; only from R3 on. Only where changes are not staged: its layer would be seen by nobody.
    ///
    /// # Errors
    ///
    /// [`RunError::NotStarted`] names the set-up step that failed: the command has not run.
    pub fn start(
        &self,
        command: &Command,
        publish: Option<Publish>,
        wake: Wake,
    ) -> Result<Running, RunError> {
        self.start_with(command, publish, None, wake)
    }

    /// The same for a command that is spoken with: what comes back with it is connected to its standard input and output, a
    /// stream socket. What it writes to standard error is its output. By a container engine none is.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start).
    pub fn serve(&self, command: &Command, wake: Wake) -> Result<(Running, OwnedFd), RunError> {
        if self.engine.is_some() {
            let why = "a container engine does not hand a channel on";
            return Err(Failure::new("channel", libc::EOPNOTSUPP, why).into());
        }
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .step("channel")?;
        let running = self.start_with(command, None, Some(theirs), wake)?;
        Ok((running, ours))
    }

    fn start_with(
        &self,
        command: &Command,
        publish: Option<Publish>,
        channel: Option<OwnedFd>,
        wake: Wake,
    ) -> Result<Running, RunError> {
        if self.profile.changes != Changes::Direct {
            return Err(Failure::new("overlay", libc::EINVAL, "this sandbox stages changes").into());
        }
        let cancel = Cancel::new().map_err(|error| failure("eventfd", &error))?;
        let shared = Arc::new(Shared::new(wake)?);
        if publish.is_some() && (self.rung < Rung::R3 || self.engine.is_some()) {
            return Err(Failure::new("publish", libc::EOPNOTSUPP, self.rung.to_string()).into());
        }
        let control = self.launch(command, publish.as_ref(), channel.as_ref())?;
        // The command's end is the command's alone.
        drop(channel);
        let listener =
            (shared.clone(), cancel.clone(), command.egress.clone(), self.profile.clone(), self.rung);
        let record_dir = command.record_dir.clone();
        let reaches: Vec<Publish> = self.reached(command).cloned().collect();
        std::thread::Builder::new()
            .name("provost-running".to_owned())
            .spawn(move || {
                let (shared, cancel, egress, profile, rung) = listener;
                let mut network = Network::of(egress.as_ref(), &profile, rung);
                network.reaches = &reaches;
                network.publish = publish.as_ref();
                let (outcome, _) = attend(&control, &cancel, network, &record_dir, Some(&shared));
                shared.end(outcome);
            })
            .map_err(|error| failure("thread", &error))?;
        let running = Running::new(shared, cancel);
        running.has_started()?;
        Ok(running)
    }

    fn run_with_layer(
        &self,
        command: &Command,
        cancel: &Cancel,
    ) -> Result<(ExitRecord, Option<OwnedFd>), RunError> {
        let control = self.launch(command, None, None)?;
        let mut network = Network::of(command.egress.as_ref(), &self.profile, self.rung);
        let reaches: Vec<Publish> = self.reached(command).cloned().collect();
        network.reaches = &reaches;
        let (outcome, layer) = attend(&control, cancel, network, &command.record_dir, None);
        outcome.map(|record| (record, layer))
    }

    /// Has a supervisor start a command, and gives this side's end of its control socket.
    fn launch(
        &self,
        command: &Command,
        publish: Option<&Publish>,
        channel: Option<&OwnedFd>,
    ) -> Result<OwnedFd, Failure> {
        // First: the order may leave a word there.
        let folder = self.record_folder(&command.record_dir)?;
        let mut order = self.order(command)?;
        order.dialling = publish.map_or(0, |_| MOST_PUBLISHED);
        let order = memory(&order).map_err(|error| failure("plan", &error))?;
        self.launcher.launch(self.plan.as_fd(), order.as_fd(), folder.as_fd(), channel.map(AsFd::as_fd))
    }

    fn order(&self, command: &Command) -> Result<Order, Failure> {
        let bytes = |text: &OsStr| Bytes(text.as_bytes().to_vec());
        if command.egress.is_some() && !self.receipt.can_dial() {
            return Err(Failure::new("egress", libc::EOPNOTSUPP, self.rung.to_string()));
        }
        let program = command.argv.first().ok_or_else(|| Failure::new("argv", libc::EINVAL, "is empty"))?;
        let inside = command.cwd.starts_with(&self.profile.workspace)
            || self.seen.last().is_some_and(|workspace| command.cwd.starts_with(workspace));
        if !inside || command.cwd.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(Failure::new("cwd", libc::EINVAL, command.cwd.to_string_lossy()));
        }
        let wall_ms = u64::try_from(command.wall.as_millis()).unwrap_or(u64::MAX).min(MAX_WALL_MS);
        if let Some(engine) = &self.engine {
            return engine.order(command, wall_ms);
        }
        let env = command.env.iter().map(|(name, value)| {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(Failure::new("env", libc::EINVAL, name.to_string_lossy()));
            }
            Ok(Bytes([name.as_bytes(), b"=", value.as_bytes()].concat()))
        });
        let (asks, how) = egress::ASK_OVER_TCP;
        let over_tcp = command.egress.is_some() && self.rung == Rung::R2;
        let over_tcp = over_tcp && !command.env.contains_key(OsStr::new(asks));
        let over_tcp = over_tcp.then(|| Ok(Bytes(format!("{asks}={how}").into_bytes())));
        let path =
            command.env.get(OsStr::new("PATH")).map_or(OsStr::new("/usr/bin:/bin"), |path| path.as_os_str());
        let candidates = if let Some(decided) = &command.program {
            if !decided.is_absolute() {
                return Err(Failure::new("argv", libc::EINVAL, decided.to_string_lossy()));
            }
            vec![decided.as_path().into()]
        } else if program.as_bytes().contains(&b'/') {
            vec![bytes(program)]
        } else {
            std::env::split_paths(path)
                .map(|folder| Path::new(".").join(folder).join(program).into())
                .collect()
        };
        Ok(Order {
            argv: command.argv.iter().map(|argument| bytes(argument)).collect(),
            env: env.chain(over_tcp).collect::<Result<_, _>>()?,
            cwd: command.cwd.as_path().into(),
            candidates,
            wall_ms,
            keep_head: command.keep_head,
            keep_tail: command.keep_tail,
            listen: command.egress.as_ref().map(Egress::listen),
            dialling: 0,
            reaching: self.reached(command).map(Publish::port).collect(),
            container: None,
        })
    }

    /// The ports of other commands that this one reaches.
    fn reached<'run>(&self, command: &'run Command) -> impl Iterator<Item = &'run Publish> + use<'run> {
        let has_loopback = self.rung >= Rung::R3 && self.engine.is_none();
        // Those of its own network are taken, as they are for whoever published one.
        let taken = command.egress.as_ref().map_or(&[][..], |_| &egress::OWN_PORTS);
        command.reaches.iter().filter(move |publish| has_loopback && !taken.contains(&publish.port()))
    }

    fn record_folder(&self, path: &Path) -> Result<OwnedFd, Failure> {
        let real = path.canonicalize().map_err(|error| failure("record-folder", &error))?;
        if self.seen.iter().any(|seen| real.starts_with(seen) || seen.starts_with(&real)) {
            return Err(Failure::new("record-folder", libc::EPERM, "lies in what the command can see"));
        }
        // The supervisor looks again under the lock; here it keeps an old record from ever being taken for this
        // command's.
        if let Some(name) =
            record::LEFT_BEHIND.into_iter().find(|name| real.join(name).symlink_metadata().is_ok())
        {
            return Err(Failure::new("record-folder", libc::EEXIST, name));
        }
        record::prepare_record(&real).map_err(|error| failure("record-folder", &error))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, &real, flags, Mode::empty()).at("record-folder", path)
    }
}

/// A hundred years; longer would overflow the arithmetic with instants.
const MAX_WALL_MS: u64 = 100 * 365 * 24 * 3600 * 1000;

/// A command that ran, and what it changed.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub record: ExitRecord,
    /// The folder that its changes to the workspace lie in, as overlayfs writes them: a file is new or changed, a
    /// character device 0/0 stands for one that is gone, and a folder with the attribute `user.overlay.opaque` hides
    /// what was there. All of it is the command's making and to be read with care.
    pub layer: OwnedFd,
}

/// By what changes are staged, where they are to be; refuses where it cannot be done.
fn staged_by(
    probe: &Probe,
    profile: &Profile,
    workspace: &Path,
    rung: Rung,
) -> Result<Option<StagedBy>, Unavailable> {
    let Changes::Staged { copy, .. } = &profile.changes else { return Ok(None) };
    let refuse = |why: String| Err(Unavailable::Staging { workspace: workspace.to_owned(), why });
    if rung < Rung::R2 {
        return refuse(format!("{rung} does not keep commands from the workspace"));
    }
    let why = if rung < Rung::R3 {
        format!("it takes an overlay, and {rung} has none")
    } else if !probe.receipt(rung).enforces(Guarantee::CapDisk) {
        "it takes an overlay, and this host has none".to_owned()
    } else {
        // Whatever the probe saw in its own folder: it depends on the file system below, and on what is mounted there.
        let fact = crate::probe::overlay_over(workspace);
        if fact.holds {
            return Ok(Some(StagedBy::Overlay));
        }
        fact.detail
    };
    match copy {
        Some(folder) if folder.starts_with(workspace) || workspace.starts_with(folder) => {
            refuse(format!("{why}; and a copy cannot lie in it or hold it"))
        }
        Some(folder) if reflink::shares(workspace, folder) => Ok(Some(StagedBy::Reflink)),
        Some(_) => Ok(Some(StagedBy::Copy)),
        None => refuse(why),
    }
}

/// What holds of changes that are staged so: a layer has a size, a copy takes what the disk has.
fn tell_staging(receipt: &mut Receipt) {
    let cap = match receipt.staged {
        None => {
            receipt.guarantees.remove(&Guarantee::Staged);
            Strength::Absent
        }
        Some(by) => {
            receipt.guarantees.insert(Guarantee::Staged, Strength::Enforced);
            if by.is_copy() { Strength::Absent } else { Strength::Enforced }
        }
    };
    if receipt.staged == Some(StagedBy::Overlay) {
        receipt.guarantees.insert(Guarantee::CapDisk, cap);
    } else if let Some(held) = receipt.guarantees.get_mut(&Guarantee::CapDisk) {
        *held = cap;
    }
}

/// What a command may see that runs in a copy of the workspace, at the copy's own path. Nothing in there is protected: what
/// becomes of it is decided on when it has ended. Hidden files are not in it.
fn in_copy(profile: &Profile, workspace: &Path) -> Profile {
    let mut profile = profile.clone();
    let real = |path: &PathBuf| path.canonicalize().is_ok_and(|real| real.starts_with(workspace));
    let direct: Vec<PathBuf> =
        profile.changes.staged().unwrap_or_default().iter().filter(|path| real(path)).cloned().collect();
    if profile.workspace_access == WorkspaceAccess::Writable {
        profile.writable.extend(direct);
    } else {
        profile.readable.extend(direct);
    }
    let is_history = |path: &&PathBuf| path.file_name().is_some_and(|name| name == ".git") && path.is_dir();
    profile.readable.extend(profile.protected.iter().filter(is_history).cloned());
    profile.protected.clear();
    profile.hidden.clear();
    profile
}

/// Attends to a command until its supervisor is gone, and reads what that left.
fn attend(
    control: &OwnedFd,
    cancel: &Cancel,
    mut network: Network<'_>,
    record_dir: &Path,
    running: Option<&Shared>,
) -> (Result<ExitRecord, RunError>, Option<OwnedFd>) {
    let (told, layer) = follow(control, cancel, &mut network, running);
    let unserved = network.close();
    // Its end of the socket closes when it is gone.
    while wire::receive(control, RecvFlags::empty()).is_ok_and(|(packet, _)| !packet.is_empty()) {}
    let outcome = match (record::read(record_dir), told) {
        (_, Some(Report::Failed(failure))) => Err(unserved.unwrap_or(failure).into()),
        (Ok(Recovered::Finished(record)), _) => Ok(*record),
        (Ok(Recovered::NotStarted(failure)), None) => Err(failure.into()),
        (_, Some(Report::RecordLost { errno })) => Err(RunError::Unknown(format!(
            "it could not be written: {}",
            io::Error::from_raw_os_error(errno)
        ))),
        (Err(error), _) => Err(RunError::Unknown(error.to_string())),
        (Ok(_), _) => Err(RunError::Unknown("its supervisor is gone".to_owned())),
    };
    (outcome, layer)
}

/// Listens to the supervisor until it is done or gone, passing a cancellation on. Also gives the layer, where one comes.
fn follow(
    control: &OwnedFd,
    cancel: &Cancel,
    network: &mut Network<'_>,
    running: Option<&Shared>,
) -> (Option<Report>, Option<OwnedFd>) {
    let mut cancelled = false;
    let mut layer = None;
    loop {
        let mut ready = vec![PollFd::new(control, PollFlags::IN)];
        ready.extend(running.map(|running| PollFd::new(running, PollFlags::IN)));
        if !cancelled {
            ready.push(PollFd::new(cancel, PollFlags::IN));
        }
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return (None, layer),
        }
        let is_ready = |at: usize| ready.get(at).is_some_and(|fd| !fd.revents().is_empty());
        let behind = usize::from(running.is_some());
        let (from_supervisor, cancel_now) = (is_ready(0), is_ready(1 + behind));
        if let Some(running) = running.filter(|_| is_ready(1)) {
            for want in running.wants() {
                // One that is gone is noticed below.
                let _ = wire::send(control, &[want], &[]);
            }
        }
        if from_supervisor {
            match wire::next_with(control) {
                Some((Report::Layer, mut descriptors)) => layer = descriptors.pop(),
                Some((Report::Dialling, sockets)) => {
                    if network.join(sockets).is_err() {
                        let _ = wire::send(control, &[wire::CANCEL], &[]);
                    }
                }
                Some((Report::Reaching, sockets)) => {
                    if network.reach(sockets).is_err() {
                        let _ = wire::send(control, &[wire::CANCEL], &[]);
                    }
                }
                Some((Report::Started, _)) => drop(running.map(Shared::started)),
                Some((Report::Wrote, _)) => drop(running.map(Shared::wrote)),
                Some((Report::Output, files)) => {
                    let part = files.first().and_then(|file| init::read_all(file.as_fd()).ok());
                    let part = part.and_then(|text| serde_json::from_slice(&text).ok());
                    if let Some(running) = running {
                        running.output(part);
                    }
                }
                Some((Report::Ready { .. } | Report::Fact(_), _)) => {}
                Some((Report::Listening { roles }, sockets)) => {
                    if network.serve(roles, sockets).is_err() {
                        let _ = wire::send(control, &[wire::CANCEL], &[]);
                    }
                }
                Some((Report::Brokered, descriptors)) => {
                    if network.broker(descriptors).is_err() {
                        let _ = wire::send(control, &[wire::CANCEL], &[]);
                    }
                }
                other => return (other.map(|(report, _)| report), layer),
            }
        }
        if cancel_now {
            cancelled = true;
            let _ = wire::send(control, &[wire::CANCEL], &[]);
        }
    }
}

/// A command's sockets, from the moment that its listeners come out to the moment that it is over.
struct Network<'run> {
    egress: Option<&'run Egress>,
    profile: &'run Profile,
    rung: Rung,
    server: Option<Server>,
    publish: Option<&'run Publish>,
    joined: Option<Joined>,
    /// Ports of other commands that it reaches, and what leads there.
    reaches: &'run [Publish],
    leads: Vec<Joined>,
    broker: Option<Broker>,
    failed: Option<Failure>,
}

impl<'run> Network<'run> {
    fn of(egress: Option<&'run Egress>, profile: &'run Profile, rung: Rung) -> Self {
        Self {
            egress,
            profile,
            rung,
            server: None,
            publish: None,
            joined: None,
            reaches: &[],
            leads: Vec::new(),
            broker: None,
            failed: None,
        }
    }

    /// Answers what its filter asks. A command whose broker cannot be started is not let go, or is ended.
    fn broker(&mut self, descriptors: Vec<OwnedFd>) -> Result<(), ()> {
        let profile = self.profile;
        let started = || -> io::Result<Broker> {
            let mut descriptors = descriptors.into_iter();
            let listener = descriptors.next().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
            // Where its changes gather in a copy it works there.
            let workspace = broker::folder(profile.changes.copy().unwrap_or(&profile.workspace))?;
            let folders = descriptors.chain([workspace]).collect();
            let hidden = profile.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
            Broker::start(listener, folders, hidden, self.egress)
        };
        match started() {
            Ok(broker) => self.broker = Some(broker),
            Err(error) => {
                self.failed = Some(failure("seccomp-notify", &error));
                return Err(());
            }
        }
        Ok(())
    }

    /// Serves the listeners. A command whose network cannot be served is not let go, or is ended.
    fn serve(&mut self, roles: Vec<Role>, sockets: Vec<OwnedFd>) -> Result<(), ()> {
        let started = match self.egress {
            // Fewer arrive when this process has no room for more descriptors.
            Some(_) if roles.len() != sockets.len() => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            Some(egress) => Server::start(egress, self.rung, roles.into_iter().zip(sockets).collect()),
            None => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match started {
            Ok(server) => self.server = Some(server),
            Err(error) => {
                self.failed = Some(failure("egress", &error));
                return Err(());
            }
        }
        Ok(())
    }

    /// Leads the published port to the command.
    fn join(&mut self, sockets: Vec<OwnedFd>) -> Result<(), ()> {
        let joined = match self.publish {
            // Fewer arrive when this process has no room for more descriptors.
            Some(_) if sockets.len() != MOST_PUBLISHED => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            Some(publish) => Joined::start(publish, sockets),
            None => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match joined {
            Ok(joined) => self.joined = Some(joined),
            Err(error) => {
                self.failed = Some(failure("publish", &error));
                return Err(());
            }
        }
        Ok(())
    }

    /// Leads its own listeners to other commands.
    fn reach(&mut self, sockets: Vec<OwnedFd>) -> Result<(), ()> {
        let started = if sockets.len() == self.reaches.len() {
            let pairs = self.reaches.iter().zip(sockets);
            pairs.map(|(publish, socket)| Joined::lead(publish, socket.into())).collect()
        } else {
            // Fewer arrive when this process has no room for more descriptors.
            Err(io::Error::from_raw_os_error(libc::EMFILE))
        };
        match started {
            Ok(leads) => self.leads = leads,
            Err(error) => {
                self.failed = Some(failure("reach", &error));
                return Err(());
            }
        }
        Ok(())
    }

    /// Ends every connection, and says what kept the network from being served.
    fn close(self) -> Option<Failure> {
        drop((self.server, self.leads, self.joined, self.broker));
        self.failed
    }
}

/// A value as JSON in a memfd: no limit of size, no file, nothing in an argument list.
pub(crate) fn memory(value: &impl serde::Serialize) -> io::Result<OwnedFd> {
    let text = serde_json::to_vec(value)?;
    let fd = rustix::fs::memfd_create("provost-plan", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    io::Write::write_all(&mut file, &text)?;
    Ok(file.into())
}

fn landlock_plan(abi: u32, rung: Rung, profile: &Profile, workspace: &Path) -> Option<LandlockPlan> {
    let bytes =
        |paths: &[PathBuf]| -> Vec<Bytes> { paths.iter().map(|path| path.as_path().into()).collect() };
    let names = |paths: &[&str]| -> Vec<Bytes> { paths.iter().map(|path| Path::new(path).into()).collect() };
    let writable = profile.workspace_access == WorkspaceAccess::Writable;
    match rung {
        Rung::R3 | Rung::R4 => {
            // The view limits reads; this keeps writes where they belong should a mount ever be wrong.
            let mut full = bytes(&profile.writable);
            full.extend(bytes(&profile.private));
            let (files, open) = profile.git.as_ref().map(GitFolder::writes).unwrap_or_default();
            full.extend(bytes(&open));
            full.extend(names(&["/tmp", "/dev/shm"]));
            full.extend(writable.then(|| workspace.into()));
            Some(LandlockPlan {
                abi,
                govern_reads: false,
                read: Vec::new(),
                full,
                write: names(&["/dev", "/proc"]),
                files: bytes(&files),
                carve: None,
            })
        }
        Rung::R2 => {
            let mut read = bytes(&profile.readable);
            read.extend(bytes(&profile.private));
            read.extend(bytes(system()));
            read.extend(names(&["/proc", "/sys/devices/system/cpu"]));
            read.retain(|path| path.path() != Path::new("/etc"));
            read.extend(unmasked(Path::new("/etc")).into_iter().map(Bytes::from));
            let full = bytes(&profile.writable);
            let inside = |paths: &[PathBuf]| -> Vec<Bytes> {
                let here = |path: &PathBuf| {
                    path.strip_prefix(&profile.workspace).ok().map(|rest| workspace.join(rest))
                };
                paths.iter().map(|path| here(path).unwrap_or_else(|| path.clone()).into()).collect()
            };
            let carve = Carve {
                root: workspace.into(),
                writable,
                protected: inside(&profile.protected),
                hidden: inside(&profile.hidden),
            };
            Some(LandlockPlan {
                abi,
                govern_reads: true,
                read,
                full,
                write: names(&["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]),
                files: Vec::new(),
                carve: Some(carve),
            })
        }
        Rung::R0 | Rung::R1 => None,
    }
}

/// The entries below a system folder that are not masked; the folder itself when this caller could not read any
/// masked one anyway.
fn unmasked(folder: &Path) -> Vec<PathBuf> {
    let masked = |path: &Path| MASKED.iter().any(|masked| Path::new(masked) == path);
    let readable = |path: &str| match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => std::fs::read_dir(path).is_ok(),
        Ok(_) => std::fs::File::open(path).is_ok(),
        Err(_) => false,
    };
    if !MASKED.iter().any(|path| Path::new(path).starts_with(folder) && readable(path)) {
        return vec![folder.to_owned()];
    }
    let mut allowed = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()).filter(|path| !masked(path)) {
        if MASKED.iter().any(|other| Path::new(other).starts_with(&path)) {
            allowed.extend(unmasked(&path));
        } else {
            allowed.push(path);
        }
    }
    allowed
}
