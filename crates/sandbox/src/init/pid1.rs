//! Process 1 of an R3 sandbox: it makes the namespaces what they should be, starts the command's process, collects
//! the dead, and ends when the command ends, which makes the kernel kill all that is left.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::containment::Rung;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::mounts::{self, Built};
use super::ready::Ordered;
use super::sample::{self, Sampler};
use super::{contain, listen, ready, resolver, supervise};
use crate::plan::Plan;
use crate::record::Failure;
use crate::sys::{self, Side, Step};
use crate::view::View;
use crate::wire::{self, Report};

/// The namespaces that process 1 is made in. That of mounts is not among them: it shows the host's mounts as they are when it
/// is made, so that has to be when there is a command.
pub(super) const NAMESPACES: libc::c_int =
    libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// The descriptors that process 1 gets from the supervisor.
pub(super) struct Ends {
    /// Failures and readiness go here; the command's process inherits it.
    pub(super) setup: OwnedFd,
    /// What process 1 says last ([`Last`]) goes here.
    pub(super) status: OwnedFd,
    /// Becomes standard output and error.
    pub(super) output: OwnedFd,
}

/// Runs process 1. `ids` are the ids outside of the user namespace, kept the same inside where no image is the root. Files
/// which the command makes belong to the caller either way.
pub(super) fn run(plan: &Plan, view: &View, ids: (u32, u32), ends: Ends) -> ! {
    let Ordered { order, channel } = match enter(view, ids).and_then(|()| ready::await_order(&ends.setup)) {
        Ok(Some(ordered)) => ordered,
        Ok(None) => sys::exit(0),
        Err(failure) => fail(&ends.setup, failure),
    };
    let network = || match &order.listen {
        Some(wanted) => listen::open(wanted, &ends.setup).and_then(|()| resolver::cover()),
        None => Ok(()),
    };
    let network = || match order.dialling {
        0 => network(),
        count => network().and_then(|()| listen::dialling(count, &ends.setup)),
    };
    let network = || match order.reaching.as_slice() {
        [] => network(),
        ports => network().and_then(|()| listen::reaching(ports, &ends.setup)),
    };
    let made = build(view, ids).and_then(|built| {
        network()?;
        Ok((built, rustix::pipe::pipe_with(PipeFlags::CLOEXEC).step("pipe")?))
    });
    let (Built { unprotected, layer }, (left, leaves)) =
        made.unwrap_or_else(|failure| fail(&ends.setup, failure));
    if let Some(layer) = layer {
        // Before the command is there: from here on this process and the command have no way to it but the overlay.
        wire::report_with(&ends.setup, &Report::Layer, &[layer.as_fd()]);
    }
    match sys::fork(0) {
        Ok(Side::Child) => {
            drop((ends.status, leaves));
            let ends = contain::Ends { setup: ends.setup, output: ends.output, channel };
            contain::run(plan, &order, &ends, &contain::View { unprotected, left })
        }
        Ok(Side::Parent(main)) => {
            // Its end is how either side learns that the other is gone.
            drop((channel, left));
            // While the command's process makes itself ready, which takes as long. It is not ready before.
            let left = mounts::leave()
                .and_then(|()| rustix::io::write(&leaves, &[contain::LEFT]).map(drop).step("pivot-root"));
            match left {
                Ok(()) => reap(main, plan, ids.0, ends),
                Err(failure) => fail(&ends.setup, failure),
            }
        }
        Err(errno) => fail(&ends.setup, Failure::new("fork", errno.raw_os_error(), "")),
    }
}

fn fail(setup: &OwnedFd, failure: Failure) -> ! {
    wire::report(setup, &Report::Failed(failure));
    sys::exit(1)
}

/// Makes the namespaces what they should be.
pub(super) fn enter(view: &View, ids: (u32, u32)) -> Result<(), Failure> {
    // If the supervisor is gone already, the socket to it is dead, and the command is never let go.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("parent-death-signal")?;
    map_ids(ids, view.image.as_ref().map_or(ids, |_| NOBODY))?;
    // What it has it keeps until it drops it. The command's process finds that there is nothing left to bound.
    sys::bound_capabilities();
    sys::loopback_up().step("loopback")?;
    sys::set_host_name(b"sandbox").step("host-name")
}

