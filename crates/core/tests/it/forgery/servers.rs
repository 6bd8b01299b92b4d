//! Calls of somebody else's tools: what is started, what is called, what a person's word is needed for (I1, I4, I5).

use super::*;
use provost_core::event::{ActSettled, ProcessEnded, ServerAccepted, ServerListed, Settlement};
use provost_core::path::RelPath;
use provost_core::server::{Server, called, starter};

const NAME: &str = "post";

/// A run whose contract has a server, with one answer of `calls` calls still to come.
fn hand() -> Hand {
    ordered(Layer::named("hand").rule(Effect::Allow, "call post.*").unwrap())
}

fn ordered(layer: Layer) -> Hand {
    limited(layer, provost_core::agents::AgentLimits::NONE)
}

fn limited(layer: Layer, agents: provost_core::agents::AgentLimits) -> Hand {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.limits.agents = agents;
    created.policy = Policy::preset(Preset::Workspace).with(layer);
    created.budget = Budget::default();
    let mut server = Server::new(NAME, vec!["serve".into(), "post".into()]);
    server.reads.insert("look".to_owned());
    created.servers = vec![server];
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    hand
}

fn start_of(hand: &Hand, line: &str) -> Body {
    let touches = vec![exec(line)];
    let decision = hand.0.created().unwrap().policy.decide_ordered(&touches, hand.0.rung(), Ordered::Server);
    let (tool, recovery) = (starter(NAME), Recovery::Supervised);
    Body::ActDecided(ActDecided {
        act: hand.0.next_act(),
        call: None,
        tool,
        args: digest(6),
        touches,
        recovery,
        decision,
    })
}

fn intent() -> Intent {
    let argv = vec!["serve".into(), "post".into()];
    Intent::Background { argv, cwd: RelPath::root(), limit_ms: None, publish: None }
}

fn list(hand: &Hand, act: ActId, mail: u64) -> ServerListed {
    let tools = BTreeMap::from([("mail".to_owned(), digest(mail)), ("look".to_owned(), digest(52))]);
    let changed = hand.0.measured(NAME, &tools);
    ServerListed { server: NAME.to_owned(), act, tools, changed }
}

/// Starts the server, which then says what it offers.
fn start(hand: &mut Hand, mail: u64) -> ActId {
    assert_eq!(hand.0.next(), Next::StartServer(NAME.to_owned()));
    let act = hand.0.next_act();
    hand.does(start_of(hand, "serve post"));
    hand.does(started(act, intent()));
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.does(Body::ServerListed(list(hand, act, mail)));
    act
}

fn calls(hand: &mut Hand, tool: &str, recovery: Recovery) -> ActId {
    let act = hand.0.next_act();
    let touches = vec![Touch::Call { tool: called(NAME, tool) }];
    hand.does(hand.decided(Some(0), "post__tool", touches, recovery));
    act
}

fn call(tool: &str) -> Intent {
    Intent::Call { server: NAME.to_owned(), tool: tool.to_owned() }
}

fn doubt(act: ActId) -> Body {
    Body::DriverDetached(DriverDetached { why: Pause::Indeterminate, act: Some(act) })
}

fn ends(hand: &mut Hand, act: ActId) {
    let command = Some(ran(0, Rung::R3));
    hand.does(Body::ProcessEnded(Box::new(ProcessEnded {
        act,
        command,
        published: None,
        report: digest(12),
        changes: vec![],
        reverted: vec![],
    })));
}

#[test]
fn i1_only_the_contracts_servers_are_started_as_it_has_them() {
    let mut hand = hand();
    let other = start_of(&hand, "serve other");
    hand.cannot(other, "another command than the contract's");
    let Body::ActDecided(mut unknown) = start_of(&hand, "serve post") else { unreachable!() };
    unknown.tool = starter("mail");
    hand.cannot(Body::ActDecided(unknown), "the contract does not name");
    let act = hand.0.next_act();
    hand.does(start_of(&hand, "serve post"));
    hand.cannot(started(act, command("serve post")), "goes on");
    hand.does(started(act, intent()));
    hand.does(finished(act, ActEnd::Done, vec![], None));
    let again = start_of(&hand, "serve post");
    hand.does(Body::ServerListed(list(&hand, act, 50)));
    hand.cannot(again, "not to be started now");
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
}

