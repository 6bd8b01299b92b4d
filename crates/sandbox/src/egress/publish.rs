//! Ports of a command that the host's loopback leads to, and that of other commands.
//!
//! A socket stays in the network namespace that it was made in. So process 1 makes sockets in its own and does nothing with
//! them; they come out to the driver, which dials the command's ports with them. One that is done with is made fresh and
//! used again, so their number bounds connections at the same time and nothing else. Of a command that is to reach such a port
//! process 1 makes a listener, and what comes in there is carried on like what comes in on the host.

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
/// nobody else has it, and leads nowhere before the command runs and after it has ended. Clones are the same port.
#[derive(Debug, Clone)]
pub struct Publish(Arc<Port>);

#[derive(Debug)]
struct Port {
    listener: TcpListener,
    published: Mutex<Published>,
    /// What the command's port is dialled with; none before it runs and after it has ended.
    sockets: Mutex<Vec<OwnedFd>>,
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
        Ok(Self(Arc::new(Port { listener, published: Mutex::new(published), sockets: Mutex::default() })))
    }

    /// What has gone over it by now; complete when the command has ended.
    pub fn report(&self) -> Published {
        *self.published()
    }

    pub(crate) fn port(&self) -> u16 {
        self.published().port
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.0.sockets.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Whose sockets end with it.
    owns: Option<Publish>,
}

impl Joined {
    /// Leads the host's port into the namespace that the sockets were made in.
    pub(crate) fn start(publish: &Publish, sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let listener = publish.0.listener.try_clone()?;
        *publish.sockets() = sockets;
        Self::accepting(publish, listener, Some(publish.clone()))
    }

    /// Leads a listener of another command to the port.
    pub(crate) fn lead(publish: &Publish, listener: TcpListener) -> io::Result<Self> {
        Self::accepting(publish, listener, None)
    }

    fn accepting(publish: &Publish, listener: TcpListener, owns: Option<Publish>) -> io::Result<Self> {
        let stop = Stop::new()?;
        let (publish, stopped) = (publish.clone(), stop.clone());
        let accepts = Builder::new()
            .name("provost-publish".to_owned())
            .spawn(move || accept(&publish, &listener, &stopped))?;
        Ok(Self { stop, accepts: Some(accepts), owns })
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
        if let Some(publish) = &self.owns {
            publish.sockets().clear();
        }
    }
}

fn accept(publish: &Publish, listener: &TcpListener, stop: &Stop) {
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    while wait(&[(listener.as_fd(), PollFlags::IN)], stop, None).is_ok() {
        workers.retain(|worker| !worker.is_finished());
        let Ok((client, _)) = listener.accept() else {
            // Gone before it was accepted, or there is no descriptor left for it.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let socket = publish.sockets().pop();
        let (publish_to, stopped) = (publish.clone(), stop.clone());
        let work = move || {
            let Some(socket) = socket else {
                publish_to.published().refused += 1;
                return;
            };
            if let Some(socket) = join(&publish_to, client, socket, &stopped) {
                publish_to.sockets().push(socket);
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
