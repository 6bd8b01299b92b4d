//! Reading, listing, applying, settling.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;
use provost_core::act::{Change, FileFact};
use provost_core::digest::Digest;
use provost_core::path::RelPath;
use provost_tools::workspace::{ApplyError, FileChange, FileMode, FileVersion, Settled, Side};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{World, rel};

#[test]
fn what_the_model_reads() {
    let world = World::with("a.txt", "one\ntwo\n\nfour\n");
    let read = |args: serde_json::Value| world.shown("read_file", &args);
    assert_snapshot!(read(json!({"path": "a.txt"})));
    assert_snapshot!(read(json!({"path": "a.txt", "start_line": 2, "end_line": 3})));
    assert_snapshot!(read(json!({"path": "a.txt", "start_line": 9})));
    assert_snapshot!(read(json!({"path": "a.txt", "start_line": 3, "end_line": 2})));
    assert_snapshot!(read(json!({"path": "b.txt"})));
    world.put("empty", "");
    world.put("dos.txt", "a\r\nb");
    world.put("binary", b"ab\0c");
    world.put("latin1", b"one\ncaf\xe9\n");
    world.put("utf16", b"\xff\xfea\0");
    for path in ["empty", "dos.txt", "binary", "latin1", "utf16"] {
        assert_snapshot!(path, read(json!({"path": path})));
    }
}

#[test]
fn an_absolute_path_below_the_root_is_the_same_file() {
    let world = World::with("a.txt", "x\n");
    let absolute = world.workspace.path().join("a.txt");
    let told = world.call("read_file", &json!({"path": absolute.to_str().unwrap()})).unwrap();
    assert_eq!(told, "     1\tx\n");
    let sibling = format!("{}-evil/a.txt", world.workspace.path().display());
    assert!(world.call("read_file", &json!({"path": sibling})).unwrap_err().contains("outside"));
}

#[test]
fn ways_out_are_refused_by_name() {
    let world = World::new();
    fs::write(world.temp.path().join("outside/secret"), "s").unwrap();
    symlink("../outside", world.path("out")).unwrap();
    symlink(world.temp.path().join("outside/secret"), world.path("abs")).unwrap();
    symlink("out/secret", world.path("hop")).unwrap();
    symlink("../outside/new", world.path("dangling")).unwrap();
    symlink("loop", world.path("loop")).unwrap();
    for (path, says) in [
        ("../outside/secret", ".."),
        ("a/../../outside/secret", ".."),
        ("/etc/passwd", "outside the workspace"),
        ("out/secret", "`out` is a symbolic link to `../outside`"),
        ("abs", "`abs` is a symbolic link to"),
        ("hop", "`out` is a symbolic link to `../outside`"),
        ("dangling", "`dangling` is a symbolic link to"),
        ("loop", "in a circle"),
        ("a\u{0}b", "NUL"),
        ("", "empty"),
    ] {
        for (tool, args) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_dir", json!({"path": path})),
            ("grep", json!({"path": path, "pattern": "s"})),
        ] {
            let told = world.call(tool, &args).unwrap_err();
            assert!(told.contains(says), "{tool} {path:?}: {told}");
        }
    }
    assert!(!world.temp.path().join("outside/new").exists());
}

#[test]
fn links_within_are_followed() {
    let world = World::with("dir/a.txt", "x\n");
    symlink("dir", world.path("link")).unwrap();
    symlink(world.workspace.path().join("dir/a.txt"), world.path("abs")).unwrap();
    symlink("dir/new.txt", world.path("new")).unwrap();
    assert!(world.call("read_file", &json!({"path": "link/a.txt"})).is_ok());
    assert!(world.call("read_file", &json!({"path": "abs"})).is_ok());
    world.call("write_file", &json!({"path": "new", "content": "made\n"})).unwrap();
    assert_eq!(world.text("dir/new.txt"), "made\n");
}

/// A link that is put there after the path was judged does not redirect the write.
#[test]
fn a_folder_swapped_for_a_link() {
    let world = World::with("dir/a.txt", "x\n");
    let change = FileChange {
        path: rel("dir/b.txt"),
        before: None,
        after: Some(FileVersion { mode: FileMode::Regular, bytes: b"new".to_vec() }),
    };
    fs::rename(world.path("dir"), world.path("moved")).unwrap();
    symlink("../outside", world.path("dir")).unwrap();
    assert!(world.workspace.apply(&[change]).is_err());
    assert!(!world.temp.path().join("outside/b.txt").exists());
}

