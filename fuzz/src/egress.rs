//! What commands send to the proxies and the DNS stub of their network.

use provost_core::address::plain_host;
use provost_sandbox::parse::{
    Answer, Authority, Body, Chunked, Head, Hello, Query, Socks, Target, greeting, head, hello, request,
};

/// A DNS message: what is a query is answered by what is none, and its name is text that a host's name could be.
pub fn dns_query(data: &[u8]) {
    let Some(query) = Query::parse(data) else { return };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'?');
    assert!(query.name.len() < 255 && query.name.bytes().all(plain), "{}", query.name);
    assert_eq!(query.name, query.name.to_lowercase());
    for answer in [Answer::NoSuchName, Answer::Nothing, Answer::Address([198, 18, 0, 1].into())] {
        let message = query.answer(answer);
        assert_eq!(message[..2], data[..2]);
        assert_eq!(Query::parse(&message), None, "an answer is no query");
    }
}

/// A SOCKS greeting or request: whole from one byte on, and the same whatever comes behind it.
pub fn socks(data: &[u8]) {
    at_one_byte(data, greeting);
    at_one_byte(data, request);
}

fn at_one_byte<T: PartialEq + std::fmt::Debug>(data: &[u8], parse: fn(&[u8]) -> Socks<T>) {
    if let Socks::Whole(value, length) = parse(data) {
        assert_eq!(parse(&data[..length]), Socks::Whole(value, length));
        for end in 0..length {
            assert_eq!(parse(&data[..end]), Socks::Partial, "{end}");
        }
    }
}

/// A request's head, and chunks behind it: whole from one byte on; hosts have one form; a body ends in one place.
pub fn http_head(data: &[u8]) {
    let (mut whole, mut pieces) = (Body::Chunked(Chunked::default()), Body::Chunked(Chunked::default()));
    let taken = whole.take(data);
    let mut split = Ok(0);
    for piece in data.chunks(3) {
        match (pieces.take(piece), split) {
            (Ok(count), Ok(before)) => split = Ok(before + count),
            (Err(why), _) => split = Err(why),
            (_, Err(_)) => break,
        }
        if split.is_err() {
            break;
        }
    }
    assert_eq!(taken, split);
    let Head::Whole(read, length) = head(data) else { return };
    assert_eq!(head(&data[..length]), Head::Whole(read.clone(), length));
    assert!(!matches!(head(&data[..length - 1]), Head::Whole(..)), "a head ends in one place");
    let named = match read.target() {
        Target::Absolute(named, _) | Target::Connect(named) => Some(named),
        Target::Path(_) => None,
    };
    for Authority { host, .. } in named.into_iter().chain(read.host()) {
        assert_eq!(plain_host(host).as_deref(), Some(host.as_str()));
    }
}

/// The first bytes of a TLS client: what was whole stays so, and was partial before.
pub fn client_hello(data: &[u8]) {
    let Hello::Whole(name) = hello(data) else { return };
    assert_eq!(hello(&[data, b"more"].concat()), Hello::Whole(name.clone()));
    let whole = (0..data.len()).find(|end| hello(&data[..*end]) != Hello::Partial).unwrap_or(data.len());
    assert_eq!(hello(&data[..whole]), Hello::Whole(name));
}
