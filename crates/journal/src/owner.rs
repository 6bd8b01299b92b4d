//! Who holds a lease, in terms that tell a dead process from a live one.

use std::fs;
use std::io;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// A process, named so that a recycled pid is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Host name.
    pub host: String,
    /// The kernel's boot id: pids of another boot say nothing, and two machines may share a host name.
    pub boot_id: String,
    /// Inode of the pid namespace. Containers on one host share a boot id but not their pids: across namespaces a pid
    /// says nothing and only the lease's expiry counts.
    pub pid_namespace: u64,
    /// Process id, as seen in its own namespace.
    pub pid: u32,
    /// Start of the process in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub pid_start: u64,
}

/// What is known of an owner's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is over, or its pid belongs to another process now.
    Gone,
    /// It runs, or nothing can be told from here.
    MayRun,
}

impl Owner {
    /// The process that calls this.
    pub fn this_process() -> io::Result<Self> {
        let pid = std::process::id();
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let stat = Stat::read(pid)?;
        Ok(Self {
            host: host.trim().to_owned(),
            boot_id: boot_id.trim().to_owned(),
            pid_namespace: pid_namespace()?,
            pid,
            pid_start: stat.start,
        })
    }

    /// Whether the process is over, as far as `asker` can see it.
    pub(crate) fn fate(&self, asker: &Self) -> Fate {
        let same_view = self.host == asker.host
            && self.boot_id == asker.boot_id
            && self.pid_namespace == asker.pid_namespace;
        if !same_view {
            return Fate::MayRun;
        }
        // `/proc` mounted with hidepid hides processes of others, so its silence is no proof: the signal test is.
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Fate::Gone;
        };
        if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            return Fate::Gone;
        }
        match Stat::read(self.pid) {
            Ok(stat) if stat.dead || stat.start != self.pid_start => Fate::Gone,
            _ => Fate::MayRun,
        }
    }
}

fn pid_namespace() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

struct Stat {
    /// A zombie: it runs no more and only waits to be reaped.
    dead: bool,
    start: u64,
}

impl Stat {
    fn read(pid: u32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not understood")))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The command name stands in parentheses and may itself hold spaces and parentheses: count from the last one.
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        // `state` is field 3, so field 22 is the nineteenth after it.
        let start = fields.nth(18)?.parse().ok()?;
        Some(Self { dead: matches!(state, "Z" | "X" | "x"), start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_is_read() {
        let line = b"7 (a) S (b) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 19";
        let stat = Stat::parse(line).expect("parses");
        assert!(stat.dead);
        assert_eq!(stat.start, 4242);
    }

    #[test]
    fn only_a_process_seen_from_its_own_host_boot_and_namespace_can_be_gone() {
        let me = Owner::this_process().expect("proc");
        assert_eq!(me.fate(&me), Fate::MayRun);
        let recycled = Owner { pid_start: me.pid_start + 1, ..me.clone() };
        assert_eq!(recycled.fate(&me), Fate::Gone);
        for elsewhere in [
            Owner { host: "elsewhere".into(), ..recycled.clone() },
            Owner { boot_id: "another".into(), ..recycled.clone() },
            Owner { pid_namespace: 1, ..recycled.clone() },
        ] {
            assert_eq!(elsewhere.fate(&me), Fate::MayRun);
        }
    }
}
