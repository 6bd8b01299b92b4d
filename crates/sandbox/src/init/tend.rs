//! Tending a program that is not contained: start it, wait for it or for the order to stop, kill its tree.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::RecvFlags;
use rustix::process::Signal;

use super::supervise::{self, KILL_LIMIT};
use super::{contain, kill, ready};
use crate::plan::Order;
use crate::record::Failure;
use crate::sys::{self, Side, Step};
use crate::wire::{self, Report};

/// Tends one program from start to end; returns the helper's exit status.
pub(super) fn tend(control: &OwnedFd, descriptors: Vec<OwnedFd>) -> i32 {
    let (report, status) = match run(control, descriptors) {
        Ok(gone) => (gone, 0),
        Err(failure) => (Report::Failed(failure), 1),
    };
    wire::report(control, &report);
    status
}

fn run(control: &OwnedFd, descriptors: Vec<OwnedFd>) -> Result<Report, Failure> {
    let [order, ends @ ..]: [OwnedFd; 4] =
        descriptors.try_into().map_err(|_| Failure::new("plan", libc::EBADMSG, ""))?;
    let order: Order = ready::parse(&order)?;
    let signals = sys::child_signals().step("signals")?;
    sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).step("subreaper")?;
    let (setup, setup_end) = wire::pair().step("socketpair")?;
    let pid = match sys::fork(0).step("fork")? {
        Side::Child => {
            let failure = become_program(&order, &ends);
            wire::report(&setup_end, &Report::Failed(failure));
            sys::exit(1)
        }
        Side::Parent(pid) => pid,
    };
    // With an end of a pipe held here, whoever reads the other would never see its end.
    drop((setup_end, ends));
    // Nobody of the same user reads our memory or takes our descriptors.
    let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);

    let status = until_end(control, &signals, pid);
    if status.is_none() {
        // One call for the many that are still in its group; only while it is not collected, because then its number
        // cannot belong to a stranger.
        let _ = sys::kill(-pid, libc::SIGKILL);
    }
    let survivors = kill::tree(Instant::now() + KILL_LIMIT);
    if let Ok((packet, _)) = wire::receive(&setup, RecvFlags::DONTWAIT)
        && let Ok(Report::Failed(failure)) = serde_json::from_slice(&packet)
    {
        return Err(failure);
    }
    Ok(Report::Gone { status: status.unwrap_or(libc::SIGKILL), survivors })
}

/// The program's raw wait status; `None` when the driver is gone or wants no more of it.
fn until_end(control: &OwnedFd, signals: &OwnedFd, pid: libc::pid_t) -> Option<i32> {
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            // Interrupted. Whatever it is, the order to stop must still be seen.
            ready.iter_mut().for_each(PollFd::clear_revents);
        }
        let mut taken = [0u8; 128];
        while rustix::io::read(signals, &mut taken).is_ok_and(|count| count > 0) {}
        // Also its orphans, which are our children now: a program that leaves many behind must not fill the table.
        while let Ok(Some((found, status))) = sys::reap(-1, false) {
            if found == pid {
                return Some(status);
            }
        }
        if !ready[1].revents().is_empty() && supervise::read_driver(control).is_some() {
            return None;
        }
    }
}

/// Turns this process into the program; returns only when that failed.
fn become_program(order: &Order, ends: &[OwnedFd; 3]) -> Failure {
    let prepared = || -> Result<contain::Program, Failure> {
        let program = contain::program(order)?;
        // No controlling terminal, and a process group of its own.
        rustix::process::setsid().map(drop).step("setsid")?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("parent-death-signal")?;
        for (number, end) in (0..).zip(ends) {
            sys::dup_onto(end.as_fd(), number).step("descriptors")?;
        }
        sys::close_from(3, true).step("descriptors")?;
        sys::reset_signals();
        rustix::process::chdir(order.cwd.path()).at("chdir", order.cwd.path())?;
        Ok(program)
    };
    match prepared() {
        Ok(program) => contain::execute(&program),
        Err(failure) => failure,
    }
}
