//! `apply_patch`: changes of several files in one unified diff, all or none.

mod envelope;
mod hunk;
mod parse;
mod plan;
mod unified;

use provost_core::act::{Recovery, Touch};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, text};
use crate::failure::{BadCall, Failure};
use crate::text::diff;
use crate::tool::{Context, Effect, SeenState, Tool, WriteSet};
use crate::write::hard_links;

use crate::text::put;
use parse::{Action, Section};

/// `apply_patch`.
pub struct ApplyPatch(ToolSpec);

impl Default for ApplyPatch {
    fn default() -> Self {
        let patch = json!({"type": "string", "description": "A unified diff as `git diff` prints it, of one or more files."});
        Self(ToolSpec {
            name: "apply_patch".to_owned(),
            description: "Apply a unified diff: change, create, delete or rename files. Hunks are found by their lines, \
                          not by their numbers: unchanged and removed lines must be as in the file and, where the number \
                          is off, in one place only. All of the patch is applied or nothing."
                .to_owned(),
            schema: object(&[("patch", patch)], &["patch"]),
        })
    }
}

impl Tool for ApplyPatch {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        let mut touches: Vec<Touch> = Vec::new();
        for section in sections(args)? {
            for touch in plan::touches(&section, ctx)? {
                if !touches.contains(&touch) {
                    touches.push(touch);
                }
            }
        }
        Ok(touches)
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let sections = sections(args)?;
        let plan = plan::Plan::of(&sections, ctx)?;
        let mut report = String::new();
        for section in &sections {
            report.push_str(&headline(section));
        }
        let mut seen = Vec::new();
        for file in &plan.files {
            if file.change.before == file.change.after {
                continue;
            }
            let bytes = |version: &Option<crate::workspace::FileVersion>| {
                version.as_ref().map(|version| version.bytes.clone()).unwrap_or_default()
            };
            if let (Some(before), Some(after)) = (&file.change.before, &file.change.after) {
                if before.bytes != after.bytes {
                    put!(report, "--- {}\n{}", file.change.path, diff::unified(&before.bytes, &after.bytes));
                }
                report.push_str(&hard_links(file.names));
            }
            if file.change.after.is_some() {
                let before = bytes(&file.change.before);
                let knew = file.known || (ctx.seen)(&file.change.path, &before) == SeenState::Same;
                if knew {
                    seen.push((file.change.path.clone(), bytes(&file.change.after)));
                }
            }
        }
        let changes: Vec<_> = plan
            .files
            .into_iter()
            .map(|file| file.change)
            .filter(|change| change.before != change.after)
            .collect();
        if changes.is_empty() {
            let report = "the patch changes nothing: the files already are as it leaves them\n".to_owned();
            return Ok(Effect::Write(WriteSet { changes, report, seen: Vec::new() }));
        }
        Ok(Effect::Write(WriteSet { changes, report, seen }))
    }
}

fn sections(args: &Value) -> Result<Vec<Section>, BadCall> {
    parse::parse(text(args, "patch")?).map_err(|problem| BadCall::value("patch", problem.to_string()))
}

fn headline(section: &Section) -> String {
    let path = &section.path;
    match &section.action {
        Action::Update { to: None } => format!("changed `{path}`\n"),
        Action::Update { to: Some(to) } => format!("renamed `{path}` to `{to}`\n"),
        Action::Create => format!("created `{path}`\n"),
        Action::Delete => format!("deleted `{path}`\n"),
    }
}
