//! Protected paths: neither changed nor moved away, whatever they are.

use std::os::unix::fs::symlink;

use provost_core::containment::{Guarantee, Rung, Strength};
use provost_sandbox::Profile;

use crate::support::{CONTAINED, Host, Ran, read, sandbox};

fn with_git(host: &Host) -> Profile {
    std::fs::create_dir_all(host.ws().join(".git/hooks")).unwrap();
    std::fs::create_dir_all(host.ws().join("src")).unwrap();
    std::fs::write(host.ws().join(".git/config"), "good").unwrap();
    protecting(host, &[".git"])
}

fn protecting(host: &Host, paths: &[&str]) -> Profile {
    Profile { protected: paths.iter().map(|path| host.ws().join(path)).collect(), ..host.profile() }
}

fn sh(host: &Host, rung: Rung, profile: &Profile, script: &str) -> Ran {
    host.run_with(rung, profile.clone(), &host.command(&["sh", "-c", script]))
}

const SWAPS: [&str; 7] = [
    "echo bad > .git/hooks/pre-commit",
    "echo bad > .git/config",
    "mv .git .git.old && mkdir -p .git/hooks && echo bad > .git/hooks/pre-commit",
    "rm -rf .git && mkdir .git",
    "ln .git/config src/config && echo bad > src/config",
    "echo bad > src/config && mv src/config .git/config",
    "chmod 777 .git/config",
];

#[test]
fn a_git_folder_stays() {
    for rung in CONTAINED {
        let host = Host::new();
        let profile = with_git(&host);
        let contained = sandbox(rung, profile.clone());
        assert_eq!(contained.receipt().guarantees[&Guarantee::Protected], Strength::Enforced, "{rung}");
        for swap in SWAPS {
            let ran = sh(&host, rung, &profile, swap);
            // Landlock does not govern modes; contents stay all the same.
            if !(rung == Rung::R2 && swap.starts_with("chmod")) {
                ran.assert_refused();
            }
            assert_eq!(read(&host.ws().join(".git/config")), "good", "{rung}: {swap}");
            assert_eq!(std::fs::read_dir(host.ws().join(".git/hooks")).unwrap().count(), 0, "{rung}: {swap}");
        }
        sh(&host, rung, &profile, "cat .git/config && echo ok > src/file").assert_ok();
    }
    for swap in SWAPS {
        let host = Host::new();
        sh(&host, Rung::R0, &with_git(&host), swap).assert_ok();
    }
}

#[test]
fn a_git_file_stays() {
    for rung in [Rung::R3, Rung::R2, Rung::R0] {
        let host = Host::new();
        std::fs::write(host.ws().join(".git"), "gitdir: /elsewhere\n").unwrap();
        let profile = protecting(&host, &[".git"]);
        for swap in ["echo bad > .git", "rm .git", "mv .git old"] {
            let ran = sh(&host, rung, &profile, swap);
            if rung == Rung::R0 {
                ran.assert_ok();
                std::fs::write(host.ws().join(".git"), "gitdir: /elsewhere\n").unwrap();
            } else {
                ran.assert_refused();
                assert_eq!(read(&host.ws().join(".git")), "gitdir: /elsewhere\n");
            }
        }
    }
}

#[test]
fn a_git_link_stays_and_so_does_what_it_leads_to() {
    for rung in [Rung::R3, Rung::R2, Rung::R0] {
        for target in ["real", "/nonexistent"] {
            let host = Host::new();
            std::fs::create_dir(host.ws().join("real")).unwrap();
            std::fs::write(host.ws().join("real/config"), "good").unwrap();
            let inside = target == "real";
            symlink(target, host.ws().join(".git")).unwrap();
            let profile = protecting(&host, &[".git"]);
            for swap in ["rm .git && mkdir .git", "mv .git old", "ln -sfn /tmp .git"] {
                let ran = sh(&host, rung, &profile, swap);
                if rung == Rung::R0 {
                    ran.assert_ok();
                    let _ = std::fs::remove_dir_all(host.ws().join(".git"));
                    let _ = std::fs::remove_file(host.ws().join(".git"));
                    let _ = std::fs::remove_file(host.ws().join("old"));
                    symlink("real", host.ws().join(".git")).unwrap();
                } else {
                    assert_eq!(ran.record.unprotected, Vec::<String>::new());
                    ran.assert_refused();
                    assert!(host.ws().join(".git").is_symlink(), "{rung}: {swap}");
                }
            }
            if inside && rung != Rung::R0 {
                sh(&host, rung, &profile, "cat .git/config").assert_ok();
                sh(&host, rung, &profile, "echo bad > .git/config").assert_refused();
                sh(&host, rung, &profile, "echo bad > real/config").assert_refused();
                sh(&host, rung, &profile, "mv real other").assert_refused();
            }
        }
    }
}

#[test]
fn the_folders_above_a_protected_path_stay_too() {
    for rung in [Rung::R3, Rung::R2, Rung::R0] {
        let host = Host::new();
        std::fs::create_dir_all(host.ws().join("a/b")).unwrap();
        std::fs::write(host.ws().join("a/b/c"), "good").unwrap();
        std::fs::write(host.ws().join("a/other"), "").unwrap();
        let profile = protecting(&host, &["a/b/c"]);
        let swap = "mv a old && mkdir -p a/b && echo bad > a/b/c";
        let ran = sh(&host, rung, &profile, swap);
        if rung == Rung::R0 {
            ran.assert_ok();
        } else {
            ran.assert_refused();
            assert_eq!(read(&host.ws().join("a/b/c")), "good");
            sh(&host, rung, &profile, "echo ok > a/other").assert_ok();
        }
    }
}

#[test]
fn an_absent_protected_path_is_skipped() {
    let host = Host::new();
    let profile = protecting(&host, &[".git", "x/y"]);
    for rung in CONTAINED {
        sh(&host, rung, &profile, "true").assert_ok();
    }
}
