//! `list_dir`: what is in a folder.

use provost_core::act::{Recovery, Touch};
use provost_core::text::{Lines, visible};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::object;
use crate::failure::{BadCall, Failure};
use crate::text::put;
use crate::text::show;
use crate::tool::{Context, Effect, Observation, Tool};
use crate::touch;
use crate::workspace::Kind;

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
        let items = ctx.workspace.list(&located).map_err(|error| touch::with_near(error, ctx))?;
        if items.is_empty() {
            return Ok(observed(format!("`{}` is empty\n", located.named)));
        }
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
        Ok(observed(text))
    }
}

fn observed(text: String) -> Effect {
    Effect::Observe(Observation { text, seen: Vec::new() })
}
