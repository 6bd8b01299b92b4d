//! Control groups, version 2: what the kernel adds up over a tree and bounds by itself.
//!
//! A command has a group of its own where this user may make one. Groups are made beside the one that we are in, or above it:
//! one that holds processes, as ours does, gives the groups in it no controllers. The supervisor holds its group's folder
//! locked, so that what a killed one left is told from what is at work.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use provost_core::caps::{Cap, CapHit, Caps};
use rustix::fs::{Access, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::record::Failure;
use crate::sys::Step;

/// What a group has to add up and bound.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// What names of groups begin with.
const PREFIX: &str = "provost-";
/// How long the dead of a group may take to leave it.
const EMPTY_LIMIT: Duration = Duration::from_secs(3);

/// The folder that groups are made in; otherwise why there is none.
pub(crate) fn home() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("`{path}`: {error}"));
    let groups = read("/proc/self/cgroup")?;
    let mounts = read("/proc/self/mountinfo")?;
    let root =
        mounts.lines().find_map(mount_of_version_2).ok_or("no control groups of version 2 are mounted")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).map(Path::new);
    let own = own.filter(|own| own.components().all(|part| matches!(part, Component::Normal(_))));
    let own = own.ok_or("this process has no group of version 2 that can be seen")?;
    // Joined part by part: the root of all has no part, and no slash behind it.
    let own = own.components().fold(root.clone(), |path, part| path.join(part));
    if !has_controllers(&root.join("cgroup.controllers"))? {
        let on_1 = |name: &str| groups.lines().any(|line| line.split(':').nth(1) == Some(name));
        let (which, what) = (CONTROLLERS.join("` and `"), CONTROLLERS.iter().all(|name| on_1(name)));
        let what = if what { "are in use by version 1" } else { "are not there" };
        return Err(format!("the controllers `{which}` {what}"));
    }
    let mut left = own.as_path();
    loop {
        // The root of all is the one that may hold processes and groups.
        let above = if left == root { left } else { left.parent().unwrap_or(&root) };
        if left != root {
            is_unbounded(left)?;
        }
        if may_hold_groups(above)? {
            return Ok(above.to_owned());
        }
        if above == root {
            return Err(format!(
                "no group from `{}` upwards is this user's to make groups in",
                own.display()
            ));
        }
        left = above;
    }
}

/// The mount point, where a line of `mountinfo` is that of all groups of version 2.
fn mount_of_version_2(line: &str) -> Option<PathBuf> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (from, at) = (fields.next()?, fields.next()?);
    (from == "/" && kind.starts_with("cgroup2 ")).then(|| PathBuf::from(at))
}

fn words(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("`{}`: {error}", path.display()))
}

fn has_controllers(path: &Path) -> Result<bool, String> {
    let found = words(path)?;
    Ok(CONTROLLERS.iter().all(|name| found.split_whitespace().any(|found| found == *name)))
}

/// Whether this user may make groups there that have the controllers, and move processes from here into them.
fn may_hold_groups(path: &Path) -> Result<bool, String> {
    let may_write = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    let control = path.join("cgroup.subtree_control");
    let has = has_controllers(&control)?
        || (has_controllers(&path.join("cgroup.controllers"))? && may_write(&control));
    Ok(has && may_write(path) && may_write(&path.join("cgroup.procs")))
}

/// Refuses to leave a group whose own bounds would then be left too.
fn is_unbounded(path: &Path) -> Result<(), String> {
    for name in ["memory.max", "memory.high", "cpu.max"] {
        match fs::read_to_string(path.join(name)) {
            Ok(bound) if !bound.starts_with("max") => {
                return Err(format!(
                    "`{}` has a `{name}` of its own, which commands in another group would escape",
                    path.display()
                ));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("`{}`: {error}", path.join(name).display())),
        }
    }
    Ok(())
}

/// The group of one command.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// Its folder, locked as long as this is there.
    folder: OwnedFd,
}

impl Group {
    /// Makes one with these caps.
    pub(crate) fn make(home: &Path, caps: &Caps) -> Result<Self, Failure> {
        let control = home.join("cgroup.subtree_control");
        if !has_controllers(&control).map_err(|why| Failure::new("control-group", libc::EIO, why))? {
            write(&control, &CONTROLLERS.map(|name| format!("+{name}")).join(" "))?;
        }
        let group = (0..16).find_map(|_| Self::make_one(home).transpose());
        let group = group.unwrap_or(Err(Errno::EXIST)).at("control-group", home)?;
        match group.bound(caps) {
            Ok(()) => Ok(group),
            Err(failure) => {
                group.remove();
                Err(failure)
            }
        }
    }

