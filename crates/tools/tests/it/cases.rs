//! Regressions from other people's reports, keyed by the case's id (`cases/reported-failures.md`).

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use provost_core::act::Touch;
use provost_tools::Effect;
use rustix::fs::{CWD, Mode};
use serde_json::json;

use crate::support::{World, rel};

/// E5: an edit must not mix line endings.
#[test]
fn e5_crlf_stays() {
    let world = World::with("a.txt", "foo\r\nbar\r\n");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n-foo\n+fool\n+new\n bar\n";
    world.call("apply_patch", &json!({"patch": patch})).unwrap();
    assert_eq!(world.text("a.txt"), "fool\r\nnew\r\nbar\r\n");
    world.call("edit_file", &json!({"path": "a.txt", "old": "new\nbar", "new": "new\nmid\nbar"})).unwrap();
    assert_eq!(world.text("a.txt"), "fool\r\nnew\r\nmid\r\nbar\r\n");
}

/// E5: in a mixed file lines that are not changed keep their own ending.
#[test]
fn e5_mixed_endings_of_unchanged_lines_stay() {
    let world = World::with("a.txt", "one\r\ntwo\nthree\r\nfour\r\n");
    world
        .call("edit_file", &json!({"path": "a.txt", "old": "one\ntwo\nthree", "new": "one\ntwo\n3"}))
        .unwrap();
    assert_eq!(world.text("a.txt"), "one\r\ntwo\n3\r\nfour\r\n");
}

/// E6: no newline is added at the end of a file that has none.
#[test]
fn e6_missing_final_newline_stays_missing() {
    let world = World::with("a.txt", "l1\nl2\nl3");
    world.call("edit_file", &json!({"path": "a.txt", "old": "l1", "new": "L1"})).unwrap();
    assert_eq!(world.text("a.txt"), "L1\nl2\nl3");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-L1\n+l1\n l2\n l3\n";
    world.call("apply_patch", &json!({"patch": patch})).unwrap();
    assert_eq!(world.text("a.txt"), "l1\nl2\nl3");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -2,2 +2,2 @@\n l2\n-l3\n+L3\n";
    let told = world.call("apply_patch", &json!({"patch": patch})).unwrap();
    assert_eq!(world.text("a.txt"), "l1\nl2\nL3");
    let changed = told.lines().filter(|line| line.starts_with(['+', '-']) && !line.starts_with("---"));
    assert_eq!(changed.count(), 2);
}

/// E7: bytes that are not UTF-8 survive an edit elsewhere.
#[test]
fn e7_other_bytes_survive() {
    for bytes in [b"const x=1;\n// caf\xe9\n".to_vec(), b"const x=1;\n// \xb1\xe0\xc2\xeb\n".to_vec()] {
        let world = World::new();
        world.put("a.js", &bytes);
        assert!(world.call("read_file", &json!({"path": "a.js"})).is_err());
        world.call("edit_file", &json!({"path": "a.js", "old": "x=1", "new": "x=2"})).unwrap();
        let mut expected = bytes.clone();
        expected[8] = b'2';
        assert_eq!(world.get("a.js"), expected);
        let patch = "--- a/a.js\n+++ b/a.js\n@@ -1 +1 @@\n-const x=2;\n+const x=3;\n";
        world.call("apply_patch", &json!({"patch": patch})).unwrap();
        expected[8] = b'3';
        assert_eq!(world.get("a.js"), expected);
    }
}

/// E8: never two encodings in one file.
#[test]
fn e8_no_second_encoding() {
    let sjis = b"// \x93\xfa\x96\x7b\nlet a = 1;\n";
    let world = World::new();
    world.put("a.js", sjis);
    let edit = json!({"path": "a.js", "old": "let a = 1;", "new": "// 日本\nlet a = 1;"});
    assert!(world.call("edit_file", &edit).is_err());
    let patch = "--- a/a.js\n+++ b/a.js\n@@ -2 +2,2 @@\n+// 日本\n let a = 1;\n";
    assert!(world.call("apply_patch", &json!({"patch": patch})).is_err());
    assert_eq!(world.get("a.js"), sjis);
}

