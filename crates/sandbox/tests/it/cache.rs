//! What is kept of a probe, when it is believed, and what is advised.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use provost_core::containment::Rung;
use provost_sandbox::{
    Disabled, Fact, Freshness, Origin, Probe, ProbeCache, Profile, RungChoice, Sandbox, Surroundings, advice,
};

use crate::support::{Host, probe};

struct Kept {
    dir: tempfile::TempDir,
}

impl Kept {
    fn new() -> Self {
        let kept = Self { dir: tempfile::tempdir().unwrap() };
        assert_eq!(kept.ask().1, Origin::Performed);
        kept
    }

    fn cache(&self) -> ProbeCache {
        ProbeCache::new(self.dir.path().join("cache"))
    }

    fn ask(&self) -> (Probe, Origin) {
        self.cache().probe(Freshness::Cached)
    }

    #[track_caller]
    fn assert_not_trusted(&self, part: &str) {
        match self.ask().1 {
            Origin::NotTrusted { why } => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    /// Changes the file as its owner could.
    fn edit(&self, change: impl Fn(String) -> String) {
        let path = self.cache().path();
        std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_was_found_is_found_again_and_can_be_asked_anew() {
    let kept = Kept::new();
    let (probe, origin) = kept.ask();
    assert_eq!((probe.strongest, origin), (Rung::R3, Origin::Cached));
    assert_eq!(kept.cache().probe(Freshness::Fresh).1, Origin::Performed);
    let seen = std::fs::metadata(kept.cache().path()).unwrap();
    assert_eq!(seen.permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(kept.dir.path().join("cache")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn another_boot_or_another_program_is_probed_anew() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let kept = Kept::new();
    kept.edit(|text| text.replace(boot.trim(), "another-boot"));
    assert_eq!(kept.ask().1, Origin::Performed);
    assert_eq!(kept.ask().1, Origin::Cached);
    let program = Surroundings::look().program;
    kept.edit(|text| text.replace(&program, "another program"));
    assert_eq!(kept.ask().1, Origin::Performed);
    kept.edit(|text| text.replace("user/max_user_namespaces\":\"", "user/max_user_namespaces\":\"1"));
    assert_eq!(kept.ask().1, Origin::Performed);
}

#[test]
fn what_others_could_have_written_is_not_believed() {
    let kept = Kept::new();
    mode(&kept.cache().path(), 0o666);
    kept.assert_not_trusted("can be written by others");
    // It was written anew, so it is good again.
    assert_eq!(kept.ask().1, Origin::Cached);

    let folder = kept.dir.path().join("cache");
    mode(&folder, 0o777);
    kept.assert_not_trusted("can be written by others");
    kept.assert_not_trusted("can be written by others");
    mode(&folder, 0o700);
    assert_eq!(kept.ask().1, Origin::Cached);

    let path = kept.cache().path();
    std::fs::rename(&path, kept.dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(kept.dir.path().join("elsewhere"), &path).unwrap();
    kept.assert_not_trusted("probe.json");
    assert_eq!(kept.ask().1, Origin::Cached);

    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(&path, Some(1000), None).unwrap();
        kept.assert_not_trusted("belongs to somebody else");
    }
    // Garbage is as good as nothing.
    kept.edit(|_| "{".to_owned());
    assert_eq!(kept.ask().1, Origin::Performed);
}

#[test]
fn a_rung_that_a_self_test_found_wanting_is_not_taken_until_another_finds_it_sound() {
    let kept = Kept::new();
    let found = Disabled { rung: Rung::R3, engine: None, attacks: vec!["tcp".to_owned()] };
    let after = kept.cache().judge(&kept.ask().0, Rung::R3, None, Some(found)).unwrap();
    assert_eq!(after.strongest, Rung::R2);

    // Another process, the same process asked anew, and the next boot all know.
    assert_eq!(kept.ask().0.strongest, Rung::R2);
    assert_eq!(kept.cache().probe(Freshness::Fresh).0.strongest, Rung::R2);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    kept.edit(|text| text.replace(boot.trim(), "another-boot"));
    let (later, origin) = kept.ask();
    assert_eq!((later.strongest, origin), (Rung::R2, Origin::Performed));

    let host = Host::new();
    let profile = || Profile::for_workspace(host.ws()).unwrap();
    for rungs in [RungChoice::Exactly(Rung::R3), RungChoice::Strongest { at_least: Rung::R3 }] {
        let refused = Sandbox::new(&later, profile(), rungs).unwrap_err().to_string();
        assert!(refused.contains("self-test: it did not hold what it promises (tcp)"), "{refused}");
    }
    let weaker = Sandbox::new(&later, profile(), RungChoice::Strongest { at_least: Rung::R2 }).unwrap();
    assert_eq!(weaker.rung(), Rung::R2);
    // A stronger one does not make up for a weaker one that was asked for by name.
    let only_r3 = probe().clone().with_disabled(vec![Disabled {
        rung: Rung::R2,
        engine: None,
        attacks: vec!["x".to_owned()],
    }]);
    assert_eq!(only_r3.strongest, Rung::R3);
    assert!(Sandbox::new(&only_r3, profile(), RungChoice::Exactly(Rung::R2)).is_err());

    assert_eq!(kept.cache().judge(&later, Rung::R3, None, None).unwrap().strongest, Rung::R3);
    assert_eq!(kept.ask().0.strongest, Rung::R3);
}

/// Names of facts that do not hold, and what was seen.
type Facts<'a> = &'a [(&'a str, &'a str)];

/// The probe of a host where these facts do not hold, for these reasons.
fn without(facts: Facts<'_>) -> Probe {
    let mut probe = probe().clone();
    for fact in &mut probe.facts {
        if let Some((_, detail)) = facts.iter().find(|(name, _)| *name == fact.name) {
            *fact = Fact { holds: false, detail: (*detail).to_owned(), ..fact.clone() };
        } else {
            fact.holds = true;
        }
    }
    probe.with_disabled(Vec::new())
}

fn around(switches: &[(&str, &str)], filters: &str) -> Surroundings {
    Surroundings {
        switches: switches.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        confinement: [("Seccomp_filters".to_owned(), filters.to_owned())].into(),
        ..Surroundings::default()
    }
}

/// Hosts that users met: what is said to be wrong, and the first thing to do.
#[test]
fn each_cause_is_named_once_with_what_to_do() {
    let cases: [(Facts, Surroundings, &str, &str); 7] = [
        (
            &[
                ("user-namespace", "clone: No space left on device"),
                ("view", "clone: No space left on device"),
            ],
            around(&[("user/max_user_namespaces", "0")], "0"),
            "user.max_user_namespaces",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        (
            &[("user-namespace", "clone: Operation not permitted")],
            around(&[("kernel/unprivileged_userns_clone", "0")], "0"),
            "kernel.unprivileged_userns_clone",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            &[("view", "mount: Permission denied"), ("net-namespace", "loopback: Operation not permitted")],
            around(&[("kernel/apparmor_restrict_unprivileged_userns", "1")], "0"),
            "AppArmor",
            "/etc/apparmor.d/provost",
        ),
        (
            &[("private-proc", "the command did not start: mount-proc: Operation not permitted")],
            around(&[], "1"),
            "a container",
            "systempaths=unconfined",
        ),
        (
            &[
                ("user-namespace", "clone: Operation not permitted"),
                ("view", "clone: Operation not permitted"),
            ],
            around(&[], "1"),
            "filter of system calls",
            "docker run --security-opt seccomp=PROFILE",
        ),
        (
            &[
                ("landlock-write", "the kernel has no Landlock"),
                ("landlock-read", "the kernel has no Landlock"),
            ],
            around(&[], "0"),
            "Landlock",
            "lsm=",
        ),
        (&[("view", "no answer in 500 ms")], around(&[], "0"), "dead network file system", ""),
    ];
    for (facts, around, cause, mend) in cases {
        let all = advice(&without(facts), &around, "/usr/bin/provost");
        let [one] = all.as_slice() else { panic!("{facts:?}: {all:#?}") };
        assert_eq!(one.facts.len(), facts.len());
        assert!(one.cause.contains(cause), "{one:#?}");
        assert!(one.mend.first().map_or("", String::as_str).contains(mend), "{one:#?}");
        assert!(one.costs.contains("needs it"), "{one:#?}");
    }
    assert!(advice(&without(&[]), &around(&[], "0"), "provost").is_empty());
}
