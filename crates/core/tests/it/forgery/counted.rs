//! Tests that a gate is said to have run.

use provost_core::contract::{BASE_GATE, Counted, Gate};
use provost_core::tests_ran::{Compared, TestsRan};

use super::*;

#[expect(clippy::unnecessary_wraps, reason = "as a command has them")]
fn tests(passed: u64, failed: u64) -> Option<TestsRan> {
    Some(TestsRan { passed, failed, ignored: 0 })
}

fn counted(code: i32, tests: Option<TestsRan>) -> CommandFact {
    CommandFact { tests, ..ran(code, Rung::R3) }
}

/// A run whose gate counts, and that a driver has.
fn hand(counted: Counted) -> Hand {
    let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
    created.policy = Policy::preset(Preset::Workspace);
    created.budget = Budget::default();
    let argv = vec!["check".to_owned(), "all".to_owned()];
    created.gate = Some(Gate { counted, limit_ms: 1000, ..Gate::command(argv) });
    let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
    hand.does(Body::RunCreated(created));
    hand.attach(Rung::R3);
    hand
}

fn base(hand: &Hand) -> Body {
    hand.decided(None, BASE_GATE, vec![gate()], Recovery::Supervised)
}

impl Hand {
    /// Runs the gate on the base.
    fn run_base(&mut self, command: &CommandFact) {
        let act = self.0.next_act();
        self.does(base(self));
        self.does(started(act, super::command("check all")));
        self.does(finished(act, command.exit.end(), vec![], Some(command.clone())));
    }

    /// Runs it on what the agent submitted.
    fn run_counted(&mut self, command: &CommandFact) -> ActId {
        let act = self.0.next_act();
        let body = self.decided(None, "gate", vec![gate()], Recovery::Supervised);
        self.does(body);
        self.does(started(act, super::command("check all")));
        self.does(finished(act, command.exit.end(), vec![], Some(command.clone())));
        act
    }
}

#[test]
fn the_base_comes_before_the_first_answer_and_on_the_files_at_the_start() {
    let mut hand = hand(Counted::AgainstBase);
    assert_eq!(hand.0.next(), Next::CountBase);
    let answer = forged_answer(&hand.0, Usage::default()).body;
    hand.cannot(answer, "the model is not to be asked now");
    let as_gate = hand.decided(None, "gate", vec![gate()], Recovery::Supervised);
    hand.cannot(as_gate, "the gate is not due");

    let act = hand.0.next_act();
    let decided = base(&hand);
    hand.does(decided);
    hand.does(drifted(vec![creates("b", 50)]));
    hand.cannot(started(act, command("check all")), "not those at the start any more");
    let back = creates("b", 50);
    hand.does(drifted(vec![Change { before: back.after.clone(), after: None, ..back }]));
    hand.does(started(act, command("check all")));
    // Cut short, it is due again.
    let lost = CommandFact { exit: ExitFact::DriverLost, ..ran(0, Rung::R3) };
    hand.does(finished(act, ActEnd::Interrupted, vec![], Some(lost)));
    assert_eq!(hand.0.next(), Next::CountBase);
    hand.run_base(&counted(1, tests(1, 1)));
    assert!(matches!(hand.0.next(), Next::Ask { .. }));
    let again = base(&hand);
    hand.cannot(again, "the gate is not due");

    let mut ordinary = self::hand(Counted::Not);
    assert!(matches!(ordinary.0.next(), Next::Ask { .. }));
    let unasked = base(&ordinary);
    ordinary.cannot(unasked, "the gate is not due");
}

#[test]
fn a_verdict_follows_from_the_numbers() {
    for (now, verdict) in [
        (tests(2, 0), GateVerdict::Passed),
        (tests(3, 0), GateVerdict::Passed),
        (tests(1, 0), GateVerdict::Failed),
        (tests(0, 0), GateVerdict::Failed),
        (None, GateVerdict::Failed),
    ] {
        let mut hand = hand(Counted::AgainstBase);
        hand.run_base(&counted(1, tests(1, 1)));
        hand.answer(0);
        hand.submit();
        let act = hand.run_counted(&counted(0, now));
        let other = if verdict == GateVerdict::Passed { GateVerdict::Failed } else { GateVerdict::Passed };
        let why = if verdict == GateVerdict::Passed { "the gate passed" } else { "or tests are missing" };
        hand.cannot(judged(act, other), why);
        hand.does(judged(act, verdict));
        assert_eq!(hand.0.gate_tests(), Some(Compared { base: tests(1, 1), now }));
        if verdict == GateVerdict::Failed {
            let done = hand.end(Outcome::Done, false);
            hand.cannot(done, "does not stand so that it ends");
        }
    }
    // One whose number nobody ever knew has nothing to miss.
    let mut hand = hand(Counted::AgainstBase);
    hand.run_base(&counted(1, None));
    hand.answer(0);
    hand.submit();
    let act = hand.run_counted(&counted(0, None));
    hand.does(judged(act, GateVerdict::Passed));
}

#[test]
fn only_a_gate_that_counts_and_came_to_its_end_has_numbers() {
    let mut ordinary = hand(Counted::Not);
    ordinary.answer(0);
    ordinary.submit();
    let act = ordinary.decides(None, vec![gate()]);
    ordinary.does(started(act, command("check all")));
    let with = |command: CommandFact| finished(act, command.exit.end(), vec![], Some(command));
    ordinary.cannot(with(counted(0, tests(1, 0))), "nobody asked for that");
    ordinary.does(with(counted(0, None)));

    let mut hand = hand(Counted::AgainstBase);
    let act = hand.0.next_act();
    let decided = base(&hand);
    hand.does(decided);
    hand.does(started(act, command("check all")));
    let late = CommandFact { exit: ExitFact::TimedOut { limit_ms: 1000 }, ..counted(0, tests(1, 0)) };
    hand.cannot(finished(act, ActEnd::TimedOut, vec![], Some(late.clone())), "cut short");
    hand.does(finished(act, ActEnd::TimedOut, vec![], Some(CommandFact { tests: None, ..late })));
    hand.answer(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    let told = finished(act, ActEnd::Done, vec![], Some(counted(0, tests(1, 0))));
    hand.cannot(told, "nobody asked for that");
}
