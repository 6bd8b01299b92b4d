//! What the driver tells the supervisor: the plan of a sandbox (made once) and the order for one command.

use std::collections::BTreeSet;

use provost_core::caps::Caps;
use provost_core::containment::{Guarantee, Receipt, Rung};
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::egress::Listen;
use crate::engine::Container;
use crate::view::View;

/// Everything that is the same for all commands of one sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) rung: Rung,
    pub(crate) receipt: Receipt,
    /// The file system as the command sees it; only for R3.
    pub(crate) view: Option<View>,
    /// Landlock rules; for R2, and for R3 where the kernel has Landlock.
    pub(crate) landlock: Option<LandlockPlan>,
    /// The seccomp program, ready to load; empty where the rung has none.
    pub(crate) seccomp: Bytes,
    /// Whether that program hands calls over to a broker.
    pub(crate) brokered: bool,
    pub(crate) limits: Caps,
    /// The folder that each command's control group is made in, where it has one.
    pub(crate) groups: Option<Bytes>,
    /// What has to be enforced for each command.
    pub(crate) require: BTreeSet<Guarantee>,
}

/// Landlock rules as paths and rights.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LandlockPlan {
    pub(crate) abi: u32,
    /// Whether reads are governed too (R2) or writes only (R3, whose view already limits reads).
    pub(crate) govern_reads: bool,
    /// Paths that may be read and executed.
    pub(crate) read: Vec<Bytes>,
    /// Paths where everything is allowed.
    pub(crate) full: Vec<Bytes>,
    /// Paths whose existing files may be written, and nothing made or removed (device nodes, `/proc`).
    pub(crate) write: Vec<Bytes>,
    /// Folders where files are made and no folders and links, but for those beneath them that are in `full`.
    pub(crate) files: Vec<Bytes>,
    /// The workspace, when it has to be carved around `protected` and `hidden`, entry by entry.
    pub(crate) carve: Option<Carve>,
}

/// A writable folder with exceptions, which Landlock can only express by listing the siblings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Carve {
    pub(crate) root: Bytes,
    pub(crate) writable: bool,
    /// Readable, not writable.
    pub(crate) protected: Vec<Bytes>,
    /// Neither.
    pub(crate) hidden: Vec<Bytes>,
}

/// One command, as the supervisor needs it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) argv: Vec<Bytes>,
    /// `NAME=value`, exactly.
    pub(crate) env: Vec<Bytes>,
    pub(crate) cwd: Bytes,
    /// Programs to try in this order; the search along the command's own `PATH`.
    pub(crate) candidates: Vec<Bytes>,
    pub(crate) wall_ms: u64,
    pub(crate) keep_head: usize,
    pub(crate) keep_tail: usize,
    /// What is listened on for it, where it has a network.
    pub(crate) listen: Option<Listen>,
    /// How many sockets are made with which its own ports are dialled from outside.
    #[serde(default)]
    pub(crate) dialling: usize,
    /// Ports of its loopback that lead to other commands.
    #[serde(default)]
    pub(crate) reaching: Vec<u16>,
    /// The container that it runs in, where the program is an engine's: how that ended is asked of the engine, and it is
    /// removed.
    #[serde(default)]
    pub(crate) container: Option<Container>,
}
