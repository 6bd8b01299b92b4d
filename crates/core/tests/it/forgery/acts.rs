//! Acts that the policy, the containment or what came before does not allow.

use super::*;

#[test]
fn i1_an_act_that_is_denied_cannot_start_or_end_otherwise() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![write("guarded/key")]);
    let changes = vec![creates("guarded/key", 50)];
    hand.cannot(started(act, Intent::Write { changes: changes.clone() }), "neither the policy nor a person");
    hand.cannot(finished(act, ActEnd::Done, changes.clone(), None), "exactly when it was refused");
    hand.cannot(finished(act, ActEnd::Refused, changes, None), "changed files without having started");
    let yes = ActApproved { act, verdict: Verdict::Approved, by: "x".into() };
    hand.cannot(Body::ActApproved(yes), "does not ask");
    assert_eq!(hand.0.next(), Next::Refuse(act));
    hand.does(finished(act, ActEnd::Refused, vec![], None));
}

/// A read has no start; it must not slip past the person for that.
#[test]
fn i1_a_read_that_policy_asks_about_cannot_be_done_before_somebody_answers() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("asked/file")]);
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "neither the policy nor a person");
    hand.cannot(finished(act, ActEnd::Failed, vec![], None), "neither the policy nor a person");
    let no = ActApproved { act, verdict: Verdict::Denied, by: "x".into() };
    hand.does(Body::ActApproved(no.clone()));
    hand.cannot(Body::ActApproved(ActApproved { verdict: Verdict::Approved, ..no }), "answered already");
    let Body::ActFinished(mut shows) = finished(act, ActEnd::Refused, vec![], None) else { unreachable!() };
    shows.seen.push(provost_core::event::Seen { path: path("asked/file"), content: digest(1) });
    hand.cannot(Body::ActFinished(shows), "it showed a file");
    hand.does(finished(act, ActEnd::Refused, vec![], None));
}

/// What was allowed because it would be contained is not performed by a driver that cannot contain it.
#[test]
fn i5_a_weaker_driver_does_not_inherit_what_containment_allowed() {
    let mut hand = Hand::workspace(2);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    assert_eq!(hand.0.next(), Next::Perform(act));
    hand.attach(Rung::R1);
    assert_eq!(hand.0.next(), Next::Approve(act), "under R1 the same policy asks");
    hand.cannot(started(act, command("make all")), "neither the policy nor a person");
    hand.attach(Rung::R3);
    assert_eq!(hand.0.next(), Next::Approve(act), "a stricter decision stays");
    let yes = ActApproved { act, verdict: Verdict::Approved, by: "x".into() };
    hand.does(Body::ActApproved(yes));
    hand.does(started(act, command("make all")));
    hand.cannot(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R0))), "contained less");
    // Its driver dies and the next one is weaker: the command ran under the first one all the same.
    hand.attach(Rung::R1);
    hand.does(finished(act, ActEnd::Done, vec![], Some(ran(0, Rung::R3))));
}

#[test]
fn i5_a_driver_contains_at_least_what_the_policy_takes() {
    let mut policy = Policy::preset(Preset::Workspace);
    policy.at_least = Rung::R2;
    let mut hand = Hand::new(policy, Rung::R2, 0);
    let weak = DriverAttached { generation: 9, host: "h".into(), pid: 1, containment: receipt(Rung::R1) };
    hand.cannot(Body::DriverAttached(weak.clone()), "weaker than the policy takes");
    let stale = DriverAttached { generation: 1, containment: receipt(Rung::R3), ..weak };
    hand.cannot(Body::DriverAttached(stale), "not newer");
}

