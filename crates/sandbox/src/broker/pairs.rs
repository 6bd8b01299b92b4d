//! TCP sockets that are connected before a command gets them: to us, and to nobody else ever.
//!
//! A socket that was connected never listens again, short of a `connect` to no address, and what it sends goes to its other
//! end whatever address is given. So a command may have it, and `connect` only has to say what the other end stands for.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::notify::errno;
use crate::egress::{Stop, wait};

/// A connection over the loopback takes no longer, unless somebody floods the listener.
const LIMIT: Duration = Duration::from_secs(2);

/// Makes pairs of connected sockets.
#[derive(Debug)]
pub(super) struct Pairs {
    listener: TcpListener,
    address: SocketAddr,
}

/// The two ends of a connection.
pub(super) struct Pair {
    pub(super) theirs: OwnedFd,
    pub(super) ours: TcpStream,
}

impl Pairs {
    pub(super) fn new() -> Result<Self, Errno> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(errno)?;
        listener.set_nonblocking(true).map_err(errno)?;
        let address = listener.local_addr().map_err(errno)?;
        Ok(Self { listener, address })
    }

    /// A pair whose one end is a blocking socket of this family.
    pub(super) fn make(&self, family: AddressFamily, stop: &Stop) -> Result<Pair, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let theirs = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let SocketAddr::V4(v4) = self.address else { return Err(Errno::AFNOSUPPORT) };
        let to = match family {
            AddressFamily::INET6 => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
            _ => SocketAddr::V4(v4),
        };
        match rustix::net::connect(&theirs, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        let mut here = SocketAddr::try_from(rustix::net::getsockname(&theirs)?).map_err(|_| Errno::IO)?;
        here.set_ip(here.ip().to_canonical());
        let until = Instant::now() + LIMIT;
        // Any process of this host can dial the listener; what is not our own other end is not looked at.
        let ours = loop {
            match self.listener.accept() {
                Ok((stream, from)) if from == here => break stream,
                Ok(_) => {}
                Err(error) => match errno(error) {
                    Errno::AGAIN => wait(&[(self.listener.as_fd(), PollFlags::IN)], stop, Some(until))
                        .map(drop)
                        .map_err(|_| Errno::TIMEDOUT)?,
                    Errno::INTR | Errno::CONNABORTED => {}
                    errno => return Err(errno),
                },
            }
            if Instant::now() >= until {
                return Err(Errno::TIMEDOUT);
            }
        };
        rustix::net::sockopt::socket_error(&theirs)??;
        rustix::io::ioctl_fionbio(&theirs, false)?;
        Ok(Pair { theirs, ours })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustix::net::{SocketAddrV4, bind, listen};

    use super::*;

    #[test]
    fn an_end_reaches_the_other_and_can_be_nothing_else() {
        let (pairs, stop) = (Pairs::new().unwrap(), Stop::new().unwrap());
        // Strangers come first, and are not taken for it.
        let _strangers: Vec<_> = (0..5).map(|_| TcpStream::connect(pairs.address).unwrap()).collect();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            let Pair { theirs, mut ours } = pairs.make(family, &stop).unwrap();
            let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
            let no_server = |theirs: &OwnedFd| assert_eq!(listen(theirs, 1), Err(Errno::INVAL));
            assert_eq!(bind(&theirs, &any), Err(Errno::INVAL));
            no_server(&theirs);
            let mut theirs = TcpStream::from(theirs);
            theirs.write_all(b"hello").unwrap();
            let mut said = [0; 5];
            ours.read_exact(&mut said).unwrap();
            assert_eq!(&said, b"hello");
            // Nor when the connection is over, and its end was seen; then it may have a port again.
            drop(ours);
            assert_eq!(theirs.read(&mut said).unwrap(), 0);
            let _ = theirs.shutdown(std::net::Shutdown::Both);
            let theirs = OwnedFd::from(theirs);
            no_server(&theirs);
            let _ = bind(&theirs, &any);
            no_server(&theirs);
        }
    }
}
