//! `exec`: a command, made ready for the sandbox.

use provost_core::act::{Recovery, Touch};
use provost_core::exec::Word;
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::object;
use crate::failure::{BadCall, Failure};
use crate::started::{Folders, Touches};
use crate::tool::{CommandRequest, Context, Effect, Tool};
use crate::{order, program};

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
            schema: object(&order::arguments(("argv", argv)), &["argv"]),
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
    let (cwd, limit) = order::place(args, ctx)?;
    Ok(CommandRequest {
        program: program::find(name, &cwd, ctx).map(|found| found.path),
        argv,
        cwd,
        limit,
        env: ctx.environment.clone(),
    })
}
