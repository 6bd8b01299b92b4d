//! What is to be seen of an attack while it runs, by whoever looks at its processes from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::limits::{CAPS, LAYER};
use super::scene::Scene;
use super::{Amount, Attack, Judge};
use crate::view;

/// More than this below a workspace is too much for one attack.
const WORKSPACE: u64 = 16 << 20;
const NAMESPACES: [&str; 9] =
    ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time", "pid_for_children"];

/// The processes of one attack.
pub(crate) struct Sighting<'scene> {
    attack: &'static Attack,
    scene: &'scene Scene,
    pids: Vec<i32>,
}

impl<'scene> Sighting<'scene> {
    /// Finds the processes by what stands in their command lines.
    pub(crate) fn of(attack: &'static Attack, scene: &'scene Scene) -> Self {
        let token = scene.stage.token.as_bytes();
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A container engine's program has the whole command in its own line.
        let engine = scene.engine().map(|engine| engine.name().as_bytes());
        let is_engine = |line: &[u8]| {
            let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
            program.rsplit(|byte| *byte == b'/').next() == engine
        };
        let is_its = |pid: &i32| {
            Some(*pid) != scene.victim_pid()
                && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                    line.windows(token.len()).any(|window| window == token) && !is_engine(&line)
                })
        };
        Self { attack, scene, pids: numbers.filter(is_its).collect() }
    }

    /// Its living processes.
    pub(crate) fn pids(&self) -> &[i32] {
        &self.pids
    }

    /// How it shows that the attack works.
    pub(crate) fn evidence(&self) -> Option<String> {
        match self.attack.judge {
            Judge::Holds(prefix) => self
                .links()
                .find(|(fd, link)| {
                    let link = link.to_string_lossy();
                    link.starts_with(prefix) && !is_null(fd) && !link.ends_with("/exe")
                })
                .map(|(_, link)| format!("it holds `{}`", link.display())),
            Judge::Opened(path) => {
                let open = self.links().find(|(fd, link)| link == Path::new(path) && is_writable(fd))?;
                Some(format!("it has `{}` open for writing", open.1.display()))
            }
            Judge::Socket(protocol) => self
                .links()
                .filter(|(_, link)| link.to_string_lossy().starts_with("socket:"))
                .find_map(|(fd, _)| {
                    let mut name = [0u8; 64];
                    let length = rustix::fs::getxattr(&fd, "system.sockprotoname", &mut name).ok()?;
                    let name = String::from_utf8_lossy(&name[..length]).trim_end_matches('\0').to_owned();
                    name.starts_with(protocol).then(|| format!("it holds a socket of `{name}`"))
                }),
            Judge::Namespaces => {
                let of = |name: &str| -> BTreeSet<PathBuf> {
                    self.pids
                        .iter()
                        .filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok())
                        .collect()
                };
                let split = NAMESPACES.iter().find(|name| of(name).len() > 1)?;
                Some(format!("its processes are in different namespaces: {split}"))
            }
            Judge::Mounts => self.pids.iter().find_map(|pid| {
                let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
                let places: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(4)).collect();
                let made = places.iter().find(|place| Path::new(place).ends_with("work/mnt"));
                let swapped = places == ["/"] && mounts.contains(" - tmpfs ");
                match made {
                    Some(place) => Some(format!("it mounted something at `{place}`")),
                    None if swapped => Some("its root is another file system".to_owned()),
                    None if !mounts.is_empty() && !places.contains(&"/proc") => {
                        Some("it unmounted /proc".to_owned())
                    }
                    None => None,
                }
            }),
            Judge::Root => self.pids.iter().find_map(|pid| {
                let root = fs::read_link(format!("/proc/{pid}/root")).ok()?;
                root.ends_with("work/mnt").then(|| format!("its root is `{}`", root.display()))
            }),
            Judge::Serves => {
                let port =
                    fs::read_to_string(self.scene.stage.work.join("port")).ok()?.parse::<u16>().ok()?;
                let limit = Duration::from_millis(300);
                let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), limit).ok()?;
                let _ = stream.set_read_timeout(Some(limit));
                let mut buffer = vec![0u8; self.scene.stage.token.len()];
                stream.read_exact(&mut buffer).ok()?;
                (buffer == self.scene.stage.token.as_bytes()).then(|| format!("it answers on port {port}"))
            }
            Judge::Rights => self.pids.iter().find_map(|pid| {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
                let has = |line: &&str| {
                    let (name, value) = line.split_once(':').unwrap_or((line, ""));
                    let value = value.trim();
                    match name {
                        "CapEff" | "CapPrm" | "CapInh" | "CapAmb" => value != "0000000000000000",
                        "NoNewPrivs" => value == "0",
                        _ => false,
                    }
                };
                status.lines().find(has).map(|line| line.replace('\t', " "))
            }),
            Judge::Takes(amount) => {
                let (taken, limit) = self.taken(amount);
                (taken > limit).then(|| format!("it has {taken} where {limit} are allowed"))
            }
            Judge::Lives | Judge::Overruns => {
                let living = self.pids.iter().filter(|pid| is_alive(**pid)).count();
                (living > 0).then(|| format!("{living} of its processes live"))
            }
            _ => None,
        }
    }

    /// Descriptors of all its processes: their paths in `/proc`, and where they lead.
    fn links(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let folders = self.pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
        folders.flatten().filter_map(|entry| {
            let path = entry.ok()?.path();
            let link = fs::read_link(&path).ok()?;
            Some((path, link))
        })
    }

    fn taken(&self, amount: Amount) -> (u64, u64) {
        let of = |name: &'static str| {
            self.pids.iter().filter_map(move |pid| fs::read_to_string(format!("/proc/{pid}/{name}")).ok())
        };
        let field = |text: &str, name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
            line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        let cap = |cap: Option<u64>| cap.unwrap_or(u64::MAX);
        let work = &self.scene.stage.work;
        match amount {
            Amount::Processes => {
                (of("status").map(|text| field(&text, "Threads:")).sum(), cap(CAPS.processes))
            }
            Amount::Memory => {
                let mapped: u64 = of("smaps_rollup").map(|text| field(&text, "Pss:") * 1024).sum();
                let in_files: BTreeMap<u64, u64> = self
                    .links()
                    .filter(|(_, link)| link.to_string_lossy().starts_with("/memfd:"))
                    .filter_map(|(fd, _)| fs::metadata(fd).ok())
                    .map(|seen| (seen.ino(), seen.blocks() * 512))
                    .collect();
                (mapped.max(in_files.values().sum()), cap(CAPS.memory_bytes))
            }
            Amount::Descriptors => {
                let count =
                    |pid: &i32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as u64;
                (self.pids.iter().map(count).max().unwrap_or(0), cap(CAPS.open_files))
            }
            Amount::Cpu => {
                let tick_ms = 1000 / rustix::param::clock_ticks_per_second();
                let used = of("stat").map(|text| {
                    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
                    let fields: Vec<u64> =
                        rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
                    fields.iter().skip(11).take(2).sum::<u64>() * tick_ms
                });
                (used.sum(), cap(CAPS.cpu_ms))
            }
            Amount::File => (sizes(work, "").map(|seen| seen.len()).max().unwrap_or(0), cap(CAPS.file_bytes)),
            Amount::Workspace => (sizes(work, "").map(|seen| seen.blocks() * 512).sum(), WORKSPACE),
            Amount::Layer => {
                let seen_by = |pid: &i32| Path::new("/proc").join(pid.to_string()).join("root");
                let below = self.scene.stage.workspace.strip_prefix("/").unwrap_or(work);
                let of_pid = |pid: &i32| -> u64 {
                    sizes(&seen_by(pid).join(below), "fill-").map(|seen| seen.blocks() * 512).sum()
                };
                (self.pids.iter().map(of_pid).max().unwrap_or(0), LAYER)
            }
            Amount::Tmp => {
                let token = format!("{}-", self.scene.stage.token);
                let of_pid = |pid: &i32| -> u64 {
                    let shm = Path::new("/proc").join(pid.to_string()).join("root/dev/shm");
                    let own = sizes(&tmp_of(*pid), "provost-fill-");
                    own.chain(sizes(&shm, &token)).map(|seen| seen.blocks() * 512).sum()
                };
                (self.pids.iter().map(of_pid).max().unwrap_or(0), cap(CAPS.tmp_bytes))
            }
            Amount::Inodes => {
                let count =
                    |pid: &i32| fs::read_dir(tmp_of(*pid).join("provost-many")).map_or(0, Iterator::count);
                let most = self.pids.iter().map(count).max().unwrap_or(0) as u64;
                (most, view::inodes(cap(CAPS.tmp_bytes)))
            }
        }
    }
}

/// The temp folder of a process, seen from outside.
fn tmp_of(pid: i32) -> PathBuf {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let set = environ.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(b"TMPDIR="));
    let folder = set.map_or("/tmp".into(), String::from_utf8_lossy);
    let root = Path::new("/proc").join(pid.to_string()).join("root");
    root.join(folder.trim_start_matches('/'))
}

/// The files of a folder whose names begin so.
fn sizes(folder: &Path, prefix: &str) -> std::vec::IntoIter<fs::Metadata> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let wanted = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let files = wanted.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    files.collect::<Vec<_>>().into_iter()
}

/// Whether a descriptor is open for writing.
fn is_writable(fd: &Path) -> bool {
    let Some(info) = fd.to_str().map(|path| path.replacen("/fd/", "/fdinfo/", 1)) else { return false };
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Whether it is `/dev/null`, which may be bound over what nobody is to open and then goes by that name.
fn is_null(fd: &Path) -> bool {
    fs::metadata(fd)
        .is_ok_and(|seen| seen.file_type().is_char_device() && seen.rdev() == rustix::fs::makedev(1, 3))
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X') | None))
}
