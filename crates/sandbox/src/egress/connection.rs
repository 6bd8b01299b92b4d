//! What is done with one connection of the command, by the listener that it came to.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::PollFlags;

use super::desk::{Cause, Desk, Refused};
use super::dns::Query;
use super::hello::{Hello, hello};
use super::http::{self, Authority, Head, Request, Target};
use super::names::{HTTP, HTTPS};
use super::relay::{Client, Outbound, SAY_LIMIT, dial, relay, wait};
use super::socks::{self, NO_AUTHENTICATION, NO_METHOD, Reply, Socks};

/// Longest first line that is looked at to tell whether a connection speaks HTTP.
const LONGEST_LINE: usize = 8 * 1024;

/// A connection to an HTTP proxy: one request, or a tunnel.
pub(super) fn proxy(stream: TcpStream, desk: &Desk) -> io::Result<()> {
    let mut client = Client { stream, read: Vec::new() };
    let Some(request) = request(&mut client, desk)? else { return Ok(()) };
    match request.target().clone() {
        Target::Connect(Authority { host, port: Some(port) }) => {
            let server = match open(&host, port, desk) {
                Ok(server) => server,
                Err(refused) => return answer(&mut client, &refused, desk),
            };
            client.say(b"HTTP/1.1 200 Connection established\r\n\r\n", &desk.stop)?;
            tunnel(client, server, &host, port, desk)
        }
        Target::Absolute(Authority { host, port }, _) => {
            let port = port.unwrap_or(HTTP);
            match open(&host, port, desk) {
                Ok(server) => exchange(client, server, &request, &host, port, desk),
                Err(refused) => answer(&mut client, &refused, desk),
            }
        }
        Target::Connect(_) | Target::Path(_) => {
            let words = "This is a proxy: ask it for a whole address, `http://host/path`, or to CONNECT.";
            bad(&mut client, words, desk)
        }
    }
}

/// A connection to the SOCKS proxy.
pub(super) fn socks(stream: TcpStream, desk: &Desk) -> io::Result<()> {
    let mut client = Client { stream, read: Vec::new() };
    match read_socks(&mut client, socks::greeting, desk)? {
        Ok(true) => client.say(&NO_AUTHENTICATION, &desk.stop)?,
        Ok(false) | Err(_) => return client.say_last(&NO_METHOD, &desk.stop),
    }
    let (host, port) = match read_socks(&mut client, socks::request, desk)? {
        Ok(asked) => asked,
        Err(reply) => return client.say_last(&reply.bytes(), &desk.stop),
    };
    // An address that stands for a name inside is meant as that name.
    let named = host.parse().ok().and_then(|address| desk.host_at(address));
    let host = named.unwrap_or(host);
    match open(&host, port, desk) {
        Ok(server) => {
            client.say(&Reply::Connected.bytes(), &desk.stop)?;
            tunnel(client, server, &host, port, desk)
        }
        Err(Refused { cause: Cause::Forbidden, .. }) => {
            client.say_last(&Reply::NotAllowed.bytes(), &desk.stop)
        }
        Err(_) => client.say_last(&Reply::Unreachable.bytes(), &desk.stop),
    }
}

fn read_socks<T>(
    client: &mut Client,
    parse: fn(&[u8]) -> Socks<T>,
    desk: &Desk,
) -> io::Result<Result<T, Reply>> {
    let until = Instant::now() + SAY_LIMIT;
    loop {
        match parse(&client.read) {
            Socks::Whole(value, length) => {
                client.read.drain(..length);
                return Ok(Ok(value));
            }
            Socks::Bad(reply) => return Ok(Err(reply)),
            Socks::Partial => client.more(&desk.stop, until)?,
        }
    }
}

/// A connection to an address that stands for a host, by a program that knows of no proxy.
pub(super) fn captured(stream: TcpStream, desk: &Desk) -> io::Result<()> {
    let SocketAddr::V4(here) = stream.local_addr()? else { return Ok(()) };
    // At an address of its own loopback, for one, there is nobody.
    let Some(host) = desk.host_at((*here.ip()).into()) else { return Ok(()) };
    to_host(stream, &host, here.port(), desk)
}

