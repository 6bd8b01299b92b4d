//! Commands by way of a container engine that the operator named: `podman run`, with the flags of a sandbox of our own as
//! far as an engine has them, under the same supervisor. It drains the output, keeps the clock, leaves the record, and
//! has the engine remove the container, whatever becomes of the driver.
//!
//! What the receipt says was seen (`look.rs`): of a container with the same flags, from outside, once for each sandbox.

mod client;
mod container;
mod filter;
mod line;
mod look;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use provost_core::containment::{Engine, Receipt, Rung, StagedBy};
use provost_core::digest::Digest;
use rustix::process::getuid;

use crate::bytes::Bytes;
use crate::command::Command;
use crate::launcher::failure;
use crate::plan::{Order, Plan};
use crate::profile::{Changes, Profile};
use crate::record::Failure;

pub(crate) use client::Client;
pub(crate) use container::{Container, Fate};
use line::User;

/// In the record folder: the filter of system calls.
const FILTER: &str = "filter.json";
/// How long an engine may take to answer a question.
const ANSWERS: Duration = Duration::from_secs(60);
/// How much longer than its limit a command may run where nobody is left to remove it, in seconds.
const SPARE: u64 = 60;

/// The container engine that runs commands, and by what it knows their image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByEngine {
    engine: Engine,
    environment: BTreeMap<OsString, OsString>,
    known_as: Vec<Digest>,
}

impl ByEngine {
    /// `environment` says where the engine's program and its store or daemon are; nothing else of it is kept. Of
    /// `known_as` the first is taken that the engine knows ([`Image::known_as`](crate::image::Image::known_as)).
    pub fn new(engine: Engine, environment: &BTreeMap<OsString, OsString>, known_as: Vec<Digest>) -> Self {
        Self { engine, environment: client::environment(environment), known_as }
    }

    /// Which engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }
}

/// What a host has of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFound {
    /// Which.
    pub engine: Engine,
    /// What it says of itself, or why it cannot be used.
    pub says: Result<String, String>,
}

/// Looks whether each container engine is there and answers. What it enforces is looked at when a command's sandbox is
/// made.
pub fn engines(all: &BTreeMap<OsString, OsString>) -> Vec<EngineFound> {
    let found = |engine: Engine| {
        let says = Client::find(engine, all).map_err(|_| format!("there is no `{engine}` on PATH"));
        let format = match engine {
            Engine::Podman => {
                "{{.Version.Version}}, runtime {{.Host.OCIRuntime.Name}}, control groups {{.Host.CgroupsVersion}}"
            }
            Engine::Docker => {
                "{{.ServerVersion}}, runtime {{.DefaultRuntime}}, control groups v{{.CgroupVersion}}"
            }
        };
        let says = says.and_then(|client| {
            let answer = client.ask(&["info", "--format", format], ANSWERS)?;
            let hint = hybrid_hint(&answer).map(|hint| format!("; {hint}")).unwrap_or_default();
            Ok(format!("{} {answer}{hint}", client.program.path().display()))
        });
        EngineFound { engine, says }
    };
    Engine::ALL.into_iter().map(found).collect()
}

/// What to do about crun, where it is what is spoken of and the host has control groups of both versions: it starts no
/// container there.
pub(crate) fn hybrid_hint(said: &str) -> Option<&'static str> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let has = |kind: &str| mounts.lines().any(|line| line.contains(&format!(" - {kind} ")));
    (said.contains("crun") && has("cgroup") && has("cgroup2")).then_some(
        "crun starts no container on a host that has control groups of both versions, as this one has: install runc and write \
         `runtime = \"runc\"` under `[engine]` in containers.conf",
    )
}

/// An engine made ready for the commands of one sandbox.
#[derive(Debug)]
pub(crate) struct Ready {
    client: Client,
    /// As the engine knows it.
    image: String,
    flags: Vec<OsString>,
    memory_bytes: Option<u64>,
}

/// Makes ready, and says what contains commands.
///
/// # Errors
///
/// Why commands cannot run by this engine.
pub(crate) fn prepare(
    by: &ByEngine,
    image: Digest,
    profile: &Profile,
    workspace: &Path,
    kernel: &str,
) -> Result<(Ready, Receipt), String> {
    let client = Client::find(by.engine, &by.environment)
        .map_err(|_| format!("there is no `{}` on PATH: install it, or name no engine", by.engine))?;
    let (id, env) = known(&client, by, image)?;
    let mounts = line::mounts(profile, workspace);
    let flags = line::flags(by.engine, user(&client)?, &profile.limits, &mounts);
    let container =
        Container::named(client, profile.limits.memory_bytes).map_err(|error| error.to_string())?;
    let asked = look::Asked { profile, mounts: &mounts, env: &env };
    let guarantees = look::look(&container, &flags, &id, &asked)?;
    let receipt = Receipt {
        rung: Rung::R4,
        guarantees,
        kernel: kernel.to_owned(),
        landlock_abi: None,
        image: Some(image),
        engine: Some(by.engine),
        staged: matches!(profile.changes, Changes::Staged { .. }).then_some(StagedBy::Copy),
    };
    let Container { client, memory_bytes, .. } = container;
    Ok((Ready { client, image: id, flags, memory_bytes }, receipt))
}

