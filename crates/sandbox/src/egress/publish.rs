//! Ports of a command that the host's loopback leads to.
//!
//! A socket stays in the network namespace that it was made in. So process 1 makes sockets in its own and does nothing with
//! them; they come out to the driver, which dials the command's ports with them. One that is done with is made fresh and
//! used again, so their number bounds connections at the same time and nothing else.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use provost_core::process::Published;
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::relay::{Outbound, Stop, relay, wait};

/// Connections to one command at the same time.
pub(crate) const MOST_PUBLISHED: usize = 32;
/// How long a port may take to answer.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
const STACK: usize = 256 * 1024;

/// A port of the host's loopback that leads to the same port of a command. It is listened on from the beginning, so that
/// nobody else has it, and leads nowhere before the command runs.
#[derive(Debug, Clone)]
pub struct Publish(Arc<Port>);

#[derive(Debug)]
struct Port {
    listener: TcpListener,
    published: Mutex<Published>,
}

impl Publish {
    /// Listens on a port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Somebody else has the port, or this user may not listen there.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let published = Published { port, connections: 0, refused: 0, sent: 0, received: 0 };
        Ok(Self(Arc::new(Port { listener, published: Mutex::new(published) })))
    }

    /// What has gone over it by now; complete when the command has ended.
    pub fn report(&self) -> Published {
        *self.published()
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.0.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins connections until it is dropped; then all its threads and connections are gone.
#[derive(Debug)]
pub(crate) struct Joined {
    stop: Stop,
    accepts: Option<JoinHandle<()>>,
}

impl Joined {
    /// Leads the port into the namespace that the sockets were made in.
    pub(crate) fn start(publish: &Publish, sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let stop = Stop::new()?;
        let (publish, stopped) = (publish.clone(), stop.clone());
        let sockets = Arc::new(Mutex::new(sockets));
        let accepts = Builder::new()
            .name("provost-publish".to_owned())
            .spawn(move || accept(&publish, &sockets, &stopped))?;
        Ok(Self { stop, accepts: Some(accepts) })
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

type Sockets = Arc<Mutex<Vec<OwnedFd>>>;

fn accept(publish: &Publish, sockets: &Sockets, stop: &Stop) {
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    while wait(&[(publish.0.listener.as_fd(), PollFlags::IN)], stop, None).is_ok() {
        workers.retain(|worker| !worker.is_finished());
        let Ok((client, _)) = publish.0.listener.accept() else {
            // Gone before it was accepted, or there is no descriptor left for it.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let socket = sockets.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (publish_to, back, stopped) = (publish.clone(), sockets.clone(), stop.clone());
        let work = move || {
            let Some(socket) = socket else {
                publish_to.published().refused += 1;
                return;
            };
            if let Some(socket) = join(&publish_to, client, socket, &stopped) {
                back.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
            }
        };
        // Where there is no thread to be had the connection is closed, and its socket with it.
        workers.extend(Builder::new().stack_size(STACK).spawn(work));
    }
    for worker in workers {
        let _ = worker.join();
    }
}

/// Carries one connection to its end, and gives its socket back, fresh.
fn join(publish: &Publish, mut client: TcpStream, socket: OwnedFd, stop: &Stop) -> Option<OwnedFd> {
    let port = publish.report().port;
    let mut server = TcpStream::from(socket);
    let reached = client.set_nonblocking(true).and_then(|()| dial(&server, port, stop));
    if reached.is_ok() {
        publish.published().connections += 1;
        let _ = client.set_nodelay(true);
        let (to_command, from_command) = relay(&mut client, &mut server, Vec::new(), Outbound::All, stop);
        let mut published = publish.published();
        published.received += to_command;
        published.sent += from_command;
    } else {
        publish.published().refused += 1;
    }
    let socket = OwnedFd::from(server);
    rustix::net::connect_unspec(&socket).ok().map(|()| socket)
}

fn dial(socket: &TcpStream, port: u16, stop: &Stop) -> io::Result<()> {
    match rustix::net::connect(socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            wait(&[(socket.as_fd(), PollFlags::OUT)], stop, Some(Instant::now() + DIAL_LIMIT))?;
            rustix::net::sockopt::socket_error(socket)??;
        }
        Err(errno) => return Err(errno.into()),
    }
    let _ = socket.set_nodelay(true);
    // A socket on the loopback that dials its own port can meet itself.
    if socket.local_addr()? == socket.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}