/// A connection that leads to a host, by a program that knows of no proxy.
pub(crate) fn to_host(stream: TcpStream, host: &str, port: u16, desk: &Desk) -> io::Result<()> {
    let mut client = Client { stream, read: Vec::new() };
    match open(host, port, desk) {
        Ok(server) => tunnel(client, server, host, port, desk),
        Err(refused) if port == HTTP => match request(&mut client, desk)? {
            Some(_) => answer(&mut client, &refused, desk),
            None => Ok(()),
        },
        // Nothing that could be said would be understood.
        Err(_) => Ok(()),
    }
}

/// A question over TCP, or several.
pub(super) fn questions(stream: TcpStream, desk: &Desk) -> io::Result<()> {
    let mut client = Client { stream, read: Vec::new() };
    loop {
        let until = Instant::now() + SAY_LIMIT;
        let message = loop {
            if let [high, low, rest @ ..] = client.read.as_slice()
                && let Some(message) = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))
            {
                break message.to_vec();
            }
            client.more(&desk.stop, until)?;
        };
        client.read.drain(..2 + message.len());
        let Some(query) = Query::parse(&message) else { return Ok(()) };
        let answer = desk.answer(&query);
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?.to_be_bytes();
        client.say(&[&length, answer.as_slice()].concat(), &desk.stop)?;
        desk.asked(&query);
    }
}

/// Dials a host that may be dialled.
fn open(host: &str, port: u16, desk: &Desk) -> Result<TcpStream, Refused> {
    let addresses = desk.admit(host, port)?;
    let server = dial(&addresses, &desk.stop).map_err(|error| {
        let what = format!("{host}:{port}");
        let refused = Refused { cause: Cause::Failed, what, why: error.to_string() };
        desk.note(&refused);
        refused
    })?;
    desk.count(host, port, 1, 0, 0);
    Ok(server)
}

/// Carries a connection to its host, once it is clear that it speaks to that host and to no other behind the same
/// address.
fn tunnel(mut client: Client, server: TcpStream, host: &str, port: u16, desk: &Desk) -> io::Result<()> {
    match spoken(&mut client, &server, port, desk)? {
        Spoken::Tls(name) => {
            let fits = match &name {
                Some(name) => name.trim_end_matches('.').eq_ignore_ascii_case(host),
                // An address is not named in a handshake.
                None => host.parse::<std::net::IpAddr>().is_ok(),
            };
            if !fits {
                desk.other_host(host, port, name.as_deref(), "the TLS handshake");
                return Ok(());
            }
            carry(client, server, host, port, desk);
            Ok(())
        }
        Spoken::Http => {
            let Some(request) = request(&mut client, desk)? else { return Ok(()) };
            let said = match request.target() {
                Target::Path(_) => request.host(),
                Target::Absolute(authority, _) => Some(authority),
                Target::Connect(_) => None,
            };
            let named = said.map(|said| said.host.as_str());
            let fits = said.is_some_and(|said| said.host == host && said.port.unwrap_or(HTTP) == port);
            // Before HTTP/1.1 a request need not name its host, and is given its name here.
            let unnamed = said.is_none() && matches!(request.target(), Target::Path(_));
            if !fits && !unnamed {
                let refused = desk.other_host(host, port, named, "the request");
                return answer(&mut client, &refused, desk);
            }
            exchange(client, server, &request, host, port, desk)
        }
        Spoken::Other if matches!(port, HTTP | HTTPS) => {
            let protocol = if port == HTTPS { "TLS" } else { "HTTP/1.1" };
            let why = format!("port {port} is for {protocol}, and something else was said there");
            desk.note(&Refused { cause: Cause::Forbidden, what: format!("{host}:{port}"), why });
            Ok(())
        }
        Spoken::Other => {
            carry(client, server, host, port, desk);
            Ok(())
        }
    }
}

