//! `provost policy`.

use std::path::Path;

use provost::agent::command_environment;
use provost::core;
use provost::core::act::Touch;
use provost::core::containment::{Guarantee, Rung};
use provost::core::contract::Limits;
use provost::core::path::RelPath;
use provost::core::policy::{Containment, Decision, Effect};
use provost::sandbox::Probe;
use provost::tools::{Context, Registry, SeenState, Workspace};
use serde_json::{Value, json};

use super::setup::{host, policy as read_policy, policy_of_workspace, probe};
use crate::args::{Policy, PolicyCommand};
use crate::failure::Failure;
use crate::render::say;
use crate::world::World;

pub(crate) fn policy(world: &World, args: Policy) -> Result<u8, Failure> {
    let PolicyCommand::Explain { policy, access, target } = args.command;
    if let Some(option) = target.iter().find(|word| is_option(word)) {
        return Err(Failure::usage(format!("`{option}` stands among the words of what is accessed"))
            .hint("put --policy, --allow and --deny before them: `provost policy explain --policy strict exec cargo test`"));
    }
    // As a run in this folder would read it.
    let policy = policy_of_workspace(read_policy(&policy)?, &policy, Path::new("."))?;
    if access == "publish" {
        return publish(&policy, &one(&access, &target)?);
    }
    let touches = match access.as_str() {
        "exec" => call(world, "exec", &json!({ "argv": target }))?,
        "shell" => call(world, "shell", &json!({ "line": one(&access, &target)? }))?,
        _ => vec![touch(&access, &target)?],
    };
    let runs = matches!(access.as_str(), "exec" | "shell");
    let rung = if runs { probe(world).strongest } else { Rung::R3 };
    let decision = policy.decide(&touches, rung);
    // Each with its own word, one line for all names of a program; then what is decided on all of them.
    let mut shown: Vec<(String, Decision)> = Vec::new();
    for touch in &touches {
        let (text, own) = (touch.to_string(), policy.decide(std::slice::from_ref(touch), rung));
        match shown.iter_mut().find(|(known, _)| *known == text) {
            Some((_, held)) if held.effect < own.effect => *held = own,
            Some(_) => {}
            None => shown.push((text, own)),
        }
    }
    let several = shown.len() > 1;
    for (text, own) in &shown {
        say!("{text}");
        if several {
            say!("  {own}");
        }
    }
    say!("{decision}");
    for line in beside_the_rules(&policy, &touches, &decision, runs.then(|| probe(world))) {
        say!("  {line}");
    }
    Ok(0)
}

/// Ports are granted by a list and not by rules.
fn publish(policy: &core::policy::Policy, port: &str) -> Result<u8, Failure> {
    let number: u16 = port.parse().map_err(|_| Failure::usage(format!("`{port}` is no port")))?;
    say!("publish 127.0.0.1:{number}");
    if policy.publish.contains(&number) {
        say!("allow: the policy's list `publish` has it: it may lead to a background command");
    } else {
        say!("deny: the policy's list `publish` does not have it; in a policy file, `publish = [{number}]`");
    }
    Ok(0)
}