/// Builds what is seen in them, over the old root ([`mounts::leave`]).
pub(super) fn build(view: &View, ids: (u32, u32)) -> Result<Built, Failure> {
    sys::unshare(libc::CLONE_NEWNS).step("mount-namespace")?;
    mounts::build(view, ids.0 == 0)
}

/// Who commands are in an image, where the caller's name means nothing: what they make belongs to the caller all the
/// same.
const NOBODY: (u32, u32) = (65534, 65534);

/// Gives this process the ids `inside` in its user namespace for those that it has outside, and no others.
pub(super) fn map_ids((uid, gid): (u32, u32), inside: (u32, u32)) -> Result<(), Failure> {
    let write = |path: &str, text: &str| {
        let file = rustix::fs::openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .at("user-namespace", Path::new(path))?;
        rustix::io::write(&file, text.as_bytes()).map(drop).at("user-namespace", Path::new(path))
    };
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{} {uid} 1", inside.0))?;
    write("/proc/self/gid_map", &format!("{} {gid} 1", inside.1))
}

/// What process 1 says when the command has ended, or when it ends it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Last {
    /// The command's raw wait status.
    pub(super) status: Option<i32>,
    /// The cap for which the tree is killed.
    pub(super) over: Option<CapHit>,
    /// Caps that were reached without that.
    pub(super) hits: Vec<CapHit>,
}

/// Collects the dead until the command itself is among them, or a cap is exceeded. Its own end is the end of all.
fn reap(main: libc::pid_t, plan: &Plan, uid: u32, ends: Ends) -> ! {
    // The set-up socket's end is how the supervisor learns that the command was executed, and the output's end that
    // nobody writes any more: this process must hold neither.
    let Ends { setup, status, output } = ends;
    drop((setup, output));
    // Nothing in the sandbox gets at this process: not its memory, not its descriptors.
    let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);
    let _ = sys::drop_capabilities();
    let kept = status.as_raw_fd() as u32;
    let _ = close_all_but(kept);
    let last = watch(main, plan, uid);
    if let Ok(text) = serde_json::to_vec(&last) {
        let _ = rustix::io::write(status.as_fd(), &text);
    }
    sys::exit(0)
}

fn watch(main: libc::pid_t, plan: &Plan, uid: u32) -> Last {
    let caps = &plan.limits;
    // A control group is the supervisor's to look at.
    let mut sampler = if plan.groups.is_some() { None } else { Sampler::new(caps, Rung::R3, uid) };
    // Without it the sums are looked at when something has died, and a command that never ends has its limit of time.
    let signals = sys::child_signals().ok();
    loop {
        let wait = sampler.is_none() || signals.is_none();
        match sys::reap(-1, wait) {
            Ok(Some((pid, raw))) if pid == main => {
                let mut hits = sample::reached(caps, sampler, Some(raw));
                hits.extend(full_tmp(caps));
                return Last { status: Some(raw), over: None, hits };
            }
            Ok(Some(_)) => continue,
            Ok(None) => {}
            Err(_) => return Last::default(),
        }
        if let (Some(sampler), Some(signals)) = (&mut sampler, &signals) {
            supervise::wait(&mut [PollFd::new(signals, PollFlags::IN)], sampler.due());
            sys::drain(signals);
            if let Some(hit) = sampler.look(everybody) {
                return Last { status: None, over: Some(hit), hits: Vec::new() };
            }
        }
    }
}

/// All processes of the sandbox: its `/proc` shows no others.
fn everybody() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The private `/tmp`, if nothing more fits in.
fn full_tmp(caps: &Caps) -> Option<CapHit> {
    let limit = caps.limit(Cap::Tmp)?;
    let full = rustix::fs::statvfs("/tmp").is_ok_and(|tmp| tmp.f_bavail == 0);
    full.then_some(CapHit { cap: Cap::Tmp, limit, reached: limit })
}

/// Closes every descriptor but one; the control socket is among them, whose end the driver waits for.
fn close_all_but(kept: u32) -> Result<(), rustix::io::Errno> {
    sys::close_from(kept + 1, false)?;
    sys::close_range(0, kept - 1)
}
