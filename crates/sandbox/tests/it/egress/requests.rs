//! Whose connection it is said to be: names in handshakes and requests.

use provost_core::policy::Effect;

use super::fixture::{BOTH, Net, Origin, Told};
use crate::support::CONTAINED;

/// Dials `origin.test` at a port of the origin in each way there is.
const DIAL: &str = "import socket, struct, sys\n\
    def direct(port): return socket.create_connection(('origin.test', port), 5)\n\
    def connect(port):\n    \
        s = socket.create_connection(('127.0.0.1', 3128), 5)\n    \
        s.sendall(f'CONNECT origin.test:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())\n    \
        head = b''\n    \
        while b'\\r\\n\\r\\n' not in head: head += s.recv(1)\n    \
        assert b' 200 ' in head; return s\n\
    def socks(port):\n    \
        s = socket.create_connection(('127.0.0.1', 1080), 5)\n    \
        s.sendall(b'\\x05\\x01\\x00'); assert s.recv(2) == b'\\x05\\x00'\n    \
        s.sendall(b'\\x05\\x01\\x00\\x03\\x0borigin.test' + struct.pack('>H', port))\n    \
        assert s.recv(10)[1] == 0; return s\n\
    def all(s):\n    \
        text = b''\n    \
        while True:\n        \
            try: part = s.recv(4096)\n        \
            except ConnectionError: break\n        \
            if not part: break\n        \
            text += part\n    \
        return text\n";

#[test]
fn a_request_that_names_another_host() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        for at in [80, port] {
            for way in ["direct", "connect", "socks"] {
                let script = format!(
                    "{DIAL}\n\
                def get(host):\n    \
                    s = {way}({at}); s.sendall(f'GET / HTTP/1.1\\r\\nHost: {{host}}\\r\\n\\r\\n'.encode()); return all(s)\n\
                said = get('evil.test')\n\
                assert b' 403 ' in said and b'names `evil.test`' in said, said\n\
                said = get('origin.test:1')\n\
                assert b' 403 ' in said, said\n\
                assert b'hello from origin' in get('Origin.Test.:{at}')"
                );
                let done = Net::with_origin(&origin).on(rung).py(&script, Told::No);
                done.assert_ok()
                    .assert_refused(&format!("origin.test:{at}"), "the request names `evil.test`");
                // That the other one is not allowed is on record too.
                assert!(done.decisions().contains(&(format!("evil.test:{at}"), Effect::Deny)));
            }
        }
        let seen = origin.seen();
        assert_eq!(seen.len(), 6, "{seen:?}");
        assert!(seen.iter().all(|(_, host)| host.starts_with("origin.test")), "{seen:?}");
    }
}

/// A connection carries one request: what comes behind it goes nowhere.
#[test]
fn the_second_request_of_a_connection() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        for way in ["direct", "connect", "socks"] {
            let before = origin.seen().len();
            let script = format!(
                "{DIAL}\n\
            first = b'GET /first HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\nConnection: keep-alive\\r\\n\\r\\n'\n\
            second = b'GET /second HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n'\n\
            s = {way}({port}); s.sendall(first)\n\
            assert b'hello from origin' in all(s)\n\
            s = {way}({port}); s.sendall(first + second); all(s)\n\
            s = {way}({port}); s.sendall(b'POST /chunks HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\n'\n    \
                b'Transfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\n\\r\\n' + second); all(s)"
            );
            Net::with_origin(&origin).on(rung).py(&script, Told::No).assert_ok();
            let seen = origin.seen().split_off(before);
            let is_second =
                |(line, host): &(String, String)| line.contains("second") || host.contains("evil");
            assert!(!seen.iter().any(is_second), "{way}: {seen:?}");
            assert!(seen.iter().any(|(line, _)| line.contains("/first")), "{way}: {seen:?}");
        }
        // The control: the origin itself takes both.
        let before = origin.seen().len();
        let mut stream = std::net::TcpStream::connect(origin.address).unwrap();
        let both = "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n";
        std::io::Write::write_all(&mut stream, both.as_bytes()).unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new()).unwrap();
        assert_eq!(origin.seen().len(), before + 2);
    }
}

