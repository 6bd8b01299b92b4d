//! Reading calls, touches, `exec` and its report.

use insta::assert_snapshot;
use proptest::prelude::*;
use provost_core::act::{ExitFact, Touch};
use provost_core::path::RelPath;
use provost_tools::command::{HostEnvironment, Output, environment, report};
use provost_tools::{Effect, Registry};
use serde_json::json;

use crate::support::{World, rel};

fn refused(name: &str, arguments: &str) -> String {
    match Registry::standard().decode(name, arguments) {
        Ok(_) => panic!("{name} {arguments} was accepted"),
        Err(bad) => bad.to_string(),
    }
}

/// W4: bad arguments are never run as others.
#[test]
fn w4_bad_arguments() {
    assert_snapshot!(refused("read_file", r#"{"path": "a"#));
    assert_snapshot!(refused("read_file", "null"));
    assert_snapshot!(refused("read_file", "[1]"));
    assert_snapshot!(refused("read_file", ""));
    assert_snapshot!(refused("read_file", r#"{"path": "a", "path": "b"}"#));
    assert_snapshot!(refused("read_file", r#"{"path": "a"} trailing"#));
    assert_snapshot!(refused("read_file", r#"{"path": 3}"#));
    assert_snapshot!(refused("read_file", r#"{"path": "a", "startline": 3}"#));
    assert_snapshot!(refused("read_flie", r#"{"path": "a"}"#));
    assert_snapshot!(refused(
        "edit_file",
        r#"{"path": "a", "edits": [{"old": "a", "new": "b", "all": true}]}"#
    ));
    assert_snapshot!(refused("exec", r#"{"argv": "cargo test --lib"}"#));
    assert_snapshot!(refused("exec", r#"{"argv": "cargo test | tail -3"}"#));
    assert_snapshot!(refused("exec", r#"{"argv": []}"#));
    let long = refused("read_file", &"x".repeat(1_000_000));
    assert!(long.len() < 1000, "{}", long.len());
}

/// S8: there is no argument that turns containment off.
#[test]
fn s8_no_way_out_by_argument() {
    refused("exec", r#"{"argv": ["true"], "disable_sandbox": true}"#);
    refused("exec", r#"{"argv": ["true"], "env": {"LD_PRELOAD": "x"}}"#);
}

#[test]
fn the_tools_as_the_model_is_told_of_them() {
    let specs = Registry::standard().specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "read_file",
            "list_dir",
            "grep",
            "find",
            "write_file",
            "edit_file",
            "apply_patch",
            "exec",
            "shell",
            "shell_start",
            "shell_poll",
            "shell_kill",
            "delegate",
            "submit"
        ]
    );
    let size: usize = specs.iter().map(|spec| serde_json::to_string(spec).unwrap().len()).sum();
    assert!(size < 8_600, "{size} bytes go with every request");
    assert_snapshot!(serde_json::to_string_pretty(&specs).unwrap());
}

#[test]
fn no_tool_shadows_another() {
    let mut registry = Registry::standard();
    let again = registry.get("exec").unwrap().clone();
    assert!(registry.add(again).is_err());
}

#[test]
fn touches_name_what_is_really_touched() {
    let world = World::with("real/a.txt", "x\n");
    std::os::unix::fs::symlink("real", world.path("link")).unwrap();
    let (named, real) = (rel("link/a.txt"), rel("real/a.txt"));
    let reads = vec![Touch::Read { path: named.clone() }, Touch::Read { path: real.clone() }];
    assert_eq!(world.touches("read_file", &json!({"path": "link/a.txt"})).unwrap(), reads);
    let new = world.touches("write_file", &json!({"path": "link/new.txt", "content": ""})).unwrap();
    assert_eq!(new, [Touch::Write { path: rel("link/new.txt") }, Touch::Write { path: rel("real/new.txt") }]);
    let patch = "--- a/link/a.txt\n+++ b/link/a.txt\n@@ -1 +1 @@\n-x\n+y\n";
    let touches = world.touches("apply_patch", &json!({"patch": patch})).unwrap();
    assert!(touches.contains(&Touch::Write { path: real }), "{touches:?}");
    assert_eq!(world.touches("submit", &json!({"summary": ""})).unwrap(), []);
}

#[test]
fn programs_are_found_as_the_sandbox_finds_them() {
    let world = World::with("cat", "#!/bin/sh\n");
    let program = |argv: &[&str]| match world.touches("exec", &json!({"argv": argv})).unwrap().remove(0) {
        Touch::Exec { program, .. } => program,
        other => panic!("{other:?}"),
    };
    assert_eq!(program(&["cat"]).as_deref(), Some("/usr/bin/cat"));
    // P2: a file of the workspace is another program than that of the system, and not one before it is executable.
    assert_eq!(program(&["./cat"]), None);
    world.chmod("cat", 0o755);
    let here = world.workspace.path().join("cat");
    assert_eq!(program(&["./cat"]).as_deref(), here.to_str());
    assert_eq!(program(&["no-such-program"]), None);
    assert!(
        world.prepare("exec", &json!({"argv": ["no-such-program"]})).unwrap_err().contains("/usr/bin:/bin")
    );
}

#[test]
fn exec_takes_a_shorter_limit_only() {
    let world = World::new();
    let limit = |seconds: u64| match world
        .prepare("exec", &json!({"argv": ["true"], "timeout_seconds": seconds}))
        .unwrap()
    {
        Effect::Command(request) => request.limit.as_secs(),
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(5), 5);
    assert_eq!(limit(1_000_000), world.limits.command_ms / 1000);
    assert!(world.prepare("exec", &json!({"argv": ["true"], "timeout_seconds": 0})).is_err());
    assert!(world.prepare("exec", &json!({"argv": ["true"], "cwd": "../"})).is_err());
    assert!(world.prepare("exec", &json!({"argv": ["a\u{0}b"]})).is_err());
}

#[test]
fn the_environment_is_built_from_nothing() {
    let host = HostEnvironment {
        path: "/usr/bin:.:bin::/opt/x".to_owned(),
        home: Some("/home/me/".to_owned()),
        ..HostEnvironment::default()
    };
    let env = environment(&host, &[("RUST_LOG".to_owned(), "info".to_owned())].into());
    let shown: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_snapshot!(shown.join("\n"));
}

#[test]
fn reports_of_commands() {
    let argv = ["cargo".to_owned(), "test".to_owned(), "a b".to_owned()];
    let all = |bytes: &'static [u8]| Output { head: bytes, tail: b"", total: bytes.len() as u64 };
    assert_snapshot!(report(&argv, &ExitFact::Exited { code: 0 }, all(b"")));
    assert_snapshot!(report(
        &argv,
        &ExitFact::Exited { code: 101 },
        all(b"caf\xe9 \x1b[31mred\x1b[0m\r\nno newline")
    ));
    assert_snapshot!(report(&argv, &ExitFact::Signalled { signal: 9 }, all(b"x\n")));
    // D14: what was printed until the limit is shown. C5: both ends are, cut between characters.
    let cut = Output {
        head: "start \u{e4}".as_bytes().split_at(7).0,
        tail: &"\u{20ac} end\n".as_bytes()[1..],
        total: 5000,
    };
    assert_snapshot!(report(&argv, &ExitFact::TimedOut { limit_ms: 1500 }, cut));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No text of a model makes decoding panic.
    #[test]
    fn decode_never_panics(name in "[a-z_é]{0,12}|read_file|edit_file|exec", text in ".{0,80}|\\{\"path\": .{0,20}\\}") {
        let _ = Registry::standard().decode(&name, &text);
    }

    /// Whatever is asked for, what is located lies beneath the root, and what is opened has that path.
    #[test]
    fn paths_stay_beneath(parts in prop::collection::vec("\\.|\\.\\.|a|b|up|self|abs|deep|/|é", 1..8), to in "(\\.\\./){0,3}(a|b|deep|\\.)") {
        let world = World::with("a/b", "x");
        std::fs::create_dir_all(world.path("deep/a/b")).unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, world.path(name)).unwrap();
        link("..", "up");
        link(".", "self");
        link(&to, "deep/a/self");
        link("/", "abs");
        let text = parts.join("/");
        if let Ok(path) = world.workspace.name(&text)
            && let Ok(located) = world.workspace.locate(&path)
        {
            prop_assert!(!located.real.as_str().split('/').any(|part| part == ".."));
            let full = world.workspace.path().join(located.real.to_os());
            if located.kind.is_some() {
                prop_assert_eq!(full.canonicalize().unwrap(), full.components().collect::<std::path::PathBuf>());
                let kernel = world.workspace.path().join(path.to_os()).canonicalize().unwrap();
                prop_assert_eq!(kernel, full.canonicalize().unwrap());
            }
            prop_assert!(RelPath::from_bytes(&located.real.to_bytes()).is_ok());
        }
    }
}
