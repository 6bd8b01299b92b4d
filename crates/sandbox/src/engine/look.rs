//! What an engine enforces, looked at from outside: a container with the flags of all others runs `cat`, and what the
//! kernel says of that process is what the receipt says. What was asked of the engine counts for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use provost_core::caps::{Cap, Caps};
use provost_core::containment::{Guarantee, Strength};

use super::client::{complaint, file, ready, share, wait};
use super::container::Container;
use super::line::{Mount, Writing};
use super::{filter, hybrid_hint};
use crate::profile::Profile;

/// How long a container may take to be there: an engine that was not asked for long has to wake up first.
const APPEARS: Duration = Duration::from_secs(60);
/// How long it may take to be gone.
const ENDS: Duration = Duration::from_secs(30);
/// By its value the process is known to be the one that was started, and on this host.
const TOKEN: &str = "PROVOST_LOOK";
/// What an engine adds to the environment by itself.
const ADDED: [&str; 5] = ["HOSTNAME", "TERM", "container", "HOME", "PATH"];
/// File systems that are the container's own, whoever may write there.
const OWN: [&str; 8] = ["tmpfs", "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "devtmpfs"];

/// What a container is held against.
pub(crate) struct Asked<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) mounts: &'a [Mount],
    /// The environment of the image, each `NAME=value`.
    pub(crate) env: &'a [String],
}

/// Makes a container with these flags, looks at it, and says how strongly each guarantee holds.
///
/// # Errors
///
/// Why there was nothing to look at.
pub(crate) fn look(
    container: &Container,
    flags: &[OsString],
    image: &str,
    asked: &Asked<'_>,
) -> Result<BTreeMap<Guarantee, Strength>, String> {
    let client = &container.client;
    let mut arguments: Vec<OsString> =
        ["run", "--name", &container.name, "--rm", "--interactive"].map(OsString::from).into();
    arguments.extend(flags.iter().cloned());
    let filter = Temporary(Path::new("/tmp").join(format!("{}-filter", container.name)));
    arguments.push(filter::write(&filter.0).map_err(|error| format!("`{}`: {error}", filter.0.display()))?);
    arguments.push(format!("--env={TOKEN}={}", container.name).into());
    arguments.extend(["--workdir=/", "--entrypoint=cat", image].map(OsString::from));
    let err = file()?;
    let spawned =
        client.command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(share(&err)?).spawn();
    let mut child = spawned.map_err(|error| format!("{}: {error}", client.program.path().display()))?;
    let seen = child.stdin.take().zip(child.stdout.take()).ok_or("it has no pipes".to_owned()).and_then(
        |(mut to, from)| {
            // An answer says that the program runs, so that all that was to be set up is set up.
            let answered = to.write_all(b"x").and_then(|()| to.flush()).is_ok() && answers(from.into());
            if answered { see(container, asked) } else { Err(String::new()) }
        },
    );
    let ended = wait(&mut child, Instant::now() + ENDS);
    if ended.is_none() || seen.is_err() {
        container.remove();
    }
    seen.map_err(|why| match why {
        why if why.is_empty() => {
            let said = complaint(err);
            let hint = hybrid_hint(&said).map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("a container to look at did not answer: {said} (it runs `cat` of the image){hint}")
        }
        why => why,
    })
}

/// A file that is there for as long as somebody looks.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the byte comes back.
fn answers(from: OwnedFd) -> bool {
    let mut byte = [0];
    ready(&from, Instant::now() + APPEARS) && fs::File::from(from).read_exact(&mut byte).is_ok()
}

