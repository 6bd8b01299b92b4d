//! What this host can enforce: each fact is an operation that was performed, not a version that was read.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use provost_core::caps::Caps;
use provost_core::containment::{Engine, Guarantee, Receipt, Rung, StagedBy, Strength};
use serde::{Deserialize, Serialize};

use crate::profile::ImageRoot;
use crate::{landlock, launcher, wire};

/// One operation that was tried in a process of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What was tried; one of the names in the `FACTS` tables of `probe.rs`.
    pub name: String,
    /// Whether it worked, or was refused where a refusal was wanted, within 500 ms.
    pub holds: bool,
    /// What was seen: the failing step and error, or a version.
    pub detail: String,
}

/// What [`Probe::run`] saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The real user id that the facts were seen under.
    pub uid: u32,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// The kernel's Landlock ABI; `None` where it has none.
    pub landlock_abi: Option<u32>,
    /// Every check and its result.
    pub facts: Vec<Fact>,
    /// The strongest rung whose facts all hold and which no self-test found wanting, with the host as the root
    /// ([`Probe::has_images`] speaks of images).
    pub strongest: Rung,
    /// Rungs that a self-test found not to hold what they promise. They are not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Disabled>,
}

/// A rung that does not hold what it promises here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// The rung.
    pub rung: Rung,
    /// The container engine that it is one of; `None` for this program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The attacks that worked, or could not be tried.
    pub attacks: Vec<String>,
}

/// The names of the facts.
pub(crate) mod fact {
    pub(crate) const SUPERVISOR: &str = "supervisor";
    pub(crate) const SUBREAPER: &str = "subreaper-kill";
    pub(crate) const NO_NEW_PRIVILEGES: &str = "no-new-privileges";
    pub(crate) const SECCOMP: &str = "seccomp";
    pub(crate) const SECCOMP_NO_INET: &str = "seccomp-no-inet";
    pub(crate) const LANDLOCK_WRITE: &str = "landlock-write";
    pub(crate) const LANDLOCK_READ: &str = "landlock-read";
    pub(crate) const LANDLOCK_SIBLINGS: &str = "landlock-siblings";
    pub(crate) const USER_NAMESPACE: &str = "user-namespace";
    pub(crate) const VIEW: &str = "view";
    pub(crate) const READ_ONLY: &str = "read-only-mount";
    pub(crate) const PIN: &str = "pinned-mount";
    pub(crate) const PID_NAMESPACE: &str = "pid-namespace-kill";
    pub(crate) const PROC: &str = "private-proc";
    pub(crate) const NET: &str = "net-namespace";
    pub(crate) const IPC: &str = "ipc-namespace";
    pub(crate) const FILE_SIZE: &str = "file-size-limit";
    pub(crate) const OPEN_FILES: &str = "open-files-limit";
    pub(crate) const PROCESSES: &str = "process-limit";
    pub(crate) const OVERLAY: &str = "overlay";
    pub(crate) const IMAGE: &str = "image-root";
    pub(crate) const BROKER: &str = "seccomp-notify";
    pub(crate) const CONTROL_GROUP: &str = "control-group";
}

/// What R1 needs.
const R1: [&str; 2] = [fact::SUPERVISOR, fact::SUBREAPER];
/// What R2 needs on top.
const R2: [&str; 5] = [
    fact::NO_NEW_PRIVILEGES,
    fact::SECCOMP,
    fact::SECCOMP_NO_INET,
    fact::LANDLOCK_WRITE,
    fact::LANDLOCK_READ,
];
/// What R3 needs.
const R3: [&str; 11] = [
    fact::SUPERVISOR,
    fact::NO_NEW_PRIVILEGES,
    fact::SECCOMP,
    fact::USER_NAMESPACE,
    fact::VIEW,
    fact::READ_ONLY,
    fact::PIN,
    fact::PID_NAMESPACE,
    fact::PROC,
    fact::NET,
    fact::IPC,
];

impl Disabled {
    /// Whether it is what a rung, of an engine's or this program's own, is.
    pub(crate) fn is(&self, rung: Rung, engine: Option<Engine>) -> bool {
        (self.rung, self.engine) == (rung, engine)
    }

