//! Background commands: what cannot have happened with them.

use provost_core::event::{ProcessChanged, ProcessEnded, Published, RunCancelled, Told};
use provost_core::policy::WorkspaceMode;
use provost_core::process::MOST_PROCESSES;

use super::*;

fn background(line: &str) -> Intent {
    let Intent::Command { argv, cwd, .. } = command(line) else { unreachable!() };
    Intent::Background { argv, cwd, limit_ms: None, publish: None }
}

fn told(act: ActId, process: ActId, from: u64, to: u64) -> Body {
    let Body::ActFinished(mut body) = finished(act, ActEnd::Done, vec![], None) else { unreachable!() };
    body.told = Some(Told { process, from, to });
    Body::ActFinished(body)
}

fn ended(act: ActId, command: impl Into<Option<CommandFact>>) -> Body {
    let command = command.into();
    let report = digest(12);
    Body::ProcessEnded(Box::new(ProcessEnded {
        act,
        command,
        published: None,
        report,
        changes: vec![],
        reverted: vec![],
    }))
}

/// One that wrote `bytes` and exited with 0.
fn wrote(bytes: u64) -> CommandFact {
    CommandFact { output_bytes: bytes, ..ran(0, Rung::R3) }
}

impl Hand {
    /// Starts a background command in answer to the call at `index`; it has written ten bytes.
    fn starts(&mut self, index: u32) -> ActId {
        let act = self.decides(Some(index), vec![exec("serve")]);
        self.does(started(act, background("serve")));
        self.does(told(act, act, 0, 10));
        act
    }

    fn polls(&mut self, index: u32) -> ActId {
        self.decides(Some(index), vec![])
    }

    fn tells(&mut self) {
        assert_eq!(self.0.next(), Next::Note(NoteWhy::ProcessEnded));
        self.does(Body::Note(Note { why: NoteWhy::ProcessEnded, text: digest(7) }));
    }
}

#[test]
fn a_poll_goes_on_where_the_last_one_stopped() {
    let mut hand = Hand::workspace(4);
    let process = hand.starts(0);
    let poll = hand.polls(1);
    hand.cannot(told(poll, ActId(7), 0, 5), "never started");
    hand.cannot(told(poll, poll, 0, 5), "never started");
    hand.cannot(told(poll, process, 5, 20), "does not go on where");
    hand.cannot(told(poll, process, 10, 9), "shown before");
    hand.does(told(poll, process, 10, 20));
    assert_eq!(hand.0.process(process).unwrap().shown, 20);
    hand.cannot(ended(process, wrote(19)), "less than was shown");
    hand.does(ended(process, wrote(30)));
    let poll = hand.polls(2);
    hand.cannot(told(poll, process, 20, 31), "more than the command wrote");
    hand.does(told(poll, process, 20, 30));
    // Of its end the model knows by that poll.
    let last = hand.polls(3);
    hand.does(told(last, process, 30, 30));
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
}

#[test]
fn i4_a_background_command_ends_once() {
    let mut hand = Hand::workspace(2);
    hand.cannot(ended(ActId(0), wrote(10)), "no such background command");
    let act = hand.decides(Some(0), vec![exec("serve")]);
    hand.does(started(act, background("serve")));
    hand.cannot(ended(act, wrote(10)), "no such background command");
    hand.cannot(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))), "ends with its act");
    hand.does(told(act, act, 0, 0));
    hand.cannot(ended(act, None), "does not say how it ended");
    hand.does(ended(act, wrote(0)));
    hand.cannot(ended(act, wrote(0)), "no such background command");
    assert_eq!(hand.0.counts().commands, 1);
}

/// A container may be found not to start when its act is over, and then nothing of it is lost: the run goes on.
#[test]
fn what_turns_out_not_to_have_started_ends_so() {
    let never = || CommandFact { exit: ExitFact::NotStarted, ..wrote(10) };
    let mut hand = Hand::workspace(2);
    let process = hand.starts(0);
    hand.does(ended(process, never()));
    let act = hand.decides(Some(1), vec![exec("serve")]);
    hand.does(started(act, command("serve")));
    // What is no background command either ran or failed.
    hand.cannot(finished(act, ActEnd::Failed, vec![], Some(never())), "never ran");
    hand.does(finished(act, ActEnd::Failed, vec![], None));
    hand.tells();
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
}

/// What failed to start is none: there is nothing to poll and nothing to end.
#[test]
fn what_never_ran_is_not_open() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("serve")]);
    hand.does(started(act, background("serve")));
    let stray = finished(act, ActEnd::Failed, vec![creates("new", 40)], None);
    hand.cannot(stray, "its command never ran");
    hand.does(finished(act, ActEnd::Failed, vec![], None));
    assert!(hand.0.process(act).is_none());
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
}

