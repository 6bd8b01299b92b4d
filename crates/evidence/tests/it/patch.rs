//! Patches are what plain `git apply` takes, and lead exactly to the after tree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use provost_core::path::RelPath;
use provost_evidence::patch::{FileDiff, FileVersion, render};
use provost_evidence::tree::{BlobOid, Mode, TreeEntry, tree_digest};

use crate::git_repo::{Format, Repo};
use crate::tree::files;

type Tree = BTreeMap<RelPath, FileVersion>;

fn diff(before: &Tree, after: &Tree) -> Vec<FileDiff> {
    let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    paths
        .into_iter()
        .map(|path| FileDiff {
            path: path.clone(),
            before: before.get(path).cloned(),
            after: after.get(path).cloned(),
        })
        .collect()
}

fn lines(range: std::ops::Range<u32>, line: impl Fn(u32) -> String) -> String {
    range.map(line).collect::<Vec<_>>().concat()
}

fn check_out(tree: &Tree, root: &Path) {
    for (path, file) in tree {
        let at = root.join(path.to_os());
        fs::create_dir_all(at.parent().expect("parent")).expect("folders");
        if file.mode == Mode::Symlink {
            symlink(std::ffi::OsString::from_vec(file.bytes.clone()), at).expect("links");
        } else {
            fs::write(&at, &file.bytes).expect("writes");
            let mode = if file.mode == Mode::Executable { 0o755 } else { 0o644 };
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).expect("chmod");
        }
    }
}

fn id(tree: &Tree) -> String {
    let entries: Vec<_> = tree
        .iter()
        .map(|(path, file)| TreeEntry { path: path.clone(), mode: file.mode, oid: BlobOid::of(&file.bytes) })
        .collect();
    tree_digest(&entries).expect("a tree").sha1
}

fn tree(files: &[(&str, &[u8])]) -> Tree {
    files
        .iter()
        .map(|(path, bytes)| {
            (RelPath::parse(path).expect("path"), FileVersion { mode: Mode::File, bytes: bytes.to_vec() })
        })
        .collect()
}

/// Applies the patch with and without the index, forwards and back, and compares whole trees.
fn assert_applies(before: &Tree, after: &Tree) -> Vec<u8> {
    let patch = render(&diff(before, after));
    assert_eq!(patch, render(&diff(before, after).into_iter().rev().collect::<Vec<_>>()));
    for index in [true, false] {
        let repo = Repo::new(Format::Sha1);
        check_out(before, repo.path());
        repo.git(&["add", "-A"]);
        assert_eq!(repo.git(&["write-tree"]).trim(), id(before));
        if patch.is_empty() {
            assert_eq!(before, after);
            continue;
        }
        let apply = |args: &[&str]| {
            let output = repo.try_with(args, &patch);
            assert!(
                output.status.success(),
                "git {args:?}: {}\n{}",
                String::from_utf8_lossy(&output.stderr),
                String::from_utf8_lossy(&patch)
            );
        };
        apply(if index { &["apply", "--index"] } else { &["apply"] });
        repo.git(&["add", "-A"]);
        assert_eq!(repo.git(&["write-tree"]).trim(), id(after), "{}", String::from_utf8_lossy(&patch));
        // What git 2.47 cannot take back, its own patches neither: a changed type, and a deleted file's mode.
        let reversible = |path: &RelPath, file: &FileVersion| match after.get(path) {
            Some(other) => (other.mode == Mode::Symlink) == (file.mode == Mode::Symlink),
            None => file.mode == Mode::File,
        };
        if before.iter().all(|(path, file)| reversible(path, file)) {
            apply(&["apply", "--index", "-R"]);
            assert_eq!(repo.git(&["write-tree"]).trim(), id(before));
        }
    }
    patch
}

#[test]
fn a_small_change_looks_as_git_shows_it() {
    let old = lines(1..13, |n| format!("line {n}\n"));
    let new = old.replace("line 6\n", "line six\n") + "no end";
    let patch =
        assert_applies(&tree(&[("src/a b.txt", old.as_bytes())]), &tree(&[("src/a b.txt", new.as_bytes())]));
    let expected = "diff --git a/src/a b.txt b/src/a b.txt
index cbe9645bb9e4d9b9e9ea28ad8a0d7bbd6d2a4b25..0 100644
--- a/src/a b.txt\t
+++ b/src/a b.txt\t
@@ -3,10 +3,11 @@
 line 3
 line 4
 line 5
-line 6
+line six
 line 7
 line 8
 line 9
 line 10
 line 11
 line 12
+no end
\\ No newline at end of file
";
    let text = String::from_utf8(patch).expect("utf-8");
    let without_ids = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("index ")).map(str::to_owned).collect()
    };
    assert_eq!(without_ids(&text), without_ids(expected));
}

