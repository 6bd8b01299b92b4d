//! The launcher: forks a supervisor for each command that the driver asks for.

use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;

use super::supervise;
use crate::record::Failure;
use crate::sys::{self, Side};
use crate::wire::{self, Report};

/// Serves until the driver's end of the socket is closed; returns the helper's exit status.
pub(super) fn launch(socket: OwnedFd) -> i32 {
    // The dead are collected by the kernel: what became of a supervisor is told by its control socket and its record.
    sys::ignore_children();
    loop {
        let Ok((packet, mut descriptors)) = wire::receive(&socket, RecvFlags::empty()) else { return 1 };
        match packet.first() {
            Some(&wire::SUPERVISE) => {}
            // The driver is gone or does not need us any more.
            None => return 0,
            Some(_) => continue,
        }
        let Some(control) = descriptors.pop() else { continue };
        match sys::fork(0) {
            Ok(Side::Child) => {
                drop(socket);
                sys::watch_children();
                return supervise::supervise(control, descriptors);
            }
            Ok(Side::Parent(_)) => {}
            Err(errno) => {
                wire::report(&control, &Report::Failed(Failure::new("fork", errno.raw_os_error(), "")));
            }
        }
    }
}
