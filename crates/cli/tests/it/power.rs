//! Kills and power cuts at random moments of a run, and of the resumptions that follow (I2, I4, I6).
//!
//! Each round kills the driver of a run up to three times, lets it come to its end, and holds that against a run whose
//! driver was left alone. In the rounds with power cuts, each kill also takes what the store did not sync: see
//! `tests/shim/powerloss.c`. A store that syncs less is noticed in the first rounds (tried with `synchronous = NORMAL`).
//!
//! `PROVOST_CRASH_ROUNDS` is how many rounds each test plays. A failure names its `PROVOST_CRASH_SEED`: with it a test
//! plays that one round. The choices are then the same; where a kill after a while falls is the machine's affair, so
//! give it some tries.

mod account;
mod disk;
mod read_only;
mod rng;
mod round;
mod stage;

use disk::{Cut, Names, Unsynced, names};
use rng::Rng;
use round::{Round, Tally, Whole};
use stage::{Kill, Setting, Stage, StoreKind};

/// Rounds of each test, if the environment does not say otherwise.
const ROUNDS: u64 = 50;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{name}={value}: {error}")))
}

/// Plays rounds, and says what they came to.
fn play(store: StoreKind, policy: &'static str) {
    let setting = Setting { store, policy };
    let mut whole = Whole::new(setting);
    let seeds: Vec<u64> = if let Some(seed) = number("PROVOST_CRASH_SEED") {
        vec![seed]
    } else {
        let mut seeds = Rng::new(Rng::fresh_seed());
        (0..number("PROVOST_CRASH_ROUNDS").unwrap_or(ROUNDS)).map(|_| seeds.next()).collect()
    };
    let mut sum = Tally::default();
    for (round, seed) in seeds.into_iter().enumerate() {
        if round % 25 == 24 {
            // How long a run takes changes with what else the machine does.
            whole = Whole::new(setting);
        }
        // The last of these lines is of the round that failed, or hung.
        println!("PROVOST_CRASH_SEED={seed}");
        sum.add(&Round::new(seed, &whole).play());
    }
    assert!(sum.kills > 0, "no kill met a run: {sum:?}");
    println!("{store:?}, {policy}: {sum:?}");
}

#[test]
fn i4_killed_anywhere_a_run_ends_as_if_nothing_had_happened() {
    play(StoreKind::Kept, "workspace");
}

#[test]
fn i4_nor_does_it_matter_without_containment() {
    play(StoreKind::Kept, "full-access");
}

#[test]
fn i2_power_cut_anywhere_a_run_ends_as_if_nothing_had_happened() {
    play(StoreKind::Fresh, "workspace");
}

#[test]
fn i2_nor_does_it_matter_while_the_log_is_folded_into_the_file() {
    play(StoreKind::Grown, "full-access");
}

/// The shim sees all that is done to the store: with its log the whole run can be taken back, and done again.
#[test]
fn the_disk_of_these_tests_keeps_track_of_everything() {
    for kind in [StoreKind::Fresh, StoreKind::Grown] {
        let stage = Stage::new(Setting { store: kind, policy: "workspace" });
        let disk = stage.disk.as_ref().unwrap();
        let folder = stage.env.store().parent().unwrap().to_owned();
        let content = || -> Vec<(String, Vec<u8>)> {
            let names = names(&folder).into_iter().filter(|name| !name.ends_with("-shm"));
            names.map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
        };
        let before = content();
        let ran = stage.run(Kill::Never).unwrap().code(0);
        let after = content();
        assert_ne!(before, after);
        let all = Cut { unsynced: Unsynced::Lost, names: Names::WithTheirFolder, honest: 0 };
        let taken_back = disk.look_back(all);
        assert_eq!(content(), before);
        disk.do_again(&taken_back);
        assert_eq!(content(), after);
        // And with a good disk, what was said to have happened is still there.
        let cut = Cut { honest: usize::MAX, ..all };
        disk.cut(cut, &mut Rng::new(0));
        assert_eq!(stage.env.show(&ran.run())["state"], "done");
    }
}

/// The control: on a disk that says that it synced and did not, the same power cut is noticed.
#[test]
fn a_disk_that_lies_is_found_out() {
    let stage = Stage::new(Setting { store: StoreKind::Fresh, policy: "workspace" });
    let disk = stage.disk.as_ref().unwrap();
    let _ = stage.run(Kill::Never).unwrap().code(0);
    stage.settle();
    // It kept its word until the run was recorded, and not from the first command on.
    let lie = |honest| Cut { unsynced: Unsynced::Lost, names: Names::WithTheirFolder, honest };
    let honest = (0..disk.syncs())
        .rev()
        .find(|honest| {
            let taken_back = disk.look_back(lie(*honest));
            let recorded = stage.on_disk();
            disk.do_again(&taken_back);
            recorded.is_none_or(|recorded| !recorded.started(1))
        })
        .unwrap();
    disk.cut(lie(honest), &mut Rng::new(0));
    let recorded = stage.on_disk().unwrap();
    let complaints = account::unrecorded(&stage, Some(&recorded)).join("\n");
    assert!(complaints.contains("command 1 began, and its start is not recorded"), "{complaints}");

    let ran = stage.resume(&recorded.run, Kill::Never).unwrap();
    let complaints = account::done_twice(&stage, &recorded.run, &stage.env.journal(&recorded.run)).join("\n");
    assert!(complaints.contains("command 1 ran twice"), "{complaints}\n{ran}");
}