/// A server that did not come up is not started over and over; the next driver tries again.
#[test]
fn a_server_that_does_not_come_up_is_tried_once_by_each_driver() {
    let mut hand = hand();
    let act = hand.0.next_act();
    hand.does(start_of(&hand, "serve post"));
    hand.does(started(act, intent()));
    hand.does(finished(act, ActEnd::Done, vec![], None));
    ends(&mut hand, act);
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
    hand.attach(Rung::R3);
    assert_eq!(hand.0.next(), Next::StartServer(NAME.to_owned()));
}

#[test]
fn i1_a_tool_is_called_where_its_server_runs_and_offers_it() {
    let mut hand = hand();
    let server = start(&mut hand, 50);
    hand.answer(1);
    let act = calls(&mut hand, "mail", Recovery::Indeterminate);
    assert_eq!(hand.0.next(), Next::Perform(act));
    hand.cannot(started(act, call("look")), "not put before the policy");
    ends(&mut hand, server);
    hand.cannot(started(act, call("mail")), "does not run");
    // It is started again for the call.
    start(&mut hand, 50);
    assert_eq!(hand.0.next(), Next::Perform(act));
    hand.does(started(act, call("mail")));
    let with_command = finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3)));
    hand.cannot(with_command, "what only a command does");
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.answer(1);
    let act = calls(&mut hand, "unheard_of", Recovery::Indeterminate);
    hand.cannot(started(act, call("unheard_of")), "was not offered");
}

#[test]
fn i1_a_call_without_leave_does_not_start() {
    for (effect, next) in [(Effect::Deny, true), (Effect::Ask, false)] {
        let mut hand = ordered(Layer::named("hand").rule(effect, "call post.mail").unwrap());
        start(&mut hand, 50);
        hand.answer(1);
        let act = calls(&mut hand, "mail", Recovery::Indeterminate);
        assert_eq!(hand.0.next(), if next { Next::Refuse(act) } else { Next::Approve(act) });
        hand.cannot(started(act, call("mail")), "neither the policy nor a person");
    }
}

/// A server's own word that a tool only reads decides nothing: only the contract's counts.
#[test]
fn i4_only_the_person_says_which_tools_only_read() {
    let mut hand = hand();
    start(&mut hand, 50);
    hand.answer(1);
    let touches = vec![Touch::Call { tool: called(NAME, "mail") }];
    hand.cannot(hand.decided(Some(0), "post__mail", touches, Recovery::Replayable), "declared replayable");
    calls(&mut hand, "look", Recovery::Replayable);
}

/// Nobody repeats a call whose end nobody saw, unless a person says so.
#[test]
fn i4_a_call_that_was_cut_short_waits_for_a_person() {
    for how in [Settlement::Happened, Settlement::DidNot, Settlement::Again] {
        let mut hand = hand();
        let server = start(&mut hand, 50);
        hand.answer(1);
        let act = calls(&mut hand, "mail", Recovery::Indeterminate);
        hand.does(started(act, call("mail")));
        hand.cannot(started(act, call("mail")), "it started already");
        hand.attach(Rung::R3);
        assert_eq!(hand.0.next(), Next::EndProcess(server));
        ends(&mut hand, server);
        assert_eq!(hand.0.next(), Next::Recover(act));
        hand.does(doubt(act));
        hand.attach(Rung::R3);
        hand.does(Body::ActSettled(ActSettled { act, how, by: "hand".into() }));
        if how == Settlement::Again {
            start(&mut hand, 50);
            assert_eq!(hand.0.next(), Next::Perform(act));
            hand.does(started(act, call("mail")));
            hand.does(finished(act, ActEnd::Done, vec![], None));
        } else {
            assert_eq!(hand.0.next(), Next::Recover(act));
            hand.cannot(doubt(act), "nobody has settled");
            hand.does(finished(act, ActEnd::Interrupted, vec![], None));
        }
        assert!(matches!(hand.0.next(), Next::Ask { .. }));
    }
}

