//! `apply_patch`.

use std::process::Command;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;
use similar::TextDiff;

use crate::support::World;

fn apply(world: &World, patch: &str) -> Result<String, String> {
    world.call("apply_patch", &json!({"patch": patch}))
}

#[test]
fn what_the_model_reads() {
    let world = World::with("a.txt", "one\ntwo\nthree\n");
    let shown = |patch: &str| world.shown("apply_patch", &json!({"patch": patch}));
    assert_snapshot!(shown("--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"));
    assert_snapshot!(shown("--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"));
    assert_snapshot!(shown("{\"patch\": \"x\"}"));
    assert_snapshot!(shown("--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+1\nthis is not a hunk line\n"));
    assert_snapshot!(shown("--- a/b.txt\n+++ b/b.txt\n@@ -1,1 +1,1 @@\n-one\n+1\n"));
    assert_snapshot!(shown(
        "diff --git a/a.txt b/n/b.txt\nrename from a.txt\nrename to n/b.txt\n--- a/a.txt\n+++ b/n/b.txt\n@@ -1 +1 @@\n-one\n+1\n"
    ));
}

#[test]
fn create_delete_rename_and_mode() {
    let world = World::with("a.txt", "a\n");
    world.put("old.txt", "1\n2\n3\n");
    world.put("run.sh", "#!/bin/sh\n");
    world.put("empty", "");
    world.chmod("old.txt", 0o640);
    let patch = "\
diff --git a/a.txt b/a.txt
deleted file mode 100644
index 7898192..0000000
--- a/a.txt
+++ /dev/null
@@ -1 +0,0 @@
-a
diff --git a/dir/new.sh b/dir/new.sh
new file mode 100755
--- /dev/null
+++ b/dir/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+exit 0
\\ No newline at end of file
diff --git a/old.txt b/dir/renamed.txt
similarity index 50%
rename from old.txt
rename to dir/renamed.txt
--- a/old.txt
+++ b/dir/renamed.txt
@@ -1,3 +1,3 @@
 1
-2
+two
 3
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/empty b/empty
deleted file mode 100644
index e69de29..0000000
diff --git a/void b/void
new file mode 100644
index 0000000..e69de29
";
    apply(&world, patch).unwrap();
    assert!(!world.exists("a.txt") && !world.exists("old.txt") && !world.exists("empty"));
    assert_eq!(world.text("dir/new.sh"), "#!/bin/sh\nexit 0");
    assert_eq!(world.mode("dir/new.sh") & 0o111, 0o111);
    assert_eq!(world.text("dir/renamed.txt"), "1\ntwo\n3\n");
    assert_eq!(world.mode("run.sh") & 0o111, 0o111);
    assert_eq!(world.text("void"), "");
}

#[test]
fn what_cannot_be_done_is_refused() {
    let world = World::with("a.txt", "a\nb\n");
    for (patch, says) in [
        ("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n", "exists already"),
        ("--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "all of its lines"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", ".."),
        ("--- /etc/hosts\n+++ /etc/hosts\n@@ -1 +1 @@\n-a\n+b\n", "outside the workspace"),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
            "symbolic links",
        ),
        ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\nx\n", "binary"),
        ("diff --git a/a.txt b/a.txt\ncopy from a.txt\ncopy to c.txt\n", "copies"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before any"),
        ("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n", "without lines"),
    ] {
        let told = apply(&world, patch).unwrap_err();
        assert!(told.contains(says), "{patch}: {told}");
        assert_eq!(world.text("a.txt"), "a\nb\n");
    }
}

#[test]
fn a_path_patched_twice_is_patched_in_order() {
    let world = World::with("a.txt", "1\n2\n");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-2\n+two\n";
    apply(&world, patch).unwrap();
    assert_eq!(world.text("a.txt"), "one\ntwo\n");
}

