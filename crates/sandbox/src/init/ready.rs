//! What is the same for all commands of a sandbox, made before one is ordered: mostly while the one before is at work, so
//! that nobody waits for it. No command has any part in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use provost_core::containment::Rung;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::PipeFlags;

use super::supervise::KILL_LIMIT;
use super::{contain, kill, pid1, read_all};
use crate::bytes::Bytes;
use crate::group::Group;
use crate::plan::{Order, Plan};
use crate::record::Failure;
use crate::sys::{self, Side, Step};
use crate::view::HOME;
use crate::wire;

/// A larger pipe means fewer wake-ups; the kernel may refuse.
pub(super) const PIPE_SIZE: usize = 256 * 1024;

/// Everything that a command needs but its order.
pub(super) struct Ready {
    pub(super) plan: Plan,
    /// Becomes readable when a child changes state.
    pub(super) signals: OwnedFd,
    /// Where the command has no `/tmp` of its own.
    pub(super) private: Option<PrivateTmp>,
    /// The command's control group, where it has one.
    pub(super) group: Option<Group>,
    pub(super) child: Child,
}

impl Ready {
    /// Makes it, with a process in it that waits for an order.
    pub(super) fn make(plan: &OwnedFd) -> Result<Self, Failure> {
        let mut plan: Plan = parse(plan)?;
        let signals = sys::child_signals().step("signals")?;
        if matches!(plan.rung, Rung::R1 | Rung::R2) {
            sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).step("subreaper")?;
        }
        let private = (plan.rung == Rung::R2).then(PrivateTmp::make).transpose()?;
        if let (Some(rules), Some(private)) = (&mut plan.landlock, &private) {
            rules.full.push(private.0.as_path().into());
        }
        let groups = plan.groups.as_ref();
        let group = groups.map(|home| Group::make(home.path(), &plan.limits)).transpose();
        let started = group.and_then(|group| match start(&plan, private.as_ref(), group.as_ref()) {
            Ok(child) => Ok((group, child)),
            Err(failure) => {
                let _ = group.as_ref().map(Group::remove);
                Err(failure)
            }
        });
        match started {
            Ok((group, child)) => Ok(Self { plan, signals, private, group, child }),
            Err(failure) => {
                private.iter().for_each(PrivateTmp::remove);
                Err(failure)
            }
        }
    }

    /// Whether its process still waits, and has nothing to say of something that failed.
    pub(super) fn is_whole(&self) -> bool {
        wire::peek(&self.child.setup, RecvFlags::DONTWAIT) == Err(Errno::AGAIN)
    }

    /// Takes it away again. No command has been let go.
    pub(super) fn abandon(self) {
        self.child.abandon(self.plan.rung);
        self.clear();
    }

    /// Takes away what was made for the command beside its processes, which are gone.
    pub(super) fn clear(&self) {
        self.private.iter().for_each(PrivateTmp::remove);
        // One that somebody is still in stays until it is swept.
        let _ = self.group.as_ref().map(Group::remove);
    }
}

/// The supervisor's ends of what connects it to the command.
pub(super) struct Child {
    /// Process 1 under R3, the command's own process otherwise.
    pub(super) pid: libc::pid_t,
    pub(super) setup: OwnedFd,
    /// Only under R3; otherwise the status comes from `waitpid`.
    pub(super) status: Option<OwnedFd>,
    pub(super) output: OwnedFd,
}

impl Child {
    /// Kills and collects a child whose command has not been let go.
    pub(super) fn abandon(&self, rung: Rung) {
        let _ = sys::kill(self.pid, libc::SIGKILL);
        let _ = sys::reap(self.pid, true);
        if matches!(rung, Rung::R1 | Rung::R2) {
            kill::tree(Instant::now() + KILL_LIMIT);
        }
    }

    /// Hands the order over.
    pub(super) fn order(&self, order: &OwnedFd) -> Result<(), Failure> {
        wire::send(&self.setup, &[wire::ORDER], &[order.as_fd()]).step("plan")
    }
}

