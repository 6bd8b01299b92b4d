//! The first message of a TLS client, as far as it names the server that it wants. Nothing is decrypted.

/// Longest first message that is read. Those of today's clients, post-quantum key shares included, are below 3 kB.
const LONGEST: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What the bytes that a client sent so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The beginning of a TLS handshake; more is needed.
    Partial,
    /// A whole first message; with the server's name where it gives one.
    Whole(Option<String>),
    /// No TLS handshake.
    Other,
}

/// Reads the start of a connection.
///
/// ```
/// # use provost_sandbox::parse::{Hello, hello};
/// assert_eq!(hello(b"\x16\x03"), Hello::Partial);
/// assert_eq!(hello(b"GET / HTTP/1.1\r\n"), Hello::Other);
/// ```
pub fn hello(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = bytes;
    // The message may lie in several records.
    loop {
        match *rest {
            [] => break,
            [kind, ..] if kind != HANDSHAKE => return Hello::Other,
            [_, major, ..] if major != 3 => return Hello::Other,
            [_, _, _, high, low, ref behind @ ..] => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                if length == 0 {
                    return Hello::Other;
                }
                let part = behind.get(..length).unwrap_or(behind);
                message.extend_from_slice(part);
                rest = &behind[part.len()..];
                if let Some(&kind) = message.first()
                    && kind != CLIENT_HELLO
                {
                    return Hello::Other;
                }
                if part.len() < length || is_whole(&message) {
                    break;
                }
            }
            _ => break,
        }
    }
    if is_whole(&message) {
        let mut reader = Reader(&message[4..4 + length_of(&message)]);
        return match server_name(&mut reader) {
            Some(name) => Hello::Whole(name),
            None => Hello::Other,
        };
    }
    if bytes.len() > LONGEST || length_of(&message) > LONGEST { Hello::Other } else { Hello::Partial }
}

fn length_of(message: &[u8]) -> usize {
    match *message {
        [_, high, middle, low, ..] => usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low),
        _ => 0,
    }
}

fn is_whole(message: &[u8]) -> bool {
    message.len() >= 4 && message.len() - 4 >= length_of(message)
}

/// The name in a whole first message; `None` where the message is malformed or names two.
fn server_name(hello: &mut Reader<'_>) -> Option<Option<String>> {
    // Version and random.
    hello.take(2 + 32)?;
    hello.vector(1)?;
    hello.vector(2)?;
    hello.vector(1)?;
    if hello.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Reader(hello.vector(2)?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let body = extensions.vector(2)?;
        if kind == usize::from(SERVER_NAME) {
            if found.is_some() {
                return None;
            }
            let mut names = Reader(body);
            let mut list = Reader(names.vector(2)?);
            let name_type = list.number(1)?;
            let name = list.vector(2)?;
            if name_type != usize::from(HOST_NAME) || !list.0.is_empty() || !names.0.is_empty() {
                return None;
            }
            found = Some(std::str::from_utf8(name).ok()?.to_owned());
        }
    }
    Some(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Bytes behind their own count, which takes so many bytes.
    fn vector(&mut self, count: usize) -> Option<&'a [u8]> {
        let length = self.number(count)?;
        self.take(length)
    }
}
