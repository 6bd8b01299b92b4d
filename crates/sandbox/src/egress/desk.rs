//! The one place where it is decided what a command may dial: policy, record, addresses, in this order.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::address::{plain_host, private};
use provost_core::containment::Rung;
use provost_core::net::{HostTraffic, MOST_ADDRESSES, MOST_DECISIONS};
use provost_core::policy::{Decision, Effect, LOOKED_UP};

use super::dns::{Answer, Query};
use super::names::{Listen, Names};
use super::relay::{Stop, look_up};
use super::{Egress, HostDecision, MOST_REFUSALS, NetReport, Refusal};

/// Why something is not dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) cause: Cause,
    /// `host:port`, without anything that a header or a terminal would take for something else.
    pub(super) what: String,
    pub(super) why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It may not be.
    Forbidden,
    /// It may be, and could not.
    Failed,
}

impl Refused {
    /// As a sentence.
    pub(super) fn words(&self) -> String {
        match self.cause {
            Cause::Forbidden => format!("{} was not dialled: {}.", self.what, self.why),
            Cause::Failed => format!("{} could not be reached: {}.", self.what, self.why),
        }
    }
}

/// What is known of a host and port.
#[derive(Debug, Clone)]
enum Known {
    Nothing,
    /// It may be dialled, which is on record.
    Allowed,
    /// These addresses may be.
    Checked(Vec<SocketAddr>),
    Refused(Refused),
}

/// A host and port, locked while it is decided on.
type Entry = Arc<Mutex<Known>>;

pub(crate) struct Desk {
    egress: Egress,
    /// What contains the command.
    rung: Rung,
    pub(super) stop: Stop,
    names: Mutex<Names>,
    hosts: Mutex<HashMap<(String, u16), Entry>>,
    traffic: Mutex<BTreeMap<(String, u16), HostTraffic>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub(crate) fn new(egress: Egress, rung: Rung, listen: &Listen, stop: Stop) -> Self {
        let names = Mutex::new(Names::new(listen));
        Self { egress, rung, stop, names, hosts: Mutex::default(), traffic: Mutex::default() }
    }

    /// The addresses at which a host may be dialled. Everything that the command wants comes through here.
    pub(super) fn admit(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        let admitted = self.decide(host, port);
        if let Err(refused) = &admitted {
            self.note(refused);
        }
        admitted
    }

    /// Whether a host may be dialled.
    pub(crate) fn admits(&self, host: &str, port: u16) -> Result<(), Cause> {
        self.admit(host, port).map(drop).map_err(|refused| refused.cause)
    }

    fn decide(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        let (Some(host), 1..) = (plain_host(host), port) else {
            let what = format!("{}:{port}", host.escape_debug());
            let why = "that is no host and port".to_owned();
            return Err(Refused { cause: Cause::Forbidden, what, why });
        };
        let entry = self.entry(&host, port)?;
        let mut known = lock(&entry);
        let forbidden = |why: String| Refused { cause: Cause::Forbidden, what: show(&host, port), why };
        match &*known {
            Known::Checked(addresses) => return Ok(addresses.clone()),
            Known::Refused(refused) => return Err(refused.clone()),
            Known::Allowed => {}
            Known::Nothing => {
                let decision = self.egress.policy.decide_dial(&host, port, self.rung);
                let refused = refusal(&decision).map(forbidden);
                self.put_on_record(&host, port, decision, Vec::new())?;
                if let Some(refused) = refused {
                    *known = Known::Refused(refused.clone());
                    return Err(refused);
                }
                *known = Known::Allowed;
            }
        }
        let addresses = self.addresses(&host, port)?;
        let floor = |address: &SocketAddr| {
            let ip = address.ip();
            let named = self.egress.policy.names_address(ip, port, self.rung);
            private(ip).filter(|_| !named).map(|kind| (ip, kind))
        };
        let mut below: Vec<(IpAddr, &str)> = addresses.iter().filter_map(floor).collect();
        below.dedup();
        below.truncate(MOST_ADDRESSES);
        let Some((ip, kind)) = below.first() else {
            *known = Known::Checked(addresses.clone());
            return Ok(addresses);
        };
        let why = format!("it leads to {ip}, a {kind} address, which no rule of the policy names");
        let decision = self.egress.policy.decide_dial(&host, port, self.rung);
        let private = below.iter().map(|(ip, _)| *ip).collect();
        self.put_on_record(&host, port, decision, private)?;
        let refused = forbidden(why);
        *known = Known::Refused(refused.clone());
        Err(refused)
    }

