//! `shell_start`, `shell_poll`, `shell_kill`: lines for bash that go on while other things are done.

use std::time::Duration;

use provost_core::act::{Recovery, Touch};
use provost_core::id::ActId;
use provost_core::process;
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use super::tool::{made_ready, request, touches};
use crate::args::{object, optional_number, text};
use crate::failure::{BadCall, Failure};
use crate::order;
use crate::tool::{CommandRequest, Context, Effect, Tool};

/// The argument that holds the line.
const COMMAND: &str = "command";

/// `shell_start`.
pub struct ShellStart(ToolSpec);

impl Default for ShellStart {
    fn default() -> Self {
        let command = json!({"type": "string", "description": "The line, for example \"python3 -m http.server 8000\"."});
        let limit = json!({
            "type": "integer", "minimum": 1,
            "description": "End it after this time; when the run ends if not given."
        });
        let publish = json!({
            "type": "integer", "minimum": 1,
            "description": "A port of it for this host's 127.0.0.1 and that of later commands, where the policy lets it."
        });
        Self(ToolSpec {
            name: "shell_start".to_owned(),
            description: "Start a line of bash that goes on while you do other things: a dev server, a watcher. It is \
                          decided on like a line of `shell`. You get its id and its first output; see `shell_poll` and \
                          `shell_kill`. At most 8 run at once. All are ended, with all their processes, before the work \
                          is verified and when the run ends or pauses; none is started again. Each has a loopback of its \
                          own: test a server from within its line, or publish its port."
                .to_owned(),
            schema: object(
                &[(COMMAND, command), order::cwd(), ("timeout_seconds", limit), ("publish", publish)],
                &[COMMAND],
            ),
        })
    }
}

impl Tool for ShellStart {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Supervised
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        port(args)?;
        touches(&start(args, ctx)?, COMMAND, ctx)
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        Ok(Effect::Start { request: made_ready(start(args, ctx)?, ctx)?, publish: port(args)? })
    }
}

/// The port to be published.
fn port(args: &Value) -> Result<Option<u16>, BadCall> {
    let number = optional_number(args, "publish", 1)?;
    number
        .map(u16::try_from)
        .transpose()
        .map_err(|_| BadCall::value("publish", "is no port: those go up to 65535"))
}

fn start(args: &Value, ctx: &Context<'_>) -> Result<CommandRequest, BadCall> {
    let limit = optional_number(args, "timeout_seconds", 1)?.map_or(Duration::MAX, Duration::from_secs);
    request(args, COMMAND, (order::folder(args, ctx)?, limit), ctx)
}

/// Longest that one poll waits.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// `shell_poll`.
pub struct ShellPoll(ToolSpec);

impl Default for ShellPoll {
    fn default() -> Self {
        let wait = json!({
            "type": "integer", "minimum": 0,
            "description": "How long to wait at most for it to write something or to end; not at all if not given."
        });
        Self(ToolSpec {
            name: "shell_poll".to_owned(),
            description: "Tell what a command of `shell_start` wrote since you last saw its output, and whether it runs or \
                          how it ended."
                .to_owned(),
            schema: object(&[id(), ("wait_seconds", wait)], &["id"]),
        })
    }
}

impl Tool for ShellPoll {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, _: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        // What it tells of was decided on when it was started.
        named(args).map(|_| Vec::new())
    }

    fn prepare(&self, args: &Value, _: &Context<'_>) -> Result<Effect, Failure> {
        let wait = optional_number(args, "wait_seconds", 0)?.map_or(Duration::ZERO, Duration::from_secs);
        Ok(Effect::Poll { process: named(args)?, wait: wait.min(LONGEST_WAIT) })
    }
}

/// `shell_kill`.
pub struct ShellKill(ToolSpec);

impl Default for ShellKill {
    fn default() -> Self {
        Self(ToolSpec {
            name: "shell_kill".to_owned(),
            description:
                "End a command of `shell_start` with all its processes, and tell what it wrote last."
                    .to_owned(),
            schema: object(&[id()], &["id"]),
        })
    }
}

impl Tool for ShellKill {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    /// Cut short with its driver it has nothing left to do: the command is gone as well.
    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, _: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        named(args).map(|_| Vec::new())
    }

    fn prepare(&self, args: &Value, _: &Context<'_>) -> Result<Effect, Failure> {
        Ok(Effect::Kill { process: named(args)? })
    }
}

fn id() -> (&'static str, Value) {
    ("id", json!({"type": "string", "description": "What `shell_start` answered, for example \"bg-7\"."}))
}

fn named(args: &Value) -> Result<ActId, BadCall> {
    let id = text(args, "id")?;
    process::named(id).ok_or_else(|| {
        BadCall::value(
            "id",
            "is none that `shell_start` answers: those are `bg-` and a number, for example `bg-7`",
        )
    })
}