/// E9: a byte order mark stays, line 1 can be edited as it is shown, and grep finds it.
#[test]
fn e9_byte_order_mark() {
    let world = World::new();
    world.put("a.ps1", b"\xef\xbb\xbfparam($x)\r\nrest\r\n");
    let read = world.call("read_file", &json!({"path": "a.ps1"})).unwrap();
    assert!(read.starts_with("     1\tparam($x)\n"), "{read:?}");
    let found = world.call("grep", &json!({"pattern": "^param"})).unwrap();
    assert_eq!(found, "a.ps1:1:param($x)\n");
    world.call("edit_file", &json!({"path": "a.ps1", "old": "param($x)\n", "new": "param($y)\n"})).unwrap();
    assert_eq!(world.get("a.ps1"), b"\xef\xbb\xbfparam($y)\r\nrest\r\n");
    let patch = "--- a/a.ps1\n+++ b/a.ps1\n@@ -1,2 +1,2 @@\n-param($y)\n+param($z)\n rest\n";
    world.call("apply_patch", &json!({"patch": patch})).unwrap();
    assert_eq!(world.get("a.ps1"), b"\xef\xbb\xbfparam($z)\r\nrest\r\n");
}

/// E10: quotes are written as they are given.
#[test]
fn e10_quotes() {
    let world = World::with("a.txt", "x\n");
    let new = "\"straight\" \u{201c}curly\u{201d} 'a' \u{2018}b\u{2019}";
    world.call("edit_file", &json!({"path": "a.txt", "old": "x", "new": new})).unwrap();
    assert_eq!(world.text("a.txt"), format!("{new}\n"));
    // The reverse: straight quotes do not match curly ones.
    assert!(world.call("edit_file", &json!({"path": "a.txt", "old": "\"curly\"", "new": "z"})).is_err());
}

/// E11: several places but for whitespace are an error, and nothing is written.
#[test]
fn e11_lookalikes_are_refused() {
    let text =
        "fn a() {\n\tlet x = 1;\n\tuse(x);\n}\nfn b() {\n\tif y {\n\t\tlet x = 1;\n\t\tuse(x);\n\t}\n}\n";
    let world = World::with("a.rs", text);
    let edit =
        json!({"path": "a.rs", "old": "    let x = 1;\n    use(x);", "new": "    let x = 2;\n    use(x);"});
    let told = world.call("edit_file", &edit).unwrap_err();
    assert!(told.contains("2 and 7"), "{told}");
    let patch = "--- a/a.rs\n+++ b/a.rs\n@@ -20,2 +20,2 @@\n-    let x = 1;\n+    let x = 2;\n     use(x);\n";
    assert!(world.call("apply_patch", &json!({"patch": patch})).is_err());
    assert_eq!(world.text("a.rs"), text);
}

/// E11: exact lines in several places, the number pointing at none of them.
#[test]
fn e11_ambiguous_hunk_is_refused() {
    let text = "a\nsame\nb\nsame\nc\n";
    let world = World::with("a.txt", text);
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -9 +9 @@\n-same\n+other\n";
    let told = world.call("apply_patch", &json!({"patch": patch})).unwrap_err();
    assert!(told.contains("2 and 4"), "{told}");
    assert_eq!(world.text("a.txt"), text);
}

/// E12: the right line number with the wrong context places nothing.
#[test]
fn e12_number_without_context() {
    let world = World::with("a.txt", "one\ntwo\nthree\n");
    for patch in [
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-zwei\n+drei\n three\n",
        "--- a/a.txt\n+++ b/a.txt\n@@ -2,0 +3 @@\n+inserted without context\n",
    ] {
        assert!(world.call("apply_patch", &json!({"patch": patch})).is_err());
        assert_eq!(world.text("a.txt"), "one\ntwo\nthree\n");
    }
}