#[test]
fn i5_a_driver_enforces_what_the_policy_requires() {
    let policy = Policy::preset(Preset::Workspace).requiring([Guarantee::Net, Guarantee::KillTree]);
    let mut hand = Hand::unattached(policy);
    let attached = |held: &[(Guarantee, Strength)]| {
        let containment = Receipt { guarantees: held.iter().copied().collect(), ..receipt(Rung::R3) };
        Body::DriverAttached(DriverAttached { generation: 9, host: "h".into(), pid: 1, containment })
    };
    let net = (Guarantee::Net, Strength::Enforced);
    for kill_tree in [None, Some(Strength::Absent), Some(Strength::Sampled)] {
        let held: Vec<_> = [net].into_iter().chain(kill_tree.map(|how| (Guarantee::KillTree, how))).collect();
        hand.cannot(attached(&held), "does not enforce what the policy requires");
    }
    let kill_tree = (Guarantee::KillTree, Strength::Enforced);
    hand.does(attached(&[net, kill_tree]));
    // Nor is there a command for which it did not hold.
    hand.answer(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    let held_by = |held: &[(Guarantee, Strength)]| {
        let receipt = Receipt { guarantees: held.iter().copied().collect(), ..receipt(Rung::R3) };
        Some(CommandFact { containment: Some(receipt), ..ran(0, Rung::R3) })
    };
    hand.cannot(
        finished(act, ActEnd::Done, vec![], held_by(&[net])),
        "does not enforce what the policy requires",
    );
    hand.does(finished(act, ActEnd::Done, vec![], held_by(&[net, kill_tree])));
}

#[test]
fn i2_effects_without_their_start_are_refused() {
    let mut hand = Hand::workspace(2);
    let act = hand.decides(Some(0), vec![write("a/b")]);
    let change = creates("a/b", 50);
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "has effects and never started");
    hand.cannot(finished(act, ActEnd::Failed, vec![change.clone()], None), "without having started");
    hand.cannot(finished(act, ActEnd::Failed, vec![], Some(ran(1, Rung::R3))), "without having started");
    hand.cannot(started(act, command("make all")), "not put before the policy");
    let elsewhere = Intent::Write { changes: vec![creates("c", 50)] };
    hand.cannot(started(act, elsewhere), "not put before the policy");
    let intent = Intent::Write { changes: vec![change.clone()] };
    hand.does(started(act, intent.clone()));
    hand.cannot(started(act, intent), "started already");
    hand.cannot(finished(act, ActEnd::Done, vec![creates("a/b", 51)], None), "set out to change");
    // A failure is no cover for changes elsewhere, nor for a command.
    hand.cannot(
        finished(act, ActEnd::Failed, vec![creates("asked/file2", 52)], None),
        "not put before the policy",
    );
    hand.cannot(finished(act, ActEnd::Failed, vec![], Some(ran(1, Rung::R3))), "set out to write");
    hand.does(finished(act, ActEnd::Done, vec![], None));
}

/// An act that only reads cannot start as a write of nothing and thereby change things.
#[test]
fn i1_an_empty_intent_opens_no_door() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    hand.cannot(started(act, Intent::Write { changes: vec![] }), "not put before the policy");
    hand.cannot(finished(act, ActEnd::Done, vec![creates("b", 50)], None), "without having started");
}

#[test]
fn i1_a_protected_file_cannot_be_among_a_commands_changes() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    let changes = vec![creates("free", 50), creates("guarded/new", 51)];
    hand.cannot(finished(act, ActEnd::Done, changes, Some(ran(0, Rung::R3))), "the policy protects");
    hand.cannot(finished(act, ActEnd::Done, vec![], None), "does not say how that ended");
    hand.cannot(
        finished(act, ActEnd::Done, vec![], Some(ran(1, Rung::R3))),
        "did not end as its command did",
    );
    hand.does(finished(act, ActEnd::Done, vec![creates("free", 50)], Some(ran(0, Rung::R3))));
}

#[test]
fn i4_what_runs_a_program_is_never_declared_replayable() {
    let mut hand = Hand::workspace(1);
    for touch in
        [exec("make all"), Touch::Call { tool: "mail".into() }, Touch::Net { host: "h".into(), port: 1 }]
    {
        let body = hand.decided(Some(0), "tool", vec![touch], Recovery::Replayable);
        hand.cannot(body, "declared replayable");
    }
}

#[test]
fn a_command_has_no_more_time_than_the_contract_gives() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    let Intent::Command { argv, cwd, .. } = command("make all") else { unreachable!() };
    let limit_ms = hand.0.created().unwrap().limits.command_ms + 1;
    hand.cannot(started(act, Intent::Command { argv, cwd, limit_ms }), "more time than the contract");
}