/// What two parsers could read in two ways is read by none.
#[test]
fn requests_with_two_meanings() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        let script = format!(
            "{DIAL}\n\
        bad = ['GET / HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\nHost: evil.test\\r\\n\\r\\n',\n    \
            'POST / HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\nContent-Length: 1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n',\n    \
            'POST / HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nab',\n    \
            'POST / HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\nTransfer-Encoding: xchunked\\r\\n\\r\\n',\n    \
            'GET / HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\nX: a\\r\\n b\\r\\n\\r\\n',\n    \
            'GET / HTTP/1.1\\r\\nHost : origin.test:{port}\\r\\n\\r\\n',\n    \
            'GET http://evil.test/ HTTP/1.1\\r\\nHost: origin.test:{port}\\r\\n\\r\\n',\n    \
            '\\r\\n\\r\\nGET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n']\n\
        for text in bad:\n    \
            s = direct({port}); s.sendall(text.encode()); said = all(s)\n    \
            assert b' 400 ' in said or b' 403 ' in said, (text, said)"
        );
        Net::with_origin(&origin).on(rung).py(&script, Told::No).assert_ok();
        assert!(origin.seen().is_empty(), "{:?}", origin.seen());
    }
}

#[test]
fn bodies_arrive_whole() {
    for rung in CONTAINED {
        let origin = Origin::start();
        for told in BOTH {
            let line = "head -c 300000 /dev/zero > body; curl -sS --data-binary @body http://origin.test/";
            let done = Net::with_origin(&origin).on(rung).sh(line, told);
            done.assert_ok().assert_says("which got 300000 bytes");
            assert!(done.report.traffic.hosts[0].sent > 300_000);
        }
    }
}

/// The handshake names the host that was dialled, or another one, or none.
#[test]
fn a_handshake_that_names_another_host() {
    for rung in CONTAINED {
        // Nothing of TLS is spoken by this server: what reaches it is what counts.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let port = address.port();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = vec![0; 5];
                let got = std::io::Read::read_exact(&mut stream, &mut bytes).is_ok();
                let _ = sender.send(got && bytes[0] == 22);
            }
        });
        let port_of_tls = format!("origin.test:{port}");
        let rules = ["origin.test:443", "127.0.0.1:443", &port_of_tls, &format!("127.0.0.1:{port}")];
        for at in [443, port] {
            for way in ["direct", "connect", "socks"] {
                for (name, arrives) in [
                    ("'origin.test'", true),
                    ("'ORIGIN.test'", true),
                    ("'evil.test'", false),
                    ("None", false),
                ] {
                    let script = format!(
                        "{DIAL}\nimport ssl\n\
                    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE\n\
                    s = {way}({at})\n\
                    try: c.wrap_socket(s, server_hostname={name})\n\
                    except (OSError, ssl.SSLError) as e: print(e)"
                    );
                    let net = Net::allowing(&rules).on(rung).name("origin.test", &[address]);
                    let done = net.py(&script, Told::No);
                    done.assert_ok();
                    let arrived = receiver.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
                    assert_eq!(arrived, arrives, "{way} {at} {name}: {}", done.ran.text);
                    if !arrives {
                        done.assert_refused(&format!("origin.test:{at}"), "the TLS handshake names");
                    }
                }
            }
        }
    }
}

/// Port 443 is for TLS. At a port of their own servers may speak what they like.
#[test]
fn what_is_no_tls_does_not_pass_at_443() {
    for rung in CONTAINED {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let port = address.port();
        std::thread::spawn(move || {
            for stream in server.incoming() {
                // Speaks first, as mail servers do.
                let _ = std::io::Write::write_all(&mut stream.unwrap(), b"220 welcome\r\n");
            }
        });
        let own = format!("origin.test:{port}");
        let rules = ["origin.test:443", "127.0.0.1:443", &own, &format!("127.0.0.1:{port}")];
        let script = format!(
            "{DIAL}\n\
        for way in (direct, connect, socks):\n    \
            assert all(way({port})) == b'220 welcome\\r\\n'\n    \
            s = way(443); s.sendall(b'EHLO me\\r\\n'); assert all(s) == b''"
        );
        let done = Net::allowing(&rules).on(rung).name("origin.test", &[address]).py(&script, Told::No);
        done.assert_ok().assert_refused("origin.test:443", "port 443 is for TLS");
    }
}
