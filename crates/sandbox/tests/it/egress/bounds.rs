//! Many connections, slow ones, ones that never end; and nothing that is left of them.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use provost_core::containment::Rung;
use provost_sandbox::{Cancel, Ended};

use super::fixture::{BOTH, Net, Origin, Recorded, Told};
use crate::support::{CONTAINED, Host, eventually};

#[test]
fn a_hundred_connections_at_once() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        for told in BOTH {
            let before = origin.connections();
            let script = format!(
                "import urllib.request as r, threading\n\
            at = threading.Barrier(100); said = []\n\
            def get():\n    \
                at.wait(); said.append(r.urlopen('http://origin.test:{port}/', timeout=15).read())\n\
            all = [threading.Thread(target=get) for _ in range(100)]\n\
            [t.start() for t in all]; [t.join() for t in all]\n\
            assert said == [b'hello from origin'] * 100, len(said)"
            );
            let done = Net::with_origin(&origin).on(rung).py(&script, told);
            done.assert_ok();
            assert_eq!(origin.connections() - before, 100);
            assert_eq!(done.report.traffic.hosts[0].connections, 100);
            assert_eq!(done.asked, ["origin.test"]);
            assert_eq!(done.recorded.len(), 1, "{:?}", done.recorded);
        }
    }
}

/// Some that say nothing, some that say half of it, and one that goes through beside them.
#[test]
fn a_slow_client_keeps_no_other_waiting() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let port = origin.address.port();
        let script = format!(
            "import socket, urllib.request as r\n\
        silent = [socket.create_connection(('127.0.0.1', at), 5) for at in (3128, 1080, 53) for _ in range(20)]\n\
        half = [socket.create_connection(('origin.test', at), 5) for at in (80, {port}) for _ in range(20)]\n\
        [s.sendall(b'GET / HTTP/1.1\\r\\nHo') for s in half]\n\
        for url in ('http://origin.test/', 'http://origin.test:{port}/'):\n    \
            assert r.urlopen(url, timeout=15).read() == b'hello from origin'"
        );
        for told in BOTH {
            Net::with_origin(&origin).on(rung).py(&script, told).assert_ok();
        }
    }
}

/// More connections than are served wait, and are served when others end.
#[test]
fn connections_beyond_the_bound_wait() {
    for rung in CONTAINED {
        let origin = Origin::start();
        let script = "import socket, urllib.request as r\n\
        idle = [socket.create_connection(('127.0.0.1', 3128), 5) for _ in range(140)]\n\
        s = socket.create_connection(('127.0.0.1', 3128), 5)\n\
        s.sendall(b'GET http://origin.test/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n\
        s.settimeout(0.3)\n\
        try: s.recv(100); waited = False\n\
        except TimeoutError: waited = True\n\
        [i.close() for i in idle]; s.settimeout(15)\n\
        assert waited and b' 200 ' in s.recv(4096)";
        Net::with_origin(&origin).on(rung).py(script, Told::No).assert_ok();
    }
}

/// The command's end is the end of its connections, however it ends.
#[test]
fn a_cancelled_command_leaves_no_connection() {
    for rung in CONTAINED {
        // Accepts and says nothing.
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let rules = [format!("origin.test:{}", address.port()), address.to_string()];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let net = Net::allowing(&rules).on(rung).name("origin.test", &[address]);
        let script = format!(
            "import socket, time\n\
        all = [socket.create_connection(('origin.test', {}), 5) for _ in range(10)]\n\
        [s.sendall(b'\\0') for s in all]; time.sleep(60)",
            address.port()
        );
        let command = net.command(&["/usr/bin/python3", "-c", &script], Told::No);
        let cancel = Cancel::new().unwrap();
        let canceller = cancel.clone();
        let accepts = std::thread::spawn(move || {
            let mut streams: Vec<_> = (0..10).map(|_| server.accept().unwrap().0).collect();
            // What came through each is counted.
            for stream in &mut streams {
                std::io::Read::read_exact(stream, &mut [0]).unwrap();
            }
            canceller.cancel();
            // Each ends on this side too.
            for mut stream in streams {
                let mut rest = Vec::new();
                let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
                assert!(rest.is_empty());
            }
        });
        let profile = net.host.profile();
        let done = net.run_with(profile, command, &cancel, Arc::new(Recorded::default()));
        assert_eq!(done.ran.record.ended, Ended::Cancelled);
        assert_eq!(done.report.traffic.hosts[0].connections, 10);
        accepts.join().unwrap();
    }
}

