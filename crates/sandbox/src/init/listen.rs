//! Process 1 of a command with a network: listeners in its namespace, whose descriptors go out to the driver.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::egress::{DNS_PORT, Listen, OWN_ADDRESS, PROXY_PORT, RANGE_BITS, Role, SOCKS_PORT};
use crate::record::Failure;
use crate::sys::Step;
use crate::wire::{self, Report};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// The interface number of every namespace's loopback.
const LOOPBACK: u32 = 1;

/// Makes the listeners and sends them to the supervisor. The loopback has to be up, and the capabilities still there.
pub(super) fn open(listen: &Listen, setup: &OwnedFd) -> Result<(), Failure> {
    local_address(OWN_ADDRESS, RANGE_BITS).step("egress-address")?;
    for address in &listen.addresses {
        local_address(*address, 32).step("egress-address")?;
    }
    let home = Ipv4Addr::LOCALHOST;
    let mut wanted = vec![
        (Role::Proxy, home, PROXY_PORT),
        (Role::Socks, home, SOCKS_PORT),
        (Role::Questions, home, DNS_PORT),
        (Role::QuestionsOverTcp, home, DNS_PORT),
        (Role::Capture, Ipv4Addr::UNSPECIFIED, 80),
        (Role::Capture, Ipv4Addr::UNSPECIFIED, 443),
    ];
    wanted.extend(listen.captures.iter().map(|(address, port)| (Role::Capture, *address, *port)));
    let mut roles = Vec::new();
    let mut sockets = Vec::new();
    for (role, address, port) in wanted {
        sockets.push(bind(role, SocketAddrV4::new(address, port)).step("egress-listen")?);
        roles.push(role);
    }
    let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    if wire::report_with(setup, &Report::Listening { roles }, &descriptors) {
        Ok(())
    } else {
        Err(Failure::new("egress-listen", libc::EPIPE, "the listeners could not be handed over"))
    }
}

/// Makes sockets with which the command's own ports are dialled from outside, and sends them to the supervisor.
pub(super) fn dialling(count: usize, setup: &OwnedFd) -> Result<(), Failure> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = |_| rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let sockets: Vec<OwnedFd> = (0..count).map(make).collect::<Result<_, _>>().step("publish")?;
    let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    if wire::report_with(setup, &Report::Dialling, &descriptors) {
        Ok(())
    } else {
        Err(Failure::new("publish", libc::EPIPE, "the sockets could not be handed over"))
    }
}

/// Makes listeners on ports of the loopback that lead to other commands, and sends them to the supervisor.
pub(super) fn reaching(ports: &[u16], setup: &OwnedFd) -> Result<(), Failure> {
    let listen = |port: &u16| listen_on(SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port));
    let sockets: Vec<OwnedFd> = ports.iter().map(listen).collect::<Result<_, _>>().step("reach")?;
    let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    if wire::report_with(setup, &Report::Reaching, &descriptors) {
        Ok(())
    } else {
        Err(Failure::new("reach", libc::EPIPE, "the listeners could not be handed over"))
    }
}

fn listen_on(address: SocketAddrV4) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn bind(role: Role, address: SocketAddrV4) -> Result<OwnedFd, Errno> {
    if role != Role::Questions {
        return listen_on(address);
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Gives the loopback an address, and with it everything under its prefix, as `ip address add ADDRESS/BITS dev lo` does.
///
/// A route would carry as much; but a C library that is asked for addresses of a kind that this host has
/// (`AI_ADDRCONFIG`) wants to see one beside 127.0.0.1.
fn local_address(address: Ipv4Addr, bits: u8) -> Result<(), Errno> {
    let attribute = |kind: u16| -> Vec<u8> {
        [&8u16.to_ne_bytes(), &kind.to_ne_bytes(), address.octets().as_slice()].concat()
    };
    let mut body = vec![libc::AF_INET as u8, bits, 0, libc::RT_SCOPE_UNIVERSE];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(attribute(libc::IFA_LOCAL));
    body.extend(attribute(libc::IFA_ADDRESS));
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE;
    let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(libc::RTM_NEWADDR.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);

    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Number 0 is routing.
        None,
    )?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // An acknowledgement is an error message with the number 0 behind its header.
    match answer[..length].get(16..20).and_then(|number| number.first_chunk::<4>()) {
        Some([0, 0, 0, 0]) => Ok(()),
        Some(number) => Err(Errno::from_raw_os_error(-i32::from_ne_bytes(*number))),
        None => Err(Errno::BADMSG),
    }
}
