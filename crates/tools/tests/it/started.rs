//! What a command touches: its program under all its names, and whatever it starts.

use std::os::unix::fs::symlink;

use provost_core::act::{Access, Touch};
use provost_core::containment::Rung;
use provost_core::policy::{Default, Effect, Layer, Policy, Preset};
use provost_tools::Effect as Comes;
use serde_json::json;

use crate::support::World;

fn policy(default: Default, rules: &[(Effect, &str)]) -> Policy {
    let mut layer = Layer::named("test");
    for (effect, rule) in rules {
        layer = layer.rule(*effect, rule).unwrap();
    }
    layer.defaults = Access::ALL.into_iter().map(|access| (access, default)).collect();
    let mut policy = Policy::preset(Preset::FullAccess);
    policy.layers = vec![layer];
    policy
}

impl World {
    fn decide(&self, policy: &Policy, argv: &[&str], cwd: &str) -> Effect {
        let touches = self.touches("exec", &json!({ "argv": argv, "cwd": cwd })).unwrap();
        assert!(matches!(&touches[0], Touch::Exec { argv: first, .. } if first == argv), "{touches:?}");
        policy.decide(&touches, Rung::R3).effect
    }

    fn program(&self, path: &str) {
        self.put(path, "#!/bin/sh\n");
        self.chmod(path, 0o755);
    }
}

const ALLOW: Effect = Effect::Allow;
const ASK: Effect = Effect::Ask;
const DENY: Effect = Effect::Deny;

#[test]
fn a_denial_finds_its_program_behind_links() {
    let world = World::new();
    symlink("/usr/bin/rm", world.path("tidy")).unwrap();
    symlink("tidy", world.path("tidier")).unwrap();
    std::fs::copy("/usr/bin/rm", world.path("copy")).unwrap();
    let no_rm = policy(Default::Allow, &[(DENY, "exec rm")]);
    for argv in [&["./tidy", "f"][..], &["./tidier", "f"], &["env", "./tidier", "f"], &["/bin/rm"], &["rm"]] {
        assert_eq!(world.decide(&no_rm, argv, "."), DENY, "{argv:?}");
    }
    // The control, and what no name can tell: containment holds that.
    assert_eq!(world.decide(&no_rm, &["ls"], "."), ALLOW);
    assert_eq!(world.decide(&no_rm, &["./copy"], "."), ALLOW);
    // A wrapper under another name is a wrapper.
    symlink("/usr/bin/env", world.path("x")).unwrap();
    assert_eq!(world.decide(&no_rm, &["./x", "A=1", "rm", "f"], "."), DENY);
    assert_eq!(world.decide(&no_rm, &["./x", "A=1", "ls"], "."), ALLOW);
    // By the path of the file too.
    let no_file = policy(Default::Allow, &[(DENY, "exec /usr/bin/rm")]);
    assert_eq!(world.decide(&no_file, &["./tidier", "f"], "."), DENY);
}

/// P2: the name of a rule that allows is that of a program of the system.
#[test]
fn p2_an_allowance_by_name_is_for_the_program_of_the_system() {
    let mut world = World::new();
    world.program("bin/cat");
    world.program("bin/tool");
    world.program("cat");
    let allows = policy(Default::Ask, &[(ALLOW, "exec cat*"), (ALLOW, "exec tool*")]);
    assert_eq!(world.decide(&allows, &["cat", "f"], "."), ALLOW);
    assert_eq!(world.decide(&allows, &["./cat", "f"], "."), ASK);
    let full = world.path("cat").display().to_string();
    assert_eq!(world.decide(&allows, &[&full, "f"], "."), ASK);
    // Where a folder of `PATH` is one that commands can write to, its programs are not the system's.
    let path = format!("{}:{}", world.path("bin").display(), world.env["PATH"]);
    world.env.insert("PATH".to_owned(), path);
    assert_eq!(world.decide(&allows, &["cat", "f"], "."), ASK);
    assert_eq!(world.decide(&allows, &["tool"], "."), ASK);
    let spelled = format!("exec {}*", world.path("bin/tool").display());
    let both = policy(Default::Ask, &[(ALLOW, "exec tool*"), (ALLOW, &spelled)]);
    assert_eq!(world.decide(&both, &["tool"], "."), ALLOW);
}

#[test]
fn a_relative_allowance_is_for_the_program_of_the_root() {
    let world = World::new();
    world.program("bin/x");
    world.program("sub/bin/x");
    let allows = policy(Default::Ask, &[(ALLOW, "exec ./bin/*")]);
    assert_eq!(world.decide(&allows, &["./bin/x"], "."), ALLOW);
    assert_eq!(world.decide(&allows, &["./bin/x"], "sub"), ASK);
    let here = policy(Default::Ask, &[(ALLOW, "exec ./bin/*"), (ALLOW, "exec ./sub/./bin/x")]);
    assert_eq!(world.decide(&here, &["./bin/x"], "sub"), ALLOW);
    // A wrapper that changes the folder leaves open which one it is.
    let allows = policy(Default::Ask, &[(ALLOW, "exec ./bin/*"), (ALLOW, "exec env*")]);
    assert_eq!(world.decide(&allows, &["env", "-C", "sub", "./bin/x"], "."), ASK);
    assert_eq!(world.decide(&allows, &["env", "./bin/x"], "."), ALLOW);
}