#[test]
fn a_large_file_is_refused_whole_and_read_in_parts() {
    let world = World::new();
    let file = fs::File::create(world.path("big")).unwrap();
    file.set_len(300 * 1024 * 1024).unwrap();
    drop(file);
    let told = world.call("read_file", &json!({"path": "big"})).unwrap_err();
    assert!(told.contains("314572800") && told.contains("1048576") && told.contains("start_line"), "{told}");
    let told = world.call("read_file", &json!({"path": "big", "start_line": 1, "end_line": 2})).unwrap_err();
    assert!(told.contains("more than 1048576 bytes"), "{told}");
    let lines: String = (1..=200_000).map(|n| format!("line {n}\n")).collect();
    world.put("long", lines);
    let told = world.call("read_file", &json!({"path": "long", "start_line": 199_999})).unwrap();
    assert_snapshot!(told);
    assert!(
        world
            .call("read_file", &json!({"path": "long", "start_line": 200_001}))
            .unwrap_err()
            .contains("200000 lines")
    );
}

#[test]
fn names_that_are_not_utf8() {
    let world = World::new();
    let name = OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(world.workspace.path().join(name), "needle\n").unwrap();
    assert_snapshot!(world.shown("list_dir", &json!({})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "needle"})));
    assert_snapshot!(world.shown("find", &json!({"glob": "*.txt"})));
    // As it is shown it can be named.
    let read = world.call("read_file", &json!({"path": r"caf\xe9.txt"})).unwrap();
    assert_eq!(read, "     1\tneedle\n");
    let path = RelPath::from_bytes(b"caf\xe9.txt").unwrap();
    let version = world.workspace.read(&path, 100).unwrap();
    assert_eq!(version.bytes, b"needle\n");
    let after = Some(FileVersion { mode: FileMode::Regular, bytes: b"x".to_vec() });
    world.workspace.apply(&[FileChange { path, before: Some(version), after }]).unwrap();
    assert_eq!(fs::read(world.workspace.path().join(name)).unwrap(), b"x");
}