/// For text our patch is git's own, byte for byte, where its algorithm finds the same lines.
#[test]
fn headers_are_gits_own() {
    let before = tree(&[
        ("gone", b"x\n"),
        ("mode", b"#!/bin/sh\n"),
        ("\u{e4}\t\"q\"", b"1\n"),
        ("bin", b"\0\x01\x02"),
    ]);
    let mut after = tree(&[("new", b"y"), ("empty", b""), ("\u{e4}\t\"q\"", b"2\n"), ("bin", b"\0\x03")]);
    after.insert(
        RelPath::parse("mode").expect("path"),
        FileVersion { mode: Mode::Executable, bytes: b"#!/bin/sh\n".to_vec() },
    );
    let ours = assert_applies(&before, &after);
    let repo = Repo::new(Format::Sha1);
    check_out(&before, repo.path());
    repo.commit();
    for path in before.keys() {
        fs::remove_file(repo.path().join(path.to_os())).expect("removes");
    }
    check_out(&after, repo.path());
    repo.git(&["add", "-A"]);
    let gits = repo.try_with(&["diff", "--cached", "--no-renames", "--full-index", "--binary"], b"").stdout;
    // Deflate differs from zlib to zlib; all else is the same.
    let shown = |patch: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(patch)
            .lines()
            .filter(|line| !line.starts_with(|c: char| c.is_ascii_alphabetic()) || line.contains(' '))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(shown(&ours), shown(&gits));
}

#[test]
fn line_endings_stay() {
    assert_applies(&tree(&[("f", b"a\r\nb\r\nc\r\n")]), &tree(&[("f", b"a\r\nB\r\nc\nd\r")]));
}

#[test]
fn files_and_folders_and_links_change_places() {
    let link = |name: &str, to: &str| {
        (
            RelPath::parse(name).expect("path"),
            FileVersion { mode: Mode::Symlink, bytes: to.as_bytes().to_vec() },
        )
    };
    let mut links = tree(&[("other", b"x\n")]);
    links.extend([link("x", "a"), link("d", "b/c")]);
    let all =
        [tree(&[("x", b"file\n"), ("d/e", b"1\n")]), tree(&[("x/y", b"folder\n"), ("d", b"2\n")]), links];
    for before in &all {
        for after in &all {
            assert_applies(before, after);
        }
    }
}

#[test]
fn half_a_million_lines_without_anything_in_common_do_not_take_minutes() {
    let old = lines(0..300_000, |n| format!("{}\n", n % 7));
    let new = lines(0..300_000, |n| format!("{}\n", n % 11));
    let began = std::time::Instant::now();
    assert_applies(&tree(&[("f", old.as_bytes())]), &tree(&[("f", new.as_bytes())]));
    assert!(began.elapsed().as_secs() < 60);
}

#[test]
fn a_large_file_with_a_change_at_each_end_keeps_its_middle() {
    let old = lines(0..60_000, |n| format!("line {n}\n"));
    let new = old.replacen("line 1\n", "first\n", 1).replacen("line 59998\n", "last\n", 1);
    let patch = assert_applies(&tree(&[("f", old.as_bytes())]), &tree(&[("f", new.as_bytes())]));
    assert!(patch.len() < 1_000, "{}", patch.len());
}

/// Content that is mostly alike on both sides, with and without a last line feed, and now and then binary.
fn content() -> impl Strategy<Value = Vec<u8>> + Clone {
    let line = prop::sample::select(vec![
        &b"one\n"[..],
        b"two\n",
        b"two\r\n",
        b"\n",
        b"}\n",
        b"\xff\xfe\n",
        b"-- x\n",
        b" \n",
    ]);
    let tail = prop::sample::select(vec![&b""[..], b"end", b"", b"\r", b"\0", b"\\ No newline"]);
    (prop::collection::vec(line, 0..25), tail).prop_map(|(lines, tail)| {
        let mut all = lines.concat();
        all.extend_from_slice(tail);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_patch_leads_to_exactly_the_after_tree(before in files(content()), after in files(content())) {
        // Git refuses names like `.git` and ones with line feeds in ways of its own.
        let keep = |files: Vec<(RelPath, Mode, Vec<u8>)>| -> Tree {
            files
                .into_iter()
                .map(|(path, mode, bytes)| (path, FileVersion { mode, bytes }))
                .collect()
        };
        assert_applies(&keep(before), &keep(after));
    }
}