/// What holds beside the decision, whatever the rules say: what commands see, and what contains them.
fn beside_the_rules(
    policy: &core::policy::Policy,
    touches: &[Touch],
    decision: &Decision,
    probe: Option<Probe>,
) -> Vec<String> {
    let mut lines = Vec::new();
    match touches {
        [Touch::Read { .. }] if decision.effect == Effect::Deny => lines.push(
            "commands do not see what is in it either: containment hides it from them (from R2 on)".to_owned(),
        ),
        [Touch::Write { path }] if policy.guards_writing(path) => lines.push(
            "no command can write it, whatever `exec` rules allow: containment protects it (from R2 on), and what is \
             changed there all the same is put back"
                .to_owned(),
        ),
        [Touch::Write { .. }] if policy.forbids_all_writes() => {
            lines.push("commands see the whole workspace read-only".to_owned());
        }
        [Touch::Net { .. }] if decision.effect == Effect::Ask => {
            lines.push("nobody can be asked while a command dials: a run takes it for a refusal".to_owned());
        }
        [Touch::Net { .. }] => lines.push(
            "this is for commands, while they run; addresses that are not public are refused all the same, unless a rule \
             names the address itself"
                .to_owned(),
        ),
        [Touch::Call { tool }] => lines.push(if tool.contains('.') {
            "this is a tool of a server that you declare (`mcp.toml`, `--mcp`); what its server says of it decides nothing"
                .to_owned()
        } else {
            "no tool is called so: rules name them `server.tool`".to_owned()
        }),
        _ => {}
    }
    if matches!(touches, [Touch::Call { .. }]) {
        return lines;
    }
    if let Some(probe) = probe.filter(|_| decision.effect != Effect::Deny) {
        if policy.containment == Containment::LimitsOnly {
            lines.push(
                "it is contained by limits only: it has your rights over files and the network".to_owned(),
            );
            return lines;
        }
        let receipt = probe.receipt(probe.strongest);
        lines.push(format!("whatever the rules allow, {} on this host keeps it from:", receipt.rung));
        let kept = KEPT_FROM.iter().filter(|(guarantee, _)| receipt.enforces(*guarantee));
        lines.extend(kept.map(|(_, what)| format!("- {what}")));
    }
    lines
}

/// What a command cannot do where a guarantee is enforced, in words.
const KEPT_FROM: [(Guarantee, &str); 7] = [
    (Guarantee::FsWrite, "writing outside of the workspace and its own /tmp"),
    (
        Guarantee::FsRead,
        "reading outside of the workspace, the system's programs and the toolchains: no home folder",
    ),
    (
        Guarantee::Protected,
        "changing what the policy denies writing, such as `.git` (`git = \"commit\"` opens commits)",
    ),
    (Guarantee::Net, "any network but the hosts that a `net` rule allows"),
    (Guarantee::UnixSockets, "unix sockets of the host, such as a container engine's"),
    (Guarantee::Processes, "seeing or signalling other processes"),
    (Guarantee::Privileges, "more rights: no sudo, no setuid programs, no namespaces of its own"),
];

/// What a call would touch here, as the tool says.
fn call(world: &World, tool: &str, args: &Value) -> Result<Vec<Touch>, Failure> {
    let workspace = Workspace::open(Path::new(".")).map_err(Failure::usage)?;
    let environment = command_environment(&host(world));
    let limits = Limits::default();
    let context = Context {
        workspace: &workspace,
        limits: &limits,
        seen: &|_, _| SeenState::Unseen,
        readable: &|_| true,
        environment: &environment,
        image: None,
    };
    let (tool, args) = Registry::standard().decode(tool, &args.to_string()).map_err(Failure::usage)?;
    tool.touches(&args, &context).map_err(Failure::usage)
}

fn one(access: &str, target: &[String]) -> Result<String, Failure> {
    match target {
        [one] => Ok(one.clone()),
        _ => Err(Failure::usage(format!("`{access}` takes one target"))),
    }
}

/// Whether a word is an option of this command. Taken as a word of the access it would not be in force, silently.
fn is_option(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    ["--policy", "--allow", "--deny"].contains(&name)
}

fn touch(access: &str, target: &[String]) -> Result<Touch, Failure> {
    let one = || one(access, target);
    let path = || one().and_then(|text| RelPath::parse(&text).map_err(Failure::usage));
    Ok(match access {
        "read" => Touch::Read { path: path()? },
        "write" => Touch::Write { path: path()? },
        "net" => {
            let text = one()?;
            let (host, port) = text
                .rsplit_once(':')
                .and_then(|(host, port)| Some((host.to_lowercase(), port.parse().ok()?)))
                .ok_or_else(|| Failure::usage(format!("`{text}` is not HOST:PORT")))?;
            Touch::Net { host, port }
        }
        "call" => Touch::Call { tool: one()? },
        "spawn" => Touch::Spawn { agent: one()? },
        other => {
            return Err(Failure::usage(format!(
                "`{other}` is none of read, write, exec, shell, net, call, spawn, publish"
            )));
        }
    })
}
