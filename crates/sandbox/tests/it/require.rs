//! What has to be enforced is enforced, or there is no sandbox.

use provost_core::caps::Caps;
use provost_core::containment::{Guarantee, Rung};
use provost_sandbox::{Fact, Probe, Profile, RungChoice, Sandbox, Unavailable};

use crate::support::{Host, probe};

fn requiring(host: &Host, guarantees: &[Guarantee]) -> Profile {
    Profile { require: guarantees.iter().copied().collect(), ..host.profile() }
}

#[track_caller]
fn refused(probe: &Probe, profile: Profile, rungs: RungChoice, parts: &[&str]) {
    match Sandbox::new(probe, profile, rungs) {
        Err(error @ Unavailable::Required { .. }) => {
            let text = error.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_enforced_may_be_required() {
    let host = Host::new();
    let all = [Guarantee::FsWrite, Guarantee::Net, Guarantee::KillTree, Guarantee::UnixSockets];
    let ran = host.run_with(Rung::R3, requiring(&host, &all), &host.command(&["true"]));
    ran.assert_ok();
}

#[test]
fn what_is_sampled_absent_or_not_asked_for_is_refused_with_the_reason() {
    let host = Host::new();
    let r2 = RungChoice::Exactly(Rung::R2);
    refused(probe(), requiring(&host, &[Guarantee::KillTree]), r2, &["R2", "`kill-tree` is only sampled"]);
    refused(probe(), requiring(&host, &[Guarantee::Ipc, Guarantee::Net]), r2, &["`ipc` is absent"]);
    let r3 = RungChoice::Exactly(Rung::R3);
    refused(probe(), requiring(&host, &[Guarantee::CapMemory]), r3, &["the policy sets no such cap"]);
    refused(probe(), requiring(&host, &[Guarantee::Protected]), r3, &["no protected path"]);
    let mut watched = requiring(&host, &[Guarantee::CapMemory]);
    watched.limits = Caps { memory_bytes: Some(1 << 30), ..Caps::default() };
    refused(probe(), watched, r3, &["`cap-memory` is only sampled"]);
}

/// Where the host is what is wanting, what it lacks is said.
#[test]
fn the_missing_fact_is_named() {
    let host = Host::new();
    let mut poorer = probe().clone();
    for fact in poorer.facts.iter_mut().filter(|fact| fact.name == "user-namespace") {
        *fact = Fact { holds: false, detail: "clone: No space left on device".to_owned(), ..fact.clone() };
    }
    let poorer = poorer.with_disabled(Vec::new());
    assert_eq!(poorer.strongest, Rung::R2);
    let strongest = RungChoice::Strongest { at_least: Rung::R0 };
    let parts = ["`kill-tree` is only sampled", "R3 (namespaces", "user-namespace: clone: No space left"];
    refused(&poorer, requiring(&host, &[Guarantee::KillTree]), strongest, &parts);
}
