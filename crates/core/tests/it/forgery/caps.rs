//! Caps that a command is said to have reached.

use provost_core::caps::{Cap, CapHit, Caps};

use super::*;

const LIMIT: u64 = 1 << 20;

/// A command under a cap on memory, and how it is said to have ended.
fn hand() -> (Hand, ActId) {
    let caps = Caps { memory_bytes: Some(LIMIT), ..Caps::default() };
    let policy = Policy { caps, ..Policy::preset(Preset::Workspace) };
    let mut hand = Hand::new(policy, Rung::R3, 1);
    let act = hand.decides(Some(0), vec![exec("make all")]);
    hand.does(started(act, command("make all")));
    (hand, act)
}

fn killed(hit: CapHit) -> CommandFact {
    CommandFact { exit: ExitFact::Capped { hit }, ..ran(0, Rung::R3) }
}

fn noted(hit: CapHit) -> CommandFact {
    CommandFact { caps: vec![hit], ..ran(0, Rung::R3) }
}

#[test]
fn a_command_reaches_only_caps_that_the_contract_sets() {
    let good = CapHit { cap: Cap::Memory, limit: LIMIT, reached: LIMIT + 1 };
    let not_set = CapHit { cap: Cap::Cpu, limit: 1000, reached: 2000 };
    let another = CapHit { limit: LIMIT / 2, ..good };
    let not_reached = CapHit { reached: LIMIT - 1, ..good };
    for (fact, end) in [(killed as fn(CapHit) -> CommandFact, ActEnd::Failed), (noted, ActEnd::Done)] {
        let (mut hand, act) = hand();
        hand.cannot(finished(act, end, vec![], Some(fact(not_set))), "which the contract does not set");
        hand.cannot(finished(act, end, vec![], Some(fact(another))), "which the contract does not set");
        hand.cannot(finished(act, end, vec![], Some(fact(not_reached))), "and how it did not");
        hand.does(finished(act, end, vec![], Some(fact(good))));
    }
}

#[test]
fn a_command_that_a_cap_ended_did_not_do_its_work() {
    let (mut hand, act) = hand();
    let hit = CapHit { cap: Cap::Memory, limit: LIMIT, reached: LIMIT + 1 };
    hand.cannot(finished(act, ActEnd::Done, vec![], Some(killed(hit))), "did not end as its command did");
    hand.does(finished(act, ActEnd::Failed, vec![], Some(killed(hit))));
}
