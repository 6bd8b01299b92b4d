//! `provost policy`.

use provost::core::act::Touch;
use provost::core::containment::Rung;
use provost::core::path::RelPath;
use provost::sandbox::Probe;

use super::setup::policy as read_policy;
use crate::args::{Policy, PolicyCommand};
use crate::failure::Failure;
use crate::render::say;

pub(crate) fn policy(args: Policy) -> Result<u8, Failure> {
    let PolicyCommand::Explain { policy, access, target } = args.command;
    let policy = read_policy(&policy)?;
    let touch = touch(&access, &target)?;
    let rung =
        if touch.access() == provost::core::act::Access::Exec { Probe::run().strongest } else { Rung::R3 };
    let decision = policy.decide(std::slice::from_ref(&touch), rung);
    say!("{touch}");
    say!("{decision}");
    Ok(0)
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
