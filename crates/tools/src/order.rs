//! What `exec`, `shell` and `shell_start` are told alike: where a command runs, and for how long.

use std::time::Duration;

use provost_core::path::RelPath;
use serde_json::{Value, json};

use crate::args::{optional_number, optional_text};
use crate::failure::BadCall;
use crate::tool::Context;
use crate::workspace::{FileError, Kind};

/// A tool's arguments of that kind, behind those of its own.
pub(crate) fn arguments(own: (&'static str, Value)) -> [(&'static str, Value); 3] {
    [
        own,
        cwd(),
        (
            "timeout_seconds",
            json!({"type": "integer", "minimum": 1, "description": "A time limit shorter than the usual one."}),
        ),
    ]
}

/// The argument that names the folder to run in.
pub(crate) fn cwd() -> (&'static str, Value) {
    ("cwd", json!({"type": "string", "description": "Folder to run in; the workspace root if not given."}))
}

/// The folder to run in, and the limit: never a longer one than the contract's.
pub(crate) fn place(args: &Value, ctx: &Context<'_>) -> Result<(RelPath, Duration), BadCall> {
    let cwd = folder(args, ctx)?;
    let most = Duration::from_millis(ctx.limits.command_ms);
    let limit = optional_number(args, "timeout_seconds", 1)?.map_or(most, Duration::from_secs);
    Ok((cwd, limit.min(most)))
}

/// The folder to run in.
pub(crate) fn folder(args: &Value, ctx: &Context<'_>) -> Result<RelPath, BadCall> {
    let text = optional_text(args, "cwd").unwrap_or(".");
    let located = ctx.workspace.locate(&ctx.workspace.name(text)?)?;
    match located.kind {
        Some(Kind::Folder) => Ok(located.real),
        None => Err(FileError::missing(&located.named).into()),
        Some(kind) => Err(BadCall::File(FileError::Kind { path: located.named, kind, wanted: "a folder" })),
    }
}