/// E13: a patch of several files is applied whole or not at all.
#[test]
fn e13_all_or_nothing() {
    let world = World::with("a.txt", "a\n");
    world.put("b.txt", "now\n");
    let patch = "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-before\n+after\n";
    let told = world.call("apply_patch", &json!({"patch": patch})).unwrap_err();
    assert!(told.contains("`b.txt`") && told.contains("hunk 1 of 1"), "{told}");
    assert_eq!((world.text("a.txt"), world.text("b.txt")), ("a\n".to_owned(), "now\n".to_owned()));
}

/// E15: modes stay.
#[test]
fn e15_mode_stays() {
    for mode in [0o755, 0o640, 0o600, 0o4755] {
        let world = World::with("run.sh", "#!/bin/sh\necho a\n");
        world.chmod("run.sh", mode);
        world.call("edit_file", &json!({"path": "run.sh", "old": "echo a", "new": "echo b"})).unwrap();
        assert_eq!(world.mode("run.sh"), mode);
        world.call("write_file", &json!({"path": "run.sh", "content": "#!/bin/sh\n"})).unwrap();
        assert_eq!(world.mode("run.sh"), mode);
    }
}

/// E16: a link stays a link and its target changes; other names of a file see the change.
#[test]
fn e16_links() {
    let world = World::with("real.txt", "old\n");
    symlink("real.txt", world.path("link")).unwrap();
    let touches = world.touches("edit_file", &json!({"path": "link", "old": "old", "new": "new"})).unwrap();
    assert!(touches.contains(&Touch::Write { path: rel("real.txt") }), "{touches:?}");
    assert!(touches.contains(&Touch::Write { path: rel("link") }), "{touches:?}");
    world.call("edit_file", &json!({"path": "link", "old": "old", "new": "new"})).unwrap();
    assert_eq!(world.text("real.txt"), "new\n");
    assert!(fs::symlink_metadata(world.path("link")).unwrap().is_symlink());

    fs::hard_link(world.path("real.txt"), world.path("twin.txt")).unwrap();
    let args = json!({"path": "real.txt", "old": "new", "new": "newer and longer"});
    let (told, applied) = world.call_applied("edit_file", &args).unwrap();
    assert_eq!(world.text("twin.txt"), "newer and longer\n");
    assert_eq!(applied.in_place, [rel("real.txt")]);
    assert!(told.contains("hard links"), "{told}");
    world.call("edit_file", &json!({"path": "twin.txt", "old": " and longer", "new": ""})).unwrap();
    assert_eq!(world.text("real.txt"), "newer\n");
}

/// E17: a write does not destroy what came in meanwhile.
#[test]
fn e17_stale_write() {
    let world = World::new();
    world.put("f.txt", "one\n");
    let write = |content: &str| world.call("write_file", &json!({"path": "f.txt", "content": content}));
    assert!(write("unseen\n").is_err());
    world.call("read_file", &json!({"path": "f.txt"})).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(world.path("f.txt")).unwrap();
    file.write_all(b"two\n").unwrap();
    let told = write("mine\n").unwrap_err();
    assert!(told.contains("+two"), "{told}");
    assert_eq!(world.text("f.txt"), "one\ntwo\n");
    world.call("read_file", &json!({"path": "f.txt"})).unwrap();
    write("mine\n").unwrap();
    write("mine again\n").unwrap();
    world.call("edit_file", &json!({"path": "f.txt", "old": "again", "new": "edited"})).unwrap();
    write("and again\n").unwrap();
    assert_eq!(world.text("f.txt"), "and again\n");
}

/// E17: also what comes in between preparing and applying.
#[test]
fn e17_stale_at_the_last_moment() {
    let world = World::with("f.txt", "one\n");
    world.put("g.txt", "g\n");
    let patch =
        "--- a/g.txt\n+++ b/g.txt\n@@ -1 +1 @@\n-g\n+h\n--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let Effect::Write(set) = world.prepare("apply_patch", &json!({"patch": patch})).unwrap() else {
        panic!("a patch writes")
    };
    world.put("f.txt", "ONE\n");
    assert!(world.workspace.apply(&set.changes).is_err());
    assert_eq!((world.text("f.txt"), world.text("g.txt")), ("ONE\n".to_owned(), "g\n".to_owned()));
}

