//! What is only so where a command has no namespace (R2), and each of its connections is asked about.

use std::sync::Arc;
use std::sync::mpsc;

use provost_core::containment::{Guarantee, Rung, Strength};
use provost_core::policy::Effect;
use provost_sandbox::{Cancel, Egress, Resolver, RunError, RungChoice, Sandbox};

use super::fixture::{BOTH, Net, Origin, Recorded, Told};
use crate::support::{Host, probe};

/// What a dial of an address came to, by its error's name.
const DIAL: &str = "import errno, socket\n\
    def dial(host, port, family=socket.AF_INET):\n    \
        s = socket.socket(family); s.settimeout(5)\n    \
        return errno.errorcode.get(s.connect_ex((host, port)), 'dialled')\n";

#[test]
fn an_address_that_stands_for_nothing_is_refused_in_words() {
    let origin = Origin::start();
    let port = origin.address.port();
    let script = format!(
        "{DIAL}\n\
        for host in ('127.0.0.1', '0.0.0.0', '93.184.215.14', '169.254.169.254', '198.18.5.5'):\n    \
            assert dial(host, {port}) == 'EACCES', (host, dial(host, {port}))\n\
        for host in ('::1', '::ffff:127.0.0.1', '2001:db8::1'):\n    \
            assert dial(host, {port}, socket.AF_INET6) == 'EACCES', host"
    );
    let net = || Net::allowing(&["origin.test:80"]).on(Rung::R2).name("origin.test", &[origin.address]);
    let done = net().py(&script, Told::No);
    done.assert_ok().assert_refused(&format!("127.0.0.1:{port}"), "does not allow it");
    done.assert_refused(&format!("[2001:db8::1]:{port}"), "does not allow it");
    assert_eq!(done.decisions()[0], (format!("127.0.0.1:{port}"), Effect::Deny));
    // A host that is allowed, at another port: the connection ends before anything is said.
    let other = format!("{DIAL}\nassert socket.create_connection(('origin.test', {port}), 5).recv(1) == b''");
    net().py(&other, Told::No).assert_ok().assert_refused(&format!("origin.test:{port}"), "does not allow");
    assert_eq!(origin.connections(), 0);
    // The controls: an address that the policy names, and one that every host's rule covers and no rule names.
    let get = format!(
        "{DIAL}\nimport urllib.request as r\nprint(r.urlopen('http://127.0.0.1:{port}/', timeout=5).read())"
    );
    let named = Net::allowing(&[&format!("127.0.0.1:{port}")]).on(Rung::R2);
    named.py(&get, Told::No).assert_ok().assert_says("hello from origin");
    let floor = format!("{DIAL}\nassert dial('127.0.0.1', {port}) == 'EACCES'");
    let done = Net::allowing(&["*"]).on(Rung::R2).py(&floor, Told::No);
    done.assert_ok().assert_refused(&format!("127.0.0.1:{port}"), "which no rule of the policy names");
    assert_eq!(origin.connections(), 1);
}

/// A program sees a TCP socket that is its own: its options, its mode, its descriptor.
#[test]
fn a_socket_is_what_its_program_made_it() {
    let origin = Origin::start();
    let script = "import asyncio, errno, fcntl, os, socket\n\
        GET = b'GET / HTTP/1.1\\r\\nHost: origin.test\\r\\nConnection: close\\r\\n\\r\\n'\n\
        def all(s):\n    \
            text = b''\n    \
            while part := s.recv(4096): text += part\n    \
            return text\n\
        for family in (socket.AF_INET, socket.AF_INET6):\n    \
            s = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)\n    \
            assert fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK and not os.get_inheritable(s.fileno())\n    \
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n    \
            s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)\n    \
            host = ('::ffff:' if family == socket.AF_INET6 else '') + socket.gethostbyname('origin.test')\n    \
            assert s.connect_ex((host, 80)) == 0 and s.connect_ex((host, 80)) == errno.EISCONN\n    \
            assert fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK and s.getpeername()\n    \
            assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)\n    \
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)\n    \
            s.setblocking(True); s.sendall(GET); assert all(s).endswith(b'hello from origin')\n\
        async def get():\n    \
            r, w = await asyncio.open_connection('origin.test', 80)\n    \
            w.write(GET); assert (await r.read()).endswith(b'hello from origin')\n\
        asyncio.run(get())\n\
        s = socket.create_connection(('origin.test', 80), 5)\n\
        if os.fork() == 0: s.sendall(GET); os._exit(0)\n\
        os.wait(); assert all(s).endswith(b'hello from origin')";
    Net::with_origin(&origin).on(Rung::R2).py(script, Told::No).assert_ok();
}

/// Whatever is not TCP to a host that stands for something has no way out.
#[test]
fn neither_servers_nor_datagrams() {
    let origin = Origin::start();
    let script = "import errno, socket\n\
        def fails(what, *wanted):\n    \
            try: what()\n    \
            except OSError as e: assert e.errno in wanted, e; return\n    \
            raise AssertionError(what)\n\
        s = socket.socket()\n\
        fails(lambda: s.bind(('127.0.0.1', 0)), errno.EINVAL, errno.EACCES)\n\
        fails(lambda: s.listen(), errno.EINVAL)\n\
        fails(lambda: socket.socket(type=socket.SOCK_DGRAM), errno.EACCES)\n\
        fails(lambda: socket.socket(type=socket.SOCK_RAW, proto=17), errno.EACCES)\n\
        fails(lambda: socket.socket(proto=262), errno.EACCES)\n\
        fails(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), errno.EACCES)\n\
        fails(lambda: s.connect_ex(('127.0.0.1', 3128)) or s.sendto(b'x', 0x20000000, ('127.0.0.1', 80)), errno.EOPNOTSUPP)";
    Net::with_origin(&origin).on(Rung::R2).py(script, Told::No).assert_ok();
}

