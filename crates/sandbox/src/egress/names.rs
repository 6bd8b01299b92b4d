//! Names and the addresses that stand for them inside of the sandbox.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use provost_core::address::plain_host;
use serde::{Deserialize, Serialize};

/// Addresses for names, 198.18.0.0/15: set aside for benchmarks, so that no host has one of them.
pub(crate) const RANGE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
pub(crate) const RANGE_BITS: u8 = 15;

/// Names that are given an address. A loop over names takes no more memory than that.
const MOST_NAMES: usize = 1024;
/// Ports beside 80 and 443 that are listened on for programs that know of no proxy.
const MOST_CAPTURES: usize = 48;

pub(crate) const HTTP: u16 = 80;
pub(crate) const HTTPS: u16 = 443;

/// What is listened on in the sandbox beside its proxies and its DNS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listen {
    /// Addresses beside the range for names that lead to this sandbox too: those that the policy names.
    pub(crate) addresses: Vec<Ipv4Addr>,
    /// Address and port; 80 and 443 are listened on under each address.
    pub(crate) captures: Vec<(Ipv4Addr, u16)>,
    /// Names that have an address from the start, in order of their addresses.
    #[serde(skip)]
    names: Vec<String>,
}

impl Listen {
    /// For hosts and ports that the policy names letter by letter.
    pub(crate) fn for_hosts(hosts: &[(String, u16)]) -> Self {
        let mut listen = Self::default();
        for (host, port) in hosts {
            let Some(host) = plain_host(host) else { continue };
            let address = match host.parse() {
                Ok(IpAddr::V4(address)) if can_be_here(address) => {
                    if !listen.addresses.contains(&address) && listen.addresses.len() < MOST_CAPTURES {
                        listen.addresses.push(address);
                    }
                    address
                }
                // Through the proxies only.
                Ok(_) => continue,
                Err(_) => {
                    let at = listen.names.iter().position(|name| *name == host).unwrap_or_else(|| {
                        listen.names.push(host);
                        listen.names.len() - 1
                    });
                    let Some(address) = nth(at) else { continue };
                    address
                }
            };
            let usual = matches!(*port, HTTP | HTTPS | 0);
            if !usual && listen.captures.len() < MOST_CAPTURES {
                listen.captures.push((address, *port));
            }
        }
        listen
    }
}

/// Whether an address outside can stand for itself inside.
fn can_be_here(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    !matches!((a, b), (0 | 127 | 224..=255, _) | (198, 18..=19))
}

/// The address of the name with this number.
fn nth(number: usize) -> Option<Ipv4Addr> {
    // Without the first: some software takes an address that ends in 0 for a network.
    let number = u32::try_from(number).ok().filter(|number| (*number as usize) < MOST_NAMES)? + 1;
    Some(Ipv4Addr::from(u32::from(RANGE) + number))
}

/// Names by address and back.
#[derive(Debug)]
pub(crate) struct Names {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
    addresses: Vec<Ipv4Addr>,
}

impl Names {
    pub(crate) fn new(listen: &Listen) -> Self {
        let names = listen.names.clone();
        let numbers = names.iter().cloned().zip(0..).collect();
        Self { numbers, names, addresses: listen.addresses.clone() }
    }

    /// The address that stands for a name; `None` when there are too many names.
    pub(crate) fn address(&mut self, name: &str) -> Option<Ipv4Addr> {
        if let Some(number) = self.numbers.get(name) {
            return nth(*number);
        }
        let address = nth(self.names.len())?;
        self.numbers.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        Some(address)
    }

    /// The host that was dialled at an address of the sandbox.
    pub(crate) fn host(&self, address: Ipv4Addr) -> Option<String> {
        if self.addresses.contains(&address) {
            return Some(address.to_string());
        }
        let number = u32::from(address).checked_sub(u32::from(RANGE) + 1)?;
        self.names.get(number as usize).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_address_and_an_address_one_name() {
        let hosts = [("a.test", 8080), ("a.test", 443), ("10.1.2.3", 5432), ("127.0.0.1", 1), ("b.test", 99)];
        let listen = Listen::for_hosts(&hosts.map(|(host, port)| (host.to_owned(), port)));
        let (a, b) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2));
        let address = Ipv4Addr::new(10, 1, 2, 3);
        assert_eq!(listen.captures, [(a, 8080), (address, 5432), (b, 99)]);
        assert_eq!(listen.addresses, [address]);
        let mut names = Names::new(&listen);
        assert_eq!(names.address("b.test"), Some(b));
        assert_eq!(names.host(address).as_deref(), Some("10.1.2.3"));
        let many: Vec<_> = (0..2 * MOST_NAMES).map_while(|n| names.address(&format!("n{n}"))).collect();
        assert_eq!(many.len(), MOST_NAMES - 2);
        for (n, address) in many.iter().enumerate() {
            assert_eq!(names.host(*address), Some(format!("n{n}")));
            assert_eq!(names.address(&format!("n{n}")), Some(*address));
        }
        assert_eq!(names.host(Ipv4Addr::new(198, 19, 0, 1)), None);
        assert_eq!(names.host(Ipv4Addr::new(127, 0, 0, 1)), None);
        assert_eq!(names.host(RANGE), None);
    }
}
