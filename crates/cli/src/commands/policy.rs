//! `provost policy`.

use provost::core::act::Touch;
use provost::core::containment::Rung;
use provost::core::path::RelPath;

use super::setup::{policy as read_policy, probe};
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
    let policy = read_policy(&policy)?;
    let touch = touch(&access, &target)?;
    let rung =
        if touch.access() == provost::core::act::Access::Exec { probe(world).strongest } else { Rung::R3 };
    let decision = policy.decide(std::slice::from_ref(&touch), rung);
    say!("{touch}");
    say!("{decision}");
    Ok(0)
}

/// Whether a word is an option of this command. Taken as a word of the access it would not be in force, silently.
fn is_option(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    ["--policy", "--allow", "--deny"].contains(&name)
}

fn touch(access: &str, target: &[String]) -> Result<Touch, Failure> {
    let one = || match target {
        [one] => Ok(one.clone()),
        _ => Err(Failure::usage(format!("`{access}` takes one target"))),
    };
    let path = || one().and_then(|text| RelPath::parse(&text).map_err(Failure::usage));
    Ok(match access {
        "read" => Touch::Read { path: path()? },
        "write" => Touch::Write { path: path()? },
        "exec" => Touch::Exec { argv: target.to_vec(), program: None },
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
            return Err(Failure::usage(format!("`{other}` is none of read, write, exec, net, call, spawn")));
        }
    })
}
