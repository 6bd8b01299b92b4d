//! What a policy says of the network as a whole, beside its decision on one host.

use std::net::IpAddr;

use super::{Decision, Effect, Pattern, Policy};
use crate::act::{Access, Touch};
use crate::address::private;
use crate::containment::Rung;

/// The port under which a name is decided on that was only looked up.
pub const LOOKED_UP: u16 = 0;

/// Ports that programs dial without naming them.
const USUAL_PORTS: [u16; 2] = [443, 80];

impl Policy {
    /// Decides on dialling a host: a name in lower case, or an address.
    pub fn decide_dial(&self, host: &str, port: u16, rung: Rung) -> Decision {
        self.decide(&[Touch::Net { host: host.to_owned(), port }], rung)
    }

    /// Whether there is any host that may be dialled without asking.
    pub fn opens_network(&self, rung: Rung) -> bool {
        let by_rule = self.net_rules(Effect::Allow).next().is_some();
        // No rule matches an empty name, so this is what stands where no rule does.
        by_rule || self.decide_dial("", LOOKED_UP, rung).effect == Effect::Allow
    }

    /// Whether a name may be dialled at any port that one could guess: then it is given an address when it is looked up.
    /// Each dial is decided on by itself.
    pub fn knows_host(&self, host: &str, rung: Rung) -> bool {
        let named = self.net_rules(Effect::Allow).filter_map(|rule| rule.port()?.parse().ok());
        let mut ports = [LOOKED_UP].into_iter().chain(USUAL_PORTS).chain(named);
        ports.any(|port| self.decide_dial(host, port, rung).effect == Effect::Allow)
    }

    /// Whether an address may be dialled because a rule names it, letter by letter, and not by a glob.
    pub fn names_address(&self, address: IpAddr, port: u16, rung: Rung) -> bool {
        let host = address.to_string();
        let named = self.net_rules(Effect::Allow).any(|rule| {
            rule.literal_host().is_some_and(|host| host.parse() == Ok(address))
                && rule.matches(&Touch::Net { host: host.clone(), port }, Effect::Allow)
        });
        named && self.decide_dial(&host, port, rung).effect == Effect::Allow
    }

    /// Hosts and ports that rules allow letter by letter.
    pub fn named_hosts(&self) -> Vec<(String, u16)> {
        let named = |rule: &Pattern| Some((rule.literal_host()?.to_owned(), rule.port()?.parse().ok()?));
        let mut all: Vec<_> = self.net_rules(Effect::Allow).filter_map(named).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The hosts that rules allow, as they are written there.
    pub fn allowed_hosts(&self) -> Vec<&str> {
        self.net_rules(Effect::Allow).map(Pattern::target).collect()
    }

    /// Hosts that rules allow and that are each command's own: its loopback, where nothing of the host's answers.
    pub fn allowed_loopback(&self) -> Vec<&str> {
        let is_own = |rule: &&Pattern| {
            rule.literal_host().is_some_and(|host| match host.parse::<IpAddr>() {
                Ok(address) => private(address) == Some("loopback"),
                Err(_) => host == "localhost" || host.ends_with(".localhost"),
            })
        };
        self.net_rules(Effect::Allow).filter(is_own).map(Pattern::target).collect()
    }

    fn net_rules(&self, effect: Effect) -> impl Iterator<Item = &Pattern> {
        let rules = self.layers.iter().flat_map(|layer| &layer.rules);
        let of_net = move |rule: &&super::Rule| rule.effect == effect && rule.pattern.access() == Access::Net;
        rules.filter(of_net).map(|rule| &rule.pattern)
    }
}