    /// `None` where somebody who sweeps was faster than our lock.
    fn make_one(home: &Path) -> Result<Option<Self>, Errno> {
        let mut random = [0u8; 8];
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        let path = home.join(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
        match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(None),
            Err(errno) => return Err(errno),
        }
        let Some(folder) = lock(&path)? else { return Ok(None) };
        Ok(Some(Self { path, folder }))
    }

    fn bound(&self, caps: &Caps) -> Result<(), Failure> {
        if let Some(bytes) = caps.memory_bytes {
            write(&self.path.join("memory.max"), &bytes.to_string())?;
            write(&self.path.join("memory.oom.group"), "1")?;
            // A kernel that does not count swap has none of these.
            match rustix::fs::access(self.path.join("memory.swap.max"), Access::EXISTS) {
                Err(Errno::NOENT) => {}
                _ => write(&self.path.join("memory.swap.max"), "0")?,
            }
        }
        match caps.processes {
            Some(count) => write(&self.path.join("pids.max"), &count.to_string()),
            None => Ok(()),
        }
    }

    /// For a fork into it.
    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Kills all that is in it, what is being forked too.
    pub(crate) fn kill(&self) {
        kill(&self.path);
    }

    /// Processor time of all that is or was in it, in milliseconds.
    pub(crate) fn cpu_ms(&self) -> u64 {
        self.count("cpu.stat", "usage_usec") / 1000
    }

    /// Whether the kernel killed it for its cap on memory, and how far it had come.
    pub(crate) fn out_of_memory(&self, caps: &Caps) -> Option<CapHit> {
        let limit = caps.memory_bytes?;
        // `oom_kill` alone may be the whole machine's doing.
        let of_its_own =
            self.count("memory.events", "oom") > 0 && self.count("memory.events", "oom_kill") > 0;
        let hit = |reached: u64| CapHit { cap: Cap::Memory, limit, reached: reached.max(limit) };
        of_its_own.then(|| hit(self.number("memory.peak")))
    }

    /// Whether the kernel refused it more processes.
    pub(crate) fn out_of_processes(&self, caps: &Caps) -> Option<CapHit> {
        let limit = caps.processes?;
        let refused = self.count("pids.events", "max") > 0;
        refused.then(|| CapHit { cap: Cap::Processes, limit, reached: self.number("pids.peak").max(limit) })
    }

    /// A number in a file of `name number` lines; what cannot be read counts as nothing.
    fn count(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or(0)
    }

    /// The number that a file holds; kernels before 5.19 have no `memory.peak`.
    fn number(&self, file: &str) -> u64 {
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Takes it away once nobody is left in it; whether it is gone.
    pub(crate) fn remove(&self) -> bool {
        remove(&self.path)
    }
}

/// Takes away what supervisors that were killed left here, and kills what is in it.
pub(crate) fn sweep(home: &Path) {
    let entries = fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
    for path in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let path = path.path();
        if let Ok(Some(_lock)) = lock(&path) {
            kill(&path);
            remove(&path);
        }
    }
}

/// Opens a group's folder and locks it; `None` where somebody has it, or where it is gone.
fn lock(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    // The one before may have removed it under its lock.
    let (here, there) = (rustix::fs::fstat(&folder)?, rustix::fs::stat(path));
    Ok(there.is_ok_and(|there| there.st_ino == here.st_ino).then_some(folder))
}

fn kill(path: &Path) {
    // A group that cannot be killed so is found not to be empty.
    let _ = fs::write(path.join("cgroup.kill"), "1");
}

fn remove(path: &Path) -> bool {
    let deadline = Instant::now() + EMPTY_LIMIT;
    loop {
        match rustix::fs::rmdir(path) {
            Ok(()) | Err(Errno::NOENT) => return true,
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => return false,
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let file = rustix::fs::openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    file.and_then(|file| rustix::io::write(&file, text.as_bytes()).map(drop)).at("control-group", path)
}
