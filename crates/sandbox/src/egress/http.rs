//! HTTP/1, as much as a proxy needs that carries one request over one connection.
//!
//! A request is read whole, decided on, and written anew: what goes out is what was understood, and not what was sent.

use std::fmt::Write as _;

use provost_core::address::plain_host;

/// Longest head of a request.
pub(super) const LONGEST_HEAD: usize = 64 * 1024;
const MOST_HEADERS: usize = 128;
/// Longest line with a chunk's size, and all trailers together.
const LONGEST_LINE: usize = 4096;

/// What concerns one connection only, or the proxy, and is not passed on. `upgrade` too: what a connection becomes then
/// is no HTTP that could be looked at.
const OWN: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "upgrade",
    "http2-settings",
    "host",
];

/// What the bytes that a client sent so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// The beginning of a request; more is needed.
    Partial,
    /// A whole head, and how many bytes it took.
    Whole(Box<Request>, usize),
    /// None that is understood, and why.
    Bad(&'static str),
}

/// A request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    method: String,
    target: Target,
    headers: Vec<(String, Vec<u8>)>,
    /// From the `Host` header.
    host: Option<Authority>,
    body: Body,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path on the server that the connection leads to.
    Path(String),
    /// A whole `http` address: its host, and the path there.
    Absolute(Authority, String),
    /// A host to be connected with.
    Connect(Authority),
}

/// A host and the port that was written with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// Name in lower case, or address.
    pub host: String,
    /// Where one was written.
    pub port: Option<u16>,
}

/// Where a body ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// After so many bytes.
    Length(u64),
    /// After its last chunk.
    Chunked(Chunked),
}

/// Reads the start of a connection as a request.
///
/// ```
/// # use provost_sandbox::parse::{Head, head};
/// let Head::Whole(request, length) = head(b"GET / HTTP/1.1\r\nHost: Example.org\r\n\r\n") else { panic!() };
/// assert_eq!((request.host().unwrap().host.as_str(), length), ("example.org", 37));
/// ```
pub fn head(bytes: &[u8]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let bounded = &bytes[..bytes.len().min(LONGEST_HEAD)];
    let length = match request.parse(bounded) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Head::Partial,
        Ok(httparse::Status::Partial) => return Head::Bad("its head is too long"),
        Err(_) => return Head::Bad("it is not HTTP/1.1"),
    };
    match read(&request) {
        Ok(request) => Head::Whole(Box::new(request), length),
        Err(why) => Head::Bad(why),
    }
}

fn read(request: &httparse::Request<'_, '_>) -> Result<Request, &'static str> {
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err("it is not HTTP/1.1");
    };
    let mut host = None;
    let mut length: Option<u64> = None;
    let mut chunked = false;
    let mut headers = Vec::new();
    let mut dropped: Vec<String> = Vec::new();
    for header in request.headers.iter() {
        let name = header.name.to_ascii_lowercase();
        let text = || std::str::from_utf8(header.value).ok().map(str::trim);
        match name.as_str() {
            "host" => {
                let named = text().and_then(Authority::parse).ok_or("its `Host` is none")?;
                if host.replace(named).is_some() {
                    return Err("it names two hosts");
                }
            }
            "content-length" => {
                let number = text().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let number = number.and_then(|text| text.parse().ok()).ok_or("its length is none")?;
                if length.replace(number).is_some() {
                    return Err("it has two lengths");
                }
            }
            "transfer-encoding" => {
                if chunked || !text().is_some_and(|text| text.eq_ignore_ascii_case("chunked")) {
                    return Err("its transfer encoding is not `chunked`");
                }
                chunked = true;
            }
            "connection" => {
                let named =
                    text().unwrap_or_default().split(',').map(|name| name.trim().to_ascii_lowercase());
                // What frames the body is never taken away.
                let frames = |name: &String| matches!(name.as_str(), "content-length" | "transfer-encoding");
                dropped.extend(named.filter(|name| !frames(name)));
            }
            _ => {}
        }
        headers.push((name, header.value.to_vec()));
    }
    headers.retain(|(name, _)| !OWN.contains(&name.as_str()) && !dropped.contains(name));
    let body = match (length, chunked) {
        (Some(_), true) => return Err("it has a length and is chunked too"),
        (_, true) => Body::Chunked(Chunked::default()),
        (length, false) => Body::Length(length.unwrap_or(0)),
    };
    Ok(Request { method: method.to_owned(), target: Target::parse(method, target)?, headers, host, body })
}

impl Request {
    /// What it is for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The host that it names beside its target.
    pub fn host(&self) -> Option<&Authority> {
        self.host.as_ref()
    }

    /// Where its body ends.
    pub(super) fn body(&self) -> Body {
        self.body.clone()
    }