/// A tool that is not what the model was told is not called until a person takes it so.
#[test]
fn i5_a_tool_that_changed_is_not_called_until_it_is_accepted() {
    let mut hand = hand();
    let server = start(&mut hand, 50);
    let accepted = || Body::ServerAccepted(ServerAccepted { server: NAME.into(), by: "hand".into() });
    hand.cannot(accepted(), "are what they were");
    hand.answer(1);
    let act = calls(&mut hand, "mail", Recovery::Indeterminate);
    ends(&mut hand, server);
    let act_of_start = hand.0.next_act();
    hand.does(start_of(&hand, "serve post"));
    hand.does(started(act_of_start, intent()));
    hand.does(finished(act_of_start, ActEnd::Done, vec![], None));
    let honest = list(&hand, act_of_start, 51);
    assert_eq!(honest.changed, ["mail"]);
    hand.cannot(Body::ServerListed(ServerListed { changed: vec![], ..honest.clone() }), "is not what did");
    hand.does(Body::ServerListed(honest));
    hand.cannot(started(act, call("mail")), "nobody has accepted it");
    hand.does(accepted());
    assert_eq!(hand.0.listed(NAME).unwrap()["mail"], digest(51));
    hand.does(started(act, call("mail")));
}

/// A server is the contract's: whoever calls first, it is the root's, decided by the contract's policy. Whether an agent may
/// call it is decided by that agent's own.
#[test]
fn i5_a_server_that_a_child_needs_is_started_for_all() {
    use provost_core::agents::{AgentLimits, Spawn};
    let mut hand = limited(
        Layer::named("hand").rule(Effect::Allow, "call post.*").unwrap(),
        AgentLimits { total: 1, depth: 1 },
    );
    let first = start(&mut hand, 50);
    ends(&mut hand, first);
    hand.answer(1);
    let act = hand.decides(Some(0), vec![Touch::Spawn { agent: "helper".to_owned() }]);
    let spawn = Spawn {
        agent: AgentId(1),
        name: "helper".to_owned(),
        goal: digest(14),
        briefing: digest(15),
        deny: ["exec *", "call post.look"].map(|rule| rule.parse().unwrap()).to_vec(),
        max_steps: None,
    };
    hand.does(started(act, Intent::Spawn(Box::new(spawn))));
    hand.answer(2);
    let refused = calls(&mut hand, "look", Recovery::Replayable);
    assert_eq!(hand.0.next(), Next::Refuse(refused));
    hand.does(finished(refused, ActEnd::Refused, vec![], None));
    let touches = vec![Touch::Call { tool: called(NAME, "mail") }];
    hand.does(hand.decided(Some(1), "post__tool", touches, Recovery::Indeterminate));
    assert_eq!(hand.0.next(), Next::StartServer(NAME.to_owned()));
    // By the child's policy it would be refused, for everybody.
    let Body::ActDecided(mut narrow) = start_of(&hand, "serve post") else { unreachable!() };
    let of_child = hand.0.policy_of(AgentId(1)).unwrap();
    narrow.decision = of_child.decide_ordered(&narrow.touches, hand.0.rung(), Ordered::Server);
    assert_eq!(narrow.decision.effect, Effect::Deny);
    hand.cannot(Body::ActDecided(narrow), "where the policy decides");
    let server = start(&mut hand, 50);
    assert_eq!(hand.0.process(server).unwrap().agent(), AgentId::ROOT);
    assert!(matches!(hand.0.next(), Next::Perform(_)));
}
