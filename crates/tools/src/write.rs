//! `write_file`: a whole file, new or instead of one that the model has seen.

use provost_core::act::{Recovery, Touch};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, text};
use crate::failure::{BadCall, Failure};
use crate::text::{diff, show};
use crate::tool::{Context, Effect, SeenState, Tool, WriteSet};
use crate::touch;
use crate::workspace::{FileChange, FileMode, FileVersion, Located};

/// `write_file`.
pub struct WriteFile(ToolSpec);

impl Default for WriteFile {
    fn default() -> Self {
        Self(ToolSpec {
            name: "write_file".to_owned(),
            description: "Create a file, or replace the whole content of a file that you have read. Folders are made as \
                          needed. To change part of a file use `edit_file`."
                .to_owned(),
            schema: object(
                &[
                    ("path", json!({"type": "string", "description": "Path from the workspace root."})),
                    ("content", json!({"type": "string", "description": "The whole content, written as it is given."})),
                ],
                &["path", "content"],
            ),
        })
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Ok(touch::writes(&touch::writable(args, ctx)?))
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let located = touch::writable(args, ctx)?;
        let content = text(args, "content")?.as_bytes().to_vec();
        check_size(&located, content.len(), ctx)?;
        if located.kind.is_none() {
            return Ok(created(&located, content));
        }
        let open = ctx.workspace.open_located(&located)?;
        let (mode, names) = (open.mode(), open.names());
        let before = open.read(ctx.limits.file_bytes)?;
        refuse_stale(&located, &before, ctx)?;
        if before == content {
            return Ok(unchanged(&located, content));
        }
        let mut report = format!("wrote `{}`\n{}", located.named, diff::unified(&before, &content));
        report.push_str(&hard_links(names));
        let version = |bytes| Some(FileVersion { mode, bytes });
        Ok(Effect::Write(WriteSet {
            changes: vec![FileChange {
                path: located.real.clone(),
                before: version(before),
                after: version(content.clone()),
            }],
            report,
            seen: vec![(located.real, content)],
        }))
    }
}

fn created(located: &Located, content: Vec<u8>) -> Effect {
    let lines = crate::text::lines::split(&content).len();
    Effect::Write(WriteSet {
        changes: vec![FileChange {
            path: located.real.clone(),
            before: None,
            after: Some(FileVersion { mode: FileMode::Regular, bytes: content.clone() }),
        }],
        report: format!(
            "created `{}`: {}, {}\n",
            located.named,
            show::count(lines, "line"),
            show::count(content.len(), "byte")
        ),
        seen: vec![(located.real.clone(), content)],
    })
}

fn unchanged(located: &Located, content: Vec<u8>) -> Effect {
    Effect::Write(WriteSet {
        changes: Vec::new(),
        report: format!("`{}` already has exactly this content: nothing was written\n", located.named),
        seen: vec![(located.real.clone(), content)],
    })
}

/// Refuses to replace what the model has not seen as it is now.
fn refuse_stale(located: &Located, now: &[u8], ctx: &Context<'_>) -> Result<(), Failure> {
    let why = match (ctx.seen)(&located.real, now) {
        SeenState::Same => return Ok(()),
        SeenState::Unseen => {
            "exists and you have not read it: read it first, or change part of it with `edit_file`".to_owned()
        }
        SeenState::Different { last: None } => "changed since you last saw it: read it again".to_owned(),
        SeenState::Different { last: Some(last) } => format!(
            "changed since you last saw it, by this:\n{}Take that over and write again after reading it",
            diff::unified(&last, now)
        ),
    };
    Err(Failure::Stale { path: located.named.clone(), why })
}

/// Refuses content that could not be read back.
pub(crate) fn check_size(located: &Located, size: usize, ctx: &Context<'_>) -> Result<(), Failure> {
    let limit = ctx.limits.file_bytes;
    if size as u64 > limit {
        return Err(Failure::Other(format!(
            "`{}` would have {size} bytes; at most {limit} are written to one file. Nothing was written.",
            located.named
        )));
    }
    Ok(())
}

/// What has to be said of a file with several names.
pub(crate) fn hard_links(names: u64) -> String {
    match names {
        0 | 1 => String::new(),
        names => format!(
            "[the file has {names} names (hard links): it is written in place, and all of them see it]\n"
        ),
    }
}