    /// The head as it goes to the server: for its path there, with the server's own name, and as the only one on its
    /// connection.
    pub(super) fn rewritten(&self, host: &str, port: u16) -> Vec<u8> {
        let path = match &self.target {
            Target::Path(path) | Target::Absolute(_, path) => path,
            // Nobody writes one of these.
            Target::Connect(_) => "/",
        };
        let mut out = format!("{} {path} HTTP/1.1\r\nHost: ", self.method);
        let _ = if host.contains(':') { write!(out, "[{host}]") } else { write!(out, "{host}") };
        let _ = if port == 80 { write!(out, "\r\n") } else { write!(out, ":{port}\r\n") };
        let mut out = out.into_bytes();
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"connection: close\r\n\r\n");
        out
    }
}

impl Target {
    fn parse(method: &str, target: &str) -> Result<Self, &'static str> {
        if method == "CONNECT" {
            let authority = Authority::parse(target).filter(|authority| authority.port.is_some());
            return authority.map(Self::Connect).ok_or("its target is not `host:port`");
        }
        if target.starts_with('/') || target == "*" {
            return Ok(Self::Path(target.to_owned()));
        }
        let Some((scheme, rest)) = target.split_once("://") else {
            return Err("its target is neither a path nor an address");
        };
        if !scheme.eq_ignore_ascii_case("http") {
            return Err("only `http` addresses are fetched here; use CONNECT");
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = Authority::parse(authority).ok_or("the host of its target is none")?;
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self::Absolute(authority, path))
    }
}

impl Authority {
    /// Reads `host` or `host:port`. A name and password in it are not understood.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            Some((_, rest)) => {
                let host = &text[..text.len() - rest.len()];
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
            Some(_) => return None,
            None => None,
        };
        Some(Self { host: plain_host(host)?, port })
    }
}

impl Body {
    /// How many of these bytes, the next ones of the connection, belong to it.
    ///
    /// # Errors
    ///
    /// Chunks that are none.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        match self {
            Self::Length(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(chunked) => chunked.take(bytes),
        }
    }

    /// Whether all of it was taken.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.at == At::End,
        }
    }
}

/// Chunks, followed byte by byte.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunked {
    at: At,
    size: u64,
    digits: usize,
    line: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// In the size of a chunk.
    #[default]
    Size,
    /// Behind the size, in what extends it.
    Extension,
    /// Before the line feed that ends the size.
    SizeEnd,
    Data,
    /// Before the carriage return, and the line feed, behind the data.
    DataEnd,
    DataFeed,
    /// At the start of a trailer's line, within it, before its line feed, and before the last one of all.
    Trailer,
    TrailerLine,
    TrailerFeed,
    LastFeed,
    End,
}

impl Chunked {
    fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut taken = 0;
        while taken < bytes.len() && self.at != At::End {
            if self.at == At::Data {
                let some = (bytes.len() - taken).min(usize::try_from(self.size).unwrap_or(usize::MAX));
                self.size -= some as u64;
                taken += some;
                if self.size == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            self.step(bytes[taken])?;
            taken += 1;
        }
        Ok(taken)
    }

    fn step(&mut self, byte: u8) -> Result<(), &'static str> {
        const BAD: &str = "its chunks are none";
        self.line += 1;
        if self.line > LONGEST_LINE {
            return Err(BAD);
        }
        self.at = match (self.at, byte) {
            (At::Size, _) if char::from(byte).is_ascii_hexdigit() => {
                self.digits += 1;
                if self.digits > 15 {
                    return Err(BAD);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.size = self.size << 4 | u64::from(digit);
                At::Size
            }
            (At::Size, b';' | b' ' | b'\t') if self.digits > 0 => At::Extension,
            (At::Size, b'\r') if self.digits > 0 => At::SizeEnd,
            (At::Extension, b'\r') => At::SizeEnd,
            (At::Extension, b'\n') => return Err(BAD),
            (At::Extension, _) => At::Extension,
            (At::SizeEnd, b'\n') => {
                (self.digits, self.line) = (0, 0);
                if self.size == 0 { At::Trailer } else { At::Data }
            }
            (At::DataEnd, b'\r') => At::DataFeed,
            (At::DataFeed, b'\n') => {
                self.line = 0;
                At::Size
            }
            (At::Trailer, b'\r') => At::LastFeed,
            (At::Trailer | At::TrailerLine, b'\n') => return Err(BAD),
            (At::TrailerLine, b'\r') => At::TrailerFeed,
            (At::Trailer | At::TrailerLine, _) => At::TrailerLine,
            (At::TrailerFeed, b'\n') => At::Trailer,
            (At::LastFeed, b'\n') => At::End,
            _ => return Err(BAD),
        };
        Ok(())
    }
}

/// What is answered where something was refused or failed, in words that whoever asked can read.
pub(super) fn said(status: u16, reason: &str, what: &str, words: &str) -> Vec<u8> {
    let body = format!("{words}\n");
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\nX-Provost-Refused: {what}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
