//! A copy of a workspace, and what was changed in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use provost_core::path::RelPath;
use provost_tools::Workspace;
use provost_tools::workspace::{Found, Layer, StandIn};
use tempfile::TempDir;

struct Copy {
    dir: TempDir,
    workspace: Workspace,
    layer: Layer,
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

impl Copy {
    fn of(fill: impl Fn(&Path), stand_ins: &[(&str, StandIn)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (ws, to) = (dir.path().join("ws"), dir.path().join("copy"));
        fs::create_dir(&ws).unwrap();
        fs::create_dir(&to).unwrap();
        fill(&ws);
        let workspace = Workspace::open(&ws).unwrap();
        let stand_ins: BTreeMap<_, _> =
            stand_ins.iter().map(|(name, what)| (path(name), what.clone())).collect();
        let layer = workspace.duplicate(&to, &stand_ins).unwrap();
        Self { dir, workspace, layer }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join("copy").join(name)
    }

    fn found(&self) -> Found {
        self.layer.read(&self.workspace).unwrap()
    }
}

fn files(found: &Found) -> Vec<&str> {
    found.files.iter().map(|file| file.path.as_str()).collect()
}

fn names(paths: &[RelPath]) -> Vec<&str> {
    paths.iter().map(RelPath::as_str).collect()
}

fn some(ws: &Path) {
    for folder in ["old/deep", "closed", "kept"] {
        fs::create_dir_all(ws.join(folder)).unwrap();
    }
    for name in ["a", "b", "c", "mode", "old/x", "old/deep/y", "closed/z", "kept/k", "swap", "fold.er"] {
        fs::write(ws.join(name), format!("{name}\n")).unwrap();
    }
    fs::create_dir(ws.join("fold")).unwrap();
    fs::write(ws.join("fold/in"), "in\n").unwrap();
    fs::set_permissions(ws.join("mode"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(ws.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    symlink("a", ws.join("link")).unwrap();
    File::options().write(true).open(ws.join("b")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
}

#[test]
fn a_copy_that_nobody_worked_in_has_no_changes_and_looks_like_what_it_is_a_copy_of() {
    let copy = Copy::of(some, &[]);
    assert_eq!(copy.found(), Found::default());
    let ws = copy.workspace.path();
    for name in ["a", "b", "mode", "closed", "closed/z", "old"] {
        let (one, other) = (ws.join(name).metadata().unwrap(), copy.at(name).metadata().unwrap());
        assert_eq!((one.mode(), one.mtime()), (other.mode(), other.mtime()), "{name}");
        assert_ne!(one.ino(), other.ino(), "{name}");
    }
    assert_eq!(fs::read_link(copy.at("link")).unwrap(), Path::new("a"));
    assert_eq!(fs::read_to_string(copy.at("old/deep/y")).unwrap(), "old/deep/y\n");
}

#[test]
fn each_kind_of_change_is_found() {
    let copy = Copy::of(some, &[]);
    fs::write(copy.at("a"), "changed\n").unwrap();
    fs::remove_file(copy.at("c")).unwrap();
    fs::set_permissions(copy.at("mode"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::remove_dir_all(copy.at("old")).unwrap();
    fs::create_dir(copy.at("old")).unwrap();
    fs::write(copy.at("old/new"), "").unwrap();
    fs::remove_file(copy.at("swap")).unwrap();
    fs::create_dir(copy.at("swap")).unwrap();
    fs::write(copy.at("swap/s"), "").unwrap();
    fs::remove_dir_all(copy.at("fold")).unwrap();
    fs::write(copy.at("fold"), "now a file").unwrap();
    fs::rename(copy.at("kept"), copy.at("moved")).unwrap();
    fs::remove_file(copy.at("link")).unwrap();
    symlink("b", copy.at("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, copy.at("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let found = copy.found();
    assert_eq!(files(&found), ["a", "fold", "link", "mode", "moved/k", "old/new", "swap/s"]);
    let gone: Vec<&str> = names(&found.gone);
    assert_eq!(gone, ["swap", "old/x", "old/deep/y", "kept/k", "fold/in", "c"]);
    assert_eq!(names(&found.gone_folders), ["old/deep", "kept", "fold"]);
    let folders: Vec<&str> = found.folders.iter().map(|folder| folder.path.as_str()).collect();
    assert_eq!(folders, ["moved", "swap"]);
    assert_eq!(names(&found.special), ["pipe"]);
    let changed = found.files.iter().find(|file| file.path.as_str() == "a").unwrap();
    assert_eq!(copy.layer.version(changed, 100).unwrap().bytes, b"changed\n");
}

/// Size and time of modification are what whoever changes a file likes them to be.
#[test]
fn a_change_of_the_same_size_and_time_is_a_change() {
    let copy = Copy::of(some, &[]);
    let before = copy.at("b").metadata().unwrap().modified().unwrap();
    let file = File::options().write(true).open(copy.at("b")).unwrap();
    fs::write(copy.at("b"), "B\n").unwrap();
    file.set_modified(before).unwrap();
    let meta = copy.at("b").metadata().unwrap();
    assert_eq!((meta.len(), meta.modified().unwrap()), (2, before));
    assert_eq!(files(&copy.found()), ["b"]);
}

#[test]
fn what_something_stands_for_is_neither_copied_nor_changed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("built"), "").unwrap();
    let fill = |ws: &Path| {
        for name in [".git/HEAD", "target/large", ".env", "keys/id", "a"] {
            fs::create_dir_all(ws.join(name).parent().unwrap()).unwrap();
            fs::write(ws.join(name), "content").unwrap();
        }
    };
    let stand_ins = [
        (".git", StandIn::GitFolder("/elsewhere/.git".into())),
        ("target", StandIn::Link(outside.path().to_owned())),
        (".env", StandIn::Closed),
        ("keys", StandIn::Closed),
        ("absent", StandIn::Folder),
    ];
    let copy = Copy::of(fill, &stand_ins);
    assert_eq!(fs::read_to_string(copy.at(".git")).unwrap(), "gitdir: /elsewhere/.git\n");
    assert!(copy.at("target/built").exists() && !copy.at("absent").exists());
    assert_eq!(copy.at(".env").metadata().unwrap().len(), 0);
    assert_eq!(fs::read_dir(copy.at("")).unwrap().count(), 5);
    fs::remove_file(copy.at("target")).unwrap();
    fs::write(copy.at(".git"), "gitdir: /tmp").unwrap();
    fs::remove_file(copy.at(".env")).unwrap();
    fs::write(copy.at(".env"), "mine").unwrap();
    assert_eq!(copy.found(), Found::default());
}

#[test]
fn what_git_ignores_is_said_by_the_rules_that_the_command_left() {
    let fill = |ws: &Path| {
        fs::create_dir(ws.join("sub")).unwrap();
        fs::write(ws.join(".gitignore"), "*.log\n").unwrap();
    };
    let copy = Copy::of(fill, &[]);
    for name in ["one.log", "sub/two.log", "sub/three.tmp"] {
        fs::write(copy.at(name), "x").unwrap();
    }
    fs::write(copy.at("sub/.gitignore"), "*.tmp\n").unwrap();
    let ignored: Vec<(String, bool)> =
        copy.found().files.iter().map(|file| (file.path.as_str().to_owned(), file.ignored)).collect();
    let expected =
        [("one.log", true), ("sub/.gitignore", false), ("sub/three.tmp", true), ("sub/two.log", true)];
    assert_eq!(ignored, expected.map(|(name, ignored)| (name.to_owned(), ignored)));
}

#[test]
fn files_with_holes_and_what_cannot_be_copied() {
    let fill = |ws: &Path| {
        File::create(ws.join("hole")).unwrap().set_len(1 << 34).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, ws.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let mut deep = ws.to_owned();
        for _ in 0..80 {
            deep.push("d");
        }
        fs::create_dir_all(deep).unwrap();
    };
    let copy = Copy::of(fill, &[]);
    let hole = copy.at("hole").metadata().unwrap();
    assert_eq!(hole.len(), 1 << 34);
    assert!(hole.blocks() * 512 < 1 << 20, "a hole stays one: {} blocks", hole.blocks());
    assert!(!copy.at("pipe").exists());
    assert_eq!(copy.found(), Found::default());
}
