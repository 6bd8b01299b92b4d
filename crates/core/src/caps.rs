//! Caps: bounds on what the processes of a command may take, and what is said of one that was reached.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::containment::Guarantee;

/// Something that the processes of a command take, and that a cap bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    /// Processor time of the whole tree, in milliseconds.
    Cpu,
    /// Memory of the whole tree, in bytes.
    Memory,
    /// Processes and threads of the whole tree.
    Processes,
    /// Size of one file, in bytes.
    FileSize,
    /// What lies in the private `/tmp`, in bytes.
    Tmp,
    /// What a command's changes to the workspace take while they are staged, in bytes.
    Disk,
}

impl Cap {
    /// An amount of it, as a person reads it.
    fn show(self, amount: u64) -> String {
        match self {
            Self::Cpu => format!("{} s of processor time", amount as f64 / 1000.0),
            Self::Memory => format!("{} of memory", bytes(amount)),
            Self::Processes => format!("{amount} processes and threads"),
            Self::FileSize => format!("{} in one file", bytes(amount)),
            Self::Tmp => format!("{} in /tmp", bytes(amount)),
            Self::Disk => format!("{} of changes to the workspace", bytes(amount)),
        }
    }
}

/// Bytes in the largest unit that they fill.
fn bytes(amount: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(size, _)| amount >= *size) {
        // One digit after the point, and none where it would be a zero.
        Some((size, unit)) => format!("{} {unit}", (amount as f64 / size as f64 * 10.0).round() / 10.0),
        None => format!("{amount} bytes"),
    }
}

/// A cap that was reached, and how far it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapHit {
    /// Which.
    pub cap: Cap,
    /// What was allowed, in the unit of the cap.
    pub limit: u64,
    /// How much was seen. Where it is watched at intervals, this can be more than the limit.
    pub reached: u64,
}

impl fmt::Display for CapHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; the cap is {}", self.cap.show(self.reached), self.cap.show(self.limit))
    }
}

/// Bounds for each command. `None` is no bound of its own.
///
/// ```
/// use provost_core::caps::{Cap, Caps};
/// let caps = Caps { memory_bytes: Some(4 << 30), ..Caps::default() };
/// assert_eq!((caps.limit(Cap::Memory), caps.limit(Cap::Processes)), (Some(4 << 30), Some(4096)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// Processor time of the whole tree, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Memory of the whole tree, in bytes. Where it is watched instead of enforced, one process alone gets no more private
    /// memory than a quarter above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Size of each file that is written, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Open descriptors of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Size of the private `/tmp` and, halved, of `/dev/shm`, in bytes of memory; 1 GiB where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp_bytes: Option<u64>,
    /// What the changes of one command to a staged workspace may take, in bytes of memory; 1 GiB where it is not said.
    /// Where the workspace is not staged nothing holds this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

impl Default for Caps {
    fn default() -> Self {
        Self { processes: Some(4096), ..Self::none() }
    }
}

impl Caps {
    /// No bound at all.
    pub const fn none() -> Self {
        Self {
            cpu_ms: None,
            memory_bytes: None,
            processes: None,
            file_bytes: None,
            open_files: None,
            tmp_bytes: None,
            disk_bytes: None,
        }
    }

    /// The guarantees that speak of these bounds, and whether there is one.
    pub fn guarantees(&self) -> [(Guarantee, bool); 7] {
        [
            (Guarantee::CapCpu, self.cpu_ms.is_some()),
            (Guarantee::CapMemory, self.memory_bytes.is_some()),
            (Guarantee::CapProcesses, self.processes.is_some()),
            (Guarantee::CapFileSize, self.file_bytes.is_some()),
            (Guarantee::CapOpenFiles, self.open_files.is_some()),
            (Guarantee::CapTmp, self.limit(Cap::Tmp).is_some()),
            (Guarantee::CapDisk, self.disk_bytes.is_some()),
        ]
    }

    /// In words, for the agent that has to live with them: those that `holds` says something of.
    pub fn words(&self, holds: impl Fn(Guarantee) -> bool) -> Vec<String> {
        let of = |guarantee: Guarantee, cap: Cap| {
            self.limit(cap).filter(|_| holds(guarantee)).map(|limit| cap.show(limit))
        };
        let files = self.open_files.filter(|_| holds(Guarantee::CapOpenFiles));
        [
            of(Guarantee::CapCpu, Cap::Cpu),
            of(Guarantee::CapMemory, Cap::Memory),
            of(Guarantee::CapProcesses, Cap::Processes),
            of(Guarantee::CapFileSize, Cap::FileSize),
            of(Guarantee::CapTmp, Cap::Tmp),
            of(Guarantee::CapDisk, Cap::Disk),
            files.map(|number| format!("{number} open files in each process")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// What is allowed of one of them. The private `/tmp` and what is staged have a size in any case.
    pub fn limit(&self, cap: Cap) -> Option<u64> {
        match cap {
            Cap::Cpu => self.cpu_ms,
            Cap::Memory => self.memory_bytes,
            Cap::Processes => self.processes,
            Cap::FileSize => self.file_bytes,
            Cap::Tmp => Some(self.tmp_bytes.unwrap_or(1 << 30)),
            Cap::Disk => Some(self.disk_bytes.unwrap_or(1 << 30)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_says_which_cap_and_how_far() {
        let hit = |cap, limit, reached| CapHit { cap, limit, reached }.to_string();
        assert_eq!(
            hit(Cap::Memory, 1 << 30, (1 << 30) + (300 << 20)),
            "1.3 GiB of memory; the cap is 1 GiB of memory"
        );
        assert_eq!(hit(Cap::Cpu, 1500, 1600), "1.6 s of processor time; the cap is 1.5 s of processor time");
        assert_eq!(
            hit(Cap::Processes, 64, 64),
            "64 processes and threads; the cap is 64 processes and threads"
        );
        assert_eq!(hit(Cap::FileSize, 100, 100), "100 bytes in one file; the cap is 100 bytes in one file");
    }
}