    /// What keeps it from being taken, in words.
    pub(crate) fn why(&self) -> String {
        format!("self-test: it did not hold what it promises ({})", self.attacks.join(", "))
    }
}

impl Probe {
    /// Performs every check in child processes of a helper; 10 to 30 ms. Never fails: what could not be performed is
    /// a fact that does not hold.
    pub fn run() -> Self {
        let mut probe = Self {
            uid: rustix::process::getuid().as_raw(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            landlock_abi: landlock::abi(),
            facts: perform(),
            strongest: Rung::R0,
            disabled: Vec::new(),
        };
        probe.choose();
        probe
    }

    /// The same host with these rungs not to be taken, and no others.
    #[must_use]
    pub fn with_disabled(mut self, disabled: Vec<Disabled>) -> Self {
        self.disabled = disabled;
        self.choose();
        self
    }

    /// Settles which rung is the strongest.
    fn choose(&mut self) {
        let rungs = [Rung::R3, Rung::R2, Rung::R1];
        self.strongest =
            rungs.into_iter().find(|rung| self.missing(*rung, None).is_empty()).unwrap_or(Rung::R0);
    }

    /// What a rung guarantees on this host, going by the facts. `protected` is meant for a profile that protects
    /// something.
    ///
    /// Landlock governs contents and names, not metadata: under R2 a command may still change modes, times and extended
    /// attributes of files that the caller owns, wherever they lie, and see that they exist. It may read `/proc`.
    pub fn receipt(&self, rung: Rung) -> Receipt {
        use Guarantee as G;
        let has = |name: &str| self.facts.iter().any(|fact| fact.name == name && fact.holds);
        let all = |names: &[&str]| names.iter().all(|name| has(name));
        let strength = |guarantee: Guarantee| -> Strength {
            let enforced = match (guarantee, rung) {
                // The supervisor's own doing, whatever the rung.
                (G::Environment | G::WallClock | G::Output, _) => has(fact::SUPERVISOR),
                (_, Rung::R0) => false,
                (G::KillTree, Rung::R1 | Rung::R2) => {
                    // A loop against a deadline: what forks fast enough may be missed, and is then counted.
                    return if has(fact::SUBREAPER) { Strength::Sampled } else { Strength::Absent };
                }
                (G::CapFileSize, _) => has(fact::FILE_SIZE),
                (G::CapOpenFiles, _) => has(fact::OPEN_FILES),
                (G::CapTmp, Rung::R3 | Rung::R4) => has(fact::VIEW),
                (G::CapTmp, _) => false,
                (G::CapProcesses, Rung::R3 | Rung::R4) if has(fact::PROCESSES) => true,
                // Under R1 a command could leave its group.
                (G::CapMemory | G::CapProcesses, Rung::R2 | Rung::R3 | Rung::R4)
                    if has(fact::CONTROL_GROUP) =>
                {
                    true
                }
                // Sums that no kernel keeps for a tree without a control group, or (of time) does not bound.
                (G::CapCpu | G::CapMemory | G::CapProcesses, _) => return Strength::Sampled,
                (_, Rung::R1) => false,
                (G::FsWrite, Rung::R2) => has(fact::LANDLOCK_WRITE),
                (G::FsRead, Rung::R2) => has(fact::LANDLOCK_READ),
                (G::PrivateTmp, Rung::R2) => has(fact::LANDLOCK_WRITE),
                (G::Protected, Rung::R2) => has(fact::LANDLOCK_SIBLINGS),
                (G::Net, Rung::R2) => has(fact::SECCOMP_NO_INET),
                // Other processes can be seen in `/proc`; System V segments are shared.
                (G::Processes | G::Ipc, Rung::R2) => false,
                // Under R2 the broker is asked about each. Without it abstract ones are out of reach from Landlock ABI 6
                // on, and paths are not. Under R3 a path that is not shown cannot be reached.
                (G::UnixSockets, Rung::R2) => has(fact::BROKER),
                (G::UnixSockets, Rung::R3 | Rung::R4) => all(&[fact::VIEW, fact::NET]),
                (G::Privileges, Rung::R2 | Rung::R3 | Rung::R4) => {
                    all(&[fact::NO_NEW_PRIVILEGES, fact::SECCOMP])
                }
                (G::FsWrite, Rung::R3 | Rung::R4) => all(&[fact::VIEW, fact::READ_ONLY]),
                (G::FsRead | G::PrivateTmp, Rung::R3 | Rung::R4) => has(fact::VIEW),
                // In a copy otherwise, which has no size of its own.
                (G::Staged, Rung::R3 | Rung::R4) => has(fact::OVERLAY) || has(fact::VIEW),
                (G::Staged, Rung::R2) => has(fact::LANDLOCK_WRITE),
                (G::CapDisk, Rung::R3 | Rung::R4) => has(fact::OVERLAY),
                (G::CapDisk, Rung::R2) => false,
                // Landlock's rights reach downwards: where a lock can be made and moved over the index, one can be moved
                // over the configuration.
                (G::GitCommit, Rung::R2) => false,
                (G::Protected | G::GitCommit, Rung::R3 | Rung::R4) => all(&[fact::PIN, fact::READ_ONLY]),
                (G::Net, Rung::R3 | Rung::R4) => has(fact::NET),
                (G::KillTree, Rung::R3 | Rung::R4) => has(fact::PID_NAMESPACE),
                (G::Processes, Rung::R3 | Rung::R4) => all(&[fact::PID_NAMESPACE, fact::PROC]),
                (G::Ipc, Rung::R3 | Rung::R4) => all(&[fact::IPC, fact::VIEW]),
            };
            if enforced { Strength::Enforced } else { Strength::Absent }
        };
        Receipt {
            rung,
            guarantees: Guarantee::ALL
                .into_iter()
                .map(|guarantee| (guarantee, strength(guarantee)))
                .collect(),
            kernel: self.kernel.clone(),
            landlock_abi: self.landlock_abi,
            image: None,
            engine: None,
            staged: match rung {
                Rung::R0 | Rung::R1 => None,
                Rung::R3 | Rung::R4 if has(fact::OVERLAY) => Some(StagedBy::Overlay),
                Rung::R2 | Rung::R3 | Rung::R4 => Some(StagedBy::Copy),
            },
        }
    }

    /// Why a receipt does not enforce a guarantee, for the person who asked for it.
    pub(crate) fn why_not_enforced(&self, receipt: &Receipt, guarantee: Guarantee) -> String {
        let name = guarantee.name();
        let stronger = [Rung::R2, Rung::R3].into_iter().find(|rung| {
            *rung > receipt.rung
                && (*rung == Rung::R3 || guarantee_of_r2(guarantee))
                && !self.missing(*rung, None).is_empty()
        });
        let why_not_stronger = stronger.map_or(String::new(), |rung| {
            format!("; {rung} is not available: {}", self.missing(rung, None).join(", "))
        });
        match receipt.guarantees.get(&guarantee) {
            Some(Strength::Enforced) => format!("`{name}` is enforced"),
            Some(Strength::Sampled) => {
                format!(
                    "`{name}` is only sampled: it is looked at now and then, and a breach is noticed late{why_not_stronger}"
                )
            }
            Some(Strength::Absent) => format!("`{name}` is absent{why_not_stronger}"),
            None if guarantee == Guarantee::Protected => {
                format!("`{name}` has nothing to hold: the workspace has no protected path")
            }
            None if guarantee == Guarantee::GitCommit => {
                format!("`{name}` has nothing to hold: the policy lets commands make no commits here")
            }
            None => format!("`{name}` has nothing to hold: the policy sets no such cap"),
        }
    }

    /// Whether commands have control groups of their own under a rung with these caps.
    pub(crate) fn groups(&self, rung: Rung, caps: &Caps) -> bool {
        let is_summed = (caps.cpu_ms, caps.memory_bytes, caps.processes) != (None, None, None);
        let holds = |fact: &Fact| fact.name == fact::CONTROL_GROUP && fact.holds;
        rung >= Rung::R2 && is_summed && self.facts.iter().any(holds)
    }

    /// Whether this host can have an image as the root of commands (rung R4).
    pub fn has_images(&self) -> bool {
        self.strongest == Rung::R3 && self.facts.iter().any(|fact| fact.name == fact::IMAGE && fact.holds)
    }

    /// The strongest rung for commands whose root is this image, or the host.
    pub(crate) fn strongest_for(&self, image: Option<&ImageRoot>) -> Rung {
        if image.is_some() && self.has_images() { Rung::R4 } else { self.strongest }
    }

    /// What keeps a rung from being taken: facts, as `name: detail`, or that there is no image to be the root.
    pub(crate) fn missing(&self, rung: Rung, image: Option<&ImageRoot>) -> Vec<String> {
        match (rung, image) {
            (Rung::R4, None) => return vec!["image: none was named".to_owned()],
            (Rung::R0 | Rung::R1 | Rung::R2 | Rung::R3, Some(_)) => {
                return vec![format!("image: one was named, and only {} has it as the root", Rung::R4)];
            }
            _ => {}
        }
        let state = |name: &str| self.facts.iter().find(|fact| fact.name == name);
        let found_wanting =
            self.disabled.iter().filter(|disabled| disabled.is(rung, None)).map(Disabled::why);
        needed(rung)
            .into_iter()
            .filter(|name| !state(name).is_some_and(|fact| fact.holds))
            .map(|name| format!("{name}: {}", state(name).map_or("not tried", |fact| fact.detail.as_str())))
            .chain(found_wanting)
            .collect()
    }
}

/// Whether R2 can enforce a guarantee at all.
fn guarantee_of_r2(guarantee: Guarantee) -> bool {
    use Guarantee as G;
    !matches!(
        guarantee,
        G::KillTree
            | G::Processes
            | G::Ipc
            | G::GitCommit
            | G::CapDisk
            | G::CapTmp
            | G::CapCpu
            | G::CapMemory
            | G::CapProcesses
    )
}

/// The facts that a rung needs.
pub(crate) fn needed(rung: Rung) -> Vec<&'static str> {
    match rung {
        Rung::R0 => vec![fact::SUPERVISOR],
        Rung::R1 => R1.to_vec(),
        Rung::R2 => [R1.as_slice(), R2.as_slice()].concat(),
        Rung::R3 => R3.to_vec(),
        Rung::R4 => [R3.as_slice(), &[fact::IMAGE]].concat(),
    }
}

