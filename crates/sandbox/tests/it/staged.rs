//! Changes to the workspace that gather in a layer, and folders under a layer that nobody gets.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use provost_core::caps::{Cap, CapHit, Caps};
use provost_core::containment::{Guarantee, Rung, Strength};
use provost_sandbox::{Cancel, Changes, Ended, Profile, RungChoice, Sandbox, Unavailable, WorkspaceAccess};
use rustix::fs::inotify;

use crate::support::{Host, Ran, probe, read, sandbox};

fn staging(host: &Host, direct: &[&str]) -> Profile {
    let direct = direct.iter().map(|path| host.ws().join(path)).collect();
    Profile { changes: Changes::Staged { direct, copy: None }, ..host.profile() }
}

fn staged(profile: Profile, host: &Host, script: &str) -> (Ran, OwnedFd) {
    let command = host.command(&["sh", "-c", script]);
    let ran = sandbox(Rung::R3, profile).run_staged(&command, &Cancel::new().unwrap()).unwrap();
    (Ran::of(ran.record), ran.layer)
}

/// What a layer holds, each with what it stands for.
fn contents(layer: &OwnedFd) -> BTreeMap<String, String> {
    let root = PathBuf::from(format!("/proc/self/fd/{}", layer.as_raw_fd()));
    let mut found = BTreeMap::new();
    list(&root, Path::new(""), &mut found);
    found
}

fn list(root: &Path, below: &Path, found: &mut BTreeMap<String, String>) {
    // The trailing slash has the descriptor followed.
    for entry in fs::read_dir(root.join(below).join(".")).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        let whole = root.join(&path);
        let meta = whole.symlink_metadata().unwrap();
        let kind = meta.file_type();
        let mode = meta.mode() & 0o7777;
        let what = if kind.is_char_device() && meta.rdev() == 0 {
            "gone".to_owned()
        } else if kind.is_dir() {
            let folder = fs::File::open(&whole).unwrap();
            let mut mark = [0u8; 4];
            let opaque = rustix::fs::fgetxattr(folder.as_fd(), "user.overlay.opaque", &mut mark[..]);
            list(root, &path, found);
            if opaque == Ok(1) && mark[0] == b'y' {
                "replaced".to_owned()
            } else {
                format!("folder {mode:o}")
            }
        } else if kind.is_symlink() {
            format!("link to {}", fs::read_link(&whole).unwrap().display())
        } else if kind.is_file() {
            format!("{mode:o} {}", read(&whole).trim_end())
        } else {
            "special".to_owned()
        };
        found.insert(path.to_str().unwrap().to_owned(), what);
    }
}

/// A workspace with some of everything.
fn filled(host: &Host) {
    for folder in ["old/deep", "moved", "target"] {
        fs::create_dir_all(host.ws().join(folder)).unwrap();
    }
    for (name, text) in [
        ("changed", "one\n"),
        ("gone", "two\n"),
        ("mode", "three\n"),
        ("kept", "four\n"),
        ("old/deep/file", "five\n"),
        ("old/other", "six\n"),
        ("moved/file", "seven\n"),
        ("swap", "eight\n"),
    ] {
        fs::write(host.ws().join(name), text).unwrap();
    }
    symlink("kept", host.ws().join("link")).unwrap();
}

fn tree(folder: &Path) -> Vec<String> {
    let mut found = BTreeMap::new();
    list(folder, Path::new(""), &mut found);
    found.into_iter().map(|(path, what)| format!("{path}: {what}")).collect()
}

const CHANGES: &str = "set -e; umask 022
    echo more >> changed; rm gone; chmod 755 mode; mkdir empty; ln -sfn elsewhere link
    rm -r old; mkdir old; echo new > old/made; mv moved renamed; rm swap; mkdir swap; cat kept > /dev/null";

#[test]
fn each_kind_of_change_is_in_the_layer_and_the_workspace_is_as_it_was() {
    let host = Host::new();
    filled(&host);
    let before = tree(&host.ws());
    let (ran, layer) = staged(staging(&host, &[]), &host, CHANGES);
    ran.assert_ok();
    let found = contents(&layer);
    let found: Vec<(&str, &str)> = found.iter().map(|(path, what)| (path.as_str(), what.as_str())).collect();
    assert_eq!(
        found,
        [
            ("changed", "644 one\nmore"),
            ("empty", "folder 755"),
            ("gone", "gone"),
            ("link", "link to elsewhere"),
            ("mode", "755 three"),
            ("moved", "gone"),
            ("old", "replaced"),
            ("old/made", "644 new"),
            ("renamed", "folder 755"),
            ("renamed/file", "644 seven"),
            ("swap", "replaced"),
        ]
    );
    assert_eq!(tree(&host.ws()), before);
    // The same without staging is there at once.
    host.sh(Rung::R3, CHANGES).assert_ok();
    assert_ne!(tree(&host.ws()), before);
}

