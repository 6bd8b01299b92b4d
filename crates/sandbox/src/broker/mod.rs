//! Whom a command may be connected to where it has no namespaces (R2): each `connect` is asked about, and made for it.
//!
//! Its filter (`seccomp.rs`) hands over `connect` and the making of TCP sockets; the calls wait in the kernel until they
//! are answered here, in the driver, to which the filter's listener is passed like a namespace's listeners under R3. No
//! answer is to go on with the call as it stands: the address is read once, and what was decided is done by us.
//!
//! - A TCP socket is one end of a connection to us (`pairs.rs`). What its `connect` names says what our end is: one of the
//!   proxies, a DNS server over TCP, or a host, and from there on it is served as a connection is under R3.
//! - A unix socket is connected to a path below the command's own folders (`unix.rs`) by us, and put in place of its own.
//!
//! Everything else is refused, and so is what fails. A server on a unix socket sees the driver as its peer.

mod address;
mod notify;
mod pairs;
mod unix;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use provost_core::containment::Rung;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::AddressFamily;

use crate::egress::{self, Desk, Egress, Role, Stop, Workers, wait};
use address::Address;
use notify::{Call, Listener, OnExec};
use pairs::{Pair, Pairs};
use unix::{Folders, SocketId, held};

/// TCP sockets of one command at the same time. Each takes a descriptor of ours.
const MOST_SOCKETS: usize = 400;
/// Sockets that are remembered as connected, to say so when they are connected again.
const MOST_REMEMBERED: usize = 4096;
/// How often a connection is tried to a unix socket where too many wait.
const AGAIN: Duration = Duration::from_millis(10);

/// Answers until it is dropped; then all its threads and connections are gone, and the network's report is complete.
#[derive(Debug)]
pub(crate) struct Broker {
    stop: Stop,
    answers: Option<JoinHandle<()>>,
}

impl Broker {
    /// Answers the calls that wait at `listener`. `folders` are those where a unix socket may be connected to, without
    /// what is `hidden` in them.
    pub(crate) fn start(
        listener: OwnedFd,
        folders: Vec<OwnedFd>,
        hidden: Vec<PathBuf>,
        egress: Option<&Egress>,
    ) -> io::Result<Self> {
        let stop = Stop::new()?;
        let mut service = Service::new(listener, folders, hidden, egress, stop.clone())?;
        let answers = Builder::new().name("provost-broker".to_owned()).spawn(move || service.serve())?;
        Ok(Self { stop, answers: Some(answers) })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(answers) = self.answers.take() {
            let _ = answers.join();
        }
    }
}

/// Answers calls, one after the other; what takes time is done on threads of its own.
pub(crate) struct Service {
    listener: Arc<Listener>,
    folders: Folders,
    stop: Stop,
    /// `None` where the command has no network.
    tcp: Option<Tcp>,
    /// Threads that wait for a unix socket to take one more.
    patient: Vec<JoinHandle<()>>,
}

/// TCP sockets of a command.
struct Tcp {
    desk: Arc<Desk>,
    pairs: Pairs,
    workers: Workers,
    /// Our ends of those that were not connected to anything yet.
    idle: HashMap<SocketId, TcpStream>,
    /// Connected, and to be served when there are fewer.
    waiting: VecDeque<(TcpStream, To)>,
    connected: HashSet<SocketId>,
}

/// What the other end of a command's socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum To {
    /// A server of ours.
    Server(Role),
    /// A host by the name that its address stands for.
    Host(String, u16),
}

impl Service {
    pub(crate) fn new(
        listener: OwnedFd,
        folders: Vec<OwnedFd>,
        hidden: Vec<PathBuf>,
        egress: Option<&Egress>,
        stop: Stop,
    ) -> io::Result<Self> {
        Listener::check_sizes()?;
        let tcp = egress.map(|egress| Tcp::new(egress, &stop)).transpose()?;
        Ok(Self {
            listener: Arc::new(listener.into()),
            folders: Folders::new(folders, hidden),
            stop,
            tcp,
            patient: Vec::new(),
        })
    }

    fn serve(&mut self) {
        // Fails when the command is over.
        while self.turn(None).is_ok() {}
        for thread in self.patient.drain(..) {
            let _ = thread.join();
        }
        if let Some(tcp) = self.tcp.take() {
            // Each closes its end, which ends those that are still served.
            drop((tcp.idle, tcp.waiting));
            tcp.workers.join();
            tcp.desk.close();
        }
    }

