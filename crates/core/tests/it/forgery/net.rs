//! What a journal may say of the hosts that commands dial.

use provost_core::event::NetDecided;
use provost_core::net::{HostTraffic, MOST_DECISIONS, Traffic};

use super::*;

fn policy() -> Policy {
    let rules = ["net example.org:443", "net 10.0.0.7:5432", "net *.inside:80"];
    let layer = Layer::named("hosts");
    Policy::preset(Preset::Workspace)
        .with(rules.into_iter().fold(layer, |layer, rule| layer.rule(Effect::Allow, rule).unwrap()))
}

/// A command that runs.
fn running() -> (Hand, ActId) {
    let mut hand = Hand::new(policy(), Rung::R3, 1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    (hand, act)
}

fn dials(act: ActId, host: &str, port: u16) -> NetDecided {
    let decision = policy().decide_dial(host, port, Rung::R3);
    NetDecided { act, host: host.to_owned(), port, decision, private: Vec::new() }
}

fn with_traffic(host: &str, port: u16) -> CommandFact {
    let hosts = vec![HostTraffic { host: host.to_owned(), port, connections: 1, sent: 2, received: 3 }];
    CommandFact { traffic: Some(Traffic { hosts, refused: 0 }), ..ran(0, Rung::R3) }
}

#[test]
fn i1_only_a_command_that_runs_dials() {
    let mut hand = Hand::new(policy(), Rung::R3, 1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    let body = dials(act, "example.org", 443);
    hand.cannot(Body::NetDecided(body.clone()), "no such command runs");
    hand.does(started(act, command("make all")));
    hand.does(Body::NetDecided(body.clone()));
    hand.cannot(Body::NetDecided(body.clone()), "decided on before");
    let other = NetDecided { act: ActId(act.0 + 1), ..body.clone() };
    hand.cannot(Body::NetDecided(other), "no such command runs");
    hand.does(finished(act, ActEnd::Done, vec![], Some(with_traffic("example.org", 443))));
    hand.cannot(Body::NetDecided(body), "no such command runs");
}

/// A driver's commands are gone with it.
#[test]
fn a_command_of_the_driver_before_dials_no_more() {
    let (mut hand, act) = running();
    hand.does(Body::NetDecided(dials(act, "example.org", 443)));
    hand.attach(Rung::R3);
    hand.cannot(Body::NetDecided(dials(act, "x.inside", 80)), "no such command runs");
    hand.cannot(
        finished(act, ActEnd::Done, vec![], Some(with_traffic("example.org", 443))),
        "not allowed before",
    );
    hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
}

#[test]
fn i3_a_decision_on_a_host_is_the_policys() {
    let (mut hand, act) = running();
    let allowed = dials(act, "example.org", 443);
    let refused = dials(act, "evil.org", 443);
    let forged = NetDecided { decision: allowed.decision.clone(), ..refused.clone() };
    hand.cannot(Body::NetDecided(forged), "where the policy decides");
    let other_port = NetDecided { port: 444, ..allowed.clone() };
    hand.cannot(Body::NetDecided(other_port), "where the policy decides");
    for host in ["Example.org", "example.org.", "a b", ""] {
        let body = dials(act, host, 443);
        hand.cannot(Body::NetDecided(body), "its host is not one");
    }
    hand.does(Body::NetDecided(allowed));
    hand.does(Body::NetDecided(refused));
}

#[test]
fn i1_traffic_goes_where_that_was_allowed() {
    let ended = |host, port| finished(ActId(0), ActEnd::Done, vec![], Some(with_traffic(host, port)));
    let (mut hand, act) = running();
    hand.cannot(ended("example.org", 443), "not allowed before");
    hand.does(Body::NetDecided(dials(act, "evil.org", 443)));
    hand.cannot(ended("evil.org", 443), "not allowed before");
    hand.does(Body::NetDecided(dials(act, "example.org", 443)));
    hand.cannot(ended("example.org", 80), "not allowed before");
    let mut twice = with_traffic("example.org", 443);
    if let Some(traffic) = &mut twice.traffic {
        traffic.hosts.push(traffic.hosts[0].clone());
    }
    hand.cannot(finished(act, ActEnd::Done, vec![], Some(twice)), "not in order");
    hand.does(ended("example.org", 443));
}

#[test]
fn an_address_is_refused_for_being_private_and_unnamed() {
    let (mut hand, act) = running();
    let body = dials(act, "x.inside", 80);
    let at = |body: &NetDecided, address: &str| {
        Body::NetDecided(NetDecided { private: vec![address.parse().unwrap()], ..body.clone() })
    };
    hand.cannot(at(&body, "10.0.0.8"), "not allowed, so nobody asked");
    hand.does(Body::NetDecided(body.clone()));
    hand.cannot(at(&body, "1.1.1.1"), "that is public");
    hand.does(at(&body, "10.0.0.8"));
    hand.cannot(
        finished(act, ActEnd::Done, vec![], Some(with_traffic("x.inside", 80))),
        "not allowed before",
    );
    let named = dials(act, "10.0.0.7", 5432);
    hand.does(Body::NetDecided(named.clone()));
    hand.cannot(at(&named, "10.0.0.7"), "that the policy names");
}

#[test]
fn there_is_a_bound_on_decisions() {
    let (mut hand, act) = running();
    for n in 0..MOST_DECISIONS {
        hand.does(Body::NetDecided(dials(act, &format!("h{n}.evil.org"), 443)));
    }
    hand.cannot(Body::NetDecided(dials(act, "one-more.evil.org", 443)), "one decision more");
}