/// A name that is never found keeps a command's end waiting no longer than its driver needs.
#[test]
fn a_name_server_that_does_not_answer_keeps_nobody() {
    struct Never(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);
    impl provost_sandbox::Resolver for Never {
        fn resolve(&self, _: &str, _: u16) -> std::io::Result<Vec<std::net::SocketAddr>> {
            let _ = self.0.lock().unwrap().recv();
            Ok(Vec::new())
        }
    }
    let (release, wait) = std::sync::mpsc::channel();
    let host = Host::new();
    let line = "curl -sS -m 1 -x http://127.0.0.1:3128 http://origin.test/; true";
    let mut command = host.command(&["sh", "-c", line]);
    let layer = provost_core::policy::Layer::named("hosts");
    let layer = layer.rule(provost_core::policy::Effect::Allow, "net origin.test").unwrap();
    let policy = provost_core::policy::Policy::preset(provost_core::policy::Preset::Workspace).with(layer);
    let egress = provost_sandbox::Egress::new(policy.into(), Arc::new(Recorded::default()));
    command.egress = Some(egress.with_resolver(Arc::new(Never(wait.into()))));
    // It would wait for good.
    host.run_with(Rung::R3, host.profile(), &command).assert_ok();
    drop(release);
}

/// Descriptors and threads of this process. A process of its own counts its own: other tests run beside this one.
#[test]
fn nothing_is_left_behind() {
    const ALONE: &str = "PROVOST_IT_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "egress::bounds::nothing_is_left_behind";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads", "1"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    // The origin's own threads and connections end by themselves.
    let origin = Origin::start();
    let port = origin.address.port();
    let line =
        format!("for i in 1 2 3; do curl -sS http://origin.test:{port}/ http://evil.test/; done; true");
    let run = |told| {
        for rung in CONTAINED {
            Net::with_origin(&origin).on(rung).sh(&line, told).assert_says("hello");
        }
    };
    run(Told::Yes);
    let mut before = (0, 0);
    eventually("the first one's are gone", || {
        let now = (count("/proc/self/fd"), count("/proc/self/task"));
        std::mem::replace(&mut before, now) == now
    });
    for _ in 0..10 {
        BOTH.into_iter().for_each(run);
    }
    eventually("no more than before", || {
        count("/proc/self/fd") <= before.0 && count("/proc/self/task") <= before.1
    });
    assert!(origin.connections.load(Ordering::SeqCst) >= 126);
}

/// Without a network none of it is there, and the host's own resolver file is shown.
#[test]
fn without_a_network_there_is_none_of_it() {
    let host = Host::new();
    let script = "import socket\n\
        for port in (3128, 1080, 53, 80, 443):\n    \
            try: socket.create_connection(('127.0.0.1', port), 2); print('listens')\n    \
            except ConnectionRefusedError: pass\n\
        assert socket.socket(type=socket.SOCK_DGRAM).connect_ex(('198.18.0.1', 53)) != 0";
    let ran = host.py(Rung::R3, script);
    ran.assert_ok();
    assert!(!ran.text.contains("listens"), "{}", ran.text);
    let ours = "nameserver 127.0.0.1\noptions timeout";
    let shown = host.sh(Rung::R3, "cat /etc/resolv.conf; true");
    assert!(!shown.text.contains(ours), "{}", shown.text);
    // The control.
    Net::with_origin(&Origin::start()).sh("cat /etc/resolv.conf", Told::No).assert_says(ours);
}
