//! `list_dir`: what is in a folder.

use provost_core::act::{Recovery, Touch};
use provost_core::path::RelPath;
use provost_core::text::{Lines, visible};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::object;
use crate::failure::{BadCall, Failure};
use crate::text::put;
use crate::text::show;
use crate::tool::{Context, Effect, Observation, Tool};
use crate::touch;
use crate::workspace::{Item, Kind, Located};

/// Names that are shown.
const MOST: usize = 500;

/// `list_dir`.
pub struct ListDir(ToolSpec);

impl Default for ListDir {
    fn default() -> Self {
        let path = json!({"type": "string", "description": "Path of the folder from the workspace root; `.` is the root."});
        Self(ToolSpec {
            name: "list_dir".to_owned(),
            description: "List what is in one folder, hidden and ignored files included: folders end in `/`, files have \
                          their size in bytes."
                .to_owned(),
            schema: object(&[("path", path)], &[]),
        })
    }
}

impl Tool for ListDir {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Ok(touch::reads(&touch::locate(args, "path", ctx)?))
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let located = touch::locate(args, "path", ctx)?;
        let mut items = ctx.workspace.list(&located).map_err(|error| touch::with_near(error, ctx))?;
        if items.is_empty() {
            return Ok(observed(format!("`{}` is empty\n", located.named)));
        }
        let all = items.len();
        items.retain(|item| may_be_shown(item, &located, ctx));
        let hidden = (all - items.len()) as u64;
        let mut text = String::new();
        for item in items.iter().take(MOST) {
            let name = visible(&show::lossless(&item.name), Lines::Escape);
            match (item.kind, &item.target) {
                (Kind::Folder, _) => put!(text, "{name}/"),
                (Kind::File, _) => put!(text, "{name}  {} bytes", item.size),
                (_, Some(target)) => {
                    put!(text, "{name} -> {}", visible(&show::lossless(target), Lines::Escape));
                }
                (kind, None) => put!(text, "{name}  ({kind})"),
            }
            text.push('\n');
        }
        if items.len() > MOST {
            put!(text, "[… {} more of {} names are not shown]\n", items.len() - MOST, items.len());
        }
        text.push_str(&show::hidden_names(hidden));
        Ok(observed(text))
    }
}

/// Whether policy lets this name be read, and for a link what it leads to: its line names both.
fn may_be_shown(item: &Item, folder: &Located, ctx: &Context<'_>) -> bool {
    let readable = |folder: &RelPath| folder.join(&item.name).is_ok_and(|path| (ctx.readable)(&path));
    if !folder.paths().all(readable) {
        return false;
    }
    let Some(target) = &item.target else { return true };
    // The name that is shown (it may be a further link), and the file in the end. What lies outside of the workspace, or
    // nowhere, has no name in a policy.
    let next = folder.real.join(target).ok();
    let link = folder.real.join(&item.name).ok();
    let end = link.and_then(|link| ctx.workspace.locate(&link).ok()).map(|located| located.real);
    next.iter().chain(&end).all(|path| (ctx.readable)(path))
}

fn observed(text: String) -> Effect {
    Effect::Observe(Observation { text, seen: Vec::new() })
}
