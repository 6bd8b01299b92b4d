//! `exec`: a command, made ready for the sandbox.

use std::time::Duration;

use provost_core::act::{Recovery, Touch};
use provost_core::exec::Word;
use provost_core::path::RelPath;
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, optional_number, optional_text};
use crate::failure::{BadCall, Failure};
use crate::program;
use crate::started::{Folders, Touches};
use crate::tool::{CommandRequest, Context, Effect, Tool};
use crate::workspace::{FileError, Kind};

/// `exec`.
pub struct Exec(ToolSpec);

impl Default for Exec {
    fn default() -> Self {
        let argv = json!({
            "type": "array", "items": {"type": "string"}, "minItems": 1,
            "description": "Program and arguments, each its own string, for example [\"cargo\", \"test\", \"--lib\"]."
        });
        Self(ToolSpec {
            name: "exec".to_owned(),
            description: "Run a program and wait for it. No shell reads the arguments: they arrive as given. Standard \
                          input is empty and there is no terminal. Of long output the start and the end are shown."
                .to_owned(),
            schema: object(
                &[
                    ("argv", argv),
                    ("cwd", json!({"type": "string", "description": "Folder to run in; the workspace root if not given."})),
                    (
                        "timeout_seconds",
                        json!({"type": "integer", "minimum": 1, "description": "A time limit shorter than the usual one."}),
                    ),
                ],
                &["argv"],
            ),
        })
    }
}

impl Tool for Exec {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Supervised
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        let request = request(args, ctx)?;
        let words: Vec<Word> = request.argv.into_iter().map(Word::Fixed).collect();
        let mut touches = Touches::new(ctx);
        touches.command(&words, &Folders::at(&request.cwd), 0);
        Ok(touches.finish())
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let request = request(args, ctx)?;
        if request.program.is_none() {
            return Err(Failure::Other(format!(
                "there is no program `{}`: it is not in {}",
                request.argv[0],
                if request.argv[0].contains('/') {
                    "the workspace or not executable".to_owned()
                } else {
                    format!("PATH ({})", ctx.environment.get("PATH").map_or("", String::as_str))
                }
            )));
        }
        Ok(Effect::Command(request))
    }
}

fn request(args: &Value, ctx: &Context<'_>) -> Result<CommandRequest, BadCall> {
    let argv: Vec<String> = args
        .get("argv")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect();
    let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
        return Err(BadCall::value("argv", "needs a program as its first string"));
    };
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(BadCall::value("argv", "holds a NUL character, which no argument can"));
    }
    let cwd = folder(optional_text(args, "cwd").unwrap_or("."), ctx)?;
    let most = Duration::from_millis(ctx.limits.command_ms);
    let limit = optional_number(args, "timeout_seconds", 1)?.map_or(most, Duration::from_secs);
    Ok(CommandRequest {
        program: program::find(name, &cwd, ctx).map(|found| found.path),
        argv,
        cwd,
        limit: limit.min(most),
        env: ctx.environment.clone(),
    })
}

pub(crate) fn folder(text: &str, ctx: &Context<'_>) -> Result<RelPath, BadCall> {
    let located = ctx.workspace.locate(&ctx.workspace.name(text)?)?;
    match located.kind {
        Some(Kind::Folder) => Ok(located.real),
        None => Err(FileError::missing(&located.named).into()),
        Some(kind) => Err(BadCall::File(FileError::Kind { path: located.named, kind, wanted: "a folder" })),
    }
}
