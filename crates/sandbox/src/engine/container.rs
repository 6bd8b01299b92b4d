//! One command's container: how it ended, and its removal. The supervisor asks, and whoever recovers after its death.

use std::io;
use std::path::Path;
use std::time::Duration;

use provost_core::caps::{Cap, CapHit};
use provost_core::containment::Engine;
use serde::{Deserialize, Serialize};

use super::client::Client;

/// In the record folder: which container to remove should its supervisor not have come to it.
const FILE: &str = "container.json";
/// How long an engine may take to say how a container ended.
const INSPECTED: Duration = Duration::from_secs(10);
/// How long it may take to kill and remove one.
const REMOVED: Duration = Duration::from_secs(30);
/// From this exit status on it may be the engine's own, or stand for a signal.
const AMBIGUOUS: i32 = 125;

/// A container by its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) client: Client,
    pub(crate) name: String,
    /// Most memory that it may take, in bytes.
    pub(crate) memory_bytes: Option<u64>,
}

/// How a command in a container ended, as its engine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// As the engine's program says.
    AsSaid,
    /// It exited with this status.
    Exited(i32),
    /// The kernel killed it for the memory that it took.
    OutOfMemory(CapHit),
    /// The container did not start: nothing has run.
    NeverStarted,
}

impl Container {
    /// A name that no other container has.
    pub(crate) fn named(client: Client, memory_bytes: Option<u64>) -> io::Result<Self> {
        let mut random = [0; 12];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { client, name: format!("provost-{hex}"), memory_bytes })
    }

    /// Puts on record which one it is, before it is made.
    pub(crate) fn record(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(FILE), serde_json::to_vec(self)?)
    }

    /// The one that a record folder names, if it names one.
    pub(crate) fn recorded(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// How it ended, where the exit status of the engine's program leaves that open.
    pub(crate) fn fate(&self, status: i32) -> Fate {
        if status < AMBIGUOUS {
            return Fate::AsSaid;
        }
        const FORMAT: &str = "{{.State.StartedAt}}|{{.State.ExitCode}}|{{.State.OOMKilled}}";
        let asked = ["container", "inspect", "--format", FORMAT, &self.name];
        let answer = self.client.ask(&asked, INSPECTED);
        let fields: Vec<&str> = answer.as_deref().unwrap_or_default().split('|').collect();
        match fields.as_slice() {
            // The year in which nothing started.
            [started, _, _] if started.starts_with("0001-") => Fate::NeverStarted,
            [_, exit, "true"] => match self.memory_bytes {
                Some(limit) => Fate::OutOfMemory(CapHit { cap: Cap::Memory, limit, reached: limit }),
                None => exit.parse().map_or(Fate::AsSaid, Fate::Exited),
            },
            [_, exit, _] => exit.parse().map_or(Fate::AsSaid, Fate::Exited),
            // There is none: it was not even made.
            _ if status == AMBIGUOUS => Fate::NeverStarted,
            _ => Fate::AsSaid,
        }
    }

    /// Kills and removes it with what it wrote; `false` where the engine does not say that it is gone.
    pub(crate) fn remove(&self) -> bool {
        let at_once: &[&str] = match self.client.engine {
            Engine::Podman => &["--time", "0"],
            // It kills at once without being told.
            Engine::Docker => &[],
        };
        let arguments = [&["rm", "--force", "--volumes"], at_once, &[self.name.as_str()]].concat();
        self.client.ask(&arguments, REMOVED).is_ok() || !self.exists()
    }

    /// Whether it is there; where the engine does not answer, it may be.
    fn exists(&self) -> bool {
        let filter = format!("name={}", self.name);
        let asked = ["ps", "--all", "--quiet", "--filter", &filter];
        self.client.ask(&asked, INSPECTED).map_or(true, |answer| !answer.is_empty())
    }
}
