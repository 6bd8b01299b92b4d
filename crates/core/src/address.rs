//! Addresses that a name has no business to lead to: the machine itself, its neighbours, and a cloud's metadata.
//!
//! A name that policy allows says nothing about where it points, and whoever runs its name server may point it inwards.
//! So each answer is held against this floor, and only an address that policy names itself is dialled all the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of address it is, where it is none of the public internet; `None` for one that is.
///
/// IPv6 forms that carry an IPv4 address (mapped, NAT64, 6to4) are what the address in them is.
///
/// ```
/// use provost_core::address::private;
/// assert_eq!(private("169.254.169.254".parse().unwrap()), Some("link-local"));
/// assert_eq!(private("::ffff:10.0.0.1".parse().unwrap()), Some("private"));
/// assert_eq!(private("93.184.215.14".parse().unwrap()), None);
/// ```
pub fn private(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => private_v4(address),
        IpAddr::V6(address) => private_v6(address),
    }
}

fn private_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [169, 254, ..] => "link-local",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "private",
        [100, 64..=127, ..] => "carrier-grade NAT",
        [192, 0, 0, _] | [198, 18..=19, ..] => "special-purpose",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved",
        _ => return None,
    })
}

fn private_v6(address: Ipv6Addr) -> Option<&'static str> {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // IPv4-mapped, and its translated relative.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => embedded(high, low),
        // The unspecified address, and IPv4-compatible ones, which nobody has had a use for since 2006.
        [0, 0, 0, 0, 0, 0, ..] => Some("unspecified"),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, ..] => Some("local NAT64"),
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo: a tunnel to whatever address is in it.
        [0x2001, 0, ..] => Some("Teredo"),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("site-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        _ => None,
    }
}

/// Longest host that is a name: what DNS can carry.
const LONGEST_HOST: usize = 253;

/// A host as decisions have it: an address in its usual form, or a name in lower case without the dot at its end.
/// `None` for what is neither.
///
/// ```
/// use provost_core::address::plain_host;
/// assert_eq!(plain_host("Example.ORG.").as_deref(), Some("example.org"));
/// assert_eq!(plain_host("[0::1]").as_deref(), Some("::1"));
/// assert_eq!(plain_host("a b"), None);
/// ```
pub fn plain_host(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bare {
        return address.parse::<Ipv6Addr>().ok().map(|address| address.to_string());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    (name.len() <= LONGEST_HOST && name.split('.').all(label)).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<&'static str> {
        private(text.parse().expect("an address"))
    }

    #[test]
    fn what_is_not_public_is_known_in_each_of_its_forms() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.255.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.1.2.3",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:0:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:1::1",
            "2001:0:1:2:3:4:5:6",
        ];
        for text in private {
            assert!(of(text).is_some(), "{text}");
        }
        let public = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.0.1",
            "100.128.0.1",
            "126.0.0.1",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
            "2001:db8::1",
            "2001:4860:4860::8888",
            "2a00:1450::1",
        ];
        for text in public {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_has_one_form() {
        assert_eq!(plain_host("::FFFF:1.2.3.4").as_deref(), Some("::ffff:1.2.3.4"));
        assert_eq!(plain_host("1.2.3.4").as_deref(), Some("1.2.3.4"));
        assert_eq!(plain_host("_dmarc.a-b.C").as_deref(), Some("_dmarc.a-b.c"));
        let long = "a".repeat(64);
        for bad in ["", ".", "a..b", "a/b", "a:1", "a\r\nb", "ä", "[a]", "[1.2.3.4]", "fe80::1%lo", &long] {
            assert_eq!(plain_host(bad), None, "{bad:?}");
        }
        assert_eq!(plain_host(&["a."; 127].concat()), Some(["a"; 127].join(".")));
        assert_eq!(plain_host(&["a."; 128].concat()), None);
    }
}
