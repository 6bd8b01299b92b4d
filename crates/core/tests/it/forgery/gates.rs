//! Verdicts of the gate that no tree has.

use super::*;

/// A gate that judged one tree does not verify another: files that change while it runs, or between its end and its
/// judgement, leave it with nothing to say.
#[test]
fn a_tree_that_drifts_under_the_gate_is_not_verified() {
    for drift_while_it_runs in [true, false] {
        let mut hand = Hand::workspace(0);
        hand.submit();
        let act = hand.decides(None, vec![gate()]);
        hand.does(started(act, command("check all")));
        if drift_while_it_runs {
            hand.does(drifted(vec![creates("f", 50)]));
        }
        hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
        if !drift_while_it_runs {
            hand.does(drifted(vec![creates("f", 50)]));
        }
        hand.cannot(judged(act, GateVerdict::Passed), "the gate says nothing");
        hand.does(judged(act, GateVerdict::Errored));
        hand.cannot(hand.end(Outcome::Done, true), "verified exactly when");
        assert_eq!(hand.0.next(), Next::RunGate);
    }
    // Drift before it starts is part of what it judges.
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.decides(None, vec![gate()]);
    hand.does(drifted(vec![creates("f", 50)]));
    hand.does(started(act, command("check all")));
    hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
    hand.does(judged(act, GateVerdict::Passed));
    hand.does(hand.end(Outcome::Done, true));
}

#[test]
fn a_change_behind_the_gate_makes_it_due_again() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.run_gate(0);
    hand.does(judged(act, GateVerdict::Passed));
    hand.does(drifted(vec![creates("f", 50)]));
    hand.cannot(hand.end(Outcome::Done, true), "verified exactly when");
    hand.cannot(hand.end(Outcome::Done, false), "does not stand so");
    assert_eq!(hand.0.next(), Next::RunGate);
}

/// A failed gate is answered for: the model is told, or the run ends. It is not run again until it passes.
#[test]
fn a_failed_gate_is_not_simply_run_again() {
    let mut hand = Hand::workspace(0);
    hand.cannot(hand.decided(None, "gate", vec![gate()], Recovery::Supervised), "not due");
    hand.submit();
    hand.cannot(
        hand.decided(None, "gate", vec![exec("true")], Recovery::Supervised),
        "not the contract's gate",
    );
    let act = hand.run_gate(1);
    hand.cannot(hand.decided(None, "gate", vec![gate()], Recovery::Supervised), "not due");
    hand.cannot(judged(act, GateVerdict::Errored), "did not exit with 0");
    hand.cannot(judged(act, GateVerdict::Passed), "did not exit with 0");
    hand.does(judged(act, GateVerdict::Failed));
    hand.cannot(hand.decided(None, "gate", vec![gate()], Recovery::Supervised), "not due");
    assert_eq!(hand.0.next(), Next::Finish(Outcome::GateFailed), "the contract gives it no attempt more");
    let note = Note { why: NoteWhy::GateFailed, text: digest(7) };
    hand.cannot(Body::Note(note), "no such note is due");
    hand.does(hand.end(Outcome::GateFailed, false));
}

#[test]
fn the_gate_runs_where_and_as_long_as_the_contract_says() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.decides(None, vec![gate()]);
    let Intent::Command { argv, cwd, limit_ms } = command("check all") else { unreachable!() };
    let long = Intent::Command { argv: argv.clone(), cwd, limit_ms: limit_ms + 1 };
    hand.cannot(started(act, long), "more time than the contract");
    let beside = Intent::Command { argv, cwd: path("easy"), limit_ms };
    hand.cannot(started(act, beside), "workspace's root");
}

/// A gate that passed says nothing about a later submission on another tree.
#[test]
fn an_old_pass_does_not_verify_new_work() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![write("f")]);
    let changes = vec![creates("f", 50)];
    hand.does(started(act, Intent::Write { changes: changes.clone() }));
    hand.does(finished(act, ActEnd::Done, vec![], None));
    hand.cannot(hand.end(Outcome::Done, false), "does not stand so");
    hand.cannot(hand.end(Outcome::Done, true), "verified exactly when");
    hand.cannot(hand.end(Outcome::GateFailed, false), "does not stand so");
    hand.cannot(hand.end(Outcome::Refused, false), "does not stand so");
    hand.cannot(hand.end(Outcome::BudgetSpent { bound: Bound::Tokens }, false), "not reached");
    hand.cannot(hand.end(Outcome::BudgetSpent { bound: Bound::Steps }, false), "not reached");
    hand.does(world::cancelled());
    hand.cannot(world::cancelled(), "does not follow while the run is cancelling");
    hand.does(hand.end(CANCELLED, false));
    hand.cannot(
        Body::ModelAnswered(match forged_answer(&hand.0, Usage::default()).body {
            Body::ModelAnswered(body) => body,
            _ => unreachable!(),
        }),
        "the run is over",
    );
}

/// The gate passed, and the run then ends on another tree without a word of how it came about.
#[test]
fn a_pass_on_one_tree_is_not_done_on_another() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let act = hand.run_gate(0);
    hand.cannot(judged(ActId(7), GateVerdict::Passed), "judges another act");
    hand.does(judged(act, GateVerdict::Passed));
    let Body::RunFinished(mut end) = hand.end(Outcome::Done, true) else { unreachable!() };
    end.tree = world::tree(&BTreeMap::new());
    hand.cannot(Body::RunFinished(end.clone()), "verified exactly when");
    end.verified = false;
    hand.cannot(Body::RunFinished(end), "the gate did not pass");
}

#[test]
fn the_gate_may_start_others_and_is_still_the_contracts_command() {
    let mut hand = Hand::workspace(0);
    hand.submit();
    let other = hand.decided(None, "gate", vec![exec("rm a"), gate()], Recovery::Supervised);
    hand.cannot(other, "not the contract's gate");
    let act = hand.decides(None, vec![gate(), exec("rm a")]);
    hand.cannot(started(act, command("rm a")), "not put before the policy");
    hand.does(started(act, command("check all")));
}