#[test]
fn list_dir_shows_kinds() {
    let world = World::with("b.txt", "12345");
    world.put("dir/x", "");
    world.put(".hidden", "1");
    symlink("b.txt", world.path("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, world.path("pipe"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    assert_snapshot!(world.shown("list_dir", &json!({"path": "."})));
    assert_snapshot!(world.shown("list_dir", &json!({"path": "b.txt"})));
    for n in 0..600 {
        world.put(&format!("many/{n:03}"), "");
    }
    let told = world.call("list_dir", &json!({"path": "many"})).unwrap();
    assert_eq!(told.lines().count(), 501);
    assert!(told.ends_with("[… 100 more of 600 names are not shown]\n"));
}

fn version(text: &str) -> Option<FileVersion> {
    Some(FileVersion { mode: FileMode::Regular, bytes: text.as_bytes().to_vec() })
}

fn change(path: &str, before: Option<FileVersion>, after: Option<FileVersion>) -> FileChange {
    FileChange { path: rel(path), before, after }
}

#[test]
fn apply_makes_parents_and_undoes_what_failed() {
    let world = World::with("a", "1");
    world.put("file", "x");
    let changes = [
        change("a", version("1"), version("2")),
        change("new/deep/b", None, version("b")),
        // A file where a folder is needed.
        change("file/c", None, version("c")),
    ];
    assert!(world.workspace.apply(&changes).is_err());
    assert_eq!(world.text("a"), "1");
    assert!(!world.exists("new"));
    world.workspace.apply(&changes[..2]).unwrap();
    assert_eq!((world.text("a"), world.text("new/deep/b")), ("2".to_owned(), "b".to_owned()));
    let back = [change("a", version("2"), version("1")), change("new/deep/b", version("b"), None)];
    world.workspace.apply(&back).unwrap();
    assert_eq!(world.text("a"), "1");
    assert!(!world.exists("new/deep/b"));
    let left: Vec<_> =
        fs::read_dir(world.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("provost-tmp")), "{left:?}");
}

/// `d` cannot be both a file and the folder of `d/e`, which only the rename onto it finds out: what was renamed before
/// that is brought back.
#[test]
fn a_failed_commit_is_undone() {
    let world = World::with("a", "1");
    world.put("gone", "g");
    world.put("twin", "t");
    fs::hard_link(world.path("twin"), world.path("twin2")).unwrap();
    world.chmod("a", 0o640);
    let changes = [
        change("a", version("1"), version("2")),
        change("new/b", None, version("b")),
        change("gone", version("g"), None),
        change("twin", version("t"), version("longer")),
        change("d", None, version("file")),
        change("d/e", None, version("e")),
    ];
    assert!(matches!(world.workspace.apply(&changes), Err(ApplyError::File(_))));
    assert_eq!(
        (world.text("a"), world.mode("a"), world.text("gone")),
        ("1".to_owned(), 0o640, "g".to_owned())
    );
    assert_eq!(world.text("twin2"), "t");
    let mut left: Vec<_> =
        fs::read_dir(world.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a", "gone", "twin", "twin2"]);
}

#[test]
fn links_are_changed_as_links() {
    let world = World::with("a", "1");
    world.put("b", "1");
    symlink("a", world.path("l")).unwrap();
    let link = |target: &str| Some(FileVersion { mode: FileMode::Link, bytes: target.as_bytes().to_vec() });
    world.workspace.apply(&[change("l", link("a"), link("b")), change("b", version("1"), None)]).unwrap();
    assert_eq!(fs::read_link(world.path("l")).unwrap().to_str(), Some("b"));
    assert!(!world.exists("b"));
}

#[test]
fn apply_refuses_what_is_stale() {
    let world = World::with("a", "1");
    for changes in [
        vec![change("a", version("0"), version("2"))],
        vec![change("a", version("1 and more"), version("2"))],
        vec![change("a", version(""), version("2"))],
        vec![change("a", None, version("2"))],
        vec![change("b", version("1"), version("2"))],
        vec![change("a", Some(FileVersion { mode: FileMode::Executable, bytes: b"1".to_vec() }), None)],
    ] {
        assert!(matches!(world.workspace.apply(&changes), Err(ApplyError::Stale { .. })), "{changes:?}");
    }
    let twice = [change("a", version("1"), version("2")), change("a", version("2"), version("3"))];
    assert!(matches!(world.workspace.apply(&twice), Err(ApplyError::Twice { .. })));
    assert_eq!(world.text("a"), "1");
}

#[test]
fn the_executable_bit_is_set_for_whoever_may_read() {
    let world = World::with("a", "1");
    world.chmod("a", 0o640);
    let executable = Some(FileVersion { mode: FileMode::Executable, bytes: b"1".to_vec() });
    world.workspace.apply(&[change("a", version("1"), executable.clone())]).unwrap();
    assert_eq!(world.mode("a"), 0o750);
    world.workspace.apply(&[change("a", executable, version("1"))]).unwrap();
    assert_eq!(world.mode("a"), 0o640);
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}

fn recorded(change: &FileChange) -> Change {
    let fact = |version: &Option<FileVersion>| {
        version.as_ref().map(|version| FileFact {
            mode: version.mode.as_git().to_owned(),
            size: version.bytes.len() as u64,
            content: digest(&version.bytes),
            kept: true,
        })
    };
    Change { path: change.path.clone(), before: fact(&change.before), after: fact(&change.after) }
}

/// D20 and recovery: after a crash at any point between the two sides, the side is told and the set is completed.
#[test]
fn settle_tells_the_side_and_complete_finishes() {
    let changes = [
        change("a", version("1"), version("2")),
        change("b", None, version("b")),
        change("c", version("c"), None),
    ];
    let facts: Vec<Change> = changes.iter().map(recorded).collect();
    for done in 0..=3 {
        let world = World::with("a", "1");
        world.put("c", "c");
        world.workspace.apply(&changes[..done]).unwrap();
        let settled = world.workspace.settle(&facts, &digest).unwrap();
        match done {
            0 => assert_eq!(settled, Settled::AllBefore),
            3 => assert_eq!(settled, Settled::AllAfter),
            _ => assert!(matches!(settled, Settled::Mixed(_)), "{settled:?}"),
        }
        world.workspace.complete(&changes).unwrap();
        assert_eq!(world.workspace.settle(&facts, &digest).unwrap(), Settled::AllAfter);
    }
    // The same where the journal keeps a digest of the blob's id only.
    let mut unkept = facts.clone();
    for fact in unkept.iter_mut().flat_map(|change| [&mut change.before, &mut change.after]).flatten() {
        let content: &[u8] =
            [&b"1"[..], b"2", b"b", b"c"].into_iter().find(|text| digest(text) == fact.content).unwrap();
        (fact.kept, fact.content) = (false, digest(&provost_tools::BlobOid::of(content).sha256));
    }
    let world = World::with("a", "1");
    world.put("c", "c");
    assert_eq!(world.workspace.settle(&unkept, &digest).unwrap(), Settled::AllBefore);
    let world = World::with("a", "somebody else's");
    world.put("c", "c");
    let Settled::Mixed(sides) = world.workspace.settle(&facts, &digest).unwrap() else {
        panic!("it is mixed")
    };
    assert_eq!(sides[0], (rel("a"), Side::Neither));
    assert!(world.workspace.complete(&changes).is_err());
    assert!(world.exists("c") && !world.exists("b"));
}