/// Asks a helper to perform the checks and collects what it reports.
fn perform() -> Vec<Fact> {
    ask(&[wire::PROBE])
}

/// Whether an overlay over this folder is to be had, by making one in a process of its own.
pub(crate) fn overlay_over(folder: &Path) -> Fact {
    let facts = ask(&[&[wire::PROBE], folder.as_os_str().as_bytes()].concat());
    let none = || Fact {
        name: fact::OVERLAY.to_owned(),
        holds: false,
        detail: "the helper did not answer".to_owned(),
    };
    facts.into_iter().next_back().unwrap_or_else(none)
}

fn ask(what: &[u8]) -> Vec<Fact> {
    let lost = |detail: String| vec![Fact { name: fact::SUPERVISOR.to_owned(), holds: false, detail }];
    if !crate::entry::linked() {
        return lost("the entry is not linked into this binary".to_owned());
    }
    let (control, theirs) = match wire::pair() {
        Ok(pair) => pair,
        Err(errno) => return lost(errno.to_string()),
    };
    let mut helper = match launcher::spawn(theirs) {
        Ok(helper) => helper,
        Err(error) => return lost(error.to_string()),
    };
    let mut facts = Vec::new();
    if wire::send(&control, what, &[]).is_ok() {
        // The helper bounds each check by its own deadline and then ends, which ends this loop.
        while let Some(wire::Report::Fact(fact)) = wire::next(&control) {
            facts.push(fact);
        }
    }
    drop(control);
    let _ = helper.wait();
    if facts.is_empty() { lost("the helper said nothing".to_owned()) } else { facts }
}
