//! `grep` and `find`.

use insta::assert_snapshot;
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
