//! Getting a word out: sockets of every kind that the host listens on, and sockets that need no listener.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};

use provost_core::containment::Guarantee::{Net, Privileges, UnixSockets};

use super::raw::{call, structure};
use super::stage::{Stage, missing};
use super::{Attack, Judge, Needs, Promise, Tried};

const BOUND_INSIDE: Promise = Promise::Nothing(
    "a socket that somebody bound inside a folder which the command is shown can be connected to",
);
const MPTCP: i32 = 262;

/// An attack that makes a socket of an odd family: the kernel's wider surface.
const fn odd(
    name: &'static str,
    protocol: &'static str,
    tries: &'static str,
    perform: fn(&Stage) -> Tried,
) -> Attack {
    Attack::new(name, Privileges, Judge::Socket(protocol), tries, perform)
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new("tcp", Net, Judge::Heard, "connects to the host's loopback by TCP", |s| {
        TcpStream::connect(("127.0.0.1", tcp(s)?))?.write_all(s.token.as_bytes())
    }),
    Attack::new("tcp6", Net, Judge::Heard, "connects to the host's IPv6 loopback by TCP", |s| {
        let port = s.tcp6.ok_or_else(|| missing("no IPv6 listener"))?;
        TcpStream::connect(("::1", port))?.write_all(s.token.as_bytes())
    }),
    Attack::new(
        "tcp-mapped",
        Net,
        Judge::Heard,
        "connects to the host's loopback by its IPv4 address in IPv6",
        |s| TcpStream::connect(("::ffff:127.0.0.1", tcp(s)?))?.write_all(s.token.as_bytes()),
    ),
    Attack::new("tcp-any-address", Net, Judge::Heard, "connects to 0.0.0.0, which is the host itself", |s| {
        TcpStream::connect(("0.0.0.0", tcp(s)?))?.write_all(s.token.as_bytes())
    }),
    Attack::new("tcp-fast-open", Net, Judge::Heard, "connects by sendto, which is no connect", |s| {
        let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        let address = ipv4(tcp(s)?);
        send(fd, s, libc::MSG_FASTOPEN, &address)
    }),
    Attack::new("multipath-tcp", Net, Judge::Heard, "connects by multipath TCP, another protocol", |s| {
        let fd = socket(libc::AF_INET, libc::SOCK_STREAM, MPTCP)?;
        let address = ipv4(tcp(s)?);
        call(libc::SYS_connect, [fd.into(), address.as_slice().into(), 16.into()])?;
        send(fd, s, 0, &[])
    }),
    Attack::new("udp", Net, Judge::Heard, "sends a datagram to the host's loopback", |s| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.send_to(s.token.as_bytes(), ("127.0.0.1", udp(s)?)).map(drop)
    }),
    Attack::new("dns", Net, Judge::Heard, "asks the host's resolver for a name that carries data", |s| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(("127.0.0.1", udp(s)?))?;
        let mut question = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, s.token.len() as u8];
        question.extend(s.token.as_bytes());
        question.extend([0, 0, 1, 0, 1]);
        socket.send(&question).map(drop)
    }),
    Attack::new("raw-ip", Net, Judge::Socket("RAW"), "makes a raw socket", |_| {
        socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP).map(drop)
    }),
    Attack::new("packet", Net, Judge::Socket("PACKET"), "makes a packet socket", |_| {
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0x300).map(drop)
    }),
    Attack::new("serve", Net, Judge::Serves, "listens where the host can connect", |s| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        std::fs::write(s.work("port"), listener.local_addr()?.port().to_string())?;
        let token = s.token.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.write_all(token.as_bytes());
            }
        });
        Ok(())
    }),
    Attack::new("vsock", Net, Judge::Socket("AF_VSOCK"), "makes a socket to the hypervisor", |_| {
        socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).map(drop)
    }),
    odd("crypto-socket", "ALG", "makes a socket of the kernel's cryptography", |_| {
        socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0).map(drop)
    }),
    odd("netlink-generic", "NETLINK", "makes a socket to the kernel's generic netlink", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC).map(drop)
    }),
    odd("netlink-events", "NETLINK", "makes a socket to the kernel's device events", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT).map(drop)
    }),
    odd("netlink-sockets", "NETLINK", "makes a socket to the kernel's list of sockets", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG).map(drop)
    }),
    odd("netlink-audit", "NETLINK", "makes a socket to the kernel's audit", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT).map(drop)
    }),
    odd("netlink-filter", "NETLINK", "makes a socket to the kernel's packet filter", |_| {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER).map(drop)
    }),
    odd("express-data", "XDP", "makes a socket of express data paths", |_| {
        socket(libc::AF_XDP, libc::SOCK_RAW, 0).map(drop)
    }),
    odd("bluetooth", "", "makes a Bluetooth socket", |_| {
        socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 1).map(drop)
    }),
    odd("can-bus", "", "makes a socket of the CAN bus", |_| {
        socket(libc::AF_CAN, libc::SOCK_RAW, 1).map(drop)
    }),
    odd("key-socket", "", "makes a socket of IPsec's keys", |_| {
        socket(libc::AF_KEY, libc::SOCK_RAW, 2).map(drop)
    }),
    odd("tipc", "", "makes a cluster socket", |_| socket(libc::AF_TIPC, libc::SOCK_RDM, 0).map(drop)),
    Attack::new(
        "abstract-stream",
        UnixSockets,
        Judge::Heard,
        "connects to an abstract socket of the host",
        |s| {
            let name = SocketAddr::from_abstract_name(&s.token)?;
            UnixStream::connect_addr(&name)?.write_all(s.token.as_bytes())
        },
    )
    .on_r2(Promise::ReceiptOrLandlock(6)),
    Attack::new(
        "abstract-datagram",
        UnixSockets,
        Judge::Heard,
        "sends to an abstract socket of the host",
        |s| {
            let name = SocketAddr::from_abstract_name(format!("{}-d", s.token))?;
            UnixDatagram::unbound()?.send_to_addr(s.token.as_bytes(), &name).map(drop)
        },
    )
    .on_r2(Promise::ReceiptOrLandlock(6)),
    Attack::new(
        "docker-socket",
        UnixSockets,
        Judge::Heard,
        "connects to a unix socket outside, as docker's is",
        |s| UnixStream::connect(s.out("docker.sock"))?.write_all(s.token.as_bytes()),
    ),
    Attack::new(
        "log-socket",
        UnixSockets,
        Judge::Heard,
        "sends to a unix socket outside, as the log's is",
        |s| UnixDatagram::unbound()?.send_to(s.token.as_bytes(), s.out("log.sock")).map(drop),
    ),
    Attack::new(
        "packet-socket-by-path",
        UnixSockets,
        Judge::Heard,
        "connects to a packet socket outside by path",
        |s| {
            let fd = socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)?;
            let address = unix(&s.out("packet.sock"));
            call(libc::SYS_connect, [fd.into(), address.as_slice().into(), (address.len() as i64).into()])?;
            send(fd, s, 0, &[])
        },
    ),
    Attack::new(
        "docker-socket-by-link",
        UnixSockets,
        Judge::Heard,
        "connects to a socket outside through a link",
        |s| {
            std::os::unix::fs::symlink(s.out("docker.sock"), s.work("link"))?;
            UnixStream::connect(s.work("link"))?.write_all(s.token.as_bytes())
        },
    ),
    Attack::new(
        "docker-socket-by-hard-link",
        UnixSockets,
        Judge::Heard,
        "links a socket from outside in",
        |s| {
            std::fs::hard_link(s.out("docker.sock"), s.work("link"))?;
            UnixStream::connect(s.work("link"))?.write_all(s.token.as_bytes())
        },
    )
    .on_r2(Promise::Layer("Landlock: no hard link from outside")),
    Attack::new(
        "socket-by-victims-root",
        UnixSockets,
        Judge::Heard,
        "connects by way of another process's root",
        |s| {
            let path = s.out("docker.sock");
            let below = path.strip_prefix("/").unwrap_or(&path);
            let root = format!("/proc/{}/root", s.victim()?.pid);
            UnixStream::connect(std::path::Path::new(&root).join(below))?.write_all(s.token.as_bytes())
        },
    )
    .needs(Needs::Victim)
    .on_r2(Promise::Layer("Landlock: outsiders cannot be looked into")),
    Attack::new("socket-in-run", UnixSockets, Judge::Heard, "connects to a socket in /run", |s| {
        UnixStream::connect(format!("/run/{}.sock", s.token))?.write_all(s.token.as_bytes())
    })
    .needs(Needs::RunSocket),
    Attack::new(
        "socket-in-workspace",
        UnixSockets,
        Judge::Heard,
        "connects to a socket that a stranger bound inside",
        |s| UnixStream::connect(s.work("stranger.sock"))?.write_all(s.token.as_bytes()),
    )
    .on_r3(BOUND_INSIDE)
    .on_r2(BOUND_INSIDE),
];

