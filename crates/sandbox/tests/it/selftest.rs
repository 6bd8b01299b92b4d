//! The attack suite under each rung, as root and (by `ordinary.rs`) as a user without capabilities.

use provost_core::containment::Rung;
use provost_sandbox::{Git, ImageRoot, Network, SelfTest, Setting, Verdict, Workspace};

use crate::images;
use crate::support::{CONTAINED, Host, probe};

/// Everything that works here without containment fails where it is promised to.
#[test]
fn every_rung_holds_what_it_promises() {
    for rung in CONTAINED {
        let test = SelfTest::run(probe(), rung).unwrap();
        println!("{rung}: {} in {} ms", test.counts(), test.took_ms);
        for attempt in &test.attempts {
            println!("{:<28} {:?}", attempt.name, attempt.verdict);
        }
        let broken: Vec<_> = test.mismatches().collect();
        assert!(broken.is_empty(), "{rung}: {broken:#?}");
        // Many of them, whatever this kernel lacks; so they were really tried.
        assert!(test.counts().held > 150, "{}", test.counts());
    }
}

/// In other settings too: with an image, with changes staged, with hosts that may be dialled, with commits allowed.
#[test]
fn what_is_asked_for_beside_a_rung_takes_nothing_from_it() {
    let host = Host::new();
    let (image, _) = images::shell(&host);
    let plain = |rung| Setting::from(rung);
    let root = ImageRoot { folder: image.root(), digest: image.digest, by: None };
    let settings = [
        Setting { image: Some(root), network: Network::Hosts, ..plain(Rung::R4) },
        Setting { workspace: Workspace::Staged, ..plain(Rung::R3) },
        Setting { network: Network::Hosts, git: Git::Commit, ..plain(Rung::R3) },
        Setting { network: Network::Hosts, git: Git::Commit, ..plain(Rung::R2) },
    ];
    // All with the image; otherwise what has to do with what is asked for.
    let about =
        ["staged-", "fill-", "git-", "nested-", "write", "tcp", "udp", "dns", "dial-", "docker-", "log-"];
    for setting in settings {
        let name = format!("{:?} {:?}", setting.rung, setting.extras());
        let all = setting.rung == Rung::R4;
        let wanted = |name: &str| all || about.iter().any(|start| name.starts_with(start));
        let test = SelfTest::of(probe(), setting, wanted).unwrap();
        println!("{name}: {} in {} ms", test.counts(), test.took_ms);
        for attempt in &test.attempts {
            println!("{:<28} {:?}", attempt.name, attempt.verdict);
        }
        let broken: Vec<_> = test.mismatches().collect();
        assert!(broken.is_empty(), "{name}: {broken:#?}");
        assert!(test.counts().held > if all { 150 } else { 40 }, "{name}: {}", test.counts());
        let staged = test.attempts.iter().filter(|attempt| attempt.name.starts_with("staged-"));
        let held = staged.filter(|attempt| matches!(attempt.verdict, Verdict::Held { .. })).count();
        assert_eq!(held, if name.contains("staged") { 12 } else { 0 }, "{name}");
    }
}

/// Under R3 nothing else works. Each of these is named in the README.
#[test]
fn what_the_strongest_rung_does_not_promise_is_a_short_list() {
    let names = ["socket-in-workspace", "file-in-memory", "fill-workspace"];
    let promises = provost_sandbox::promises(&probe().receipt(Rung::R3));
    let not: Vec<_> = promises.iter().filter(|(_, promise)| promise.starts_with("not promised")).collect();
    assert_eq!(not.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names, "{not:#?}");
}

/// With limits only, attacks work, and the suite sees that they do: it is not blind.
#[test]
fn the_suite_sees_attacks_that_work() {
    let wanted = [
        "write-outside",
        "read-ssh-key",
        "signal",
        "tcp",
        "docker-socket",
        "setuid-by-chmod",
        "io-uring",
        "fork-bomb",
    ];
    let test = SelfTest::of(probe(), Rung::R1, |name| wanted.contains(&name)).unwrap();
    let worked: Vec<_> = test
        .attempts
        .iter()
        .filter(|attempt| matches!(attempt.verdict, Verdict::NotPromised { seen: Some(_), .. }))
        .map(|attempt| attempt.name)
        .collect();
    // The cap on processes is watched under R1 too.
    assert_eq!(worked, &wanted[..7], "{:#?}", test.attempts);
    assert!(matches!(test.attempts[7].verdict, Verdict::Held { .. }), "{:?}", test.attempts[7]);
}

/// A promise that is not kept is a mismatch: here Landlock is said to hold, and is not applied.
#[test]
fn a_promise_that_is_not_kept_is_found() {
    let mut probe = probe().clone();
    probe.landlock_abi = None;
    let test = SelfTest::of(&probe, Rung::R2, |name| name == "write-outside").unwrap();
    assert_eq!(test.mismatches().count(), 1);
    assert!(matches!(&test.attempts[0].verdict, Verdict::Broken { by, .. } if by == "fs-write"), "{test:?}");
}
