//! Messages between driver and supervisor, over a SEQPACKET socket pair: one message is one packet.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

use crate::record::Failure;

/// First packet: start supervisors until this side is closed. Descriptor: the plan of their sandbox.
pub(crate) const LAUNCH: u8 = b'L';
/// To whoever stands by: supervise a command. Descriptors: order, record folder, the supervisor's control socket, and the
/// command's channel, where it has one.
pub(crate) const SUPERVISE: u8 = b'S';
/// From a supervisor to its launcher: it has been taken.
pub(crate) const TAKEN: u8 = b'X';
/// From a supervisor to the process that waits for it: the order, which comes with it, and the channel behind it.
pub(crate) const ORDER: u8 = b'R';
/// First packet: tend a program outside of a sandbox. Descriptors: order, and its standard input, output and error.
pub(crate) const TEND: u8 = b'T';
/// First packet: perform the probe's checks; with a folder behind it, whether an overlay over that is to be had.
pub(crate) const PROBE: u8 = b'P';
/// Driver to supervisor: kill the command.
pub(crate) const CANCEL: u8 = b'C';
/// Driver to supervisor: give what the command wrote since this was last asked.
pub(crate) const TAKE: u8 = b'O';
/// Driver to supervisor: say so as soon as there is something to be taken.
pub(crate) const NOTICE: u8 = b'N';

/// Most descriptors of one packet.
pub(crate) const MOST_DESCRIPTORS: usize = 64;

/// From the supervisor to the driver, and from the command's process to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Set-up is complete up to `execve`; the command's process waits to be let go.
    Ready {
        /// Protected paths that could not be pinned.
        unprotected: Vec<String>,
    },
    /// The layer that the command's changes gather in, which comes with it.
    Layer,
    /// Listeners of the command's network, one descriptor for each.
    Listening {
        /// What each is for.
        roles: Vec<crate::egress::Role>,
    },
    /// Sockets of the command's namespace with which its ports are dialled.
    Dialling,
    /// Listeners of the command's namespace that lead to other commands, in the order of [`crate::plan::Order::reaching`].
    Reaching,
    /// Where the calls wait that a broker answers; from the supervisor with the command's temp folder behind it.
    Brokered,
    /// A step failed; the command has not run.
    Failed(Failure),
    /// The command runs.
    Started,
    /// There is output to be taken.
    Wrote,
    /// A part of the command's output, as JSON in the file that comes with it.
    Output,
    /// The record is complete.
    Finished,
    /// The command ran, and its record could not be written.
    RecordLost {
        /// Why.
        errno: i32,
    },
    /// A tended program and its tree are gone.
    Gone {
        /// Its raw wait status.
        status: i32,
        /// How many of its tree could not be killed.
        survivors: u32,
    },
    /// One check of the probe.
    Fact(crate::probe::Fact),
}

/// A connected pair, closed on exec.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one packet with descriptors.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    loop {
        match rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Receives one packet; an empty one is the end of the other side.
pub(crate) fn receive(socket: impl AsFd, flags: RecvFlags) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let mut bytes = vec![0; 16 * 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(&socket, &mut slices, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    bytes.truncate(length);
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok((bytes, descriptors))
}

/// What there is to be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peeked {
    Something,
    /// The other side is gone.
    End,
}

/// Looks at what is to be received, and leaves it there.
pub(crate) fn peek(socket: impl AsFd, flags: RecvFlags) -> Result<Peeked, Errno> {
    let (count, _) = rustix::net::recv(&socket, [0u8; 1].as_mut_slice(), flags | RecvFlags::PEEK)?;
    Ok(if count > 0 { Peeked::Something } else { Peeked::End })
}

/// Sends a report. A peer that is gone is not an error: whoever is gone is noticed elsewhere.
pub(crate) fn report(socket: impl AsFd, report: &Report) -> bool {
    report_with(socket, report, &[])
}

/// Sends a report with descriptors, at most [`MOST_DESCRIPTORS`].
pub(crate) fn report_with(socket: impl AsFd, report: &Report, descriptors: &[BorrowedFd<'_>]) -> bool {
    try_report(socket, report, descriptors).is_ok()
}

/// Sends a report with descriptors that its sender cannot do without.
pub(crate) fn try_report(
    socket: impl AsFd,
    report: &Report,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    // Serialising a closed enum of strings and numbers does not fail.
    let bytes = serde_json::to_vec(report).map_err(|_| Errno::INVAL)?;
    send(socket, &bytes, descriptors)
}

/// Receives a report; `None` at the end of the other side or when the packet is not one.
pub(crate) fn next(socket: impl AsFd) -> Option<Report> {
    next_with(socket).map(|(report, _)| report)
}

/// Receives a report and the descriptors that came with it.
pub(crate) fn next_with(socket: impl AsFd) -> Option<(Report, Vec<OwnedFd>)> {
    let (bytes, descriptors) = receive(socket, RecvFlags::empty()).ok()?;
    serde_json::from_slice(&bytes).ok().map(|report| (report, descriptors))
}
