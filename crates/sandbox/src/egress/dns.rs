//! DNS, as much as a stub needs that answers from its own table: one question in, one answer out.

use std::net::Ipv4Addr;

/// Type numbers of questions.
const A: u16 = 1;
/// The internet class.
const IN: u16 = 1;
const HEADER: usize = 12;
/// Seconds that an answer may be remembered: the names' addresses stay the same as long as the command runs.
const TTL: u32 = 60;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    id: [u8; 2],
    recursion_desired: bool,
    /// The name as asked for, in lower case, without the dot at its end. Empty for the root.
    pub name: String,
    kind: u16,
    class: u16,
    /// The question as it stood in the message, to be said again in the answer.
    question: Vec<u8>,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name has this address.
    Address(Ipv4Addr),
    /// There is such a name, and it has nothing of this type.
    Nothing,
    /// There is no such name.
    NoSuchName,
}

impl Query {
    /// Reads a message. `None` for what is no query with one question, which is not answered.
    ///
    /// ```
    /// # use provost_sandbox::parse::Query;
    /// let mut message = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00".to_vec();
    /// message.extend(b"\x07Example\x03org\x00\x00\x01\x00\x01");
    /// assert_eq!(Query::parse(&message).unwrap().name, "example.org");
    /// ```
    pub fn parse(message: &[u8]) -> Option<Self> {
        let (header, rest) = message.split_at_checked(HEADER)?;
        let [id_high, id_low, flags, _, 0, 1, ..] = *header else { return None };
        // A response, or an operation other than a query.
        if flags & 0b1111_1000 != 0 {
            return None;
        }
        let (name, length) = name(rest)?;
        let fixed = rest.get(length..length + 4)?;
        Some(Self {
            id: [id_high, id_low],
            recursion_desired: flags & 1 != 0,
            name,
            kind: u16::from_be_bytes([fixed[0], fixed[1]]),
            class: u16::from_be_bytes([fixed[2], fixed[3]]),
            question: rest[..length + 4].to_vec(),
        })
    }

    /// Whether it asks for an IPv4 address.
    pub fn is_for_address(&self) -> bool {
        self.kind == A && self.class == IN
    }

    /// The message that answers it. An address is only given to who asked for one.
    pub fn answer(&self, answer: Answer) -> Vec<u8> {
        let address = match answer {
            Answer::Address(address) if self.is_for_address() => Some(address),
            _ => None,
        };
        let code = if answer == Answer::NoSuchName { 3 } else { 0 };
        let mut out = Vec::with_capacity(HEADER + self.question.len() + 16);
        out.extend(self.id);
        // A response, authoritative; recursion as desired and available.
        out.extend([0b1000_0100 | u8::from(self.recursion_desired), 0b1000_0000 | code]);
        out.extend([0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
        out.extend(&self.question);
        if let Some(address) = address {
            // The name stands where the question begins.
            out.extend([0xc0, HEADER as u8]);
            out.extend(A.to_be_bytes());
            out.extend(IN.to_be_bytes());
            out.extend(TTL.to_be_bytes());
            out.extend([0, 4]);
            out.extend(address.octets());
        }
        out
    }
}

/// A name that is not compressed, as text, and its length in the message. A byte that a host cannot have is written `?`,
/// so that no two names are told apart by what is not shown.
fn name(bytes: &[u8]) -> Option<(String, usize)> {
    let (mut text, mut at) = (String::new(), 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            return Some((text, at));
        }
        // Two high bits mean a pointer, which no question needs.
        if length > 63 || at + length > 254 {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        for byte in bytes.get(at..at + length)? {
            let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            text.push(if plain { char::from(byte.to_ascii_lowercase()) } else { '?' });
        }
        at += length;
    }
}