#[test]
fn the_command_sees_its_own_changes_and_the_next_one_does_not() {
    let host = Host::new();
    filled(&host);
    let script = "rm gone && echo x > made && test ! -e gone && cat made && ls";
    let (ran, _) = staged(staging(&host, &[]), &host, script);
    ran.assert_ok();
    let (ran, _) = staged(staging(&host, &[]), &host, "test -e gone && test ! -e made");
    ran.assert_ok();
    // Whoever does not ask for the layer gets none of it.
    let command = host.command(&["sh", "-c", "echo x > made"]);
    host.run_with(Rung::R3, staging(&host, &[]), &command).assert_ok();
    assert!(!host.ws().join("made").exists());
}

#[test]
fn build_folders_are_changed_at_once_and_are_not_in_the_layer() {
    let host = Host::new();
    filled(&host);
    let outside = host.outside();
    symlink(&outside, host.ws().join("linked")).unwrap();
    let profile = staging(&host, &["target", "absent", "linked"]);
    let script = "echo built > target/out; echo src > src; mkdir absent; echo x > absent/y";
    let (ran, layer) = staged(profile.clone(), &host, script);
    ran.assert_ok();
    assert_eq!(read(&host.ws().join("target/out")), "built\n");
    let found = contents(&layer);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["absent", "absent/y", "src"]);
    // Where the name of a build folder is a link, nothing is shown in its place.
    let (ran, _) = staged(profile, &host, "echo x > linked/y");
    ran.assert_refused();
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn protected_and_hidden_names_are_so_in_a_layer_too() {
    let host = Host::new();
    fs::create_dir_all(host.ws().join(".git/hooks")).unwrap();
    fs::write(host.ws().join(".env"), "secret\n").unwrap();
    let mut profile = staging(&host, &[]);
    profile.protected.push(host.ws().join(".git"));
    profile.hidden.push(host.ws().join(".env"));
    for script in ["echo x > .git/hooks/post-commit", "mv .git away", "cat .env", "rm -rf .git"] {
        staged(profile.clone(), &host, script).0.assert_refused();
        // The control: without them the same works, and stays in the layer.
        staged(staging(&host, &[]), &host, script).0.assert_ok();
    }
    assert!(host.ws().join(".git/hooks").is_dir());
}

#[test]
fn the_layer_is_as_large_as_its_cap_and_the_cap_is_named() {
    let host = Host::new();
    let script = "head -c 4194304 /dev/zero > big";
    let capped = |bytes: u64| {
        let mut profile = staging(&host, &[]);
        profile.limits = Caps { disk_bytes: Some(bytes), ..Caps::none() };
        profile
    };
    let (ran, layer) = staged(capped(1 << 20), &host, script);
    ran.assert_refused();
    assert!(ran.text.contains("No space left"), "{}", ran.text);
    assert_eq!(ran.record.caps, [CapHit { cap: Cap::Disk, limit: 1 << 20, reached: 1 << 20 }]);
    drop(layer);
    let (ran, _) = staged(capped(16 << 20), &host, script);
    assert_eq!(ran.assert_ok().record.caps, []);
    // Many small ones are no way round it.
    let many = "i=0; while [ $i -lt 20000 ]; do : > f$i || exit 1; i=$((i+1)); done";
    let (ran, _) = staged(capped(1 << 20), &host, many);
    assert_eq!(ran.assert_refused().record.caps.len(), 1, "{}", ran.text);
    assert_eq!(fs::read_dir(host.ws()).unwrap().count(), 0);
}

#[test]
fn the_receipt_says_whether_changes_are_staged() {
    let host = Host::new();
    let held = |profile: Profile, rung| {
        let receipt = sandbox(rung, profile).receipt().clone();
        [Guarantee::Staged, Guarantee::CapDisk].map(|guarantee| receipt.guarantees.get(&guarantee).copied())
    };
    let capped = Caps { disk_bytes: Some(1 << 20), ..Caps::none() };
    assert_eq!(held(staging(&host, &[]), Rung::R3), [Some(Strength::Enforced); 2]);
    assert_eq!(held(host.profile(), Rung::R3), [None, None]);
    let direct = Profile { limits: capped, ..host.profile() };
    assert_eq!(held(direct, Rung::R3), [None, Some(Strength::Absent)]);
    let fact = probe().facts.iter().find(|fact| fact.name == "overlay").unwrap();
    assert!(fact.holds, "{}", fact.detail);
}

