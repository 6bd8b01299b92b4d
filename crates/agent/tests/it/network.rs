//! Commands with a network: what they dial is in the journal before it is dialled, and verifies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use provost_core::containment::Rung;
use provost_core::contract::{Contract, Gate};
use provost_core::event::{Body, NetDecided};
use provost_core::policy::{Effect, Layer, Policy, Preset};
use provost_core::state::RunState;
use provost_journal::Store as _;
use provost_model::Answer;
use serde_json::json;

use crate::support::{Bench, Seen, calls};

/// A server on the host's loopback, and how many connections came.
fn origin() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let connections = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            connections.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    (address, count)
}

fn policy(rules: &[String]) -> Policy {
    let layer = rules.iter().fold(Layer::named("hosts"), |layer, rule| {
        layer.rule(Effect::Allow, &format!("net {rule}")).unwrap()
    });
    Policy { at_least: Rung::R0, ..Policy::preset(Preset::Workspace).with(layer) }
}

/// Through the proxy, since the sandbox's own loopback is another one.
fn get(url: &str) -> Answer {
    calls("exec", json!({ "argv": ["curl", "-sS", "--noproxy", "", url] }))
}

fn decided(bodies: &[Body]) -> Vec<&NetDecided> {
    let decided = bodies.iter().filter_map(|body| match body {
        Body::NetDecided(body) => Some(body),
        _ => None,
    });
    decided.collect()
}

#[tokio::test]
async fn i2_what_a_command_dials_is_on_record_before() {
    let (address, connections) = origin();
    let bench = Bench::new(&[("a.txt", "one\n")]);
    let runtime = bench.runtime(vec![
        get(&format!("http://{address}/")),
        get("http://evil.test/"),
        calls("exec", json!({ "argv": ["true"] })),
        Answer::text("done"),
    ]);
    let contract = Contract::new("fetch").policy(policy(&[address.to_string()]));
    let (run, ending) = bench.start(&runtime, contract).await.unwrap();
    assert_eq!(ending.exit_code(), 0);
    assert!(bench.told(&run, 0).await.contains("hello"), "{}", bench.told(&run, 0).await);
    let told = bench.told(&run, 1).await;
    assert!(told.contains("evil.test:80 was not dialled: the policy does not allow it"), "{told}");
    assert!(told.contains("Network: `evil.test:80` was refused"), "{told}");
    assert_eq!(connections.load(Ordering::SeqCst), 1);

    let bodies = bench.bodies(&run).await;
    let [first, second] = decided(&bodies)[..] else { panic!("{bodies:?}") };
    assert_eq!((first.host.as_str(), first.port), ("127.0.0.1", address.port()));
    assert_eq!((first.decision.effect, second.decision.effect), (Effect::Allow, Effect::Deny));
    let traffic: Vec<_> = bodies
        .iter()
        .filter_map(|body| match body {
            Body::ActFinished(body) => Some(body.command.as_ref().unwrap().traffic.clone()),
            _ => None,
        })
        .collect();
    let [Some(fetched), Some(refused), None] = traffic.as_slice() else { panic!("{traffic:?}") };
    assert_eq!((fetched.hosts[0].connections, fetched.refused), (1, 0));
    assert_eq!((refused.hosts.len(), refused.refused), (0, 1));
    // Durable between its act's intent and its act's end.
    let tape = bench.tape.all();
    let kinds: Vec<&str> = tape
        .iter()
        .filter_map(|seen| if let Seen::Durable(kind) = seen { Some(*kind) } else { None })
        .collect();
    let at = kinds.iter().position(|kind| *kind == "net.decided").unwrap();
    assert_eq!((kinds[at - 1], kinds[at + 1]), ("act.started", "act.finished"));
    // A verifier that folds it makes the same decisions.
    let events = bench.store.events(&run, 0).await.unwrap();
    RunState::fold(run, &events).unwrap();
}

/// The gate's command is a command like any other.
#[tokio::test]
async fn the_gate_dials_what_policy_allows() {
    let (address, connections) = origin();
    for (rules, code) in [(vec![address.to_string()], 0), (vec!["other.test:80".to_owned()], 1)] {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let url = format!("http://{address}/");
        let argv = ["curl", "-sS", "--fail", "--noproxy", "", &url].map(str::to_owned).to_vec();
        let contract = Contract::new("fetch").policy(policy(&rules)).gate(Gate::command(argv));
        let (_, ending) = bench.start(&bench.runtime(vec![]), contract).await.unwrap();
        assert_eq!(ending.exit_code(), code);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// What a weaker rung cannot give is not promised, and what the policy does not open is not there.
#[tokio::test]
async fn where_there_is_no_network_nothing_of_it_is_there() {
    let (address, connections) = origin();
    let probe = "import os, socket\n\
        print('proxies', sorted(name for name in os.environ if 'proxy' in name.lower()))\n\
        try: socket.create_connection(('127.0.0.1', 3128), 2); print('listens')\n\
        except OSError as e: print('nobody')";
    let broker: &[&str] = &["seccomp-notify"];
    let only = "on the network they reach only `127.0.0.1:";
    let none = "they have no network: the hosts that the policy allows cannot be reached";
    let cases = [
        (Rung::R3, [].as_slice(), true, only),
        (Rung::R3, &[], false, "they have no network (a server"),
        (Rung::R3, broker, true, only),
        (Rung::R2, &[], true, only),
        (Rung::R2, &[], false, "they have no network (there is no loopback"),
        (Rung::R2, broker, true, none),
        (Rung::R2, broker, false, "they have no network (there is no loopback"),
    ];
    for (rung, lacks, named, words) in cases {
        let bench = Bench::new(&[("a.txt", "one\n")]);
        let mut runtime = bench.runtime(vec![
            calls("exec", json!({ "argv": ["/usr/bin/python3", "-c", probe] })),
            get(&format!("http://{address}/")),
        ]);
        runtime.executor = crate::support::at_most_without(rung, lacks);
        let rules = if named { vec![address.to_string()] } else { vec![] };
        let (run, _) = bench.start(&runtime, Contract::new("look").policy(policy(&rules))).await.unwrap();
        let bodies = bench.bodies(&run).await;
        let Body::RunCreated(created) = &bodies[0] else { panic!("{bodies:?}") };
        let system = bench.store.blob(&run, created.system).await.unwrap().unwrap();
        let system = String::from_utf8(system).unwrap();
        assert!(system.contains(words), "{rung} {named}: {system}");
        let told = bench.told(&run, 0).await;
        let open = named && words == only;
        assert_eq!(told.contains("\nlistens"), open, "{told}");
        assert_eq!(told.contains("\nproxies []"), !open, "{told}");
        assert_eq!(decided(&bodies).len(), usize::from(open));
        assert_eq!(bench.told(&run, 1).await.contains("hello"), open);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}
