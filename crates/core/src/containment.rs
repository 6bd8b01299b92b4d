//! What contained a command: rungs, guarantees and the receipt that says which of them held.
//!
//! Pure data. The probe and the enforcement live in `provost-sandbox`; the words live here because events carry
//! them and a verifier reads them without a sandbox.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A way to contain a process tree, weakest first: `R3 > R2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rung {
    /// Nothing: the command runs with the caller's rights.
    R0,
    /// Limits only: scrubbed environment, closed descriptors, process group, wall clock.
    R1,
    /// Landlock and seccomp, no namespaces.
    R2,
    /// User, mount, pid, network, ipc and uts namespaces, with Landlock and seccomp where the kernel has them.
    R3,
    /// As R3, with an OCI image as the root: nothing of the host's programs and libraries is there.
    R4,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::R0 => "R0 (nothing)",
            Self::R1 => "R1 (limits only)",
            Self::R2 => "R2 (Landlock and seccomp)",
            Self::R3 => "R3 (namespaces, Landlock and seccomp)",
            Self::R4 => "R4 (an image's root, namespaces, Landlock and seccomp)",
        })
    }
}

/// A container engine of the host's that commands run by where a policy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Podman.
    Podman,
    /// Docker.
    Docker,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// What its program is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no engine has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no container engine: expected podman or docker")]
pub struct NoEngine {
    /// What was written.
    pub name: String,
}

impl std::str::FromStr for Engine {
    type Err = NoEngine;

    fn from_str(name: &str) -> Result<Self, NoEngine> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| NoEngine { name: name.to_owned() })
    }
}

/// One thing that containment can promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Writes land only in the workspace, the private temp folder and declared writable folders.
    FsWrite,
    /// Reads reach only the workspace, the system's programs and libraries, and declared folders.
    FsRead,
    /// No packet leaves: no TCP, UDP or DNS beyond the sandbox's own loopback. Where the policy names hosts, the driver
    /// dials those, and nothing else, where it can ([`Receipt::can_dial`]).
    Net,
    /// No unix socket of the host can be connected to, by path or by abstract name, except one that somebody bound
    /// inside a folder that the command is shown, such as the workspace.
    UnixSockets,
    /// The whole process tree, `setsid` included, is gone when the call returns.
    KillTree,
    /// Processes outside the tree can be neither seen, signalled nor traced.
    Processes,
    /// System V IPC and POSIX shared memory are private.
    Ipc,
    /// The temp folder is this command's own.
    PrivateTmp,
    /// The environment is built from an allow-list; nothing is inherited.
    Environment,
    /// No new privileges: setuid files, capabilities and namespaces give nothing.
    Privileges,
    /// Protected paths inside the workspace (such as `.git`) cannot be changed or moved away.
    Protected,
    /// Commands can commit, and what git takes orders from (its configuration, hooks) is protected all the same. Where
    /// that cannot be had, nothing of git's can be changed.
    GitCommit,
    /// Wall-clock limit.
    WallClock,
    /// Output is drained while the command runs and kept within a fixed size.
    Output,
    /// The cap on processor time.
    CapCpu,
    /// The cap on memory.
    CapMemory,
    /// The cap on processes and threads.
    CapProcesses,
    /// The cap on the size of a file.
    CapFileSize,
    /// The cap on open descriptors.
    CapOpenFiles,
    /// The size of the private temp folder.
    CapTmp,
    /// What a command changes in the workspace gathers apart from it, and comes there when the driver puts it there.
    Staged,
    /// The cap on what is gathered so.
    CapDisk,
}