/// P6, and the wrappers of the host as they are installed.
#[test]
fn p6_what_a_wrapper_starts_is_decided_by_itself() {
    let world = World::new();
    let no_rm = policy(Default::Allow, &[(DENY, "exec rm"), (DENY, "exec git push")]);
    for argv in [
        &["env", "rm", "f"][..],
        &["nice", "rm", "f"],
        &["xargs", "rm"],
        &["busybox", "rm", "f"],
        &["setsid", "rm", "f"],
        &["flock", "l", "rm", "f"],
        &["script", "-c", "rm f"],
        &["sh", "-c", "rm f"],
        &["find", ".", "-exec", "rm", "{}", "+"],
        &["timeout", "5", "nice", "env", "A=1", "sh", "-c", "rm f"],
        &["git", "-C", ".", "push"],
        &["git", "-c", "a.b=c", "push"],
        &["git", "-c", "alias.p=push", "p"],
    ] {
        assert_eq!(world.decide(&no_rm, argv, "."), DENY, "{argv:?}");
    }
    for argv in [
        &["env", "ls"][..],
        &["nice", "ls"],
        &["find", ".", "-exec", "ls", "{}", "+"],
        &["git", "-C", ".", "log"],
    ] {
        assert_eq!(world.decide(&no_rm, argv, "."), ALLOW, "{argv:?}");
    }
    for argv in [&["sh", "-c", "$X f"][..], &["env", "PATH=/x", "ls"], &["sh", "-c", "eval x"], &["sh"]] {
        assert_eq!(world.decide(&no_rm, argv, "."), ASK, "{argv:?}");
        // Containment alone is no reason to start what nobody saw; that all of it is allowed has to be said.
        assert_eq!(world.decide(&policy(Default::Contained, &[]), argv, "."), ASK, "{argv:?}");
        let all = policy(Default::Contained, &[(ALLOW, "exec *")]);
        assert_eq!(world.decide(&all, argv, "."), ALLOW, "{argv:?}");
        assert_eq!(world.decide(&policy(Default::Allow, &[]), argv, "."), ALLOW, "{argv:?}");
    }
    for argv in [
        &["sh", "-c", "ls | wc -l && echo {} > f"][..],
        &["sh", "-c", "trap '' TERM; trap 'ls' EXIT"],
        &["python3"],
    ] {
        assert_eq!(world.decide(&policy(Default::Contained, &[]), argv, "."), ALLOW, "{argv:?}");
    }
    let allows = policy(Default::Ask, &[(ALLOW, "exec env*"), (ALLOW, "exec find*"), (ALLOW, "exec ls*")]);
    assert_eq!(world.decide(&allows, &["env", "ls"], "."), ALLOW);
    assert_eq!(world.decide(&allows, &["env", "touch", "f"], "."), ASK);
    assert_eq!(world.decide(&allows, &["find", ".", "-name", "x"], "."), ALLOW);
    assert_eq!(world.decide(&allows, &["find", ".", "-delete"], "."), ASK);
    assert_eq!(world.decide(&allows, &["find", ".", "-exec", "touch", "f", ";"], "."), ASK);
}

#[test]
fn what_was_decided_on_is_what_is_run() {
    let mut world = World::new();
    world.program("b/tool");
    let folders = ["a", "b"].map(|name| world.path(name).display().to_string());
    world.env.insert("PATH".to_owned(), format!("{}:/usr/bin", folders.join(":")));
    let args = json!({ "argv": ["tool"] });
    let Comes::Command(request) = world.prepare("exec", &args).unwrap() else { panic!("a command") };
    assert_eq!(request.program.as_deref(), Some(world.path("b/tool").as_path()));
    // Once another program stands before it, the act touches something else: the door sees that.
    let before = world.touches("exec", &args).unwrap();
    world.program("a/tool");
    assert_ne!(world.touches("exec", &args).unwrap(), before);
}

#[test]
fn an_endless_command_is_looked_at_for_a_while() {
    let world = World::new();
    let many: Vec<String> = (0..3000).map(|_| "env".to_owned()).chain(["rm".to_owned()]).collect();
    let touches = world.touches("exec", &json!({ "argv": many })).unwrap();
    assert!(touches.len() < 64);
    assert!(touches.iter().any(|touch| matches!(touch, Touch::Unclear { .. })));
    let unknown: Vec<String> =
        ["sudo", "--x"].iter().map(|&word| word.to_owned()).chain(vec!["nice".to_owned(); 200]).collect();
    assert!(world.touches("exec", &json!({ "argv": unknown })).unwrap().len() < 4096);
}