/// E18: what is not a patch is told apart and answered with a valid form.
#[test]
fn e18_forms() {
    let world = World::with("a.txt", "one\ntwo\n");
    for (patch, names) in [
        ("{\"input\": \"*** Begin Patch\"}", "JSON"),
        ("*** Update File: a.txt\n-one\n+eins\n", "*** Begin Patch"),
        ("please change one to eins", "please change"),
        ("", "empty"),
        ("*** Begin Patch\n*** Update File: a.txt\n-one\n+eins\n", "*** End Patch"),
    ] {
        let told = world.call("apply_patch", &json!({"patch": patch})).unwrap_err();
        assert!(told.contains(names) && told.contains("+++ b/src/lib.rs"), "{told}");
    }
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+eins\n two\n*** Add File: new/b.txt\n+b\n*** End Patch\n";
    world.call("apply_patch", &json!({"patch": patch})).unwrap();
    assert_eq!((world.text("a.txt"), world.text("new/b.txt")), ("eins\ntwo\n".to_owned(), "b\n".to_owned()));
}

/// E19: of a long block the line that differs is named.
#[test]
fn e19_first_differing_line() {
    let text: String = (1..=60).map(|n| format!("line number {n}\n")).collect();
    let world = World::with("a.txt", &text);
    let old: String =
        (11..=35).map(|n| format!("line number {n}{}\n", if n == 31 { " x" } else { "" })).collect();
    let told = world.call("edit_file", &json!({"path": "a.txt", "old": old, "new": "y"})).unwrap_err();
    assert!(told.contains("line 31 of the file, line 21 of the old text"), "{told}");
    assert!(
        told.contains("expected `line number 31 x`") && told.contains("found    `line number 31`"),
        "{told}"
    );
    let body: String = old.lines().map(|line| format!(" {line}\n")).collect();
    let patch = format!("--- a/a.txt\n+++ b/a.txt\n@@ -11,25 +11,26 @@\n{body}+more\n");
    let told = world.call("apply_patch", &json!({"patch": patch})).unwrap_err();
    assert!(told.contains("line 31 of the file, old line 21 of the hunk"), "{told}");
}

/// E20: spaces for tabs.
#[test]
fn e20_indentation() {
    let world = World::with("Makefile", "all:\n\tcc -o a a.c\n\t./a\n");
    let edit = json!({"path": "Makefile", "old": "    cc -o a a.c\n    ./a", "new": "    cc -O2 -o a a.c\n    ./a\n        deeper"});
    world.call("edit_file", &edit).unwrap();
    assert_eq!(world.text("Makefile"), "all:\n\tcc -O2 -o a a.c\n\t./a\n\t\tdeeper\n");
    // How to indent does not follow: refused with the whitespace visible.
    let edit = json!({"path": "Makefile", "old": "   ./a", "new": " \t odd"});
    let told = world.call("edit_file", &edit).unwrap_err();
    assert!(told.contains("`···./a`") && told.contains("`→./a`"), "{told}");
}

/// E21: ambiguous old text: where it is.
#[test]
fn e21_ambiguous() {
    let world = World::with("a.txt", "x = 1\ny\nx = 1\nz\nx = 1\n");
    let told =
        world.call("edit_file", &json!({"path": "a.txt", "old": "x = 1", "new": "x = 2"})).unwrap_err();
    assert!(told.contains("1, 3 and 5") && told.contains("     3\tx = 1"), "{told}");
    assert_eq!(world.text("a.txt"), "x = 1\ny\nx = 1\nz\nx = 1\n");
}

