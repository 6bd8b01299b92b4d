//! What around this process decides what containment it can make: switches of the kernel, and what it is itself under.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// Switches that change what a probe sees.
const SWITCHES: [&str; 9] = [
    "user/max_user_namespaces",
    "user/max_mnt_namespaces",
    "user/max_pid_namespaces",
    "user/max_net_namespaces",
    "user/max_ipc_namespaces",
    "user/max_uts_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
    "kernel/yama/ptrace_scope",
];

/// Lines of `/proc/self/status` that say what this process is under.
const CONFINEMENT: [&str; 6] = ["Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp_filters"];

/// What a probe's result depends on beside the code that made it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// This boot of the host.
    pub boot: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Switches of the kernel below `/proc/sys`, those that it has.
    pub switches: BTreeMap<String, String>,
    /// What this process is under: ids, capabilities, filters, label, namespaces.
    pub confinement: BTreeMap<String, String>,
    /// The folder that commands' control groups can be made in, or why there is none.
    #[serde(default)]
    pub groups: String,
    /// The running program: device, inode, size and time of change of its file.
    pub program: String,
}

impl Surroundings {
    /// Looks around.
    pub fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
        let switch = |name: &str| Some((name.to_owned(), read(&format!("/proc/sys/{name}"))?));
        let status = read("/proc/self/status").unwrap_or_default();
        let lines = status.lines().filter_map(|line| line.split_once(':'));
        let mut confinement: BTreeMap<String, String> = lines
            .filter(|(name, _)| CONFINEMENT.contains(name))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        for name in ["user", "mnt", "pid", "net"] {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
            confinement.insert(format!("ns/{name}"), link.to_string_lossy().into_owned());
        }
        confinement.extend(read("/proc/self/attr/current").map(|label| ("label".to_owned(), label)));
        let program = fs::metadata("/proc/self/exe").map(|file| {
            format!("{} {} {} {}.{:09}", file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec())
        });
        Self {
            boot: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            switches: SWITCHES.iter().filter_map(|name| switch(name)).collect(),
            confinement,
            groups: crate::group::home().map_or_else(|why| why, |home| home.display().to_string()),
            program: program.unwrap_or_default(),
        }
    }

    /// A switch that is a number.
    pub(crate) fn switch(&self, name: &str) -> Option<u64> {
        self.switches.get(name)?.parse().ok()
    }

    /// Whether somebody's system-call filter is on this process, as containers have it.
    pub(crate) fn is_filtered(&self) -> bool {
        self.confinement.get("Seccomp_filters").is_some_and(|count| count != "0")
    }

    /// Whether what a self-test found there holds here too: the same program on the same kernel.
    pub(crate) fn has_program_and_kernel_of(&self, other: &Self) -> bool {
        (&self.program, &self.kernel) == (&other.program, &other.kernel)
    }
}
