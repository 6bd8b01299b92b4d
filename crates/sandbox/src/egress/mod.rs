//! The network of a command, as far as the policy names hosts: the driver dials for it.
//!
//! The sandbox has no way out of its network namespace. Process 1 makes listeners in there before it gives its rights up
//! (`init/listen.rs`), and their descriptors come out to the driver, which serves them as long as the command runs: an
//! HTTP and a SOCKS proxy, a DNS stub that answers for allowed names out of a table, and the ports where programs dial
//! that know of no proxy. A socket stays in the namespace it was made in, so nothing has to run inside, and whose
//! connection it is follows from the listener that it came to, never from what it says. Without a namespace `broker/` is what
//! connections come through, to the same ends.
//!
//! What is dialled is decided by the policy and put on record first; the name is looked up once, each of its addresses is
//! held against [`provost_core::address::private`], and one that was checked is dialled. Nothing is decrypted.
//!
//! Start with `desk.rs` (who may dial what), then `connection.rs` (what is done with a connection), `serve.rs` (threads).

mod connection;
mod desk;
mod dns;
mod hello;
mod http;
mod names;
mod publish;
mod relay;
mod serve;
mod socks;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::net::Traffic;
use provost_core::policy::{Decision, Policy};

pub(crate) use connection::to_host;
pub(crate) use desk::{Cause, Desk};
pub(crate) use names::{Listen, OWN_ADDRESS, RANGE_BITS};
pub use publish::Publish;
pub(crate) use publish::{Joined, MOST_PUBLISHED};
pub(crate) use relay::{Stop, wait};
pub(crate) use serve::{Role, Server, Workers, serve_role};

/// The parsers of what commands send, for tests and fuzzing.
pub mod parse {
    pub use super::dns::{Answer, Query};
    pub use super::hello::{Hello, hello};
    pub use super::http::{Authority, Body, Chunked, Head, Request, Target, head};
    pub use super::socks::{Reply, Socks, greeting, request};
}

/// Connections of one command at the same time. More wait until one ends.
pub(crate) const MOST_CONNECTIONS: usize = 128;
/// Refusals that are told in words.
const MOST_REFUSALS: usize = 16;

/// Looks names up, outside of the sandbox. Called once for each allowed host and port of a command, on a thread that may
/// wait, and never for a name that is not allowed.
pub trait Resolver: Send + Sync {
    /// All addresses of a host.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up, or there is none.
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// As this host looks names up for any program.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostResolver;

impl Resolver for HostResolver {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }
}

/// What policy said of a host that a command dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDecision {
    /// The host as the command named it, in lower case, or its address.
    pub host: String,
    /// The port; [`provost_core::policy::LOOKED_UP`] where a name was looked up only.
    pub port: u16,
    /// What policy says.
    pub decision: Decision,
    /// Private addresses that an allowed host turned out to have: it is not dialled.
    pub private: Vec<IpAddr>,
}

/// Puts decisions on record.
pub trait Record: Send + Sync {
    /// Makes a decision durable; blocks until it is. Called once for each host and port of a command before it is looked
    /// up or dialled, and once more where its addresses are refused.
    ///
    /// # Errors
    ///
    /// When it cannot be made durable. Then nothing is dialled.
    fn record(&self, decided: HostDecision) -> Result<(), NotRecorded>;
}

/// A decision could not be made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the decision could not be put on record")]
pub struct NotRecorded;

/// Something that a command wanted from the network and did not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `host:port`, or the host where it was looked up only.
    pub what: String,
    /// Why, as a sentence without its full stop.
    pub why: String,
}

/// What a command did on the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetReport {
    /// What went where.
    pub traffic: Traffic,
    /// The first refusals, each once; [`Traffic::refused`] counts all.
    pub refusals: Vec<Refusal>,
}

/// The network of one command: what policy allows, and who puts on record what it decided. Clones are the same handle.
#[derive(Clone)]
pub struct Egress {
    policy: Arc<Policy>,
    record: Arc<dyn Record>,
    resolver: Arc<dyn Resolver>,
    report: Arc<Mutex<NetReport>>,
}

impl Egress {
    /// The hosts that `policy` allows, looked up as this host does. Each command needs a handle of its own.
    pub fn new(policy: Arc<Policy>, record: Arc<dyn Record>) -> Self {
        Self { policy, record, resolver: Arc::new(HostResolver), report: Arc::default() }
    }

    /// The same with names looked up by `resolver`.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// What the command did, once [`crate::Sandbox::run`] has returned.
    pub fn report(&self) -> NetReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn listen(&self) -> Listen {
        Listen::for_hosts(&self.policy.named_hosts())
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Where the servers are on the loopback that a command sees.
pub(crate) const PROXY_PORT: u16 = 3128;
pub(crate) const SOCKS_PORT: u16 = 1080;
pub(crate) const DNS_PORT: u16 = 53;

/// Ports of a command's own loopback that its network takes.
pub(crate) const OWN_PORTS: [u16; 5] = [PROXY_PORT, SOCKS_PORT, DNS_PORT, 80, 443];

/// Variables that tell a command's programs of the proxies, for those that would rather be told. They work without too.
///
/// `ALL_PROXY` is the HTTP proxy, since some clients fail on a SOCKS one that they would not have used. Only the loopback
/// is exempt: every other address is a host like any.
pub const PROXY_ENVIRONMENT: [(&str, &str); 10] = [
    ("HTTP_PROXY", PROXY),
    ("http_proxy", PROXY),
    ("HTTPS_PROXY", PROXY),
    ("https_proxy", PROXY),
    ("ALL_PROXY", PROXY),
    ("all_proxy", PROXY),
    ("NO_PROXY", LOOPBACK),
    ("no_proxy", LOOPBACK),
    ("NODE_USE_ENV_PROXY", "1"),
    ("CARGO_HTTP_PROXY", PROXY),
];

/// Tells the C library to ask name servers over TCP, which is what a command without a namespace can ask.
pub(crate) const ASK_OVER_TCP: (&str, &str) = ("RES_OPTIONS", "use-vc");

const PROXY: &str = "http://127.0.0.1:3128";
const LOOPBACK: &str = "localhost,127.0.0.1,::1";