impl Guarantee {
    /// The name used in events, flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::FsWrite => "fs-write",
            Self::FsRead => "fs-read",
            Self::Net => "net",
            Self::UnixSockets => "unix-sockets",
            Self::KillTree => "kill-tree",
            Self::Processes => "processes",
            Self::Ipc => "ipc",
            Self::PrivateTmp => "private-tmp",
            Self::Environment => "environment",
            Self::Privileges => "privileges",
            Self::Protected => "protected",
            Self::GitCommit => "git-commit",
            Self::WallClock => "wall-clock",
            Self::Output => "output",
            Self::CapCpu => "cap-cpu",
            Self::CapMemory => "cap-memory",
            Self::CapProcesses => "cap-processes",
            Self::CapFileSize => "cap-file-size",
            Self::CapOpenFiles => "cap-open-files",
            Self::CapTmp => "cap-tmp",
            Self::Staged => "staged",
            Self::CapDisk => "cap-disk",
        }
    }

    /// The names of all of them, in report order.
    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Those that speak of a workspace that stays: they mean nothing for a copy that is thrown away.
    pub const OF_WORKSPACE: [Self; 2] = [Self::Protected, Self::GitCommit];

    /// All guarantees, in report order.
    pub const ALL: [Self; 22] = [
        Self::FsWrite,
        Self::FsRead,
        Self::Net,
        Self::UnixSockets,
        Self::KillTree,
        Self::Processes,
        Self::Ipc,
        Self::PrivateTmp,
        Self::Environment,
        Self::Privileges,
        Self::Protected,
        Self::GitCommit,
        Self::WallClock,
        Self::Output,
        Self::CapCpu,
        Self::CapMemory,
        Self::CapProcesses,
        Self::CapFileSize,
        Self::CapOpenFiles,
        Self::CapTmp,
        Self::Staged,
        Self::CapDisk,
    ];
}

/// A name that no guarantee has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no guarantee of containment; there are: {}", Guarantee::names())]
pub struct NoGuarantee {
    /// What was written.
    pub name: String,
}

impl std::str::FromStr for Guarantee {
    type Err = NoGuarantee;

    fn from_str(name: &str) -> Result<Self, NoGuarantee> {
        let found = Self::ALL.into_iter().find(|guarantee| guarantee.name() == name);
        found.ok_or_else(|| NoGuarantee { name: name.to_owned() })
    }
}

/// How strongly a guarantee holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// The kernel refuses what would break it; a probe on this host saw it refuse.
    Enforced,
    /// Watched at intervals; a breach is noticed late.
    Sampled,
    /// Not provided.
    Absent,
}

/// By what a command's changes are kept apart from the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StagedBy {
    /// A layer over the workspace.
    Overlay,
    /// A copy of the workspace that shares its blocks with it.
    Reflink,
    /// A copy of the workspace.
    Copy,
}

impl StagedBy {
    /// Whether commands work in a copy.
    pub fn is_copy(self) -> bool {
        self != Self::Overlay
    }

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overlay => "an overlay",
            Self::Reflink => "a copy that shares blocks",
            Self::Copy => "a copy",
        }
    }
}

/// What contained one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The rung that was applied.
    pub rung: Rung,
    /// Each guarantee and how strongly it held.
    pub guarantees: BTreeMap<Guarantee, Strength>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Landlock ABI in force; `None` where the kernel has none.
    pub landlock_abi: Option<u32>,
    /// Digest of the manifest of the image that was the root, under R4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Digest>,
    /// The container engine that each command ran by, where it was not contained by this program itself. What is enforced
    /// is then what was seen of a container of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// By what changes are kept apart until they come into the workspace, where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<StagedBy>,
}

impl Receipt {
    /// What it was contained by, for people.
    pub fn contained_by(&self) -> String {
        match self.engine {
            Some(engine) => format!("R4 (an image's root, in a container of {engine}'s)"),
            None => self.rung.to_string(),
        }
    }

    /// Whether the kernel refuses what would break a guarantee. What nothing was asked of (a cap that is not set) is not
    /// enforced either.
    pub fn enforces(&self, guarantee: Guarantee) -> bool {
        self.guarantees.get(&guarantee) == Some(&Strength::Enforced)
    }

    /// Whether commands can have a network of named hosts: in a namespace of their own, or (R2) by the broker that is
    /// asked about each connection. It is the same that refuses unix sockets there, and nothing else does.
    pub fn can_dial(&self) -> bool {
        match self.rung {
            // The engine keeps the network to itself, and gives none here.
            _ if self.engine.is_some() => false,
            Rung::R0 | Rung::R1 => false,
            Rung::R2 => self.enforces(Guarantee::UnixSockets),
            Rung::R3 | Rung::R4 => true,
        }
    }
}
