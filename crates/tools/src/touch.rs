//! Touches of files: the name, and where it really leads.

use provost_core::act::Touch;
use provost_core::path::RelPath;
use serde_json::Value;

use crate::args::text;
use crate::failure::{BadCall, Failure};
use crate::tool::Context;
use crate::workspace::{FileError, Kind, Located, refuse_git_names};

/// Where the path argument `name` leads.
pub(crate) fn locate(args: &Value, name: &str, ctx: &Context<'_>) -> Result<Located, FileError> {
    let path = text(args, name).unwrap_or(".");
    let located = ctx.workspace.locate(&ctx.workspace.name(path)?)?;
    if located.kind.is_none()
        && path.contains('\\')
        && let Ok(escaped) = RelPath::try_from(path.to_owned())
    {
        // Nothing has that name as it stands: it may be one that is shown escaped because it is not UTF-8.
        let escaped = ctx.workspace.locate(&escaped)?;
        if escaped.kind.is_some() {
            return Ok(escaped);
        }
    }
    Ok(located)
}

/// Reading what was located.
pub(crate) fn reads(located: &Located) -> Vec<Touch> {
    located.paths().map(|path| Touch::Read { path: path.clone() }).collect()
}

/// Writing what was located.
pub(crate) fn writes(located: &Located) -> Vec<Touch> {
    located.paths().map(|path| Touch::Write { path: path.clone() }).collect()
}

/// A path argument that can be changed: a file, or nothing yet, under a name that is safe to git.
pub(crate) fn writable(args: &Value, ctx: &Context<'_>) -> Result<Located, BadCall> {
    let located = locate(args, "path", ctx)?;
    refuse_git_names(&located)?;
    match located.kind {
        None | Some(Kind::File) => Ok(located),
        Some(kind) => Err(BadCall::File(FileError::Kind { path: located.named, kind, wanted: "a file" })),
    }
}

/// Adds to "there is no such file" the names that resemble it.
pub(crate) fn with_near(error: FileError, ctx: &Context<'_>) -> Failure {
    match error {
        FileError::Missing { path, .. } => {
            let near = crate::search::near::names(ctx, &path);
            Failure::File(FileError::Missing { path, near })
        }
        other => Failure::File(other),
    }
}
