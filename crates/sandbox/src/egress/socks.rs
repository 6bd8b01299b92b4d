//! SOCKS 5, as much as a client needs that wants a connection to a host.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What the bytes that a client sent so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socks<T> {
    /// More is needed.
    Partial,
    /// Whole, and how many bytes it took.
    Whole(T, usize),
    /// None that is understood.
    Bad(Reply),
}

/// What is answered to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The connection stands.
    Connected = 0,
    /// Something failed.
    Failed = 1,
    /// The policy does not allow it.
    NotAllowed = 2,
    /// The host cannot be reached.
    Unreachable = 4,
    /// Only connections are made here: nothing is bound, and there is no UDP.
    NoSuchCommand = 7,
    /// An address of a kind that is not known.
    NoSuchAddress = 8,
}

/// The way in that is offered: none is asked for who one is.
pub(super) const NO_AUTHENTICATION: [u8; 2] = [5, 0];
/// None of the ways in that the client knows will do.
pub(super) const NO_METHOD: [u8; 2] = [5, 0xff];

impl Reply {
    /// As it is sent; the address in it is of no use to anybody.
    pub(super) fn bytes(self) -> [u8; 10] {
        [5, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Reads the greeting: whether the client can do without authentication.
pub fn greeting(bytes: &[u8]) -> Socks<bool> {
    match *bytes {
        [] | [5] => Socks::Partial,
        [5, count, ref methods @ ..] => match methods.get(..count.into()) {
            Some(methods) => Socks::Whole(methods.contains(&0), 2 + methods.len()),
            None => Socks::Partial,
        },
        _ => Socks::Bad(Reply::Failed),
    }
}

/// Reads a request for a connection: host, as text, and port.
pub fn request(bytes: &[u8]) -> Socks<(String, u16)> {
    let (kind, rest) = match *bytes {
        [] | [5] => return Socks::Partial,
        [5, 1] | [5, 1, 0] => return Socks::Partial,
        [5, 1, 0, kind, ref rest @ ..] => (kind, rest),
        [5, 1, ..] => return Socks::Bad(Reply::Failed),
        [5, _, ..] => return Socks::Bad(Reply::NoSuchCommand),
        _ => return Socks::Bad(Reply::Failed),
    };
    let (host, length) = match kind {
        1 => match rest.first_chunk::<4>() {
            Some(octets) => (Ipv4Addr::from(*octets).to_string(), 4),
            None => return Socks::Partial,
        },
        4 => match rest.first_chunk::<16>() {
            Some(octets) => (Ipv6Addr::from(*octets).to_string(), 16),
            None => return Socks::Partial,
        },
        3 => match rest {
            [] => return Socks::Partial,
            [count, behind @ ..] => match behind.get(..usize::from(*count)) {
                None => return Socks::Partial,
                // What is no text is no host, and is said so when it is decided on.
                Some(name) => (String::from_utf8_lossy(name).into_owned(), 1 + name.len()),
            },
        },
        _ => return Socks::Bad(Reply::NoSuchAddress),
    };
    match rest[length..].first_chunk::<2>() {
        Some(port) => Socks::Whole((host, u16::from_be_bytes(*port)), 4 + length + 2),
        None => Socks::Partial,
    }
}