#[test]
fn what_cannot_be_staged_is_refused_before_anything_runs() {
    let host = Host::new();
    let below = Sandbox::new(probe(), staging(&host, &[]), RungChoice::Exactly(Rung::R2));
    assert!(matches!(below, Err(Unavailable::Staging { .. })), "{below:?}");
    // A folder that no overlay can be put over, whatever the probe saw elsewhere: what it holds is no file system's.
    let procfs = Profile { workspace: "/proc/self/fdinfo".into(), ..staging(&host, &[]) };
    let refused = Sandbox::new(probe(), procfs, RungChoice::Exactly(Rung::R3));
    assert!(refused.is_err(), "{refused:?}");
    let direct = sandbox(Rung::R3, host.profile());
    let error = direct.run_staged(&host.command(&["true"]), &Cancel::new().unwrap()).unwrap_err();
    assert!(error.to_string().contains("does not stage"), "{error}");
}

/// This host, if it had no overlay.
fn without_overlay() -> provost_sandbox::Probe {
    let mut probe = probe().clone();
    for fact in probe.facts.iter_mut().filter(|fact| fact.name == "overlay") {
        fact.holds = false;
    }
    probe
}

#[test]
fn where_no_layer_is_to_be_had_commands_work_in_a_copy() {
    for rung in [Rung::R3, Rung::R2] {
        let host = Host::new();
        filled(&host);
        fs::create_dir_all(host.ws().join(".git")).unwrap();
        fs::write(host.ws().join(".git/config"), "good").unwrap();
        let copy = host.dir.path().join("copy");
        fs::create_dir_all(copy.join("sub")).unwrap();
        for folder in [".git", "target"] {
            fs::create_dir(copy.join(folder)).unwrap();
        }
        fs::write(copy.join("file"), "of the copy\n").unwrap();
        let before = tree(&host.ws());
        let direct = vec![host.ws().join("target")];
        let protected = vec![host.ws().join(".git")];
        let changes = Changes::Staged { direct, copy: Some(copy.clone()) };
        let limits = Caps { disk_bytes: Some(1 << 20), ..Caps::none() };
        let profile = Profile { changes, protected, limits, ..host.profile() };
        let sandbox = Sandbox::new(&without_overlay(), profile.clone(), RungChoice::Exactly(rung)).unwrap();
        let receipt = sandbox.receipt();
        assert!(receipt.staged.unwrap().is_copy());
        assert!(receipt.enforces(Guarantee::Staged) && !receipt.enforces(Guarantee::CapDisk), "{receipt:?}");
        let script = "cat file && echo changed > file && mkdir made && rm -r sub";
        let mut command = host.command(&["sh", "-ec", script]);
        if rung == Rung::R2 {
            command.cwd = copy.clone();
        }
        let ran = Ran::of(sandbox.run(&command, &Cancel::new().unwrap()).unwrap());
        assert_eq!(ran.assert_ok().text, "of the copy\n", "{rung}");
        assert_eq!(tree(&host.ws()), before, "{rung}");
        assert_eq!(read(&copy.join("file")), "changed\n");
        assert!(copy.join("made").is_dir() && !copy.join("sub").exists());
        // Build folders are the workspace's own, and so is the history, which stays.
        let ws = host.ws();
        let script = format!(
            "echo built > {0}/target/out; cat {0}/.git/config; echo bad > {0}/.git/config",
            ws.display()
        );
        let mut command = host.command(&["sh", "-c", &script]);
        command.cwd.clone_from(if rung == Rung::R2 { &copy } else { &ws });
        let ran = Ran::of(sandbox.run(&command, &Cancel::new().unwrap()).unwrap());
        assert!(ran.assert_refused().text.starts_with("good"), "{rung}: {}", ran.text);
        assert_eq!(
            (read(&ws.join("target/out")), read(&ws.join(".git/config"))),
            ("built\n".into(), "good".into())
        );
        // Under R2 nothing else of the workspace can be reached.
        if rung == Rung::R2 {
            let script = format!("cat {0}/kept || echo x > {0}/kept", ws.display());
            let mut command = host.command(&["sh", "-c", &script]);
            command.cwd.clone_from(&copy);
            Ran::of(sandbox.run(&command, &Cancel::new().unwrap()).unwrap()).assert_refused();
        }
        // A layer is taken where there is one, whatever else is offered.
        let overlay = Sandbox::new(probe(), profile, RungChoice::Exactly(Rung::R3)).unwrap();
        assert_eq!(overlay.receipt().staged, Some(provost_core::containment::StagedBy::Overlay));
        assert!(overlay.receipt().enforces(Guarantee::CapDisk));
    }
}

