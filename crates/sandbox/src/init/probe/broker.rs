//! The broker's check: a process whose calls are handed over, and answered here.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::policy::{Policy, Preset};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, bind, listen, socket};

use super::{LIMIT, Scratch, Seen, collect, refused, text, works};
use crate::broker::{self, Service};
use crate::egress::{Egress, HostDecision, NotRecorded, Record, Stop};
use crate::probe::Fact;
use crate::seccomp::{self, Sockets};
use crate::sys::{self, Side};
use crate::wire::{self, Report};

/// Nothing is decided here.
struct Nowhere;

impl Record for Nowhere {
    fn record(&self, _: HostDecision) -> Result<(), NotRecorded> {
        Err(NotRecorded)
    }
}

/// Answers a process that connects where it may and where it may not.
pub(super) fn broker(scratch: &Scratch) -> Seen {
    let _inside = works("a socket inside", UnixListener::bind(scratch.at("in/sock")))?;
    let _outside = works("a socket outside", UnixListener::bind(scratch.at("out/sock")))?;
    let name = format!("provost-probe-broker-{}", std::process::id());
    let named = works("an abstract name", SocketAddr::from_abstract_name(&name))?;
    let _named = works("an abstract socket", UnixListener::bind_addr(&named))?;
    let (ours, theirs) = wire::pair().map_err(text)?;
    match sys::fork(0).map_err(|errno| format!("clone: {errno}"))? {
        Side::Child => {
            drop(ours);
            let asked = || asks(scratch, &named, &theirs);
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(asked));
            let seen = seen.unwrap_or(Err("panic".to_owned()));
            let (holds, detail) = (seen.is_ok(), seen.unwrap_or_else(|wrong| wrong));
            wire::report(&theirs, &Report::Fact(Fact { name: String::new(), holds, detail }));
            sys::exit(0)
        }
        Side::Parent(pid) => {
            drop(theirs);
            let seen = answers(scratch, &ours);
            let _ = sys::kill(pid, libc::SIGKILL);
            collect(pid);
            seen
        }
    }
}

/// The process that is answered.
fn asks(scratch: &Scratch, named: &SocketAddr, parent: &std::os::fd::OwnedFd) -> Seen {
    rustix::thread::set_no_new_privs(true).map_err(text)?;
    sys::drop_capabilities().map_err(text)?;
    let listener = sys::load_filter_with_listener(&seccomp::program(Sockets::Brokered));
    let listener = listener.map_err(|errno| format!("no listener: {errno}"))?;
    wire::report_with(parent, &Report::Brokered, &[std::os::fd::AsFd::as_fd(&listener)]);
    drop(listener);
    works("a socket inside", UnixStream::connect(scratch.at("in/sock")))?;
    refused("a socket outside", UnixStream::connect(scratch.at("out/sock")), &[Errno::ACCESS])?;
    let link = scratch.at("in/link");
    works("a link", std::os::unix::fs::symlink(scratch.at("out/sock"), &link))?;
    refused("a link to it", UnixStream::connect(&link), &[Errno::ACCESS])?;
    refused("an abstract socket", UnixStream::connect_addr(named), &[Errno::ACCESS])?;
    refused("a socket for datagrams", UnixDatagram::unbound(), &[Errno::ACCESS])?;
    let inet = socket(AddressFamily::INET, SocketType::STREAM, None).map_err(Into::into);
    let inet: std::os::fd::OwnedFd = works("a TCP socket", inet)?;
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    refused("a server's address", bind(&inet, &any).map_err(Into::into), &[Errno::INVAL])?;
    refused("a server", listen(&inet, 1).map_err(Into::into), &[Errno::INVAL])?;
    let udp = socket(AddressFamily::INET, SocketType::DGRAM, None);
    refused("a UDP socket", udp.map_err(Into::into), &[Errno::ACCESS])?;
    let _ = fs::remove_file(link);
    Ok("a process was connected where it may, and nowhere else".to_owned())
}

/// Answers it until it says what it saw.
fn answers(scratch: &Scratch, child: &std::os::fd::OwnedFd) -> Seen {
    let until = Instant::now() + LIMIT;
    let late = || Err("no answer in 500 ms".to_owned());
    if !super::readable(child, LIMIT) {
        return late();
    }
    let mut service = match wire::next_with(child) {
        Some((Report::Brokered, mut descriptors)) => {
            let listener = descriptors.pop().ok_or("the listener did not arrive")?;
            let folder = broker::folder(&scratch.at("in")).map_err(text)?;
            let egress = Egress::new(Policy::preset(Preset::Workspace).into(), Arc::new(Nowhere));
            let stop = Stop::new().map_err(text)?;
            Service::new(listener, vec![folder], Vec::new(), Some(&egress), stop).map_err(text)?
        }
        Some((Report::Fact(Fact { detail, .. }), _)) => return Err(detail),
        _ => return Err("its process died".to_owned()),
    };
    while Instant::now() < until {
        match service.turn(Some(Instant::now() + Duration::from_millis(2))) {
            Err(error) if error.kind() != ErrorKind::TimedOut && error.kind() != ErrorKind::BrokenPipe => {
                return Err(format!("its calls could not be answered: {error}"));
            }
            // Nothing is asked at the moment, or any more.
            _ => {}
        }
        if let Ok((packet, _)) = wire::receive(child, RecvFlags::DONTWAIT) {
            return said(&packet);
        }
    }
    late()
}

fn said(packet: &[u8]) -> Seen {
    match serde_json::from_slice(packet) {
        Ok(Report::Fact(Fact { holds: true, detail, .. })) => Ok(detail),
        Ok(Report::Fact(Fact { detail, .. })) => Err(detail),
        _ => Err("its process died".to_owned()),
    }
}