    /// Waits for something to happen, and deals with it.
    pub(crate) fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        let mut wanted = vec![(self.listener.as_fd(), PollFlags::IN)];
        let mut watched = Vec::new();
        if let Some(tcp) = &self.tcp {
            wanted.push((tcp.workers.freed(), PollFlags::IN));
            // The other end is closed, or says something before it is known to whom: its `connect` was interrupted by a
            // signal, and it takes it for done. It is told that the connection is not there.
            let gone = PollFlags::IN | PollFlags::RDHUP;
            wanted.extend(tcp.idle.values().map(|stream| (stream.as_fd(), gone)));
            watched.extend(tcp.idle.keys().copied());
        }
        let ready = wait(&wanted, &self.stop, until)?;
        if let Some(tcp) = &mut self.tcp {
            let closed = watched.iter().zip(&ready[2..]).filter(|(_, flags)| !flags.is_empty());
            closed.for_each(|(id, _)| drop(tcp.idle.remove(id)));
            tcp.serve_waiting();
        }
        self.patient.retain(|thread| !thread.is_finished());
        if ready[0].contains(PollFlags::IN) {
            if let Some(call) = self.listener.next()? {
                self.answer(&call);
            }
        } else if !ready[0].is_empty() {
            // No process has the filter any more.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn answer(&mut self, call: &Call) {
        let result = match call.number {
            libc::SYS_socket => self.make(call),
            libc::SYS_connect => self.connect(call),
            _ => Err(Errno::NOSYS),
        };
        // Those who were well served have their answer.
        if let Err(errno) = result {
            self.listener.answer(call, Err(errno));
        }
    }

    /// `socket(2)` for TCP, as far as the filter lets it come here.
    fn make(&mut self, call: &Call) -> Result<(), Errno> {
        let tcp = self.tcp.as_mut().ok_or(Errno::ACCESS)?;
        let family = match call.int(0) {
            libc::AF_INET => AddressFamily::INET,
            libc::AF_INET6 => AddressFamily::INET6,
            _ => return Err(Errno::AFNOSUPPORT),
        };
        if tcp.idle.len() + tcp.waiting.len() >= MOST_SOCKETS {
            return Err(Errno::MFILE);
        }
        let Pair { theirs, ours } = tcp.pairs.make(family, &self.stop)?;
        let kind = call.int(1);
        if kind & libc::SOCK_NONBLOCK != 0 {
            rustix::io::ioctl_fionbio(&theirs, true)?;
        }
        let on_exec = if kind & libc::SOCK_CLOEXEC != 0 { OnExec::Close } else { OnExec::Keep };
        let id = SocketId::of(&theirs)?;
        self.listener.answer_with(call, theirs.as_fd(), on_exec)?;
        // A number that was another's has nothing to do with this one.
        tcp.connected.remove(&id);
        tcp.idle.insert(id, ours);
        Ok(())
    }

    fn connect(&mut self, call: &Call) -> Result<(), Errno> {
        let length = usize::try_from(call.int(2)).map_err(|_| Errno::INVAL)?;
        if length > address::LONGEST {
            return Err(Errno::INVAL);
        }
        let held = held(call.thread, call.int(0))?;
        let address = Address::parse(&self.listener.read(call, call.arguments[1], length)?)?;
        let is_tcp = self.tcp.as_ref().is_some_and(|tcp| tcp.knows(held.id));
        match address {
            Address::Internet(address) if is_tcp => self.dial(call, held.id, address),
            Address::Path(path) if !is_tcp => self.join(call, held.flags, &path),
            Address::Abstract => Err(Errno::ACCESS),
            Address::Path(_) | Address::Internet(_) => Err(Errno::AFNOSUPPORT),
            Address::Other => Err(Errno::OPNOTSUPP),
        }
    }

    /// Connects one of our TCP sockets: says what its other end is.
    fn dial(&mut self, call: &Call, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
        let tcp = self.tcp.as_mut().ok_or(Errno::ACCESS)?;
        let leads_to = tcp.leads_to(address);
        if leads_to.is_none() && tcp.workers.is_full() {
            return Err(Errno::NOBUFS);
        }
        let Some(ours) = tcp.idle.remove(&id) else { return Err(Errno::ISCONN) };
        match leads_to {
            Some(to) => {
                if !self.listener.answer(call, Ok(())) {
                    // Interrupted, and made again.
                    tcp.idle.insert(id, ours);
                    return Ok(());
                }
                tcp.remember(id);
                tcp.waiting.push_back((ours, to));
                tcp.serve_waiting();
                Ok(())
            }
            // An address that stands for nothing is a host by itself, which is decided on before it is answered.
            None => {
                tcp.remember(id);
                let (listener, call) = (self.listener.clone(), *call);
                let decide = move |stream: TcpStream, desk: &Desk| {
                    let (host, port) = (address.ip().to_string(), address.port());
                    let admitted = desk.admits(&host, port);
                    let result = admitted.map_err(|forbidden| match forbidden {
                        egress::Cause::Forbidden => Errno::ACCESS,
                        egress::Cause::Failed => Errno::HOSTUNREACH,
                    });
                    if listener.answer(&call, result) && result.is_ok() {
                        egress::to_host(stream, &host, port, desk)?;
                    }
                    Ok(())
                };
                if tcp.workers.start(ours, decide) { Ok(()) } else { Err(Errno::AGAIN) }
            }
        }
    }

