//! `find`: files and folders by name.

use std::time::Duration;

use provost_core::act::{Recovery, Touch};
use provost_core::path::RelPath;
use provost_core::text::{Lines, visible};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use super::deadline::{Deadline, SEARCH_TIME};
use super::globs::{Glob, prefix};
use crate::args::{object, text};
use crate::failure::{BadCall, Failure};
use crate::text::put;
use crate::text::show;
use crate::tool::{Context, Effect, Observation, Tool};
use crate::touch;
use crate::workspace::{FileError, Go, Kind, Walk};

/// Names that are shown.
const MOST: usize = 500;

/// `find`.
pub struct Find {
    spec: ToolSpec,
    limit: Duration,
}

impl Default for Find {
    fn default() -> Self {
        Self::with_limit(SEARCH_TIME)
    }
}

impl Find {
    /// With another time limit for one search than the default, 30 s. What was found by then is shown.
    pub fn with_limit(limit: Duration) -> Self {
        let glob = json!({
            "type": "string",
            "description": "A glob such as `*.rs` (the name, in any folder) or `src/**/*.rs` (the path)."
        });
        let path =
            json!({"type": "string", "description": "Folder to search; the workspace root if not given."});
        let spec = ToolSpec {
            name: "find".to_owned(),
            description: "Find files and folders by name. What .gitignore excludes is left out, unless `path` is itself \
                          excluded."
                .to_owned(),
            schema: object(&[("glob", glob), ("path", path)], &["glob"]),
        };
        Self { spec, limit }
    }
}

impl Tool for Find {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Glob::new(text(args, "glob")?)?;
        Ok(touch::reads(&touch::locate(args, "path", ctx)?))
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let glob = Glob::new(text(args, "glob")?)?;
        let located = touch::locate(args, "path", ctx)?;
        match located.kind {
            Some(Kind::Folder) => {}
            None => return Err(touch::with_near(FileError::missing(&located.named), ctx)),
            Some(kind) => {
                return Err(Failure::File(FileError::Kind { path: located.named, kind, wanted: "a folder" }));
            }
        }
        let skip = prefix(&located.real);
        let walk = Walk { from: located.real.clone(), ignore: true };
        let mut names = Vec::new();
        let mut total = 0;
        let mut hidden = 0;
        let deadline = Deadline::after(self.limit);
        let closed = ctx.workspace.walk(&walk, &mut |found| {
            if deadline.is_up() {
                return Go::Stop;
            }
            let Ok(path) = RelPath::from_bytes(found.path) else {
                return Go::On;
            };
            if !(ctx.readable)(&path) {
                // Counted whether or not the glob matches: else guessing with globs would tell the name.
                hidden += 1;
            } else if glob.matches(found.path, skip) {
                total += 1;
                if names.len() < MOST {
                    let end = if found.kind == Kind::Folder { "/" } else { "" };
                    names.push(format!("{}{end}\n", visible(path.as_str(), Lines::Escape)));
                }
            }
            Go::On
        })?;
        let mut out = names.concat();
        if total == 0 {
            out.push_str(if deadline.stopped() { "nothing found so far\n" } else { "nothing found\n" });
        } else if total > MOST {
            put!(out, "[… {} more of {total} are not shown]\n", total - MOST);
        }
        if !closed.is_empty() {
            put!(out, "[{} could not be opened]\n", show::count(closed.len(), "folder"));
        }
        out.push_str(&show::hidden_names(hidden));
        out.push_str(&deadline.note("name a smaller folder with `path`"));
        Ok(Effect::Observe(Observation { text: out, seen: Vec::new() }))
    }
}