#[test]
fn changes_of_a_background_command_need_one_that_runs() {
    let changed = |changes, reverted| Body::ProcessChanged(ProcessChanged { changes, reverted });
    let mut hand = Hand::workspace(1);
    hand.cannot(changed(vec![creates("new", 40)], vec![]), "no background command runs");
    let process = hand.starts(0);
    hand.cannot(changed(vec![], vec![]), "it changes nothing");
    hand.cannot(changed(vec![creates("guarded/new", 40)], vec![]), "the policy protects");
    hand.does(changed(vec![creates("new", 40)], vec![]));
    // Its doing, and nobody else's.
    assert_eq!(hand.0.drifted().count(), 0);
    assert!(hand.0.net_changes().contains_key(&path("new")));
    hand.does(ended(process, wrote(10)));
    hand.cannot(changed(vec![creates("other", 41)], vec![]), "no background command runs");
}

#[test]
fn neither_the_gate_nor_the_end_nor_a_pause_comes_while_one_runs() {
    let mut hand = Hand::workspace(1);
    let process = hand.starts(0);
    let leaves = |why| Body::DriverDetached(DriverDetached { why, act: None });
    hand.cannot(leaves(Pause::Interrupted), "still runs");
    hand.answer(0);
    hand.submit();
    assert_eq!(hand.0.next(), Next::EndProcess(process));
    let gate_first = hand.decided(None, "gate", vec![gate()], Recovery::Supervised);
    hand.cannot(gate_first, "the gate is not due");
    hand.does(ended(process, wrote(10)));
    assert_eq!(hand.0.next(), Next::RunGate);

    let mut hand = Hand::workspace(1);
    let process = hand.starts(0);
    hand.does(Body::RunCancelled(RunCancelled { by: "somebody".to_owned() }));
    assert_eq!(hand.0.next(), Next::EndProcess(process));
    hand.cannot(hand.end(CANCELLED, false), "still runs");
    hand.does(ended(process, wrote(10)));
    hand.does(hand.end(CANCELLED, false));
}

#[test]
fn it_is_gone_with_its_driver_and_the_model_is_told() {
    let mut hand = Hand::workspace(2);
    let process = hand.starts(0);
    hand.attach(Rung::R3);
    assert_eq!(hand.0.next(), Next::EndProcess(process), "before anything else");
    hand.does(ended(process, None));
    let poll = hand.polls(1);
    hand.cannot(told(poll, process, 10, 11), "nothing is left");
    hand.does(finished(poll, ActEnd::Failed, vec![], None));
    hand.tells();
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
}

#[test]
fn there_are_only_so_many_at_once_and_none_where_changes_are_staged() {
    let most = MOST_PROCESSES as u32;
    let mut hand = Hand::workspace(most + 1);
    let first = hand.starts(0);
    for index in 1..most {
        hand.starts(index);
    }
    let one_more = hand.decides(Some(most), vec![exec("serve")]);
    hand.cannot(started(one_more, background("serve")), "more background commands");
    hand.does(ended(first, wrote(10)));
    hand.does(started(one_more, background("serve")));

    let mut policy = Policy::preset(Preset::Workspace);
    policy.workspace = WorkspaceMode::staged();
    let mut hand = Hand::staged(policy, 1);
    let act = hand.decides(Some(0), vec![exec("serve")]);
    hand.cannot(started(act, background("serve")), "staged");
}

/// The gate is never a background command, and one is covered by what was put before the policy like any other.
#[test]
fn i1_it_starts_as_it_was_decided_on() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("serve")]);
    hand.cannot(started(act, background("other")), "not put before the policy");
    hand.does(started(act, background("serve")));
    hand.does(told(act, act, 0, 0));
    hand.does(ended(act, wrote(0)));
    hand.tells();
    hand.answer(0);
    hand.submit();
    let act = hand.decides(None, vec![gate()]);
    hand.cannot(started(act, background("check all")), "no call asks");
}

#[test]
fn a_port_is_published_only_where_the_policy_grants_it_and_for_one_at_a_time() {
    let serves = |publish: u16| {
        let Intent::Background { argv, cwd, limit_ms, .. } = background("serve") else { unreachable!() };
        Intent::Background { argv, cwd, limit_ms, publish: Some(publish) }
    };
    let policy = || {
        let mut policy = Policy::preset(Preset::Workspace);
        policy.publish.insert(3000);
        policy
    };
    let mut hand = Hand::new(policy(), Rung::R3, 2);
    let act = hand.decides(Some(0), vec![exec("serve")]);
    hand.cannot(started(act, serves(3001)), "does not let that port");
    hand.does(started(act, serves(3000)));
    let second = hand.decides(Some(1), vec![exec("serve")]);
    hand.cannot(started(second, serves(3000)), "has that port");
    hand.does(told(act, act, 0, 0));
    let with = |port: u16| {
        let Body::ProcessEnded(mut body) = ended(act, wrote(0)) else { unreachable!() };
        body.published = Some(Published { port, connections: 1, refused: 0, sent: 2, received: 3 });
        Body::ProcessEnded(body)
    };
    hand.cannot(with(3001), "no such port");
    hand.does(with(3000));
    hand.does(started(second, serves(3000)));

    let mut weak = Hand::new(policy(), Rung::R2, 1);
    let act = weak.decides(Some(0), vec![exec("serve")]);
    weak.cannot(started(act, serves(3000)), "no ports of its own");
}
