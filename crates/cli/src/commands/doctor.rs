//! `provost doctor`.

use provost::core::containment::Rung;
use provost::sandbox::{Freshness, Origin, Probe, ProbeCache, Surroundings, advice, engines};
use serde_json::json;

use crate::args::Doctor;
use crate::render::{say, strength_lines};
use crate::world::World;

/// Exit code of a host that cannot contain commands at all.
const NOT_CONTAINED: u8 = 9;

pub(crate) fn doctor(world: &World, args: &Doctor) -> u8 {
    let freshness = if args.fresh { Freshness::Fresh } else { Freshness::Cached };
    let cache = world.cache_folder().map(ProbeCache::new);
    let (probe, origin) =
        cache.as_ref().map_or_else(|| (Probe::run(), Origin::Performed), |cache| cache.probe(freshness));
    let engines = engines(world.variables());
    let program = std::env::current_exe().map_or("provost".to_owned(), |path| path.display().to_string());
    let around = Surroundings::look();
    let advice = advice(&probe, &around, &program);
    let receipt = probe.receipt(probe.strongest);
    let origin = match origin {
        Origin::Performed => "tried now".to_owned(),
        Origin::Cached => "found by an earlier process; --fresh tries again".to_owned(),
        Origin::NotTrusted { why } => format!("tried now: what was kept is not to be trusted: {why}"),
    };
    if args.json {
        say!(
            "{}",
            json!({
                "kind": "doctor",
                "strongest": format!("{:?}", probe.strongest),
                "guarantees": receipt.guarantees,
                "staged": receipt.staged,
                "facts": probe.facts,
                "advice": advice,
                "engines": engines
                    .iter()
                    .map(|found| json!({
                        "engine": found.engine,
                        "says": found.says.as_ref().ok(),
                        "why_not": found.says.as_ref().err(),
                    }))
                    .collect::<Vec<_>>(),
                "disabled": probe.disabled,
                "uid": probe.uid,
                "kernel": probe.kernel,
                "landlock_abi": probe.landlock_abi,
                "switches": around.switches,
                "confinement": around.confinement,
                "origin": origin,
                "cache": cache.map(|cache| cache.path()),
            })
        );
        return code(&probe);
    }
    say!("kernel {}, Landlock ABI {}, uid {}", probe.kernel, abi(&probe), probe.uid);
    say!("{origin}");
    say!("");
    for fact in &probe.facts {
        say!("  {:<4} {:<20} {}", if fact.holds { "ok" } else { "no" }, fact.name, fact.detail);
    }
    say!("");
    say!("strongest rung: {}", probe.strongest);
    for line in strength_lines(&receipt) {
        say!("  {line}");
    }
    if let Some(by) = receipt.staged {
        let disk = if by.is_copy() { ", which takes what it takes of the disk" } else { "" };
        say!("  staged changes are kept apart by {}{disk}", by.name());
    }
    say!("");
    for found in &engines {
        match &found.says {
            Ok(says) => say!("container engine {}: {says}", found.engine),
            Err(why) => say!("container engine {}: not to be had: {why}", found.engine),
        }
    }
    say!("  none is needed; what one enforces is looked at when a run names it (--engine)");
    for advice in &advice {
        say!("");
        say!("{}: {}", advice.facts.join(", "), advice.cause);
        say!("  {}", advice.costs);
        for mend in &advice.mend {
            say!("  to mend it: {mend}");
        }
    }
    code(&probe)
}

/// A host that has R1 or less contains nothing.
fn code(probe: &Probe) -> u8 {
    if probe.strongest >= Rung::R2 { 0 } else { NOT_CONTAINED }
}

fn abi(probe: &Probe) -> String {
    probe.landlock_abi.map_or("none".to_owned(), |abi| abi.to_string())
}
