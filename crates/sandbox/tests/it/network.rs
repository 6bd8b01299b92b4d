//! No way out, and a loopback of one's own.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use provost_core::containment::{Guarantee, Rung, Strength};

use crate::support::{CONTAINED, Host, sandbox};

#[test]
fn tcp_to_the_hosts_loopback() {
    let host = Host::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)");
    for rung in CONTAINED {
        host.py(rung, &script).assert_refused();
    }
    host.py(Rung::R0, &script).assert_ok();
}

#[test]
fn udp_to_the_hosts_loopback() {
    let host = Host::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let script = format!(
        "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.sendto(b'out', ('127.0.0.1', {port}))"
    );
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    for rung in CONTAINED {
        host.py(rung, &script);
        assert!(socket.recv(&mut [0; 8]).is_err(), "{rung}");
    }
    host.py(Rung::R0, &script).assert_ok();
    assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 3);
}

#[test]
fn abstract_unix_socket() {
    let host = Host::new();
    let name = format!("provost-it-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = format!("import socket\nsocket.socket(socket.AF_UNIX).connect('\\0{name}')");
    for rung in CONTAINED {
        host.py(rung, &script).assert_refused();
    }
    host.py(Rung::R0, &script).assert_ok();
}

#[test]
fn pathname_unix_socket() {
    let host = Host::new();
    let path = host.outside().join("docker.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let script = format!("import socket\nsocket.socket(socket.AF_UNIX).connect('{}')", path.display());
    for rung in CONTAINED {
        host.py(rung, &script).assert_refused();
    }
    host.py(Rung::R0, &script).assert_ok();
    // One in a folder that is shown can be reached, which the guarantee's own words except.
    let _inside = UnixListener::bind(host.ws().join("sock")).unwrap();
    for rung in CONTAINED {
        let contained = sandbox(rung, host.profile());
        assert_eq!(contained.receipt().guarantees[&Guarantee::UnixSockets], Strength::Enforced);
        host.py(rung, "import socket\nsocket.socket(socket.AF_UNIX).connect('sock')").assert_ok();
    }
}

#[test]
fn a_server_of_ones_own_answers() {
    let host = Host::new();
    let script = "import socket\n\
        for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n    \
            server = socket.create_server((address, 0), family=family)\n    \
            client = socket.create_connection((address, server.getsockname()[1]))\n    \
            server.accept()[0].sendall(b'hello')\n    \
            assert client.recv(5) == b'hello'\n\
        assert socket.gethostbyname('localhost') == '127.0.0.1'";
    host.py(Rung::R3, script).assert_ok();
}

#[test]
fn a_port_inside_is_not_a_port_outside() {
    let host = Host::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The same number is free inside, and a connection to it stays inside.
    let script = format!(
        "import socket\ns = socket.create_server(('127.0.0.1', {port}))\nc = socket.create_connection(('127.0.0.1', {port}))\ns.accept()"
    );
    host.py(Rung::R3, &script).assert_ok();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
}
