//! Keys of providers that are in no variable: the user's own `keys.toml` says where each is. Nothing in a workspace ever
//! does, and neither file nor program may lie there: what an agent can write would run with its user's rights.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost::core::text::{Lines, visible};
use provost::model::Secret;
use provost::model::planner::resolve;
use provost::sandbox::{Ended, Ends, Gone, Program, Tended};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;

use super::files::read_bounded;
use super::setup::keep_outside;
use crate::world::World;

/// Bytes of the largest such file that is read, and of the longest key.
const MOST_BYTES: u64 = 64 * 1024;
/// How long a program may take to give a key: somebody may have to unlock it.
const ANSWERS: Duration = Duration::from_mins(1);

/// Where one key is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Source {
    /// A program that prints it, with its arguments. No shell reads them.
    Command(Vec<String>),
    /// A file that holds it.
    File(PathBuf),
}

/// The key that would be in `variable`; `None` where nothing says where it is.
///
/// # Errors
///
/// Why it cannot be had. Nothing of a key is in that.
pub(super) fn stored(world: &World, variable: &str, workspace: &Path) -> Result<Option<Secret>, String> {
    let Some(path) = world.usual_keys().filter(|path| path.exists()) else { return Ok(None) };
    let shown = visible(&path.display().to_string(), Lines::Escape);
    let refuse = |why: &dyn std::fmt::Display| format!("the key `{variable}` of `{shown}`: {why}");
    let outside = |what: &str, path: &Path| {
        keep_outside(what, path, workspace).map_err(|failure| refuse(&failure.message()))
    };
    outside("the file of keys", &path)?;
    let text = read_bounded(&path, MOST_BYTES).map_err(|error| refuse(&error))?;
    let text = String::from_utf8(text).map_err(|error| refuse(&error))?;
    let sources: BTreeMap<String, Source> = toml::from_str(&text).map_err(|error| {
        // Its own words repeat what is there, and somebody may have put the key itself there.
        let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        refuse(&format!(
            "line {line} does not say where a key is, as `[{variable}]` and `command = [\"PROGRAM\"]` or `file = \"PATH\"` do"
        ))
    })?;
    let said = match sources.get(variable) {
        None => return Ok(None),
        Some(Source::File(file)) if !file.is_absolute() => {
            return Err(refuse(&format!("`{}` is no absolute path", file.display())));
        }
        Some(Source::File(file)) => {
            outside("the key's file", file)?;
            read_bounded(file, MOST_BYTES)
                .map_err(|error| refuse(&format!("`{}`: {error}", file.display())))?
        }
        Some(Source::Command(argv)) => {
            let [program, args @ ..] = argv.as_slice() else {
                return Err(refuse(&"`command` names no program"));
            };
            let path = world.variables().get(OsStr::new("PATH")).map(OsString::as_os_str);
            let program =
                resolve(OsStr::new(program), Path::new("/"), path).map_err(|error| refuse(&error))?;
            outside("the key's program", &program)?;
            let program = Program {
                path: program,
                args: args.iter().map(OsString::from).collect(),
                cwd: "/".into(),
                env: world.variables().clone(),
            };
            printed(&program, ANSWERS).map_err(|why| refuse(&why))?
        }
    };
    let said = String::from_utf8(said).map_err(|_| refuse(&"it is no text"))?;
    let key = said.trim();
    if key.is_empty() {
        return Err(refuse(&"there is none"));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse(&"what is there is no key: it is more than one word"));
    }
    Ok(Some(Secret::new(key)))
}

/// What a program prints. What it says on its standard error is the user's to read.
fn printed(program: &Program, limit: Duration) -> Result<Vec<u8>, String> {
    let shown = visible(&program.path.display().to_string(), Lines::Escape);
    let failed = |error: &dyn std::fmt::Display| format!("`{shown}`: {error}");
    let io = |error: io::Error| failed(&error);
    let (from, to) = io::pipe().map_err(io)?;
    let ends = Ends {
        stdin: File::open("/dev/null").map_err(io)?.into(),
        stdout: to.into(),
        stderr: io::stderr().as_fd().try_clone_to_owned().map_err(io)?,
    };
    let tended = Tended::start(program, ends).map_err(|failure| failed(&failure))?;
    let until = Instant::now() + limit;
    let gone = loop {
        if let Some(ended) = tended.ended() {
            break ended.map_err(|failure| failed(&failure))?;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("`{shown}` did not give it within {} s", limit.as_secs()));
        }
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&tended, PollFlags::IN)], Some(&left));
    };
    match gone {
        // Its tree is gone, so that the pipe holds all there is.
        Gone { ended: Ended::Exited(0), survivors: 0 } => {}
        Gone { ended: Ended::Exited(status), .. } => return Err(format!("`{shown}` ended with {status}")),
        Gone { ended, .. } => return Err(format!("`{shown}` did not end by itself ({ended:?})")),
    }
    let mut said = Vec::new();
    from.take(MOST_BYTES).read_to_end(&mut said).map_err(io)?;
    Ok(said)
}