    /// Looked up once, and not at all where the host is an address.
    fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let failed = |why: String| Refused { cause: Cause::Failed, what: show(host, port), why };
        match look_up(&self.egress.resolver, host, port, &self.stop) {
            Ok(addresses) if addresses.is_empty() => Err(failed("it has no address".to_owned())),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(failed(format!("its name was not found: {error}"))),
        }
    }

    fn entry(&self, host: &str, port: u16) -> Result<Entry, Refused> {
        let mut hosts = lock(&self.hosts);
        let key = (host.to_owned(), port);
        if hosts.len() >= MOST_DECISIONS && !hosts.contains_key(&key) {
            let why =
                format!("the command dialled {MOST_DECISIONS} others before, and more are not decided on");
            return Err(Refused { cause: Cause::Forbidden, what: show(host, port), why });
        }
        Ok(hosts.entry(key).or_insert_with(|| Arc::new(Mutex::new(Known::Nothing))).clone())
    }

    fn put_on_record(
        &self,
        host: &str,
        port: u16,
        decision: Decision,
        private: Vec<IpAddr>,
    ) -> Result<(), Refused> {
        let decided = HostDecision { host: host.to_owned(), port, decision, private };
        self.egress.record.record(decided).map_err(|error| Refused {
            cause: Cause::Failed,
            what: show(host, port),
            why: error.to_string(),
        })
    }

    /// Answers a question about a name, out of this table: nobody else is asked, whatever the name.
    pub(super) fn answer(&self, query: &Query) -> Vec<u8> {
        let name = query.name.as_str();
        if name == "localhost" || name.ends_with(".localhost") {
            return query.answer(Answer::Address(std::net::Ipv4Addr::LOCALHOST));
        }
        if plain_host(name).as_deref() == Some(name) && self.egress.policy.knows_host(name, self.rung) {
            let address = lock(&self.names).address(name);
            return query.answer(match address {
                Some(address) if query.is_for_address() => Answer::Address(address),
                Some(_) => Answer::Nothing,
                None => Answer::NoSuchName,
            });
        }
        query.answer(Answer::NoSuchName)
    }

    /// Puts on record that a name was asked for which nobody may dial; call it when the question is answered.
    pub(super) fn asked(&self, query: &Query) {
        let name = query.name.as_str();
        let told = plain_host(name).as_deref() != Some(name)
            || name.ends_with(".arpa")
            || name.ends_with("localhost")
            || self.egress.policy.knows_host(name, self.rung);
        if told {
            return;
        }
        let Ok(entry) = self.entry(name, LOOKED_UP) else {
            // Whoever wants one asks for both kinds of address.
            if query.is_for_address() {
                lock(&self.egress.report).traffic.refused += 1;
            }
            return;
        };
        let mut known = lock(&entry);
        if let Known::Nothing = *known {
            let decision = self.egress.policy.decide_dial(name, LOOKED_UP, self.rung);
            let why = refusal(&decision).unwrap_or_else(|| "no rule allows it at any port".to_owned());
            let refused = Refused { cause: Cause::Forbidden, what: name.to_owned(), why };
            if self.put_on_record(name, LOOKED_UP, decision, Vec::new()).is_ok() {
                *known = Known::Refused(refused.clone());
            }
            drop(known);
            self.note(&refused);
        }
    }

    /// The host that stands behind an address of the sandbox.
    pub(crate) fn host_at(&self, address: IpAddr) -> Option<String> {
        match address {
            IpAddr::V4(address) => lock(&self.names).host(address),
            IpAddr::V6(_) => None,
        }
    }

    /// What was said on a connection names another host than the one that it leads to: that one is decided on too, so
    /// that it is on record, and whatever comes of that the connection ends.
    pub(super) fn other_host(&self, host: &str, port: u16, said: Option<&str>, how: &str) -> Refused {
        let what = show(host, port);
        let why = match said {
            Some(other) => {
                // Its own refusal, where there is one, says more.
                let _ = self.decide_only(other, port);
                format!("{how} names `{}`, and the connection leads to `{host}`", other.escape_debug())
            }
            None => format!("{how} names no host, and it has to name `{host}`"),
        };
        let refused = Refused { cause: Cause::Forbidden, what, why };
        self.note(&refused);
        refused
    }

    fn decide_only(&self, host: &str, port: u16) -> Result<(), Refused> {
        let Some(host) = plain_host(host) else { return Ok(()) };
        let entry = self.entry(&host, port)?;
        let mut known = lock(&entry);
        if let Known::Nothing = *known {
            let decision = self.egress.policy.decide_dial(&host, port, self.rung);
            let why = refusal(&decision);
            self.put_on_record(&host, port, decision, Vec::new())?;
            *known = match why {
                Some(why) => {
                    Known::Refused(Refused { cause: Cause::Forbidden, what: show(&host, port), why })
                }
                None => Known::Allowed,
            };
        }
        Ok(())
    }

    /// Remembers a refusal for whoever reads the command's result.
    pub(super) fn note(&self, refused: &Refused) {
        let mut report = lock(&self.egress.report);
        report.traffic.refused += 1;
        let refusal = Refusal { what: refused.what.clone(), why: refused.why.clone() };
        if report.refusals.len() < MOST_REFUSALS && !report.refusals.contains(&refusal) {
            report.refusals.push(refusal);
        }
    }

    /// Counts a connection and what went over it.
    pub(super) fn count(&self, host: &str, port: u16, connections: u64, sent: u64, received: u64) {
        let Some(host) = plain_host(host) else { return };
        let mut traffic = lock(&self.traffic);
        let entry = traffic.entry((host.clone(), port)).or_insert(HostTraffic {
            host,
            port,
            connections: 0,
            sent: 0,
            received: 0,
        });
        entry.connections += connections;
        entry.sent += sent;
        entry.received += received;
    }

    /// Leaves the report with the handle, when nothing runs any more.
    pub(crate) fn close(&self) {
        let hosts = lock(&self.traffic).values().cloned().collect();
        let NetReport { traffic, .. } = &mut *lock(&self.egress.report);
        traffic.hosts = hosts;
    }
}

/// Why a decision refuses; `None` where it does not.
fn refusal(decision: &Decision) -> Option<String> {
    match decision.effect {
        Effect::Allow => None,
        Effect::Deny => Some(format!("the policy does not allow it ({decision})")),
        Effect::Ask => Some(format!(
            "the policy asks about it ({decision}), and nobody can be asked while a command runs"
        )),
    }
}

fn show(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