#[test]
fn a_read_only_workspace_has_an_empty_layer() {
    let host = Host::new();
    let profile = Profile { workspace_access: WorkspaceAccess::ReadOnly, ..staging(&host, &[]) };
    let command = host.command(&["sh", "-c", "echo x > made"]);
    let ran = sandbox(Rung::R3, profile).run_staged(&command, &Cancel::new().unwrap()).unwrap();
    Ran::of(ran.record).assert_refused();
    assert!(contents(&ran.layer).is_empty());
}

#[test]
fn a_command_that_is_cut_short_leaves_its_layer() {
    let host = Host::new();
    let mut command = host.command(&["sh", "-c", "echo x > made; sleep 600"]);
    command.wall = std::time::Duration::from_millis(300);
    let ran = sandbox(Rung::R3, staging(&host, &[])).run_staged(&command, &Cancel::new().unwrap()).unwrap();
    assert!(matches!(ran.record.ended, Ended::TimedOut { .. }));
    assert!(contents(&ran.layer).contains_key("made"));
}

#[test]
fn nothing_in_a_layer_gives_rights_and_all_of_it_can_be_read() {
    let host = Host::new();
    let script =
        "mkfifo pipe; mkdir -p closed/in; echo x > closed/in/file; chmod 000 closed/in/file closed/in closed";
    let (ran, layer) = staged(staging(&host, &[]), &host, script);
    ran.assert_ok();
    let root = PathBuf::from(format!("/proc/self/fd/{}", layer.as_raw_fd()));
    assert!(root.join("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    for path in ["closed", "closed/in", "closed/in/file"] {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(read(&root.join("closed/in/file")), "x\n");
    let flags = rustix::fs::fstatvfs(&layer).unwrap().f_flag;
    use rustix::fs::StatVfsMountFlags as Flags;
    assert!(flags.contains(Flags::NOSUID | Flags::NODEV), "{flags:?}");
}

#[test]
fn private_folders_can_be_written_and_nothing_arrives() {
    let host = Host::new();
    let cache = host.outside().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join("kept"), "kept\n").unwrap();
    let script = format!("cd {} && cat kept && rm kept && echo x > made && cat made", cache.display());
    let command = host.command(&["sh", "-c", &script]);
    for changes in [Changes::Direct, Changes::Staged { direct: Vec::new(), copy: None }] {
        let mut profile = host.profile();
        profile.changes = changes;
        profile.private.push(cache.clone());
        let mut command = command.clone();
        command.record_dir = host.record_dir();
        host.run_with(Rung::R3, profile, &command).assert_ok();
        assert_eq!(tree(&cache).len(), 1);
        assert_eq!(read(&cache.join("kept")), "kept\n");
    }
    // Where there is no layer they can be read.
    for (rung, script) in [(Rung::R2, "cat"), (Rung::R3, "cat")] {
        let mut profile = host.profile();
        if rung == Rung::R2 {
            profile.private.push(cache.clone())
        } else {
            profile.readable.push(cache.clone())
        }
        let kept = cache.join("kept");
        let argv = [script, kept.to_str().unwrap()];
        host.run_with(rung, profile.clone(), &host.command(&argv)).assert_ok();
        let argv = ["rm", kept.to_str().unwrap()];
        host.run_with(rung, profile, &host.command(&argv)).assert_refused();
    }
}

/// What a spawn looks at in a workspace, as the kernel counts it: names opened and folders listed.
fn looked_at(host: &Host, folders: &[PathBuf], argv: &[&str]) -> usize {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    let sandbox = sandbox(Rung::R3, staging(host, &[]));
    for folder in folders {
        let events = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
        inotify::add_watch(&watch, folder, events).unwrap();
    }
    let ran = sandbox.run_staged(&host.command(argv), &Cancel::new().unwrap()).unwrap();
    assert_eq!(ran.record.ended, Ended::Exited(0));
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    std::iter::from_fn(|| events.next().ok().map(drop)).count()
}

#[test]
fn a_workspace_of_thirty_thousand_files_adds_nothing_to_a_spawn() {
    // 300,000 of them in the long form of what commands leave behind (`leaks.rs`).
    let long = std::env::var_os("PROVOST_LEAKS").is_some_and(|value| value == "long");
    let small = Host::new();
    let none = looked_at(&small, &[small.ws()], &["true"]);
    let large = Host::new();
    let mut folders = vec![large.ws()];
    for outer in 0..if long { 300 } else { 30 } {
        let folder = large.ws().join(format!("folder-{outer}"));
        fs::create_dir(&folder).unwrap();
        for inner in 0..1000 {
            fs::File::create(folder.join(inner.to_string())).unwrap();
        }
        folders.push(folder);
    }
    assert_eq!(looked_at(&large, &folders, &["true"]), none);
    // The control: whoever does look is seen.
    assert!(looked_at(&large, &folders, &["ls", "-R"]) > none + 30);
}