/// The image as the engine knows it, and the environment that it wants.
fn known(client: &Client, by: &ByEngine, image: Digest) -> Result<(String, Vec<String>), String> {
    let mut said = String::new();
    for digest in &by.known_as {
        let name = format!("sha256:{digest}");
        let asked = ["image", "inspect", "--format", "{{json .Config.Env}}", &name];
        match client.ask(&asked, ANSWERS) {
            // An image without any says `null`.
            Ok(env) => {
                let env: Option<Vec<String>> =
                    serde_json::from_str(&env).map_err(|error| format!("`image inspect`: {error}"))?;
                return Ok((name, env.unwrap_or_default()));
            }
            Err(why) => said = why,
        }
    }
    Err(format!(
        "it has no image that is sha256:{image} ({said}); `{engine} load --input ARCHIVE` gives it the archive that was \
         imported, or `provost image import --from {engine} NAME` imports one that it has",
        engine = by.engine
    ))
}

/// Who commands are in there, so that what they make belongs to whoever started them.
fn user(client: &Client) -> Result<User, String> {
    let is_root = getuid().is_root();
    let rootless = match client.engine {
        Engine::Podman => !is_root,
        Engine::Docker => {
            let answer = client.ask(&["info", "--format", "{{json .SecurityOptions}}"], ANSWERS)?;
            answer.contains("name=rootless")
        }
    };
    Ok(if rootless { User::Root } else { User::Caller })
}

/// The plan of a supervisor that starts the engine's program: limits only, since it is no command of the agent's.
pub(crate) fn plan(profile: &Profile, receipt: &Receipt) -> Plan {
    Plan {
        rung: Rung::R1,
        receipt: receipt.clone(),
        view: None,
        landlock: None,
        seccomp: Bytes(Vec::new()),
        brokered: false,
        limits: provost_core::caps::Caps::none(),
        groups: None,
        require: profile.require.clone(),
    }
}

impl Ready {
    /// The order to run one command. The record folder names its container before there is one.
    pub(crate) fn order(&self, command: &Command, wall_ms: u64) -> Result<Order, Failure> {
        let container = Container::named(self.client.clone(), self.memory_bytes)
            .map_err(|error| failure("engine", &error))?;
        container.record(&command.record_dir).map_err(|error| failure("record-folder", &error))?;
        let program = command.program.as_ref().map(|path| path.as_os_str().to_owned());
        let program = program.or_else(|| command.argv.first().cloned()).unwrap_or_default();
        let mut line: Vec<OsString> = vec![self.client.program.path().into()];
        line.extend(["--log-level=error", "run", "--name", &container.name].map(OsString::from));
        line.extend(self.flags.iter().cloned());
        let filter = filter::write(&command.record_dir.join(FILTER));
        line.push(filter.map_err(|error| failure("record-folder", &error))?);
        if self.client.engine == Engine::Podman {
            line.push(
                format!("--timeout={}", (wall_ms / 1000).saturating_add(SPARE).min(i32::MAX as u64)).into(),
            );
        }
        for (name, value) in &command.env {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(Failure::new("env", libc::EINVAL, name.to_string_lossy()));
            }
            line.push(joined(&["--env=", &name.to_string_lossy(), "="], value));
        }
        line.push(joined(&["--workdir="], command.cwd.as_os_str()));
        line.push(joined(&["--entrypoint="], &program));
        line.push(OsString::from(&self.image));
        line.extend(command.argv.iter().skip(1).cloned());
        Ok(Order {
            argv: line.iter().map(|word| Bytes(word.as_bytes().to_vec())).collect(),
            env: self.client.env(),
            cwd: Path::new("/").into(),
            candidates: vec![self.client.program.clone()],
            wall_ms,
            keep_head: command.keep_head,
            keep_tail: command.keep_tail,
            listen: None,
            dialling: 0,
            reaching: Vec::new(),
            container: Some(container),
        })
    }
}

fn joined(before: &[&str], last: &OsStr) -> OsString {
    let mut text = OsString::from(before.concat());
    text.push(last);
    text
}
