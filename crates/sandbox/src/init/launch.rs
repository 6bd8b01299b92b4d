//! The launcher: has one supervisor stand by for the next command that the driver asks for.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::PipeFlags;

use super::supervise;
use crate::record::Failure;
use crate::sys::{self, Side};
use crate::wire::{self, Report};

/// Serves until the driver's end of the socket is closed; returns the helper's exit status.
pub(super) fn launch(driver: OwnedFd, descriptors: Vec<OwnedFd>) -> i32 {
    let Some(plan) = descriptors.into_iter().next() else { return 1 };
    // The dead are collected by the kernel: what became of a supervisor is told by its control socket and its record.
    sys::ignore_children();
    loop {
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let goes_on = match pipe.and_then(|pipe| Ok((pipe, sys::fork(0)?))) {
            Ok(((taken, told), Side::Child)) => {
                drop(taken);
                sys::watch_children();
                return supervise::stand_by(driver, told, &plan);
            }
            Ok(((taken, told), Side::Parent(_))) => {
                drop(told);
                // One that ends without a word was killed, or the driver is gone. The next is not started before it is
                // wanted, so that whatever kills them does not keep us busy.
                if is_taken(&taken) {
                    await_time(&taken, &driver);
                    true
                } else {
                    is_wanted(&driver)
                }
            }
            Err(errno) => refuse(&driver, errno),
        };
        if !goes_on {
            return 0;
        }
    }
}

/// Waits for whoever stands by to be taken; otherwise it is gone.
fn is_taken(taken: &OwnedFd) -> bool {
    let mut said = [0u8; 1];
    loop {
        match rustix::io::read(taken, &mut said) {
            Err(Errno::INTR) => {}
            other => return other == Ok(1) && said == [wire::TAKEN],
        }
    }
}

/// Waits until the command runs or another one is wanted: what makes the next ready would take time from this one.
fn await_time(taken: &OwnedFd, driver: &OwnedFd) {
    let mut ready = [PollFd::new(taken, PollFlags::IN), PollFd::new(driver, PollFlags::IN)];
    while poll(&mut ready, None) == Err(Errno::INTR) {}
}

/// Waits for the driver to ask for a supervisor, without taking what it says; otherwise it is gone.
fn is_wanted(driver: &OwnedFd) -> bool {
    loop {
        match wire::peek(driver, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            other => return other == Ok(wire::Peeked::Something),
        }
    }
}

/// Tells a driver that asks for a supervisor why there is none; otherwise it is gone.
fn refuse(driver: &OwnedFd, errno: Errno) -> bool {
    let Ok((packet, descriptors)) = wire::receive(driver, RecvFlags::empty()) else { return false };
    // Behind the order and the record folder.
    if let Some(control) = descriptors.into_iter().nth(2) {
        wire::report(&control, &Report::Failed(Failure::new("fork", errno.raw_os_error(), "")));
    }
    !packet.is_empty()
}