/// Signals interrupt calls, also those that wait to be answered. Those that are made again then are answered; who takes
/// an interrupted one for done has no connection, and learns it.
#[test]
fn connections_under_signals() {
    let origin = Origin::start();
    let script = |interrupts: bool| {
        let interrupts = if interrupts { "True" } else { "False" };
        format!(
            "import signal, socket, urllib.request as r\n\
            hits = []; got = 0\n\
            signal.signal(signal.SIGALRM, lambda *_: hits.append(1))\n\
            signal.siginterrupt(signal.SIGALRM, {interrupts})\n\
            signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)\n\
            n = 0\n\
            while n < 60 or got < 11:\n    \
                n += 1\n    \
                try: got += r.urlopen('http://origin.test/', timeout=15).read() == b'hello from origin'\n    \
                except TimeoutError: raise\n    \
                except OSError as e:\n        \
                    if not {interrupts} or 'timed out' in str(e): raise\n\
            signal.setitimer(signal.ITIMER_REAL, 0)\n\
            assert len(hits) > 10 and ({interrupts} or got == 60), (len(hits), got)"
        )
    };
    for (told, interrupts) in BOTH.into_iter().flat_map(|told| [(told, false), (told, true)]) {
        let net = Net::with_origin(&origin).on(Rung::R2);
        net.py(&script(interrupts), told).assert_ok();
    }
}

/// A name that is not found for a long time keeps no other connection waiting, nor the command's end.
#[test]
fn a_slow_name_keeps_no_other_waiting() {
    struct Slow(std::sync::Mutex<mpsc::Receiver<()>>, std::net::SocketAddr);
    impl Resolver for Slow {
        fn resolve(&self, host: &str, _: u16) -> std::io::Result<Vec<std::net::SocketAddr>> {
            if host == "slow.test" {
                let _ = self.0.lock().unwrap().recv();
            }
            Ok(vec![self.1])
        }
    }
    let origin = Origin::start();
    let (release, wait) = mpsc::channel();
    let script = "import socket, urllib.request as r\n\
        slow = [socket.create_connection(('slow.test', 80), 5) for _ in range(20)]\n\
        assert r.urlopen('http://origin.test/', timeout=15).read() == b'hello from origin'\n\
        slow[0].settimeout(0.2)\n\
        try: print('said', slow[0].recv(1))\n\
        except TimeoutError: pass";
    let host = Host::new();
    let mut command = host.command(&["/usr/bin/python3", "-c", script]);
    let layer = ["origin.test:80", "slow.test:80", "127.0.0.1:80"]
        .into_iter()
        .fold(provost_core::policy::Layer::named("hosts"), |layer, rule| {
            layer.rule(Effect::Allow, &format!("net {rule}")).unwrap()
        });
    let policy = provost_core::policy::Policy::preset(provost_core::policy::Preset::Workspace).with(layer);
    let egress = Egress::new(policy.into(), Arc::new(Recorded::default()));
    command.egress = Some(egress.with_resolver(Arc::new(Slow(wait.into(), origin.address))));
    let ran = host.run_with(Rung::R2, host.profile(), &command);
    ran.assert_ok();
    assert!(!ran.text.contains("said"), "{}", ran.text);
    drop(release);
}

/// Where nobody can be asked R2 claims less, and gives nothing that it could not hold.
#[test]
fn without_a_broker_it_is_said_and_not_given() {
    let mut poorer = probe().clone();
    let broker = poorer.facts.iter_mut().find(|fact| fact.name == "seccomp-notify").unwrap();
    assert!(broker.holds, "{broker:?}");
    (broker.holds, broker.detail) = (false, "no listener: Device or resource busy (os error 16)".to_owned());
    let host = Host::new();
    let sandbox = Sandbox::new(&poorer, host.profile(), RungChoice::Exactly(Rung::R2)).unwrap();
    let receipt = sandbox.receipt();
    assert_eq!(receipt.guarantees[&Guarantee::UnixSockets], Strength::Absent);
    assert_eq!(receipt.guarantees[&Guarantee::Net], Strength::Enforced);
    assert!(!receipt.can_dial() && probe().receipt(Rung::R2).can_dial());
    let run = |command| sandbox.run(&command, &Cancel::new().unwrap());
    let mut command = host.command(&["true"]);
    let policy = provost_core::policy::Policy::preset(provost_core::policy::Preset::Workspace);
    command.egress = Some(Egress::new(policy.into(), Arc::new(Recorded::default())));
    match run(command) {
        Err(RunError::NotStarted(failure)) => assert_eq!(failure.step, "egress"),
        other => panic!("{other:?}"),
    }
    // As before there were brokers: no internet socket at all.
    let script = "import socket\n\
        try: socket.socket(); raise SystemExit(1)\n\
        except PermissionError: pass\n\
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)";
    let ran = run(host.command(&["/usr/bin/python3", "-c", script])).unwrap();
    assert_eq!(ran.ended, provost_sandbox::Ended::Exited(0));
    let advice = provost_sandbox::advice(&poorer, &provost_sandbox::Surroundings::look(), "provost");
    let told = advice.iter().find(|one| one.facts.contains(&"seccomp-notify".to_owned()));
    assert!(told.is_some_and(|one| one.costs.contains("unix-sockets")), "{advice:#?}");
}