/// C9, D6: a pipe or a device is refused, not waited for; a search passes over it.
#[test]
fn c9_d6_special_files() {
    let world = World::with("a.txt", "needle\n");
    rustix::fs::mknodat(CWD, world.path("p"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o644), 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("s")).unwrap();
    symlink("/dev/zero", world.path("zero")).unwrap();
    symlink("p", world.path("to-p")).unwrap();
    let begun = Instant::now();
    for (path, says) in
        [("p", "FIFO"), ("s", "socket"), ("to-p", "FIFO"), ("zero", "/dev/zero"), (".", "a folder")]
    {
        for tool in ["read_file", "edit_file", "write_file"] {
            let args = match tool {
                "read_file" => json!({"path": path}),
                "edit_file" => json!({"path": path, "old": "a", "new": "b"}),
                _ => json!({"path": path, "content": ""}),
            };
            let told = world.call(tool, &args).unwrap_err();
            assert!(told.contains(says), "{tool} {path}: {told}");
        }
    }
    assert_eq!(world.call("grep", &json!({"pattern": "needle"})).unwrap(), "a.txt:1:needle\n");
    assert!(world.call("grep", &json!({"pattern": "x", "path": "p"})).is_err());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// C10: argument vectors arrive byte for byte.
#[test]
fn c10_backslashes() {
    let world = World::new();
    let argv = [
        "printf",
        r"C:\Users\unicorn",
        r"a\nb",
        "two words",
        r"D:\new\table",
        "git show HEAD:.path",
        "*",
        "$HOME",
    ];
    let Effect::Command(request) = world.prepare("exec", &json!({"argv": argv})).unwrap() else {
        panic!("exec runs a command")
    };
    assert_eq!(request.argv, argv);
    world.call("write_file", &json!({"path": r"C:\Users\unicorn\new.txt", "content": "x"})).unwrap();
    assert!(world.exists(r"C:\Users\unicorn\new.txt"));
}

/// D8, D9: a search holds what it shows, stops there, and says so.
#[test]
fn d8_d9_search_is_bounded_and_says_so() {
    let world = World::new();
    world.put("big.txt", "eee eee eee\n".repeat(300_000));
    let told = world.call("grep", &json!({"pattern": "e"})).unwrap();
    assert_eq!(told.lines().filter(|line| line.starts_with("big.txt:")).count(), 100);
    assert!(told.contains("stopped after 100 matches: there is at least one more"), "{told}");
    let told = world.call("grep", &json!({"pattern": "e", "max_matches": 3, "context": 2})).unwrap();
    assert_eq!(told.lines().filter(|line| line.starts_with("big.txt:")).count(), 3);
    world.put("big.txt", "e\n".repeat(100));
    assert!(!world.call("grep", &json!({"pattern": "e"})).unwrap().contains("stopped"));
}

/// D10: a write without content is refused.
#[test]
fn d10_content_is_required() {
    let world = World::with("a.txt", "keep\n");
    for args in [
        json!({"path": "a.txt"}),
        json!({"path": "a.txt", "content": null}),
        json!({"path": "a.txt", "contents": ""}),
    ] {
        assert!(world.call("write_file", &args).is_err());
    }
    assert_eq!(world.text("a.txt"), "keep\n");
}

/// D11: a wrong path is an error that names what is near.
#[test]
fn d11_missing_file() {
    let world = World::with("src/library.rs", "x\n");
    let told = world.call("read_file", &json!({"path": "library.rs"})).unwrap_err();
    assert!(told.contains("`src/library.rs`"), "{told}");
    let told = world.call("read_file", &json!({"path": "src/librray.rs"})).unwrap_err();
    assert!(told.contains("`src/library.rs`"), "{told}");
}

/// D16: a hunk whose numbers are wrong is found by its lines.
#[test]
fn d16_numbers_need_not_be_exact() {
    let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let world = World::with("a.txt", &text);
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -3,3 +3,3 @@\n line 19\n-line 20\n+LINE 20\n line 21\n";
    world.call("apply_patch", &json!({"patch": patch})).unwrap();
    assert_eq!(world.text("a.txt"), text.replace("line 20", "LINE 20"));
}
