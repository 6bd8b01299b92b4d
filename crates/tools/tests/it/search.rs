//! `grep`, `find`, and what no listing tells.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use provost_tools::{Find, Grep, Registry};
use serde_json::json;

use crate::support::{World, rel};

fn world() -> World {
    let world = World::with("src/a.rs", "fn one() {}\nfn two() {}\n// three\n");
    world.put("src/deep/b.rs", "fn one() {}\r\n");
    world.put("notes.md", "one two\nfn(\n");
    world.put(".hidden/c.rs", "one\n");
    world.put(".gitignore", "target/\n*.log\n!keep.log\n");
    world.put("target/x.rs", "one\n");
    world.put("a.log", "one\n");
    world.put("keep.log", "one\n");
    world.put("src/deep/.gitignore", "ignored.rs\n");
    world.put("src/deep/ignored.rs", "one\n");
    world.put(".git/config", "one\n");
    world.put("binary", b"one\n\0\n");
    world
}

#[test]
fn what_the_model_reads() {
    let world = world();
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one"})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "ONE", "ignore_case": true, "glob": "*.rs"})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "two", "path": "src", "context": 1})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one\\(\\) \\{\\}$", "path": "src/deep"})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "fn("})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "nowhere"})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one", "path": "target"})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one", "path": "binary"})));
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one", "path": "scr"})));
    assert_snapshot!(world.shown("find", &json!({"glob": "*.rs"})));
    assert_snapshot!(world.shown("find", &json!({"glob": "src/**"})));
    assert_snapshot!(world.shown("find", &json!({"glob": "*.log", "path": "."})));
    assert_snapshot!(world.shown("find", &json!({"glob": "[", "path": "."})));
}

#[test]
fn what_policy_does_not_let_be_read_is_not_searched() {
    let mut world = World::with(".env", "KEY=secret\n");
    world.put("a.txt", "secret\n");
    world.unreadable = vec![rel(".env")];
    let told = world.call("grep", &json!({"pattern": "secret"})).unwrap();
    assert_eq!(told, "a.txt:1:secret\n[1 file not searched: policy refuses reading]\n");
}

/// All that lists names, in one text.
fn names(world: &World) -> String {
    [
        ("list_dir", json!({"path": "."})),
        ("list_dir", json!({"path": "src"})),
        ("list_dir", json!({"path": "alias"})),
        ("find", json!({"glob": "*"})),
        ("grep", json!({"pattern": "KEY"})),
        ("read_file", json!({"path": ".emv"})),
        ("edit_file", json!({"path": "id.pem", "old": "a", "new": "b"})),
    ]
    .map(|(tool, args)| format!("# {tool} {args}\n{}\n", world.shown(tool, &args)))
    .concat()
}

/// A name can be the secret. The first snapshot is the control: a policy that allows all.
#[test]
fn names_that_policy_does_not_let_be_read_are_not_told() {
    let mut world = World::with(".env", "KEY=1\n");
    world.put("src/id.pem", "KEY\n");
    world.put("src/lib.rs", "KEY\n");
    symlink(".env", world.path("to-env")).unwrap();
    symlink("to-env", world.path("to-link")).unwrap();
    symlink("src/lib.rs", world.path("to-lib")).unwrap();
    symlink("src", world.path("alias")).unwrap();
    symlink("/etc", world.path("out")).unwrap();
    assert_snapshot!(names(&world));
    world.unreadable = vec![rel(".env"), rel("src/id.pem")];
    let told = names(&world);
    for hidden in [".env", "src/id.pem", "id.pem  4 bytes"] {
        assert!(!told.contains(hidden), "{hidden}: {told}");
    }
    assert_snapshot!(told);
    world.unreadable = vec![rel("to-env")];
    let told = world.call("list_dir", &json!({"path": "."})).unwrap();
    assert!(!told.contains("to-env") && told.contains(".env"), "a link to a link: {told}");
    world.unreadable = vec![rel("src/id.pem"), rel("src/lib.rs")];
    let told = world.call("list_dir", &json!({"path": "src"})).unwrap();
    assert_eq!(told, "[2 names are not shown: the policy does not allow reading them]\n");
}

/// What is told does not depend on whether a guess was right.
#[test]
fn a_name_cannot_be_guessed_by_globs() {
    let mut world = World::with("a.txt", "x\n");
    world.put("customer-acme.pem", "x\n");
    world.unreadable = vec![rel("customer-acme.pem")];
    let told = |world: &World, glob: &str| {
        let find = world.call("find", &json!({"glob": glob})).unwrap();
        find + &world.call("grep", &json!({"pattern": "x", "glob": glob})).unwrap()
    };
    assert_eq!(told(&world, "customer-a*"), told(&world, "customer-b*"));
    world.unreadable.clear();
    assert_ne!(told(&world, "customer-a*"), told(&world, "customer-b*"), "the control");
}

#[test]
fn a_search_that_takes_too_long_is_stopped_and_says_so() {
    let mut world = world();
    world.registry = Registry::empty();
    world.registry.add(Arc::new(Grep::with_limit(Duration::ZERO))).unwrap();
    world.registry.add(Arc::new(Find::with_limit(Duration::ZERO))).unwrap();
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one"})));
    // Within one file as well.
    assert_snapshot!(world.shown("grep", &json!({"pattern": "one", "path": "notes.md"})));
    assert_snapshot!(world.shown("find", &json!({"glob": "*"})));

    world.registry = Registry::empty();
    world.registry.add(Arc::new(Grep::with_limit(Duration::MAX))).unwrap();
    world.registry.add(Arc::new(Find::with_limit(Duration::MAX))).unwrap();
    for (tool, args) in [("grep", json!({"pattern": "one"})), ("find", json!({"glob": "*"}))] {
        let told = world.call(tool, &args).unwrap();
        assert!(told.contains("src/a.rs") && !told.contains("stopped"), "the control: {told}");
    }
}

#[test]
fn long_lines_are_cut_with_a_mark() {
    let world = World::with("a.txt", format!("{}needle\n", "x".repeat(10_000)));
    let told = world.call("grep", &json!({"pattern": "needle"})).unwrap();
    assert!(told.len() < 600 && told.contains("bytes more]"), "{told}");
}

#[test]
fn bounds_are_refused_by_name() {
    let world = World::new();
    assert!(world.call("grep", &json!({"pattern": "x", "max_matches": 5000})).is_err());
    assert!(world.call("grep", &json!({"pattern": "x", "context": 50})).is_err());
}
