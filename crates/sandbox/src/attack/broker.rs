//! Getting past whoever is asked about connections: by saying one thing and meaning another, and by what needs no asking.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use provost_core::containment::Guarantee::{Net, UnixSockets};

use super::network::{ipv4, send, socket, tcp, udp, unix};
use super::raw::call;
use super::stage::{Stage, missing};
use super::{Attack, Judge, Needs, Tried};
use crate::egress::PROXY_PORT;

/// How long a race is run. Where nobody stands between it is won many times.
const RACE: Duration = Duration::from_millis(400);
/// Tries that end a race.
const TRIES: usize = 4000;
/// TCP connections that end one: fewer than may wait to be accepted.
const CONNECTED: usize = 100;

/// An attack by a command that may dial some host.
const fn beside(
    name: &'static str,
    judge: Judge,
    tries: &'static str,
    perform: fn(&Stage) -> Tried,
) -> Attack {
    Attack::new(name, Net, judge, tries, perform).needs(Needs::Hosts)
}

const fn to_path(name: &'static str, tries: &'static str, perform: fn(&Stage) -> Tried) -> Attack {
    Attack::new(name, UnixSockets, Judge::Heard, tries, perform)
}

pub(super) const ATTACKS: &[Attack] = &[
    beside("tcp-beside-hosts", Judge::Heard, "dials the host's loopback, where it may dial some host", |s| {
        TcpStream::connect(("127.0.0.1", tcp(s)?))?.write_all(s.token.as_bytes())
    }),
    beside("fast-open-beside-hosts", Judge::Heard, "connects by sendto, where it may dial some host", |s| {
        let address = ipv4(tcp(s)?);
        let fast = send(socket(libc::AF_INET, libc::SOCK_STREAM, 0)?, s, libc::MSG_FASTOPEN, &address);
        fast.or_else(|_| send(socket(libc::AF_INET, libc::SOCK_STREAM, 0)?, s, 0, &address))
    }),
    beside(
        "udp-beside-hosts",
        Judge::Heard,
        "sends a datagram to the host's loopback, where it may dial some host",
        |s| UdpSocket::bind("0.0.0.0:0")?.send_to(s.token.as_bytes(), ("127.0.0.1", udp(s)?)).map(drop),
    ),
    beside("dial-race", Judge::Heard, "changes the address that it dials while that is looked at", |s| {
        let (may, may_not) = (ipv4(PROXY_PORT), ipv4(tcp(s)?));
        race(&may, &may_not, CONNECTED, |address| {
            let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
            let connected = connect(fd, address).and_then(|()| send(fd, s, 0, &[]));
            let _ = call(libc::SYS_close, [fd.into()]);
            connected
        })
    }),
    beside("serve-after-its-end", Judge::Serves, "listens with a socket whose connection is over", |s| {
        let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        let proxy = ipv4(PROXY_PORT);
        let _ = call(libc::SYS_connect, [fd.into(), proxy.as_slice().into(), 16.into()]);
        let _ = call(libc::SYS_shutdown, [fd.into(), libc::SHUT_RDWR.into()]);
        let nowhere = [0u8; 16];
        let _ = call(libc::SYS_connect, [fd.into(), nowhere.as_slice().into(), 16.into()]);
        let any = ipv4(0);
        let _ = call(libc::SYS_bind, [fd.into(), any.as_slice().into(), 16.into()]);
        call(libc::SYS_listen, [fd.into(), 8.into()])?;
        // SAFETY: the call has just made this descriptor, and nothing else here knows it.
        let listener = unsafe { <TcpListener as std::os::fd::FromRawFd>::from_raw_fd(fd as i32) };
        std::fs::write(s.work("port"), listener.local_addr()?.port().to_string())?;
        let token = s.token.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.write_all(token.as_bytes());
            }
        });
        Ok(())
    }),
    to_path("path-race", "changes the path that it connects to while that is looked at", |s| {
        let own = UnixListener::bind(s.work("own.sock"))?;
        std::thread::spawn(move || own.incoming().for_each(drop));
        let (may, may_not) = (unix(&s.work("own.sock")), unix(&s.out("docker.sock")));
        race(&may, &may_not, TRIES, |address| {
            // Waits for nobody to accept.
            let fd = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
            let connected = connect(fd, address).and_then(|()| send(fd, s, libc::MSG_NOSIGNAL, &[]));
            let _ = call(libc::SYS_close, [fd.into()]);
            connected
        })
    }),
    to_path("docker-socket-from-there", "connects to a unix socket outside from its own folder", |s| {
        std::env::set_current_dir(&s.outside)?;
        UnixStream::connect("docker.sock")?.write_all(s.token.as_bytes())
    }),
    to_path("docker-socket-by-own-root", "connects by way of its own root in /proc", |s| {
        let path = s.out("docker.sock");
        let below = path.strip_prefix("/").unwrap_or(&path);
        UnixStream::connect(Path::new("/proc/self/root").join(below))?.write_all(s.token.as_bytes())
    }),
    to_path("log-socket-by-pair", "sends to a unix socket outside from a socket that has another end", |s| {
        let mut pair = [0u8; 8];
        let arguments = [libc::AF_UNIX.into(), libc::SOCK_DGRAM.into(), 0.into(), pair.as_mut_slice().into()];
        call(libc::SYS_socketpair, arguments)?;
        let [a, b, c, d, ..] = pair;
        send(i64::from(i32::from_ne_bytes([a, b, c, d])), s, 0, &unix(&s.out("log.sock")))
    }),
];

/// An address that another thread writes meanwhile.
struct Shifting {
    bytes: Vec<AtomicU8>,
}

fn connect(fd: i64, to: &Shifting) -> Tried {
    let at = to.bytes.as_ptr() as i64;
    let length = i64::try_from(to.bytes.len()).map_err(|_| missing("an address"))?;
    call(libc::SYS_connect, [fd.into(), at.into(), length.into()]).map(drop)
}

/// Connects again and again to an address that is now the one and now the other, until so many were connected.
fn race(may: &[u8], may_not: &[u8], most: usize, attempt: impl Fn(&Shifting) -> Tried) -> Tried {
    let length = may.len().max(may_not.len());
    let shifting = Shifting { bytes: (0..length).map(|_| AtomicU8::new(0)).collect() };
    let write = |address: &[u8]| {
        for (at, byte) in shifting.bytes.iter().enumerate() {
            byte.store(address.get(at).copied().unwrap_or(0), Ordering::Relaxed);
        }
    };
    write(may);
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for address in [may_not, may].into_iter().cycle() {
                write(address);
                begun.store(true, Ordering::Relaxed);
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // Long enough for a call to find it so, and the next one not.
                (0..2000).for_each(|_| std::hint::spin_loop());
            }
        });
        while !begun.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        let until = Instant::now() + RACE;
        let mut connected = 0;
        for _ in 0..TRIES {
            connected += usize::from(attempt(&shifting).is_ok());
            if connected >= most || Instant::now() >= until {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        if connected > 0 { Ok(()) } else { Err(missing("no try was connected")) }
    })
}
