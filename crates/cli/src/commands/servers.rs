//! Servers of tools, as the user's own file declares them. Nothing in a workspace ever does.

use std::collections::BTreeMap;
use std::path::Path;

use provost::core::server::{Server, USUAL_TIMEOUT_MS, check};
use provost::core::text::{Lines, visible};
use serde::Deserialize;

use super::files::read_bounded;
use super::setup::keep_outside;
use crate::args::ServerArgs;
use crate::failure::Failure;
use crate::world::World;

/// Bytes of the largest file of servers that is read.
const MOST_BYTES: u64 = 1024 * 1024;

/// Longest that a server may be given for a call, in seconds.
const MOST_SECONDS: u64 = 3600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    #[serde(default)]
    servers: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    reads: Vec<String>,
    tools: Option<Vec<String>>,
    timeout_s: Option<u64>,
}

/// The servers of a run: those of the file that is named, or of the user's own where there is one.
pub(super) fn servers(world: &World, args: &ServerArgs, workspace: &Path) -> Result<Vec<Server>, Failure> {
    if args.no_mcp {
        return Ok(Vec::new());
    }
    let path = match (&args.mcp, world.usual_servers()) {
        (Some(named), _) => named.clone(),
        (None, Some(usual)) if usual.exists() => usual,
        (None, _) => return Ok(Vec::new()),
    };
    keep_outside("the file of servers", &path, workspace)?;
    let shown = visible(&path.display().to_string(), Lines::Escape);
    let refuse = |why: &dyn std::fmt::Display| Failure::usage(format!("servers of tools, `{shown}`: {why}"));
    let bytes = read_bounded(&path, MOST_BYTES).map_err(|error| refuse(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| refuse(&error))?;
    let declared: Declared = toml::from_str(&text).map_err(|error| refuse(&error))?;
    let mut servers = Vec::new();
    for (name, entry) in declared.servers {
        let seconds = entry.timeout_s.unwrap_or(USUAL_TIMEOUT_MS / 1000);
        if !(1..=MOST_SECONDS).contains(&seconds) {
            return Err(refuse(&format!("`{name}`: timeout_s is {seconds}; it is 1 to {MOST_SECONDS}")));
        }
        for variable in &entry.env {
            if variable.is_empty() || variable.contains(['=', '\0']) {
                return Err(refuse(&format!(
                    "`{name}`: env holds `{}`; it takes names of variables, whose values come from your environment",
                    visible(variable, Lines::Escape)
                )));
            }
        }
        servers.push(Server {
            name,
            argv: entry.command,
            env: entry.env.into_iter().collect(),
            reads: entry.reads.into_iter().collect(),
            tools: entry.tools.map(|tools| tools.into_iter().collect()),
            timeout_ms: seconds * 1000,
        });
    }
    check(&servers).map_err(|why| refuse(&why))?;
    Ok(servers)
}