fn see(container: &Container, asked: &Asked<'_>) -> Result<BTreeMap<Guarantee, Strength>, String> {
    let inspected = ["container", "inspect", "--format", "{{.State.Pid}}", &container.name];
    let pid: u32 = container
        .client
        .ask(&inspected, ENDS)
        .and_then(|answer| answer.parse().map_err(|_| format!("`{answer}` is no number of a process")))?;
    let process = PathBuf::from(format!("/proc/{pid}"));
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    let environment: Vec<String> = environment
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty())
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let token = format!("{TOKEN}={}", container.name);
    if !environment.contains(&token) {
        return Err(format!(
            "process {pid} of its container cannot be looked at: it runs on another host, or is another user's"
        ));
    }
    let text = |name: &str| fs::read_to_string(process.join(name)).unwrap_or_default();
    let namespace = |name: &str| {
        let theirs = fs::read_link(process.join("ns").join(name));
        let ours = fs::read_link(Path::new("/proc/self/ns").join(name));
        matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs != ours)
    };
    let status = text("status");
    let is = |name: &str, value: &str| {
        status.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.trim() == value))
    };
    let mounts = Mounts::parse(&text("mountinfo"));
    let caps = &asked.profile.limits;
    let own_files = namespace("mnt") && mounts.options("/").is_some_and(|root| root.is_read_only());
    let reaches_nothing = namespace("net") && has_no_way_out(&text("net/route"), &text("net/ipv6_route"));
    let shows_as_asked = asked.mounts.iter().all(|mount| mounts.has(mount));
    let holds = |guarantee: Guarantee| match guarantee {
        Guarantee::FsWrite => own_files && shows_as_asked && mounts.only_writable(asked.mounts),
        Guarantee::FsRead => own_files && shows_as_asked,
        Guarantee::Net => reaches_nothing,
        Guarantee::UnixSockets => reaches_nothing && own_files,
        Guarantee::KillTree | Guarantee::Processes => namespace("pid"),
        Guarantee::Ipc => namespace("ipc") && mounts.is_tmpfs("/dev/shm"),
        Guarantee::PrivateTmp => mounts.is_tmpfs("/tmp"),
        Guarantee::Environment => environment.iter().all(|line| {
            let name = line.split_once('=').map_or(line.as_str(), |(name, _)| name);
            *line == token || ADDED.contains(&name) || asked.env.contains(line) || line.ends_with('=')
        }),
        Guarantee::Privileges => {
            let none = "0000000000000000";
            is("NoNewPrivs:", "1") && is("Seccomp:", "2") && is("CapEff:", none) && is("CapBnd:", none)
        }
        Guarantee::Protected => own_files && shows_as_asked,
        Guarantee::CapTmp => caps.limit(Cap::Tmp).is_some_and(|limit| mounts.size("/tmp", limit)),
        Guarantee::CapMemory => {
            caps.memory_bytes.is_some_and(|limit| group(&text("cgroup"), "memory", limit))
        }
        Guarantee::CapProcesses => caps.processes.is_some_and(|limit| group(&text("cgroup"), "pids", limit)),
        Guarantee::CapFileSize => limited(&text("limits"), "Max file size", caps.file_bytes),
        Guarantee::CapOpenFiles => limited(&text("limits"), "Max open files", caps.open_files),
        Guarantee::Staged => own_files && shows_as_asked && asked.profile.changes.copy().is_some(),
        // The supervisor's own doing.
        Guarantee::WallClock | Guarantee::Output => true,
        // What no engine does, or not like this: a sum of processor time, a bound on a copy, a git folder open in part.
        Guarantee::CapCpu | Guarantee::CapDisk | Guarantee::GitCommit => false,
    };
    let wanted: BTreeSet<Guarantee> = not_asked(asked.profile, caps);
    let all = Guarantee::ALL.into_iter().filter(|guarantee| !wanted.contains(guarantee));
    let strength = |guarantee| if holds(guarantee) { Strength::Enforced } else { Strength::Absent };
    Ok(all.map(|guarantee| (guarantee, strength(guarantee))).collect())
}

