//! Names that are `.git` to git on another file system.

use provost_core::act::Touch;
use serde_json::{Value, json};

use crate::support::{World, rel};

const ALIASES: [&str; 18] = [
    ".GIT",
    ".Git",
    ".git ",
    ".git.",
    ".git. .",
    ".git::$INDEX_ALLOCATION",
    ".git:stream",
    "git~1",
    "GIT~1",
    "git~1.",
    ".git\u{200c}",
    ".g\u{200d}it",
    "\u{feff}.git",
    ".gi\u{200e}t",
    ".\u{200f}GIT",
    ".git\u{202a}\u{202e}",
    ".g\u{206a}i\u{206f}t",
    ".git\\config",
];

/// Like the aliases and not among them.
const OTHERS: [&str; 10] = [
    ".gitignore",
    ".github",
    ".gitx",
    "git~2",
    "git~10",
    "git",
    "git.git",
    ".git-credentials",
    "..git",
    ".g\u{200b}it",
];

/// A call of each writing tool that would write `path`, which holds `old`.
fn writes(path: &str) -> [(&'static str, Value); 5] {
    let patch = |text: String| json!({ "patch": text });
    [
        ("write_file", json!({"path": path, "content": "new\n"})),
        ("edit_file", json!({"path": path, "old": "old", "new": "new"})),
        ("apply_patch", patch(format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-old\n+new\n"))),
        ("apply_patch", patch(format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"))),
        (
            "apply_patch",
            patch(format!(
                "diff --git a/from b/{path}.new\nsimilarity index 100%\nrename from from\nrename to {path}.new\n"
            )),
        ),
    ]
}

fn world(path: &str) -> World {
    let world = World::with(path, "old\n");
    world.put("from", "old\n");
    world.see("from");
    world
}

#[test]
fn aliases_are_refused() {
    for alias in ALIASES {
        for path in [format!("{alias}/hooks"), format!("deep/er/{alias}/hooks")] {
            let world = world(&path);
            for (tool, args) in writes(&path) {
                let told = world.call(tool, &args).unwrap_err();
                let why = "is a name that git reads as `.git` on some systems";
                assert!(told.contains(why), "{tool} {alias:?}: {told}");
                // Reading is no danger.
                assert_eq!(world.call("read_file", &json!({ "path": path })).unwrap(), "     1\told\n");
            }
        }
        // The name itself, where nothing is yet.
        let told = World::new().call("write_file", &json!({"path": alias, "content": "x"})).unwrap_err();
        assert!(told.contains("git reads as"), "{alias:?}: {told}");
    }
}

#[test]
fn names_that_only_resemble_them_are_not() {
    for name in OTHERS {
        let path = format!("deep/{name}/x");
        for (tool, args) in writes(&path) {
            let told = world(&path).call(tool, &args);
            assert!(told.is_ok(), "{tool} {name:?}: {told:?}");
        }
        World::new().call("write_file", &json!({"path": name, "content": "x"})).unwrap();
    }
}

#[test]
fn a_link_does_not_hide_one() {
    let world = World::with(".GIT/config", "old\n");
    std::os::unix::fs::symlink(".GIT", world.path("fine")).unwrap();
    let told = world.call("write_file", &json!({"path": "fine/config", "content": "x"})).unwrap_err();
    assert!(told.contains("`.GIT` is a name that git reads"), "{told}");
}

/// What cannot be seen is written out.
#[test]
fn the_refusal_shows_the_name() {
    let told = World::new().shown("write_file", &json!({"path": ".g\u{200c}it", "content": "x"}));
    assert!(told.contains("`.g\\u{200c}it` is a name"), "{told}");
}

/// That name is guarded by the policy, which knows more of it.
#[test]
fn git_itself_is_left_to_the_policy() {
    let touches =
        World::new().touches("write_file", &json!({"path": ".git/config", "content": "x"})).unwrap();
    assert_eq!(touches, [Touch::Write { path: rel(".git/config") }]);
}
