//! What is said of commands of which all is kept or nothing.

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::event::{ActStaged, Unapplied, WhyUnapplied};
use provost_core::policy::WorkspaceMode;

use super::*;

fn hand(workspace: WorkspaceMode) -> (Hand, ActId) {
    let rules = Layer::named("hand").rule(Effect::Deny, "write guarded/").unwrap();
    let caps = Caps { memory_bytes: Some(1 << 20), ..Caps::default() };
    let policy = Policy { workspace, caps, ..Policy::preset(Preset::Workspace).with(rules) };
    let mut hand = Hand::staged(policy, 2);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    (hand, act)
}

fn left(name: &str, why: WhyUnapplied) -> Unapplied {
    Unapplied { path: path(name), why }
}

fn staged(act: ActId, changes: Vec<Change>, unapplied: Vec<Unapplied>, beside: u64) -> Body {
    Body::ActStaged(Box::new(ActStaged { act, changes, unapplied, beside }))
}

fn ended(act: ActId, command: &CommandFact, changes: Vec<Change>, unapplied: Vec<Unapplied>) -> Body {
    let Body::ActFinished(mut body) = finished(act, command.exit.end(), changes, Some(command.clone()))
    else {
        unreachable!()
    };
    body.unapplied = unapplied;
    Body::ActFinished(body)
}

/// Ends that are not clean.
fn unclean() -> Vec<CommandFact> {
    let hit = CapHit { cap: Cap::Memory, limit: 1 << 20, reached: 1 << 21 };
    let by = |exit| CommandFact { exit, ..ran(0, Rung::R3) };
    vec![
        by(ExitFact::TimedOut { limit_ms: 1000 }),
        by(ExitFact::Signalled { signal: 11 }),
        by(ExitFact::Capped { hit }),
        CommandFact { caps: vec![hit], ..ran(0, Rung::R3) },
    ]
}

#[test]
fn nothing_is_kept_of_a_command_that_is_not_clean() {
    for command in unclean() {
        let (mut hand, act) = hand(WorkspaceMode::all_or_nothing());
        hand.does(staged(act, vec![creates("b", 50)], vec![], 0));
        hand.cannot(ended(act, &command, vec![creates("b", 50)], vec![]), "a part of it is applied");
        // What it changed beside the run's files is a part of it too.
        let (mut hand, act) = self::hand(WorkspaceMode::all_or_nothing());
        hand.does(staged(act, vec![], vec![], 1));
        hand.cannot(ended(act, &command, vec![], vec![]), "a part of it is applied");

        let (mut hand, act) = self::hand(WorkspaceMode::all_or_nothing());
        let back = vec![left("b", WhyUnapplied::RolledBack)];
        hand.does(staged(act, vec![], back.clone(), 0));
        hand.does(ended(act, &command, vec![], back));
        assert_eq!(hand.0.counts().rolled_back, 1);

        // The control: staged alone keeps it.
        let (mut hand, act) = self::hand(WorkspaceMode::staged());
        hand.does(staged(act, vec![creates("b", 50)], vec![], 1));
        hand.does(ended(act, &command, vec![creates("b", 50)], vec![]));
        assert_eq!(hand.0.counts().rolled_back, 0);
    }
}

#[test]
fn nothing_is_kept_of_a_command_that_made_what_cannot_stand() {
    use WhyUnapplied::{Cap, Collides, Guarded, LeadsOut, Owner, Special};
    for why in [Guarded, Special, Cap, LeadsOut, Collides, Owner] {
        let (mut hand, act) = hand(WorkspaceMode::all_or_nothing());
        let made = vec![left("guarded/key", why)];
        let part = "it made what cannot stand, and a part of it is to be applied";
        hand.cannot(staged(act, vec![creates("b", 50)], made.clone(), 0), part);
        hand.cannot(staged(act, vec![], made.clone(), 1), part);
        let all = vec![left("b", WhyUnapplied::RolledBack), made[0].clone()];
        hand.does(staged(act, vec![], all.clone(), 0));
        hand.does(ended(act, &ran(0, Rung::R3), vec![], all));
        assert_eq!(hand.0.counts().rolled_back, 1);
    }
}

#[test]
fn nothing_is_rolled_back_without_a_reason_or_an_order() {
    let back = || vec![left("b", WhyUnapplied::RolledBack)];
    let (mut hand, act) = hand(WorkspaceMode::staged());
    hand.cannot(staged(act, vec![], back(), 0), "nobody orders that");
    let (mut hand, act) = self::hand(WorkspaceMode::all_or_nothing());
    hand.cannot(staged(act, vec![creates("c", 51)], back(), 0), "not all of it is");
    hand.does(staged(act, vec![], back(), 0));
    for code in [0, 1] {
        hand.cannot(ended(act, &ran(code, Rung::R3), vec![], back()), "and did nothing wrong");
    }
    // That a person cut it short is a reason, and nothing that is held against the run.
    let cut = CommandFact { exit: ExitFact::Cancelled, ..ran(0, Rung::R3) };
    hand.does(ended(act, &cut, vec![], back()));
    assert_eq!(hand.0.counts().rolled_back, 0);
}

#[test]
fn a_session_that_rolls_back_too_often_ends_and_no_other_does() {
    for rollbacks in [0, 1] {
        let Body::RunCreated(mut created) = good_run().remove(0).body else { unreachable!() };
        let workspace = WorkspaceMode::staged();
        created.policy = Policy { workspace, ..Policy::preset(Preset::Workspace) };
        created.budget = Budget::default();
        let authorized = provost_core::session::Authorized {
            payload: digest(8),
            not_before_ms: 0,
            expires_ms: u64::MAX,
            rollbacks,
        };
        created.authorized = Some(Box::new(authorized));
        let mut hand = Hand(RunState::new("r-hand".parse().unwrap()));
        hand.does(Body::RunCreated(created));
        let containment = world::staging(Rung::R3);
        hand.does(Body::DriverAttached(DriverAttached {
            generation: 1,
            host: "h".into(),
            pid: 1,
            containment,
        }));
        hand.answer(2);
        let act = hand.decides(Some(0), vec![exec("make all")]);
        hand.does(started(act, command("make all")));
        hand.does(staged(act, vec![], vec![], 0));
        let killed = CommandFact { exit: ExitFact::Signalled { signal: 9 }, ..ran(0, Rung::R3) };
        hand.does(ended(act, &killed, vec![], vec![]));
        let outcome = Outcome::Stopped { why: StopWhy::RolledBack };
        let end = hand.end(outcome, false);
        if rollbacks == 0 {
            assert_eq!(hand.0.next(), Next::Finish(outcome));
            hand.does(end);
        } else {
            hand.cannot(end, "does not stand so that it ends");
        }
    }
}
