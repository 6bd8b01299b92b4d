//! What is said of changes that were gathered in a layer.

use provost_core::event::{ActStaged, Unapplied, WhyUnapplied};
use provost_core::policy::WorkspaceMode;

use super::*;

/// A run whose changes are staged, with a command under way.
fn hand() -> (Hand, ActId) {
    let rules = Layer::named("hand").rule(Effect::Deny, "write guarded/").unwrap();
    let rules = rules.rule(Effect::Ask, "write asked/").unwrap();
    let mut policy = Policy::preset(Preset::Workspace).with(rules);
    policy.workspace = WorkspaceMode::staged();
    let mut hand = Hand::staged(policy, 2);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    (hand, act)
}

fn left(name: &str, why: WhyUnapplied) -> Unapplied {
    Unapplied { path: path(name), why }
}

fn staged(act: ActId, changes: Vec<Change>, unapplied: Vec<Unapplied>) -> Body {
    Body::ActStaged(Box::new(ActStaged { act, changes, unapplied, beside: 0 }))
}

fn ended(act: ActId, changes: Vec<Change>, unapplied: Vec<Unapplied>, reverted: &[&str]) -> Body {
    let Body::ActFinished(mut body) = finished(act, ActEnd::Done, changes, Some(ran(0, Rung::R3))) else {
        unreachable!()
    };
    body.unapplied = unapplied;
    body.reverted = reverted.iter().map(|name| path(name)).collect();
    Body::ActFinished(body)
}

#[test]
fn a_driver_that_cannot_stage_does_not_drive_a_run_whose_changes_are_staged() {
    let (mut hand, _) = hand();
    let generation = hand.0.generation() + 1;
    let attached = DriverAttached { generation, host: "h".into(), pid: 2, containment: receipt(Rung::R3) };
    hand.cannot(Body::DriverAttached(attached.clone()), "its containment does not do that");
    hand.does(Body::DriverAttached(DriverAttached { containment: world::staging(Rung::R3), ..attached }));
}

#[test]
fn only_commands_of_a_staged_run_stage_and_each_once() {
    let mut direct = Hand::workspace(1);
    let act = direct.decides(Some(0), vec![exec("make all")]);
    direct.does(started(act, command("make all")));
    direct.cannot(staged(act, vec![], vec![]), "no command whose changes are staged");

    let (mut hand, act) = hand();
    let other = hand.decides(Some(1), vec![write("a")]);
    hand.does(started(other, Intent::Write { changes: vec![creates("a", 50)] }));
    hand.cannot(staged(other, vec![], vec![]), "no command whose changes are staged");
    hand.cannot(staged(ActId(7), vec![], vec![]), "no such act");
    hand.does(staged(act, vec![], vec![]));
    hand.cannot(staged(act, vec![], vec![]), "staged already");
    let unknown = DriverDetached { why: Pause::Indeterminate, act: Some(act) };
    hand.cannot(Body::DriverDetached(unknown), "names no act that may have happened");
}

#[test]
fn nothing_is_staged_that_policy_guards_and_no_part_of_a_conflict() {
    let (mut hand, act) = hand();
    for name in ["guarded/key", "asked/file", ".git/config"] {
        hand.cannot(staged(act, vec![creates(name, 50)], vec![]), "the policy guards");
    }
    let twice = vec![creates("b", 50), creates("b", 51)];
    hand.cannot(staged(act, twice, vec![]), "names a path twice");
    let both = vec![left("b", WhyUnapplied::Special)];
    hand.cannot(staged(act, vec![creates("b", 50)], both), "names a path twice");
    let conflict = vec![left("c", WhyUnapplied::Conflict)];
    hand.cannot(staged(act, vec![creates("b", 50)], conflict), "a part of it is to be applied");
    let unknown = Change { before: creates("b", 50).after, ..creates("a", 51) };
    hand.does(drifted(vec![creates("a", 52)]));
    hand.cannot(staged(act, vec![unknown], vec![]), "content that the file did not have");
    hand.does(staged(act, vec![creates("b", 50)], vec![left("guarded/key", WhyUnapplied::Guarded)]));
}

#[test]
fn a_command_that_ended_has_staged_and_one_that_did_not_changed_nothing() {
    let (mut hand, act) = hand();
    let change = vec![creates("b", 50)];
    hand.cannot(ended(act, vec![], vec![], &[]), "what that changed was not staged");
    hand.cannot(finished(act, ActEnd::Interrupted, change, None), "they were not staged");
    let lost = vec![left("b", WhyUnapplied::Lost)];
    let Body::ActFinished(mut body) = finished(act, ActEnd::Interrupted, vec![], None) else {
        unreachable!()
    };
    body.unapplied = lost;
    hand.cannot(Body::ActFinished(body.clone()), "none were staged");
    body.unapplied.clear();
    body.reverted = vec![path("b")];
    hand.cannot(Body::ActFinished(body), "none were staged");
    hand.does(finished(act, ActEnd::Interrupted, vec![], None));
}

#[test]
fn what_became_of_each_staged_change_is_said() {
    let begun = || {
        let (mut hand, act) = hand();
        let guarded = vec![left("guarded/key", WhyUnapplied::Guarded)];
        hand.does(staged(act, vec![creates("b", 50), creates("in/c", 51)], guarded));
        (hand, act)
    };
    let (b, c) = (creates("b", 50), creates("in/c", 51));
    let guarded = || vec![left("guarded/key", WhyUnapplied::Guarded)];
    let (mut hand, act) = begun();
    hand.cannot(ended(act, vec![b.clone()], guarded(), &[]), "what became of a change");
    hand.cannot(ended(act, vec![b.clone(), c.clone()], vec![], &[]), "what was left out");
    let other = creates("b", 52);
    hand.cannot(ended(act, vec![other, c.clone()], guarded(), &[]), "what was not staged");
    hand.cannot(ended(act, vec![b.clone(), b.clone()], guarded(), &[]), "changed a file twice");
    let more = [guarded(), vec![left("b", WhyUnapplied::Failed)]].concat();
    hand.cannot(ended(act, vec![b.clone(), c.clone()], more.clone(), &[]), "left out what it changed");
    let made_up = [guarded(), vec![left("d", WhyUnapplied::Failed)]].concat();
    hand.cannot(ended(act, vec![b.clone(), c.clone()], made_up, &[]), "leaves out what was not staged");
    hand.does(ended(act, vec![c.clone()], more, &[]));

    let (mut hand, act) = begun();
    hand.does(ended(act, vec![b.clone()], guarded(), &["in"]));
    let (mut hand, act) = begun();
    hand.does(ended(act, vec![b, c], guarded(), &[]));
}