/// What is spoken on a connection, by its first bytes.
enum Spoken {
    /// TLS, with the server's name where the client gives one.
    Tls(Option<String>),
    Http,
    Other,
}

/// Reads until it is clear what is spoken. Where the server speaks first it is neither TLS nor HTTP.
fn spoken(client: &mut Client, server: &TcpStream, port: u16, desk: &Desk) -> io::Result<Spoken> {
    let until = Instant::now() + SAY_LIMIT;
    loop {
        match hello(&client.read) {
            Hello::Whole(name) => return Ok(Spoken::Tls(name)),
            Hello::Partial => {}
            Hello::Other if port == HTTPS => return Ok(Spoken::Other),
            Hello::Other => match speaks_http(&client.read) {
                Some(true) => return Ok(Spoken::Http),
                Some(false) => return Ok(Spoken::Other),
                None => {}
            },
        }
        if client.read.is_empty() && !matches!(port, HTTP | HTTPS) {
            let both = [(client.stream.as_fd(), PollFlags::IN), (server.as_fd(), PollFlags::IN)];
            let ready = wait(&both, &desk.stop, None)?;
            if ready[0].is_empty() {
                return Ok(Spoken::Other);
            }
        }
        client.more(&desk.stop, until)?;
    }
}

/// Whether the first line is one of HTTP; `None` while that is open. Servers pass empty lines before it over.
fn speaks_http(bytes: &[u8]) -> Option<bool> {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let rest = &bytes[start..];
    let end = rest.iter().position(|byte| *byte == b'\n');
    let line = &rest[..end.unwrap_or(rest.len())];
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\r' | b' '..=b'~' | 0x80..);
    if !line.iter().all(is_text) {
        return Some(false);
    }
    let says_http = line.windows(6).any(|part| part.eq_ignore_ascii_case(b" HTTP/"));
    match end {
        Some(_) => Some(says_http),
        None if bytes.len() > LONGEST_LINE => Some(true),
        None => None,
    }
}

fn carry(mut client: Client, mut server: TcpStream, host: &str, port: u16, desk: &Desk) {
    let (sent, received) = relay(&mut client.stream, &mut server, client.read, Outbound::All, &desk.stop);
    desk.count(host, port, 0, sent, received);
}

/// One request and its answer. What follows on the connection is not passed on.
fn exchange(
    mut client: Client,
    mut server: TcpStream,
    request: &Request,
    host: &str,
    port: u16,
    desk: &Desk,
) -> io::Result<()> {
    let mut body = request.body();
    let taken = match body.take(&client.read) {
        Ok(taken) => taken,
        Err(why) => return bad(&mut client, &format!("That is no request: {why}."), desk),
    };
    let mut first = request.rewritten(host, port);
    first.extend_from_slice(&client.read[..taken]);
    let (sent, received) = relay(&mut client.stream, &mut server, first, Outbound::Body(body), &desk.stop);
    desk.count(host, port, 0, sent, received);
    Ok(())
}

/// Reads a request's head; what is none is answered, and `None`.
fn request(client: &mut Client, desk: &Desk) -> io::Result<Option<Box<Request>>> {
    let until = Instant::now() + SAY_LIMIT;
    loop {
        match http::head(&client.read) {
            Head::Whole(request, length) => {
                client.read.drain(..length);
                return Ok(Some(request));
            }
            Head::Bad(why) => {
                bad(client, &format!("That is no request: {why}."), desk)?;
                return Ok(None);
            }
            Head::Partial => client.more(&desk.stop, until)?,
        }
    }
}

fn bad(client: &mut Client, words: &str, desk: &Desk) -> io::Result<()> {
    client.say_last(&http::said(400, "Bad Request", "bad-request", words), &desk.stop)
}

fn answer(client: &mut Client, refused: &Refused, desk: &Desk) -> io::Result<()> {
    let words = refused.words();
    let said = match refused.cause {
        Cause::Forbidden => http::said(403, "Forbidden", &refused.what, &words),
        Cause::Failed => http::said(502, "Bad Gateway", &refused.what, &words),
    };
    client.say_last(&said, &desk.stop)
}
