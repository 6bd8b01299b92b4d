//! Connections that end when the command does: dialling, reading, and carrying bytes both ways.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::Resolver;
use super::http::Body;

/// How long one address may take to answer.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// How long a name may take to be found.
const LOOK_UP_LIMIT: Duration = Duration::from_secs(30);
/// How long a client may take to say what it wants.
pub(super) const SAY_LIMIT: Duration = Duration::from_secs(30);
const BUFFER: usize = 16 * 1024;

/// Tells all connections to end. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<OwnedFd>);

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(event()?)))
    }

    pub(crate) fn stop(&self) {
        signal(&self.0);
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(super) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

pub(super) fn signal(event: &OwnedFd) {
    // The only failure is a full counter, and then it is signalled already.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// Waits for one of the descriptors, and fails when the time is over or the command is.
pub(crate) fn wait(
    wanted: &[(BorrowedFd<'_>, PollFlags)],
    stop: &Stop,
    until: Option<Instant>,
) -> io::Result<Vec<PollFlags>> {
    loop {
        let mut all = vec![PollFd::new(stop, PollFlags::IN)];
        all.extend(wanted.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut all, left.as_ref()) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) if !all[0].revents().is_empty() => return Err(ErrorKind::ConnectionAborted.into()),
            Ok(_) => return Ok(all[1..].iter().map(PollFd::revents).collect()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Looks a name up on a thread of its own: the C library's way to do it can be neither bounded nor ended.
pub(super) fn look_up(
    resolver: &Arc<dyn Resolver>,
    host: &str,
    port: u16,
    stop: &Stop,
) -> io::Result<Vec<SocketAddr>> {
    let (done, found) = (Arc::new(event()?), mpsc::sync_channel(1));
    let (sender, receiver) = found;
    let (resolver, host, tell) = (resolver.clone(), host.to_owned(), done.clone());
    std::thread::Builder::new().name("provost-resolve".to_owned()).spawn(move || {
        let _ = sender.send(resolver.resolve(&host, port));
        signal(&tell);
    })?;
    wait(&[(done.as_fd(), PollFlags::IN)], stop, Some(Instant::now() + LOOK_UP_LIMIT))?;
    receiver.try_recv().map_err(io::Error::other)?
}

/// Dials the addresses in their order until one answers.
pub(super) fn dial(addresses: &[SocketAddr], stop: &Stop) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match dial_one(address, stop) {
            Ok(stream) => return Ok(stream),
            // The command is over.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => return Err(error),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn dial_one(address: &SocketAddr, stop: &Stop) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            wait(&[(socket.as_fd(), PollFlags::OUT)], stop, Some(Instant::now() + DIAL_LIMIT))?;
            rustix::net::sockopt::socket_error(&socket)??;
        }
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from(socket);
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// The command's side of a connection, and what it sent that nobody has taken yet.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) read: Vec<u8>,
}

impl Client {
    /// Reads more, and fails at the end.
    pub(super) fn more(&mut self, stop: &Stop, until: Instant) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.read.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(&[(self.stream.as_fd(), PollFlags::IN)], stop, Some(until))?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Says something short.
    pub(super) fn say(&mut self, bytes: &[u8], stop: &Stop) -> io::Result<()> {
        let until = Instant::now() + SAY_LIMIT;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(&[(self.stream.as_fd(), PollFlags::OUT)], stop, Some(until))?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says a last thing, and lets it arrive: what the client is still sending would else reset the connection.
    pub(super) fn say_last(&mut self, bytes: &[u8], stop: &Stop) -> io::Result<()> {
        self.say(bytes, stop)?;
        let _ = self.stream.shutdown(Shutdown::Write);
        let until = Instant::now() + Duration::from_secs(2);
        let mut left = 1024 * 1024;
        while left > 0 && self.more(stop, until).is_ok() {
            left -= self.read.len().min(left);
            self.read.clear();
        }
        Ok(())
    }
}

/// What the client may still send.
pub(super) enum Outbound {
    /// Anything.
    All,
    /// The rest of one request, and then nothing.
    Body(Body),
}

/// Bytes on their way in one direction.
struct Way {
    buffer: Vec<u8>,
    /// What of the buffer is under way.
    pending: std::ops::Range<usize>,
    /// Nothing more comes.
    ended: bool,
    /// That was passed on.
    closed: bool,
    carried: u64,
}

impl Way {
    fn new(first: Vec<u8>) -> Self {
        let pending = 0..first.len();
        Self { buffer: first, pending, ended: false, closed: false, carried: 0 }
    }

    fn wants_input(&self) -> bool {
        !self.ended && self.pending.is_empty()
    }

    /// Takes what there is; how much that is.
    fn fill(&mut self, from: &mut TcpStream) -> io::Result<usize> {
        self.buffer.resize(BUFFER, 0);
        match from.read(&mut self.buffer) {
            Ok(0) => {
                self.ended = true;
                Ok(0)
            }
            Ok(count) => {
                self.pending = 0..count;
                Ok(count)
            }
            Err(error) if is_later(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn pour(&mut self, to: &mut TcpStream) -> io::Result<()> {
        match to.write(&self.buffer[self.pending.clone()]) {
            Ok(count) => {
                self.pending.start += count;
                self.carried += count as u64;
                Ok(())
            }
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn give_up(&mut self) {
        self.pending = 0..0;
        self.ended = true;
        self.closed = true;
    }

    /// Passes the end on, once everything before it is.
    fn close(&mut self, to: &TcpStream) {
        if self.ended && self.pending.is_empty() && !self.closed {
            self.closed = true;
            let _ = to.shutdown(Shutdown::Write);
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Carries bytes both ways until both are done, one fails, or the command is over: how many went out and came in.
/// `first` goes out before anything else.
pub(super) fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    first: Vec<u8>,
    outbound: Outbound,
    stop: &Stop,
) -> (u64, u64) {
    let (mut out, mut back) = (Way::new(first), Way::new(Vec::new()));
    // An error on either side ends both; what was carried until then was carried.
    let _ = carry(client, server, &mut out, &mut back, outbound, stop);
    (out.carried, back.carried)
}

fn carry(
    client: &mut TcpStream,
    server: &mut TcpStream,
    out: &mut Way,
    back: &mut Way,
    mut outbound: Outbound,
    stop: &Stop,
) -> io::Result<()> {
    loop {
        let one_request = matches!(outbound, Outbound::Body(_));
        if back.closed && (out.closed || one_request) {
            return Ok(());
        }
        let mut flags = [PollFlags::empty(); 2];
        flags[0].set(PollFlags::IN, out.wants_input());
        flags[0].set(PollFlags::OUT, !back.pending.is_empty());
        flags[1].set(PollFlags::IN, back.wants_input());
        flags[1].set(PollFlags::OUT, !out.pending.is_empty());
        // One from which nothing is wanted is left out: its end would be reported again and again.
        let both = [(client.as_fd(), flags[0]), (server.as_fd(), flags[1])];
        let wanted: Vec<_> = both.into_iter().filter(|(_, flags)| !flags.is_empty()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        wait(&wanted, stop, None)?;
        if !out.pending.is_empty() {
            if out.pour(server).is_err() {
                // It takes no more, and may have answered before it was asked to the end.
                out.give_up();
            }
        } else if out.wants_input() {
            let count = out.fill(client)?;
            if let Outbound::Body(body) = &mut outbound {
                let taken = body.take(&out.buffer[..count]).map_err(io::Error::other)?;
                if taken < count {
                    // A second request, on a connection for one.
                    return Ok(());
                }
                if out.ended && !body.is_over() {
                    return Ok(());
                }
            }
        }
        if !back.pending.is_empty() {
            back.pour(client)?;
        } else if back.wants_input() {
            back.fill(server)?;
        }
        // A server may take the end of a request's connection for the end of interest in its answer.
        if !one_request {
            out.close(server);
        }
        back.close(client);
    }
}
