//! `shell`: a line for bash, made ready for the sandbox.

use std::time::Duration;

use provost_core::act::{Access, Recovery, Touch};
use provost_core::exec::{Grammar, steers};
use provost_core::path::RelPath;
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use super::parse::Unread;
use super::walk::{Opens, line};
use crate::args::{object, text};
use crate::failure::{BadCall, Failure};
use crate::started::{Folders, Touches};
use crate::tool::{CommandRequest, Context, Effect, Tool};
use crate::{order, program};

/// `shell`.
pub struct Shell(ToolSpec);

impl Default for Shell {
    fn default() -> Self {
        Self(ToolSpec {
            name: "shell".to_owned(),
            description: "Run a line of bash and wait for it: pipelines, lists, redirects, loops. Every command in it is \
                          decided on by the policy before anything starts, and so are the files of redirects. What cannot \
                          be told beforehand (a command's name from a variable, `eval`, `source`) may have to wait for a \
                          person: write commands and file names out. No start files are read, standard input is empty and \
                          there is no terminal. Of long output the start and the end are shown. Each line starts in the \
                          folder that you name, whatever an earlier one did."
                .to_owned(),
            schema: object(&order::arguments((
                        "line",
                        json!({"type": "string", "description": "The line, for example \"cargo test 2>&1 | tail -n 20\"."}),
                    )), &["line"]),
        })
    }
}

impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Supervised
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        touches(&request(args, LINE, order::place(args, ctx)?, ctx)?, LINE, ctx)
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        Ok(Effect::Command(made_ready(request(args, LINE, order::place(args, ctx)?, ctx)?, ctx)?))
    }
}

/// The argument that holds the line.
const LINE: &str = "line";

/// What a line would touch, which is the value of `argument`.
pub(super) fn touches(
    request: &CommandRequest,
    argument: &str,
    ctx: &Context<'_>,
) -> Result<Vec<Touch>, BadCall> {
    let mut touches = Touches::new(ctx);
    match line(&request.argv[4], Grammar::Bash, &Folders::at(&request.cwd), 0, Opens::Noted, &mut touches) {
        Ok(()) => {}
        // A person may still read it.
        Err(Unread::TooMuch(why)) => touches.untold(Access::Exec, &format!("what the line runs: {why}")),
        Err(Unread::Bad(why)) => {
            return Err(BadCall::value(
                argument,
                format!("is not read as bash ({why}); nothing of it was run"),
            ));
        }
    }
    let commands = touches.finish();
    let runs = |touch: &Touch| matches!(touch, Touch::Exec { .. } | Touch::Expanded { .. });
    let path = request.program.as_ref().map(|path| path.to_string_lossy().into_owned());
    // The shell itself needs no word of its own where each of its commands has one.
    let shell = if commands.iter().any(runs) {
        Touch::Shell { argv: request.argv.clone(), known: None, program: path }
    } else {
        Touch::Exec { argv: request.argv.clone(), program: path }
    };
    let mut all = vec![shell];
    if let Some(found) = program::find(BASH, &request.cwd, ctx)
        && found.is_changeable(ctx)
    {
        let by_path = std::iter::once(found.path.to_string_lossy().into_owned());
        let argv = by_path.chain(request.argv[1..].iter().cloned()).collect();
        all.push(Touch::Exec { argv, program: None });
    }
    all.extend(commands);
    Ok(all)
}

/// A line that policy allows, where there is a bash to run it.
pub(super) fn made_ready(request: CommandRequest, ctx: &Context<'_>) -> Result<CommandRequest, Failure> {
    if request.program.is_none() {
        let path = ctx.environment.get("PATH").map_or("", String::as_str);
        return Err(Failure::Other(format!("there is no `{BASH}` in PATH ({path}); use `exec`")));
    }
    Ok(request)
}

const BASH: &str = "bash";

/// Variables that bash acts on by itself.
const OWN: &[&str] =
    &["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE"];

/// The line that is the value of `argument`, as a command for bash.
pub(super) fn request(
    args: &Value,
    argument: &str,
    (cwd, limit): (RelPath, Duration),
    ctx: &Context<'_>,
) -> Result<CommandRequest, BadCall> {
    let line = text(args, argument).unwrap_or_default();
    if line.trim().is_empty() {
        return Err(BadCall::value(argument, "is empty"));
    }
    if line.contains('\0') {
        return Err(BadCall::value(argument, "holds a NUL character, which no argument can"));
    }
    let own = |name: &str| OWN.contains(&name) || (name.starts_with("BASH_FUNC_") && steers(name));
    Ok(CommandRequest {
        argv: [BASH, "--noprofile", "--norc", "-c", line].map(str::to_owned).to_vec(),
        program: program::find(BASH, &cwd, ctx).map(|found| found.path),
        cwd,
        limit,
        env: ctx
            .environment
            .iter()
            .filter(|(name, _)| !own(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    })
}