/// Guarantees that have nothing to hold.
fn not_asked(profile: &Profile, caps: &Caps) -> BTreeSet<Guarantee> {
    let caps = caps.guarantees().into_iter().filter(|(_, wanted)| !wanted).map(|(guarantee, _)| guarantee);
    let rest = [
        (Guarantee::Protected, profile.protected.is_empty()),
        (Guarantee::GitCommit, profile.git.is_none()),
        (Guarantee::Staged, profile.changes.staged().is_none()),
    ];
    caps.chain(rest.into_iter().filter(|(_, none)| *none).map(|(guarantee, _)| guarantee)).collect()
}

/// Whether no route leads anywhere but to the loopback.
fn has_no_way_out(v4: &str, v6: &str) -> bool {
    // A table that cannot be read is no empty one; the second is not there where the kernel has no such protocol.
    v4.starts_with("Iface")
        && v4.lines().skip(1).all(|line| line.starts_with("lo"))
        && v6.lines().all(|line| line.ends_with(" lo"))
}

/// The mounts of a process, the last at each point.
struct Mounts(BTreeMap<String, Options>);

struct Options {
    own: String,
    kind: String,
    of_file_system: String,
}

impl Options {
    fn is_read_only(&self) -> bool {
        self.own.split(',').any(|option| option == "ro")
    }
}

impl Mounts {
    /// Reads `mountinfo` (proc_pid_mountinfo(5)).
    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (first, second) = line.split_once(" - ")?;
            let mut first = first.split(' ').skip(4);
            let (point, own) = (first.next()?, first.next()?);
            let mut second = second.split(' ');
            let (kind, of_file_system) = (second.next()?, second.nth(1)?);
            let options = Options {
                own: own.to_owned(),
                kind: kind.to_owned(),
                of_file_system: of_file_system.to_owned(),
            };
            Some((point.to_owned(), options))
        };
        Self(text.lines().filter_map(line).collect())
    }

    fn options(&self, point: &str) -> Option<&Options> {
        self.0.get(point)
    }

    fn is_tmpfs(&self, point: &str) -> bool {
        self.options(point).is_some_and(|options| options.kind == "tmpfs")
    }

    /// Whether what is at a point holds no more than `limit` bytes.
    fn size(&self, point: &str, limit: u64) -> bool {
        let size = |options: &Options| {
            let text = options.of_file_system.split(',').find_map(|option| option.strip_prefix("size="))?;
            text.strip_suffix('k')?.parse::<u64>().ok()?.checked_mul(1024)
        };
        // Of a tmpfs the kernel tells kibibytes, in whole pages.
        self.is_tmpfs(point)
            && self.options(point).and_then(size).is_some_and(|size| size <= limit.div_ceil(4096) * 4096)
    }

    /// Whether a mount is there, and as narrow as it was asked to be.
    fn has(&self, mount: &Mount) -> bool {
        let Some(found) = self.options(&escaped(mount.to())) else { return false };
        match mount {
            Mount::Bind { writing: Writing::Refused, .. } => found.is_read_only(),
            Mount::Bind { writing: Writing::Allowed, .. } => true,
            Mount::Empty { .. } => found.kind == "tmpfs",
        }
    }

    /// Whether nothing of the host can be written but what was asked for.
    fn only_writable(&self, asked: &[Mount]) -> bool {
        let open: BTreeSet<String> = asked
            .iter()
            .filter(|mount| matches!(mount, Mount::Bind { writing: Writing::Allowed, .. }))
            .map(|mount| escaped(mount.to()))
            .collect();
        self.0.iter().all(|(point, options)| {
            options.is_read_only() || OWN.contains(&options.kind.as_str()) || open.contains(point)
        })
    }
}

/// A path as `mountinfo` has it.
fn escaped(path: &Path) -> String {
    let mut out = String::new();
    for character in path.to_string_lossy().chars() {
        match character {
            ' ' => out.push_str("\\040"),
            '\t' => out.push_str("\\011"),
            '\n' => out.push_str("\\012"),
            '\\' => out.push_str("\\134"),
            other => out.push(other),
        }
    }
    out
}

