//! The manifest: what it holds, what it notices, what it costs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use provost_core::path::RelPath;
use provost_tools::BlobOid;
use provost_tools::workspace::{Content, FileMode, Manifest};

use crate::support::{World, rel};

const CAP: u64 = 1024;

fn scan(world: &World, tracked: &[&str]) -> Manifest {
    let tracked: BTreeSet<RelPath> = tracked.iter().map(|path| rel(path)).collect();
    Manifest::scan(&world.workspace, &tracked, CAP, &mut |_, _| {}).unwrap()
}

fn paths(manifest: &Manifest) -> Vec<&str> {
    manifest.entries().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn it_holds_what_git_would_track() {
    let world = World::with("a.rs", "x\n");
    world.put(".gitignore", "target/\n*.log\n!keep.log\n/build\n");
    world.put("target/debug/x", "x");
    world.put("a.log", "x");
    world.put("keep.log", "x");
    world.put("sub/build", "x");
    world.put("build", "x");
    world.put("sub/.gitignore", "*.tmp\n");
    world.put("sub/x.tmp", "x");
    world.put("x.tmp", "x");
    world.put(".hidden/y", "x");
    world.put(".git/config", "x");
    world.put("vendor/.git/config", "x");
    world.put("vendor/lib.c", "x");
    world.put("target/kept.txt", "x");
    symlink("a.rs", world.path("link")).unwrap();
    symlink("/etc", world.path("out")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, world.path("pipe"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    fs::write(world.workspace.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "x").unwrap();
    let manifest = scan(&world, &["target/kept.txt", "target/missing.txt"]);
    assert_eq!(
        paths(&manifest),
        [
            ".gitignore",
            ".hidden/y",
            "a.rs",
            "keep.log",
            "link",
            "out",
            "sub/.gitignore",
            "sub/build",
            "target/kept.txt",
            "vendor/lib.c",
            "x.tmp",
            "\\xff",
        ]
    );
    let link = manifest.get(&rel("link")).unwrap();
    assert_eq!((link.mode, link.size, link.oid), (FileMode::Link, 4, BlobOid::of(b"a.rs")));
}

/// The same files as git itself adds.
#[test]
fn it_agrees_with_git() {
    let world = World::with("a.rs", "x\n");
    world
        .put(".gitignore", "*.o\n**/gen/*\n!**/gen/keep\nfoo/bar\n\\#x\ndir/\n# comment\ntrail \n[ab].txt\n");
    for path in
        ["x.o", "d/x.o", "gen/a", "gen/keep", "d/gen/a", "d/gen/keep", "foo/bar", "d/foo/bar", "#x", "dir/y"]
    {
        world.put(path, "x");
    }
    world.put("d/dir", "a file of that name");
    world.put("a.txt", "x");
    world.put("d/.gitignore", "!x.o\n");
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(world.workspace.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["-c", "core.excludesFile=/dev/null", "add", "-A"]);
    let listed = git(&["ls-files", "-s", "-z"]);
    let listed: Vec<String> = listed.split_terminator('\0').map(str::to_owned).collect();
    let ours = scan(&world, &[]);
    let ours: Vec<String> = ours
        .entries()
        .map(|entry| {
            let hex: String = entry.oid.sha1.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{} {hex} 0\t{}", entry.mode, entry.path)
        })
        .collect();
    assert_eq!(ours, listed);
}

#[test]
fn a_rescan_tells_what_changed() {
    let world = World::with("a", "1");
    world.put("b", "1");
    world.put("c", "1");
    world.put("same", "1");
    let mut manifest = scan(&world, &[]);
    assert_eq!(manifest.rescan(&world.workspace).unwrap(), []);
    world.put("a", "2");
    fs::remove_file(world.path("b")).unwrap();
    world.put("d/e", "new");
    world.chmod("c", 0o755);
    world.put("same", "1");
    let deltas = manifest.rescan(&world.workspace).unwrap();
    let told: Vec<_> = deltas
        .iter()
        .map(|delta| {
            let after = delta.after.as_ref().map(|(entry, content)| (entry.mode, content.clone()));
            (delta.path.as_str(), delta.before.is_some(), after)
        })
        .collect();
    let bytes = |text: &str| Content::Bytes(text.as_bytes().to_vec());
    assert_eq!(
        told,
        [
            ("a", true, Some((FileMode::Regular, bytes("2")))),
            ("b", true, None),
            ("c", true, Some((FileMode::Executable, bytes("1")))),
            ("d/e", false, Some((FileMode::Regular, bytes("new")))),
        ]
    );
    assert_eq!(manifest.rescan(&world.workspace).unwrap(), []);
}

/// The racy case: the same size, within the clock's grain.
#[test]
fn a_change_within_the_clock_grain_is_noticed() {
    let world = World::with("a", "0000");
    let mut manifest = scan(&world, &[]);
    for n in 1..200 {
        world.put("a", format!("{n:04}"));
        assert_eq!(manifest.rescan(&world.workspace).unwrap().len(), 1, "change {n}");
    }
}

/// A time set back does not hide a change: the inode's own change time cannot be set.
#[test]
fn a_time_set_back_hides_nothing() {
    let world = World::with("a", "1111");
    let old = std::time::SystemTime::now() - Duration::from_secs(100);
    let set = |text: &str| {
        world.put("a", text);
        fs::File::options().write(true).open(world.path("a")).unwrap().set_modified(old).unwrap();
    };
    set("1111");
    std::thread::sleep(Duration::from_millis(60));
    let mut manifest = scan(&world, &[]);
    assert_eq!(manifest.rescan(&world.workspace).unwrap(), []);
    set("2222");
    assert_eq!(manifest.rescan(&world.workspace).unwrap().len(), 1);
}

/// Whoever edits `.gitignore` does not make files vanish from the record.
#[test]
fn what_was_met_stays_watched() {
    let world = World::with("src/a", "1");
    let mut manifest = scan(&world, &[]);
    world.put(".gitignore", "src/\n");
    let deltas = manifest.rescan(&world.workspace).unwrap();
    assert_eq!(deltas.iter().map(|delta| delta.path.as_str()).collect::<Vec<_>>(), [".gitignore"]);
    world.put("src/a", "22");
    assert_eq!(manifest.rescan(&world.workspace).unwrap().len(), 1);
    fs::remove_dir_all(world.path("src")).unwrap();
    assert_eq!(manifest.rescan(&world.workspace).unwrap()[0].after, None);
}

/// A folder swapped for a link out of the workspace is a folder that is gone, not one that is somewhere else.
#[test]
fn links_are_not_walked() {
    let world = World::with("d/a", "1");
    fs::write(world.temp.path().join("outside/a"), "2").unwrap();
    let mut manifest = scan(&world, &["d/a"]);
    fs::remove_dir_all(world.path("d")).unwrap();
    symlink("../outside", world.path("d")).unwrap();
    let deltas = manifest.rescan(&world.workspace).unwrap();
    let told: Vec<_> = deltas.iter().map(|delta| (delta.path.as_str(), delta.after.is_some())).collect();
    assert_eq!(told, [("d", true), ("d/a", false)]);
}

#[test]
fn large_content_is_hashed_and_not_kept() {
    let world = World::new();
    let big = vec![7; 300_000];
    world.put("big", &big);
    let mut kept = Vec::new();
    let manifest = Manifest::scan(&world.workspace, &BTreeSet::new(), CAP, &mut |entry, content| {
        kept.push((entry.clone(), content));
    })
    .unwrap();
    assert_eq!(kept[0].1, Content::NotKept);
    assert_eq!(manifest.get(&rel("big")).unwrap().oid, BlobOid::of(&big));
}

#[test]
fn refresh_looks_at_the_paths_given() {
    let world = World::with("a", "1");
    world.put("b", "1");
    let mut manifest = scan(&world, &[]);
    world.put("a", "2");
    world.put("b", "2");
    let deltas = manifest.refresh(&world.workspace, &[rel("a")]).unwrap();
    assert_eq!(deltas.len(), 1);
    let deltas = manifest.rescan(&world.workspace).unwrap();
    assert_eq!(deltas.iter().map(|delta| delta.path.as_str()).collect::<Vec<_>>(), ["b"]);
}

/// A warm rescan of 20,000 files reads none of them. The bound is generous: debug build, shared machine.
#[test]
fn a_warm_rescan_is_fast() {
    let world = World::new();
    for folder in 0..200 {
        fs::create_dir(world.path(&format!("d{folder}"))).unwrap();
        for file in 0..100 {
            fs::write(world.path(&format!("d{folder}/f{file}")), "x").unwrap();
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    let mut manifest = scan(&world, &[]);
    assert_eq!(manifest.entries().len(), 20_000);
    let begun = Instant::now();
    assert_eq!(manifest.rescan(&world.workspace).unwrap(), []);
    let took = begun.elapsed();
    eprintln!("warm rescan of 20,000 files: {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// What may not be read is named, and is not taken for gone or unchanged. To root nothing is denied.
#[test]
fn what_may_not_be_read_is_named() {
    let world = World::with("a", "1");
    world.put("shut/b", "1");
    let mut manifest = scan(&world, &[]);
    world.put("shut/new", "1");
    world.put("a", "2");
    world.chmod("a", 0);
    world.chmod("shut", 0);
    let denied = fs::File::open(world.path("a")).is_err();
    let deltas = manifest.rescan(&world.workspace).unwrap();
    let unreadable: Vec<&str> = manifest.unreadable().map(RelPath::as_str).collect();
    if denied {
        assert_eq!(unreadable, ["a", "shut", "shut/b"]);
        assert_eq!(deltas, []);
        assert!(manifest.get(&rel("shut/b")).is_some());
    } else {
        assert_eq!((unreadable.len(), deltas.len()), (0, 2));
    }
    world.chmod("a", 0o644);
    world.chmod("shut", 0o755);
    assert_eq!(manifest.rescan(&world.workspace).unwrap().len(), if denied { 2 } else { 0 });
    assert_eq!(manifest.unreadable().len(), 0);
}

/// Rules are kept compiled while their file is what it was. Written over in place, faster than the clock ticks, it is
/// another file all the same.
#[test]
fn rules_that_changed_a_moment_ago_hold_at_once() {
    let world = World::with("a.rs", "x\n");
    world.put("sub/.gitignore", "*.none\n");
    let mut manifest = scan(&world, &[]);
    for round in 0..50 {
        let (ignored, seen) = if round % 2 == 0 { ("logs", "temp") } else { ("temp", "logs") };
        world.put("sub/.gitignore", format!("*.{ignored}\n"));
        world.put(&format!("sub/{round}.{ignored}"), "x");
        world.put(&format!("sub/{round}.{seen}"), "x");
        let deltas = manifest.rescan(&world.workspace).unwrap();
        let found: Vec<&str> = deltas.iter().map(|delta| delta.path.as_str()).collect();
        assert_eq!(found, ["sub/.gitignore", &format!("sub/{round}.{seen}")], "round {round}");
        // The next round's rules would let it in.
        fs::remove_file(world.path(&format!("sub/{round}.{ignored}"))).unwrap();
    }
}

/// What git tracks is looked at by its name in each scan, also where it was not there before.
#[test]
fn a_tracked_and_ignored_path_that_goes_and_comes_back_is_met_again() {
    let world = World::with("a.rs", "x\n");
    world.put(".gitignore", "kept/\n");
    world.put("kept/file", "x");
    let mut manifest = scan(&world, &["kept/file", "kept/other"]);
    assert_eq!(paths(&manifest), [".gitignore", "a.rs", "kept/file"]);
    for present in [false, true, false, true] {
        if present {
            world.put("kept/file", "x");
        } else {
            fs::remove_file(world.path("kept/file")).unwrap();
        }
        let deltas = manifest.rescan(&world.workspace).unwrap();
        assert_eq!(deltas.iter().map(|delta| delta.path.as_str()).collect::<Vec<_>>(), ["kept/file"]);
        assert_eq!(deltas[0].after.is_some(), present);
        assert!(manifest.rescan(&world.workspace).unwrap().is_empty());
    }
}