/// Each change begins where the one before it ended, also for a file that was back where it started meanwhile.
#[test]
fn a_change_begins_with_what_the_file_was() {
    let mut hand = Hand::workspace(1);
    let made = creates("f", 50);
    let gone = Change { path: made.path.clone(), before: made.after.clone(), after: None };
    hand.cannot(drifted(vec![Change { after: None, ..made.clone() }]), "changes nothing");
    hand.does(drifted(vec![made.clone()]));
    hand.cannot(drifted(vec![made.clone()]), "content that the file did not have");
    hand.does(drifted(vec![gone.clone()]));
    assert!(hand.0.net_changes().is_empty(), "back where it started");
    hand.cannot(drifted(vec![gone.clone()]), "content that the file did not have");
    let other = Change { before: creates("f", 99).after, ..made.clone() };
    hand.cannot(drifted(vec![other]), "content that the file did not have");
    hand.does(drifted(vec![made.clone(), gone]));
    hand.cannot(drifted(vec![made.clone(), made.clone()]), "content that the file did not have");
    let mut odd = made.clone();
    odd.path = path("g");
    odd.after.as_mut().unwrap().mode = "040000".to_owned();
    hand.cannot(drifted(vec![odd]), "a mode that git does not have");
    hand.cannot(
        drifted(vec![Change { path: provost_core::path::RelPath::root(), ..made }]),
        "workspace itself",
    );
}

#[test]
fn only_what_started_can_have_undone_changes() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![read("a")]);
    let Body::ActFinished(mut body) = finished(act, ActEnd::Done, vec![], None) else { unreachable!() };
    body.reverted.push(path("guarded/key"));
    hand.cannot(Body::ActFinished(body), "undid changes without having started");
}

#[test]
fn i5_a_drift_where_a_rule_denies_all_writing_is_refused() {
    let mut hand = Hand::workspace(0);
    hand.cannot(drifted(vec![creates("guarded/key", 50)]), "protects from all writing");
    hand.does(drifted(vec![creates("f", 50)]));
    // A mere default guards nothing by name: whoever works beside a read-only run may write.
    assert!(!Policy::preset(Preset::ReadOnly).denies_writing_by_rule(&path("src/lib.rs")));
    assert!(Policy::preset(Preset::ReadOnly).denies_writing_by_rule(&path("sub/.git/hooks/pre-commit")));
}

#[test]
fn an_act_that_touches_more_than_can_be_decided_on_in_time_is_refused() {
    let mut hand = Hand::workspace(1);
    let act = |hand: &Hand, count: usize| {
        let touches = vec![Touch::Read { path: path("a") }; count];
        let decision = hand.0.created().unwrap().policy.decide(&touches[..1], hand.0.rung());
        Body::ActDecided(ActDecided {
            act: ActId(0),
            call: Some(CallRef { step: StepId(0), index: 0 }),
            tool: "read".to_owned(),
            args: digest(1),
            touches,
            recovery: Recovery::Replayable,
            decision,
        })
    };
    hand.cannot(act(&hand, MOST_TOUCHES + 1), "touches more than");
    hand.does(act(&hand, MOST_TOUCHES));
}

/// What a command starts and opens stands behind it among its touches. None of that is what the act sets out to do.
#[test]
fn a_command_is_the_first_of_its_touches() {
    let mut hand = Hand::workspace(1);
    let act = hand.decides(Some(0), vec![exec("env rm a"), exec("rm a"), write("a")]);
    let why = "not put before the policy";
    hand.cannot(started(act, command("rm a")), why);
    hand.cannot(started(act, Intent::Write { changes: vec![creates("a", 5)] }), why);
    hand.cannot(started(act, Intent::Write { changes: vec![] }), why);
    hand.does(started(act, command("env rm a")));
}

/// A shell that runs a line needs no rule that allows it, because each of its commands does. One without commands would
/// be a shell that nobody decided on.
#[test]
fn a_shell_whose_commands_are_kept_back_is_refused() {
    let strict = Layer::named("hand").rule(Effect::Allow, "exec ls*").unwrap();
    let mut hand = Hand::new(Policy::preset(Preset::Strict).with(strict), Rung::R3, 1);
    let bash =
        || Touch::Shell { argv: vec!["bash".into(), "-c".into(), "rm a".into()], known: None, program: None };
    let alone = hand.decided(Some(0), "shell", vec![bash()], Recovery::Supervised);
    hand.cannot(alone, "no command was put before the policy");
    let act = hand.decides(Some(0), vec![bash(), exec("ls"), write("asked")]);
    hand.cannot(started(act, command("bash -c rm")), "neither the policy nor a person allows it");
}