/// Whether a bound of `/proc/PID/limits` is no higher than a cap.
fn limited(text: &str, name: &str, cap: Option<u64>) -> bool {
    let hard = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1)?.parse().ok());
    matches!((hard, cap), (Some(hard), Some(cap)) if u64::le(&hard, &cap))
}

/// Whether the control group of a process bounds a resource no higher than a cap.
fn group(of_process: &str, controller: &str, cap: u64) -> bool {
    let ours = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (v1, v2) = match controller {
        "memory" => ("memory.limit_in_bytes", "memory.max"),
        _ => ("pids.max", "pids.max"),
    };
    // `hierarchy:controllers:path`; the one without controllers is version 2's.
    let path = |wanted: &str| {
        of_process.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == wanted).then(|| path.to_owned())
        })
    };
    let mounted = |kind: &str, option: &str| {
        ours.lines().find_map(|line| {
            let (first, second) = line.split_once(" - ")?;
            let mut second = second.split(' ');
            let of_kind = second.next()? == kind;
            let options = second.nth(1)?;
            let fits = of_kind && (option.is_empty() || options.split(',').any(|name| name == option));
            fits.then(|| first.split(' ').nth(4).map(PathBuf::from)).flatten()
        })
    };
    let bound = |kind: &str, option: &str, file: &str| {
        let folder = mounted(kind, option)?.join(path(option)?.trim_start_matches('/'));
        fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok()
    };
    let found = bound("cgroup", controller, v1).or_else(|| bound("cgroup2", "", v2));
    found.is_some_and(|found| found <= cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
131 45 254:0 /layer / ro,relatime - ext4 /dev/vda rw,discard
107 131 0:46 / /tmp rw,nosuid,nodev,relatime - tmpfs tmpfs rw,size=16384k
91 107 254:0 /ws /tmp/a\\040b rw,relatime - ext4 /dev/vda rw,discard
92 91 254:0 /ws/.git /tmp/a\\040b/.git ro,relatime - ext4 /dev/vda rw,discard
";

    fn bind(to: &str, writing: Writing) -> Mount {
        Mount::Bind { from: to.into(), to: to.into(), writing }
    }

    #[test]
    fn what_is_not_as_it_was_asked_for_is_found() {
        let mounts = Mounts::parse(MOUNTINFO);
        let (ws, git) = (bind("/tmp/a b", Writing::Allowed), bind("/tmp/a b/.git", Writing::Refused));
        assert!(mounts.has(&ws) && mounts.has(&git) && mounts.only_writable(std::slice::from_ref(&ws)));
        // One that should be read-only and is not; one that is not there; one that nobody asked for.
        assert!(!mounts.has(&bind("/tmp/a b", Writing::Refused)));
        assert!(!mounts.has(&bind("/elsewhere", Writing::Refused)));
        assert!(!mounts.has(&Mount::Empty { to: "/tmp/a b/.git".into() }));
        assert!(!mounts.only_writable(&[git]));
        assert!(mounts.size("/tmp", 16 << 20) && !mounts.size("/tmp", 15 << 20));
    }

    #[test]
    fn a_route_or_a_bound_that_is_too_wide_is_found() {
        let head = "Iface\tDestination\n";
        assert!(has_no_way_out(head, "0000 00 lo\n") && has_no_way_out(head, ""));
        assert!(!has_no_way_out("", ""), "a table that cannot be read is no empty one");
        assert!(!has_no_way_out("Iface\tDestination\neth0\t00000000\n", ""));
        assert!(!has_no_way_out(head, "0000 00 eth0\n"));
        let limits = "Max file size             1000                 2000                 bytes\n";
        assert!(
            limited(limits, "Max file size", Some(2000)) && !limited(limits, "Max file size", Some(1999))
        );
        let none = "Max file size             unlimited            unlimited            bytes\n";
        assert!(!limited(none, "Max file size", Some(2000)) && !limited(limits, "Max file size", None));
    }
}