    /// Connects to a unix socket, and puts the connection in place of the caller's socket.
    fn join(&mut self, call: &Call, flags: i32, path: &Path) -> Result<(), Errno> {
        let file = self.folders.find(call.thread, path)?;
        let blocks = flags & libc::O_NONBLOCK == 0;
        match unix::connect(file.as_fd()) {
            Err(Errno::AGAIN) if blocks => {
                let (listener, call, stop) = (self.listener.clone(), *call, self.stop.clone());
                let patient = move || {
                    let result = loop {
                        match unix::connect(file.as_fd()) {
                            Err(Errno::AGAIN) if listener.waits(&call) => {
                                match wait(&[], &stop, Some(Instant::now() + AGAIN)) {
                                    Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                                    // The command is over.
                                    _ => break Err(Errno::INTR),
                                }
                            }
                            other => break other,
                        }
                    };
                    let result = result.and_then(|socket| hand_over(&listener, &call, flags, &socket));
                    if let Err(errno) = result {
                        listener.answer(&call, Err(errno));
                    }
                };
                if self.patient.len() >= egress::MOST_CONNECTIONS {
                    return Err(Errno::AGAIN);
                }
                let thread = Builder::new().name("provost-broker".to_owned()).spawn(patient);
                self.patient.push(thread.map_err(notify::errno)?);
                Ok(())
            }
            connected => hand_over(&self.listener, call, flags, &connected?),
        }
    }
}

/// Puts a connected socket in place of the caller's, with its flags.
fn hand_over(listener: &Listener, call: &Call, flags: i32, socket: &OwnedFd) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(socket, flags & libc::O_NONBLOCK != 0)?;
    let on_exec = if flags & libc::O_CLOEXEC != 0 { OnExec::Close } else { OnExec::Keep };
    listener.replace(call, socket.as_fd(), call.int(0), on_exec)?;
    listener.answer(call, Ok(()));
    Ok(())
}

impl Tcp {
    fn new(egress: &Egress, stop: &Stop) -> io::Result<Self> {
        let desk = Arc::new(Desk::new(egress.clone(), Rung::R2, &egress.listen(), stop.clone()));
        Ok(Self {
            workers: Workers::new(desk.clone())?,
            desk,
            pairs: Pairs::new()?,
            idle: HashMap::new(),
            waiting: VecDeque::new(),
            connected: HashSet::new(),
        })
    }

    fn knows(&self, id: SocketId) -> bool {
        self.idle.contains_key(&id) || self.connected.contains(&id)
    }

    fn remember(&mut self, id: SocketId) {
        if self.connected.len() >= MOST_REMEMBERED {
            self.connected.clear();
        }
        self.connected.insert(id);
    }

    /// What an address stands for, by the same table as under R3; `None` for one that is only itself.
    fn leads_to(&self, address: SocketAddr) -> Option<To> {
        match (address.ip(), address.port()) {
            (IpAddr::V4(ip), egress::PROXY_PORT) if ip.is_loopback() => Some(To::Server(Role::Proxy)),
            (IpAddr::V4(ip), egress::SOCKS_PORT) if ip.is_loopback() => Some(To::Server(Role::Socks)),
            // Whichever name server the host's files name: it is us.
            (_, egress::DNS_PORT) => Some(To::Server(Role::QuestionsOverTcp)),
            (ip, port) => self.desk.host_at(ip).map(|host| To::Host(host, port)),
        }
    }

    /// Serves those that wait, as far as there may be more.
    fn serve_waiting(&mut self) {
        self.workers.sweep();
        while !self.workers.is_full()
            && let Some((stream, to)) = self.waiting.pop_front()
        {
            self.workers.start(stream, move |stream, desk| match to {
                To::Server(role) => egress::serve_role(role, stream, desk),
                To::Host(host, port) => egress::to_host(stream, &host, port, desk),
            });
        }
    }
}

/// A folder as a place to look below.
pub(crate) fn folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(rustix::fs::CWD, path, flags, rustix::fs::Mode::empty())
}
