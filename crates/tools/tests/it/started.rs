//! What a command touches: its program under all its names, and whatever it starts.

use std::os::unix::fs::symlink;

use provost_core::act::{Access, Touch};
use provost_core::containment::Rung;
use provost_core::policy::{Default, Effect, Layer, Policy, Preset};
use provost_tools::Effect as Comes;
use serde_json::json;

use crate::support::World;

/// Rules in one layer, with one default for every access.
pub(crate) fn policy(default: Default, rules: &[(Effect, &str)]) -> Policy {
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
    for argv in [
        &["sh", "-c", "$X f"][..],
        &["sh", "-c", "eval x"],
        &["sh", "-c", ". x"],
        &["sh"],
        &["zsh", "-c", "ls"],
    ] {
        assert_eq!(world.decide(&no_rm, argv, "."), ASK, "{argv:?}");
        // Containment alone is no reason to start what nobody saw; that all of it is allowed has to be said.
        assert_eq!(world.decide(&policy(Default::Contained, &[]), argv, "."), ASK, "{argv:?}");
        let all = policy(Default::Contained, &[(ALLOW, "exec *")]);
        assert_eq!(world.decide(&all, argv, "."), ALLOW, "{argv:?}");
        assert_eq!(world.decide(&policy(Default::Allow, &[]), argv, "."), ALLOW, "{argv:?}");
    }
    // What a program does by its arguments is the program's doing, and no stranger than what `make` does.
    let each = "for d in a b; do find \"$d\" -name x; done";
    for argv in [&["env", "PATH=/x", "ls"][..], &["valgrind", "ls"], &["sh", "-c", each]] {
        assert_eq!(world.decide(&no_rm, argv, "."), ASK, "{argv:?}");
        assert_eq!(world.decide(&policy(Default::Contained, &[]), argv, "."), ALLOW, "{argv:?}");
        assert_eq!(world.decide(&policy(Default::Ask, &[]), argv, "."), ASK, "{argv:?}");
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

/// Options that are written as few expect them.
#[test]
fn what_an_option_hides_is_not_allowed() {
    let world = World::new();
    let mut wrong: Vec<String> = Vec::new();
    let no_rm = policy(Default::Allow, &[(DENY, "exec rm"), (DENY, "exec git push*"), (DENY, "exec curl")]);
    for argv in [
        &["bash", "-oc", "posix", "rm victim"][..],
        &["sh", "-oc", "noglob", "rm victim"],
        &["bash", "-Oc", "extglob", "rm victim"],
        &["bash", "-oec", "posix", "rm victim"],
        &["bash", "-oo", "posix", "posix", "-c", "rm victim"],
        &["bash", "+c", "rm victim"],
        &["sh", "+ec", "rm victim"],
        &["bash", "-norc", "-c", "rm victim"],
        &["choom", "-n", "0", "rm", "victim"],
        &["choom", "-n0", "--", "rm", "victim"],
        &["ssh-agent", "rm", "victim"],
        &["ssh-agent", "-t", "5", "rm", "victim"],
        &["/usr/lib/git-core/git-push", "origin"],
    ] {
        wrong.extend((world.decide(&no_rm, argv, ".") != DENY).then(|| argv.join(" ")));
    }
    for argv in [
        &["sed", "--expr=1e rm victim", "p"][..],
        &["sed", "--e", "1e rm victim", "f"],
        &["sed", "--fi=x", "f"],
        &["sed", "1i foo\\\\\n1e rm victim", "f"],
        &["sed", "1i\\\\\\\n1e rm victim", "f"],
        &["sed", "-l", "5", "1e rm victim", "f"],
        &["sed", "--line-length", "5", "1e rm victim", "f"],
        &["sort", "--c=rm", "f"],
        &["tar", "--to-c=rm", "-xf", "a"],
        &["git", "clone", "-c", "core.sshCommand=rm victim;", "ssh://h/x", "z"],
        &["git", "clone", "--config", "core.sshCommand=rm victim;", "ssh://h/x", "z"],
        &["git", "clone", "--config=core.sshCommand=rm victim;", "ssh://h/x", "z"],
        &["git", "clone", "--conf=core.sshCommand=rm victim;", "ssh://h/x", "z"],
        &["git", "clone", "-qc", "core.sshCommand=rm victim;", "ssh://h/x", "z"],
        &["git", "clone", "-ccore.sshCommand=rm victim;", "ssh://h/x", "z"],
        &["git", "clone", "--template=evil", "x", "z"],
        &["git", "clone", "--up=rm", "x", "z"],
        &["git", "rebase", "--exe=rm victim", "--root"],
        &["git", "rebase", "-ix", "rm victim", "--root"],
        &["git", "rebase", "-x", "ls", "-ix", "rm victim", "--root"],
        &["git", "merge-index", "rm", "-a"],
        &["git", "remote-ext", "x", "rm victim"],
        &["sftp", "-D", "rm", "x"],
        &["sftp", "-b", "commands", "host"],
        &["scp", "-D", "rm", "a", "b"],
        &["diff3", "--diff-program=rm", "a", "b", "c"],
        &["diff3", "--diff=rm", "a", "b", "c"],
        &["sdiff", "--diff-program=rm", "a", "b"],
        &["sqlite3", "-cmd", ".shell rm victim", "db", "select 1"],
        &["sqlite3", "db", ".import '|rm victim' t"],
        &["sqlite3", "db", ".system rm victim"],
        &["sqlite3", "-separator", ",", "db"],
        &["install", "-s", "--strip-program=rm", "a", "b"],
        &["dpkg", "--pre-invoke=rm victim", "-i", "x.deb"],
        &["apt-get", "-o", "DPkg::Pre-Invoke::=rm victim", "install", "x"],
        &["gcc", "-wrapper", "rm,victim", "x.c"],
        &["cmake", "-E", "time", "ls"],
        &["setarch", "-R", "rm", "victim"],
        &["x86_64", "rm", "victim"],
        &["debconf", "rm", "victim"],
        &["dc", "-e", "!rm victim"],
    ] {
        wrong.extend((world.decide(&no_rm, argv, ".") == ALLOW).then(|| argv.join(" ")));
    }
    for argv in [
        &["bash", "-eo", "pipefail", "-c", "ls"][..],
        &["bash", "+e", "-O", "globstar", "-c", "ls"],
        &["sed", "-l", "5", "-n", "1p", "f"],
        &["sed", "--quiet", "--expr=1p", "f"],
        &["sed", "1i foo\\\nbar", "f"],
        &["git", "clone", "-c", "core.autocrlf=false", "-b", "main", "x", "z"],
        &["git", "format-patch", "--to=a@b", "-1"],
        &["git", "log", "--oneline", "--topo-order"],
        &["sqlite3", "-header", "db.sqlite", "select a.s from t a"],
        &["choom", "-p", "1"],
        &["diff3", "a", "b", "c"],
        &["install", "-m", "755", "a", "b"],
        &["gcc", "-O2", "-Wall", "-o", "a", "a.c"],
        &["apt-get", "install", "-y", "x"],
    ] {
        wrong.extend((world.decide(&no_rm, argv, ".") != ALLOW).then(|| argv.join(" ")));
    }
    assert_eq!(wrong, Vec::<String>::new());
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
    assert!(touches.iter().any(|touch| matches!(touch, Touch::Untold { .. })));
    let unknown: Vec<String> =
        ["sudo", "--x"].iter().map(|&word| word.to_owned()).chain(vec!["nice".to_owned(); 200]).collect();
    assert!(world.touches("exec", &json!({ "argv": unknown })).unwrap().len() < 4096);
}