pub(super) fn tcp(stage: &Stage) -> std::io::Result<u16> {
    stage.tcp.ok_or_else(|| missing("no listener"))
}

pub(super) fn udp(stage: &Stage) -> std::io::Result<u16> {
    stage.udp.ok_or_else(|| missing("no listener"))
}

/// A socket that is never closed.
pub(super) fn socket(family: i32, kind: i32, protocol: i32) -> std::io::Result<i64> {
    call(libc::SYS_socket, [family.into(), kind.into(), protocol.into()])
}

pub(super) fn send(fd: i64, stage: &Stage, flags: i32, address: &[u8]) -> Tried {
    let token = stage.token.as_bytes();
    let length = |bytes: &[u8]| i64::try_from(bytes.len()).unwrap_or(0);
    let to = if address.is_empty() { 0.into() } else { address.into() };
    let arguments = [fd.into(), token.into(), length(token).into(), flags.into(), to, length(address).into()];
    call(libc::SYS_sendto, arguments).map(drop)
}

/// 127.0.0.1 as a socket address.
pub(super) fn ipv4(port: u16) -> [u8; 16] {
    structure(&[(0, libc::AF_INET as u64, 2), (2, u16::to_be(port).into(), 2), (4, 0x0100_007F, 4)])
}

/// A path as a socket address.
pub(super) fn unix(path: &std::path::Path) -> Vec<u8> {
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend(path.as_os_str().as_encoded_bytes());
    address.push(0);
    address
}