#[test]
fn miscounted_heads_and_fences_are_read() {
    let world = World::with("a.txt", "1\n2\n3\n");
    apply(&world, "```diff\n--- a/a.txt\n+++ b/a.txt\n@@ -1,9 +1,7 @@\n 1\n-2\n+two\n 3\n```").unwrap();
    assert_eq!(world.text("a.txt"), "1\ntwo\n3\n");
    apply(&world, "--- a.txt\n+++ a.txt\n@@\n 1\n-two\n+2\n").unwrap();
    assert_eq!(world.text("a.txt"), "1\n2\n3\n");
}

#[test]
fn a_removed_line_that_looks_like_a_header() {
    let world = World::with("a.sql", "-- one\n++ two\nthree\n");
    apply(&world, "--- a/a.sql\n+++ b/a.sql\n@@ -1,3 +1,3 @@\n--- one\n-++ two\n+-- 1\n+++ 2\n three\n")
        .unwrap();
    assert_eq!(world.text("a.sql"), "-- 1\n++ 2\nthree\n");
}

#[test]
fn the_other_form() {
    let world = World::with(
        "a.py",
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n",
    );
    world.put("gone.txt", "x\n");
    let patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@ class B:\n     def f(self):\n-        return 1\n+        return 2\n*** End Patch";
    apply(&world, patch).unwrap();
    assert!(!world.exists("a.py"));
    assert_eq!(world.text("b.py").matches("return 2").count(), 1);
    assert!(world.text("b.py").ends_with("return 2\n"));
    let delete = "*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch";
    assert!(apply(&world, delete).unwrap_err().contains("read it first"));
    world.see("gone.txt");
    apply(&world, delete).unwrap();
    assert!(!world.exists("gone.txt"));
}

/// What `git diff` prints is applied to the very bytes.
#[test]
fn patches_of_git() {
    let pairs: [(&str, &str); 6] = [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("a\nb\nc\n", "a\nb\nc"),
        ("a\nb\nc", "a\nb\nC"),
        ("", "new\n"),
        ("x\r\ny\r\nz\r\n", "x\r\nY\r\nz\r\n"),
    ];
    for (before, after) in pairs {
        let world = World::with("f.txt", before);
        let outside = world.temp.path().join("outside");
        std::fs::create_dir_all(outside.join("a")).unwrap();
        std::fs::create_dir_all(outside.join("b")).unwrap();
        std::fs::write(outside.join("a/f.txt"), before).unwrap();
        std::fs::write(outside.join("b/f.txt"), after).unwrap();
        let diff = Command::new("git")
            .args(["-c", "core.autocrlf=false", "diff", "--no-index", "--no-prefix", "a/f.txt", "b/f.txt"])
            .current_dir(&outside)
            .output()
            .unwrap();
        let patch = String::from_utf8(diff.stdout).unwrap();
        apply(&world, &patch).unwrap_or_else(|told| panic!("{patch}\n{told}"));
        assert_eq!(world.text("f.txt"), after, "{patch}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A patch made from two texts brings the one to the other.
    #[test]
    fn patch_of_similar(before in "([a-d]{0,2}\\n){0,20}[a-d]{0,2}", after in "([a-d]{0,2}\\n){0,20}[a-d]{0,2}") {
        prop_assume!(before != after && !before.is_empty());
        let world = World::with("a.txt", &before);
        let patch = TextDiff::from_lines(&before, &after).unified_diff().header("a/a.txt", "b/a.txt").to_string();
        let result = apply(&world, &patch);
        prop_assert!(result.is_ok(), "{}\n{:?}", patch, result);
        prop_assert_eq!(world.text("a.txt"), after);
    }

    /// No text makes the parser panic, and text that is no patch writes nothing.
    #[test]
    fn any_text(patch in "(--- a/a\n|\\+\\+\\+ b/a\n|@@ -1,2 \\+1,2 @@\n|@@\n|[ +-]x\n|\\\\ No newline\n|diff --git a/a b/a\n|rename from a\n|rename to b\n|\\*\\*\\* Begin Patch\n|\\*\\*\\* Update File: a\n|\n|é){0,12}") {
        let world = World::with("a", "x\nx\n");
        let _ = apply(&world, &patch);
    }
}
