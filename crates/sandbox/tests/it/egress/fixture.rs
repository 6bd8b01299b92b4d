//! Servers, names, and a command that may dial them.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use provost_core::containment::Rung;
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_sandbox::{
    Cancel, Command, Egress, HostDecision, NetReport, NotRecorded, PROXY_ENVIRONMENT, Record, Resolver,
};

use crate::support::{Host, Ran, sandbox};

/// Whether a command is told of the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
}

pub(super) const BOTH: [Told; 2] = [Told::Yes, Told::No];

/// Names as the host would find them, and how often each was looked up.
#[derive(Default)]
pub(super) struct Table {
    names: HashMap<String, Vec<SocketAddr>>,
    pub(super) asked: Mutex<Vec<String>>,
}

impl Resolver for Table {
    fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let found = self.names.get(host).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name"))
    }
}

/// What was put on record.
#[derive(Default)]
pub(super) struct Recorded(pub(super) Mutex<Vec<HostDecision>>);

impl Record for Recorded {
    fn record(&self, decided: HostDecision) -> Result<(), NotRecorded> {
        self.0.lock().unwrap().push(decided);
        Ok(())
    }
}

/// A policy, names, and a host to run commands on.
pub(super) struct Net {
    pub(super) host: Host,
    rung: Rung,
    policy: Policy,
    table: Table,
}

/// A command that ran, and what it did on the network.
pub(super) struct Done {
    pub(super) ran: Ran,
    pub(super) report: NetReport,
    pub(super) recorded: Vec<HostDecision>,
    /// Names that the host looked up.
    pub(super) asked: Vec<String>,
}

impl Done {
    /// `host:port` of each decision and what it was.
    pub(super) fn decisions(&self) -> Vec<(String, Effect)> {
        let text = |it: &HostDecision| (format!("{}:{}", it.host, it.port), it.decision.effect);
        self.recorded.iter().map(text).collect()
    }

    #[track_caller]
    pub(super) fn assert_ok(&self) -> &Self {
        assert_eq!(
            self.ran.record.ended,
            provost_sandbox::Ended::Exited(0),
            "{}\n{:?}\n{:?}",
            self.ran.text,
            self.report,
            self.recorded
        );
        self
    }

    #[track_caller]
    pub(super) fn assert_says(&self, words: &str) -> &Self {
        assert!(self.ran.text.contains(words), "{}\n{:?}", self.ran.text, self.report);
        self
    }

    /// That something was refused for this reason.
    #[track_caller]
    pub(super) fn assert_refused(&self, what: &str, why: &str) -> &Self {
        let refusals = &self.report.refusals;
        assert!(
            refusals.iter().any(|refusal| refusal.what == what && refusal.why.contains(why)),
            "{refusals:?}\n{}",
            self.ran.text
        );
        self
    }
}

impl Net {
    /// A host whose policy allows `rules`, written as `example.org:443`.
    pub(super) fn allowing(rules: &[&str]) -> Self {
        let layer = rules.iter().fold(Layer::named("hosts"), |layer, rule| {
            layer.rule(Effect::Allow, &format!("net {rule}")).unwrap()
        });
        let policy = Policy::preset(Preset::Workspace).with(layer);
        Self { host: Host::new(), rung: Rung::R3, policy, table: Table::default() }
    }

    /// The same under this rung.
    pub(super) fn on(mut self, rung: Rung) -> Self {
        self.rung = rung;
        self
    }

    /// The same with a rule that asks or denies.
    pub(super) fn rule(mut self, effect: Effect, rule: &str) -> Self {
        let layer = Layer::named("more").rule(effect, &format!("net {rule}")).unwrap();
        self.policy = self.policy.with(layer);
        self
    }

    pub(super) fn name(mut self, name: &str, addresses: &[SocketAddr]) -> Self {
        self.table.names.insert(name.to_owned(), addresses.to_vec());
        self
    }

    /// `origin.test` at `server`, dialled at 80 and at its own port, and the address named by the policy.
    pub(super) fn with_origin(server: &Origin) -> Self {
        let port = server.address.port();
        let rules = [
            "origin.test:80".to_owned(),
            "127.0.0.1:80".to_owned(),
            format!("origin.test:{port}"),
            format!("127.0.0.1:{port}"),
        ];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        Self::allowing(&rules).name("origin.test", &[server.address])
    }

    pub(super) fn command(&self, argv: &[&str], told: Told) -> Command {
        let mut command = self.host.command(argv);
        if told == Told::Yes {
            let variables = PROXY_ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into()));
            command.env.extend(variables);
        }
        command
    }

    pub(super) fn run(self, argv: &[&str], told: Told) -> Done {
        let command = self.command(argv, told);
        self.run_command(command)
    }

    pub(super) fn sh(self, script: &str, told: Told) -> Done {
        self.run(&["sh", "-c", script], told)
    }

    pub(super) fn py(self, script: &str, told: Told) -> Done {
        self.run(&["/usr/bin/python3", "-c", script], told)
    }

    pub(super) fn run_command(self, command: Command) -> Done {
        let profile = self.host.profile();
        self.run_with(profile, command, &Cancel::new().unwrap(), Arc::new(Recorded::default()))
    }

    pub(super) fn run_with(
        self,
        profile: provost_sandbox::Profile,
        mut command: Command,
        cancel: &Cancel,
        recorded: Arc<Recorded>,
    ) -> Done {
        let table = Arc::new(self.table);
        let egress = Egress::new(Arc::new(self.policy), recorded.clone()).with_resolver(table.clone());
        command.egress = Some(egress.clone());
        let rung = if profile.image.is_some() { Rung::R4 } else { self.rung };
        let record = sandbox(rung, profile).run(&command, cancel).unwrap();
        let recorded = recorded.0.lock().unwrap().clone();
        let asked = table.asked.lock().unwrap().clone();
        Done { ran: Ran::of(record), report: egress.report(), recorded, asked }
    }
}

/// An HTTP server on the host's loopback that answers everything with `hello from origin`.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    /// First line and `Host` of each request.
    pub(super) requests: Arc<Mutex<Vec<(String, String)>>>,
    /// Connections that came.
    pub(super) connections: Arc<AtomicUsize>,
}

impl Origin {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (origin.requests.clone(), origin.connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                connections.fetch_add(1, Ordering::SeqCst);
                let requests = requests.clone();
                std::thread::spawn(move || serve(stream, &requests));
            }
        });
        origin
    }

    pub(super) fn seen(&self) -> Vec<(String, String)> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers requests until one says that it is the last. Bodies are counted by their length.
fn serve(stream: TcpStream, requests: &Mutex<Vec<(String, String)>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (mut host, mut length, mut last) = (String::new(), 0, false);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let (name, value) = header.trim_end().split_once(": ").unwrap_or((header.trim_end(), ""));
            match name.to_ascii_lowercase().as_str() {
                "host" => host = value.to_owned(),
                "content-length" => length = value.parse().ok()?,
                "connection" => last = value == "close",
                "" => break,
                _ => {}
            }
        }
        requests.lock().unwrap().push((line.trim_end().to_owned(), host));
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let text = if body.is_empty() {
            "hello from origin".to_owned()
        } else {
            format!("hello from origin, which got {length} bytes")
        };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        reader.get_mut().write_all(answer.as_bytes()).ok()?;
        if last {
            return None;
        }
    }
}