/// In a child of the supervisor: waits for the order. `None` when the supervisor is gone or does not want it.
pub(super) fn await_order(setup: &OwnedFd) -> Result<Option<Order>, Failure> {
    match wire::receive(setup, RecvFlags::empty()) {
        Ok((packet, descriptors)) if packet == [wire::ORDER] => {
            descriptors.first().map(parse::<Order>).transpose()
        }
        _ => Ok(None),
    }
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(fd: &OwnedFd) -> Result<T, Failure> {
    let text = read_all(fd.as_fd()).step("plan")?;
    serde_json::from_slice(&text).map_err(|error| Failure::new("plan", libc::EBADMSG, error.to_string()))
}

fn start(plan: &Plan, private: Option<&PrivateTmp>, group: Option<&Group>) -> Result<Child, Failure> {
    let fork = |namespaces| match group {
        Some(group) => sys::fork_into(namespaces, group.folder()),
        None => sys::fork(namespaces),
    };
    let (output, output_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("pipe")?;
    let _ = rustix::pipe::fcntl_setpipe_size(&output, PIPE_SIZE);
    rustix::fs::fcntl_setfl(&output, OFlags::NONBLOCK).step("pipe")?;
    let (setup, setup_end) = wire::pair().step("socketpair")?;
    // A child holds nothing of the supervisor's: not the driver's socket, and not the lock of a record.
    if let Some(view) = &plan.view {
        let ids = sys::ids();
        let (status, status_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("pipe")?;
        rustix::fs::fcntl_setfl(&status, OFlags::NONBLOCK).step("pipe")?;
        match fork(pid1::NAMESPACES).step("user-namespace")? {
            Side::Child => {
                let _ = sys::close_others([&setup_end, &status_end, &output_end]);
                let ends = pid1::Ends { setup: setup_end, status: status_end, output: output_end };
                pid1::run(plan, view, ids, ends)
            }
            Side::Parent(pid) => Ok(Child { pid, setup, status: Some(status), output }),
        }
    } else {
        match fork(0).step("fork")? {
            Side::Child => {
                let _ = sys::close_others([&setup_end, &output_end]);
                let ends = contain::Ends { setup: setup_end, output: output_end };
                contain::run_ordered(plan, private, &ends)
            }
            Side::Parent(pid) => Ok(Child { pid, setup, status: None, output }),
        }
    }
}

/// A fresh folder for a command that has no `/tmp` of its own.
pub(super) struct PrivateTmp(PathBuf);

impl PrivateTmp {
    fn make() -> Result<Self, Failure> {
        let path = (0..16)
            .find_map(|attempt| {
                let mut random = [0u8; 8];
                let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
                let path =
                    PathBuf::from(format!("/tmp/provost-{:016x}", u64::from_ne_bytes(random) ^ attempt));
                rustix::fs::mkdir(&path, Mode::from_raw_mode(0o700)).is_ok().then_some(path)
            })
            .ok_or_else(|| Failure::new("private-tmp", libc::EACCES, "/tmp"))?;
        let (private, home) = (Self(path.clone()), path.join("home"));
        match rustix::fs::mkdir(&home, Mode::from_raw_mode(0o700)) {
            Ok(()) => Ok(private),
            Err(errno) => {
                private.remove();
                Err(errno).at("private-tmp", &home)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Points the variables there that name the home or a folder for what is temporary.
    pub(super) fn tell(&self, order: &mut Order) {
        let home = self.0.join("home");
        // Whatever variable names the home that a command would have under `/tmp`.
        for variable in &mut order.env {
            let name = variable.0.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
            let (name, value) = variable.0.split_at(name);
            let below =
                value.strip_prefix(HOME.as_bytes()).filter(|rest| matches!(rest.first(), None | Some(b'/')));
            if let Some(below) = below {
                variable.0 = [name, Bytes::from(home.as_path()).0.as_slice(), below].concat();
            }
        }
        order.env.retain(|variable| !variable.0.starts_with(b"TMPDIR="));
        order.env.push(Bytes([b"TMPDIR=", Bytes::from(self.path()).0.as_slice()].concat()));
    }

    /// What the command made unremovable stays; it is in a folder that only its owner can enter.
    pub(super) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
