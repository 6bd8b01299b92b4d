//! The threads that serve a command's listeners: one that accepts, and one for each connection.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use rustix::event::PollFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::desk::Desk;
use super::dns::Query;
use super::relay::{Stop, event, signal, wait};
use super::{Egress, MOST_CONNECTIONS, connection};

/// What a connection's thread needs, with room to spare.
const STACK: usize = 256 * 1024;
/// How long nothing is accepted when there are no descriptors left.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// What a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// HTTP proxy.
    Proxy,
    /// SOCKS proxy.
    Socks,
    /// DNS over UDP.
    Questions,
    /// DNS over TCP.
    QuestionsOverTcp,
    /// Where programs dial that know of no proxy.
    Capture,
}

/// Serves until it is dropped; then all its threads and connections are gone, and the report is complete.
#[derive(Debug)]
pub(crate) struct Server {
    stop: Stop,
    accepts: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves listeners that came out of a sandbox.
    pub(crate) fn start(egress: &Egress, rung: Rung, sockets: Vec<(Role, OwnedFd)>) -> io::Result<Self> {
        let stop = Stop::new()?;
        let desk = Arc::new(Desk::new(egress.clone(), rung, &egress.listen(), stop.clone()));
        let workers = Workers::new(desk.clone())?;
        let mut listeners = Listeners { tcp: Vec::new(), udp: None };
        for (role, socket) in sockets {
            match role {
                Role::Questions => listeners.udp = Some(UdpSocket::from(socket)),
                _ => listeners.tcp.push((role, TcpListener::from(socket))),
            }
        }
        let accepts = Builder::new().name("provost-egress".to_owned()).spawn(move || {
            accept(&listeners, &desk, workers);
            desk.close();
        })?;
        Ok(Self { stop, accepts: Some(accepts) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

struct Listeners {
    tcp: Vec<(Role, TcpListener)>,
    udp: Option<UdpSocket>,
}

fn accept(listeners: &Listeners, desk: &Desk, mut workers: Workers) {
    let mut short_until = None;
    loop {
        workers.sweep();
        let full = workers.is_full() || short_until.is_some();
        let mut wanted = vec![(workers.freed(), PollFlags::IN)];
        wanted.extend(listeners.udp.iter().map(|udp| (udp.as_fd(), PollFlags::IN)));
        if !full {
            wanted.extend(listeners.tcp.iter().map(|(_, listener)| (listener.as_fd(), PollFlags::IN)));
        }
        match wait(&wanted, &desk.stop, short_until.take()) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => continue,
            // The command is over.
            Err(_) => break,
        }
        if let Some(udp) = &listeners.udp {
            answer(udp, desk);
        }
        if full {
            continue;
        }
        for (role, listener) in &listeners.tcp {
            match listener.accept() {
                Ok((stream, _)) => {
                    let role = *role;
                    workers.start(stream, move |stream, desk| serve_role(role, stream, desk));
                }
                Err(error) if is_short(&error) => short_until = Some(Instant::now() + SHORT_OF_DESCRIPTORS),
                // Nobody there, or gone before it was accepted.
                Err(_) => {}
            }
        }
    }
    workers.join();
}

fn is_short(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// The threads of a command's connections, one for each.
pub(crate) struct Workers {
    desk: Arc<Desk>,
    live: Arc<AtomicUsize>,
    freed: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn new(desk: Arc<Desk>) -> io::Result<Self> {
        Ok(Self { desk, live: Arc::default(), freed: Arc::new(event()?), threads: Vec::new() })
    }

    /// Becomes readable when one has ended.
    pub(crate) fn freed(&self) -> BorrowedFd<'_> {
        self.freed.as_fd()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.live.load(Ordering::SeqCst) >= MOST_CONNECTIONS
    }

    /// Forgets those that have ended.
    pub(crate) fn sweep(&mut self) {
        let _ = rustix::io::read(&self.freed, &mut [0u8; 8]);
        self.threads.retain(|thread| !thread.is_finished());
    }

    /// Serves a connection on a thread of its own. Where there is none to be had it is closed, and `false`.
    pub(crate) fn start(
        &mut self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream, &Desk) -> io::Result<()> + Send + 'static,
    ) -> bool {
        self.live.fetch_add(1, Ordering::SeqCst);
        let counted = Live { count: self.live.clone(), freed: self.freed.clone() };
        let desk = self.desk.clone();
        let work = move || {
            let _counted = counted;
            if stream.set_nonblocking(true).is_err() {
                return;
            }
            let _ = stream.set_nodelay(true);
            // What fails here ends the connection; what was refused or dialled is with the desk.
            let _ = serve(stream, &desk);
        };
        let thread = Builder::new().name("provost-egress".to_owned()).stack_size(STACK).spawn(work);
        let started = thread.is_ok();
        self.threads.extend(thread);
        started
    }

    /// Waits until all have ended.
    pub(crate) fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Counts a connection as long as it lives.
struct Live {
    count: Arc<AtomicUsize>,
    freed: Arc<OwnedFd>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        signal(&self.freed);
    }
}

/// Serves a connection that came to a listener for this.
pub(crate) fn serve_role(role: Role, stream: TcpStream, desk: &Desk) -> io::Result<()> {
    match role {
        Role::Proxy => connection::proxy(stream, desk),
        Role::Socks => connection::socks(stream, desk),
        Role::Capture => connection::captured(stream, desk),
        Role::QuestionsOverTcp | Role::Questions => connection::questions(stream, desk),
    }
}

/// Answers the questions that wait, a bounded number at a time.
fn answer(udp: &UdpSocket, desk: &Desk) {
    let mut buffer = [0; 1500];
    for _ in 0..64 {
        let Ok((length, from)) = udp.recv_from(&mut buffer) else { return };
        if let Some(query) = Query::parse(&buffer[..length]) {
            let _ = udp.send_to(&desk.answer(&query), from);
            desk.asked(&query);
        }
    }
}
