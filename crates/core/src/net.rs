//! What a command did on the network: what was decided of each host, and how much went there.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::id::ActId;
use crate::policy::Decision;

/// Most decisions on record for one command. What it dials beyond them is refused without one, so that a loop over
/// names fills no journal.
pub const MOST_DECISIONS: usize = 128;

/// Most addresses of one host that are put on record.
pub const MOST_ADDRESSES: usize = 16;

/// Policy decided on a host that a running command dials. Durable before the host's name is looked up or it is dialled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetDecided {
    /// The command's act.
    pub act: ActId,
    /// The host as the command named it, in lower case, or its address.
    pub host: String,
    /// The port; [`LOOKED_UP`](crate::policy::LOOKED_UP) where a name was looked up and not dialled.
    pub port: u16,
    /// What policy says. Nobody can be asked while a command runs, so `ask` refuses.
    pub decision: Decision,
    /// Addresses that an allowed host turned out to have and that policy does not name: private ones. Then it was not
    /// dialled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<IpAddr>,
}

/// What one command sent and received, by host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Each host that was dialled, in order of name and port.
    pub hosts: Vec<HostTraffic>,
    /// Attempts that were refused.
    pub refused: u64,
}

impl Traffic {
    /// Whether nothing was dialled and nothing refused.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.refused == 0
    }
}

/// What went to one host and came from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTraffic {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Connections that came about.
    pub connections: u64,
    /// Bytes that the command sent.
    pub sent: u64,
    /// Bytes that it received.
    pub received: u64,
}
