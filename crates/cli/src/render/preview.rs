//! What an act would do, for the person who is asked about it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use provost::core::act::Touch;
use provost::core::contract::Limits;
use provost::core::text::{Lines, visible};
use provost::evidence::patch::{FileDiff, FileVersion, render};
use provost::tools::workspace::{FileChange, FileVersion as Content};
use provost::tools::{Context, Effect, Registry, SeenState, Workspace};
use serde_json::Value;

use super::words::counted;

/// Lines of a change that are shown, and characters of a line.
const MOST_LINES: usize = 60;
const MOST_CHARACTERS: usize = 200;

/// Shows acts in one workspace.
pub(crate) struct Preview {
    root: PathBuf,
    limits: Limits,
}

impl Preview {
    pub(crate) fn new(root: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { root: root.into(), limits }
    }

    /// What the act touches, where a command would run, what a write would change. `args` is JSON.
    pub(crate) fn lines(&self, tool: &str, args: &str, touches: &[Touch]) -> Vec<String> {
        let mut out: Vec<String> =
            touches.iter().map(|touch| format!("  {}", visible(&touch.to_string(), Lines::Escape))).collect();
        let value: Value = serde_json::from_str(args).unwrap_or_default();
        if let Some(Touch::Exec { program, .. } | Touch::Shell { program, .. }) = touches.first() {
            out.push(format!("  {}", place(&value, program.as_deref())));
        }
        if let [Touch::Call { .. }] = touches {
            // All that a server is told.
            let told = serde_json::to_string_pretty(&value).unwrap_or_default();
            out.extend(shortened(&told.lines().map(str::to_owned).collect::<Vec<_>>()));
        }
        if let [Touch::Spawn { .. }] = touches {
            out.extend(ordered(&value));
        }
        let runs = matches!(touches.first(), Some(Touch::Exec { .. } | Touch::Shell { .. }));
        if !runs && touches.iter().any(|touch| matches!(touch, Touch::Write { .. })) {
            let body = match self.change(tool, args) {
                Ok(patch) => patch,
                Err(why) => {
                    out.push(format!("  as things are it would fail: {}", line(first(&why))));
                    asked_for(&value)
                }
            };
            out.extend(shortened(&body));
        }
        out
    }

    /// The lines of the patch that the act would make of the workspace as it is. Nothing is written.
    fn change(&self, tool: &str, args: &str) -> Result<Vec<String>, String> {
        let workspace = Workspace::open(Path::new(&self.root)).map_err(|error| error.to_string())?;
        let context = Context {
            workspace: &workspace,
            limits: &self.limits,
            // Whether the model knows the file is asked again when the act is carried out.
            seen: &|_, _| SeenState::Same,
            readable: &|_| true,
            environment: &BTreeMap::new(),
            image: None,
        };
        let (tool, args) = Registry::standard().decode(tool, args).map_err(|error| error.to_string())?;
        match tool.prepare(&args, &context).map_err(|error| error.to_string())? {
            Effect::Write(set) => Ok(patch(&set.changes)),
            Effect::Observe(seen) => Ok(vec![first(&seen.text).to_owned()]),
            Effect::Command(_)
            | Effect::Start { .. }
            | Effect::Poll { .. }
            | Effect::Kill { .. }
            | Effect::Call { .. }
            | Effect::Delegate(_)
            | Effect::Submit { .. } => Ok(Vec::new()),
        }
    }
}

/// What an agent would be ordered to do, and within what.
fn ordered(args: &Value) -> Vec<String> {
    let orders =
        args.as_object().into_iter().flatten().filter(|(name, _)| *name != "goal" && *name != "name");
    let mut out: Vec<String> =
        orders.map(|(name, value)| format!("  {name}: {}", line(&value.to_string()))).collect();
    out.push("  its goal:".to_owned());
    let goal = args.get("goal").and_then(Value::as_str).unwrap_or_default();
    out.extend(shortened(&goal.lines().map(str::to_owned).collect::<Vec<_>>()));
    out
}

/// The first of these lines, and how many more there are.
fn shortened(body: &[String]) -> Vec<String> {
    let mut out: Vec<String> =
        body.iter().take(MOST_LINES).map(|text| format!("    {}", line(text))).collect();
    if body.len() > MOST_LINES {
        out.push(format!("    [… {} more]", counted((body.len() - MOST_LINES) as u64, "line")));
    }
    out
}

/// Where a command would run, and which program that is.
fn place(args: &Value, program: Option<&str>) -> String {
    let folder = match args.get("cwd").and_then(Value::as_str) {
        None | Some("." | "") => "in the workspace".to_owned(),
        Some(folder) => format!("in `{}`", visible(folder, Lines::Escape)),
    };
    let program = program.map_or("there is no such program".to_owned(), |path| {
        format!("the program is `{}`", visible(path, Lines::Escape))
    });
    format!("{folder}; {program}")
}

/// A patch without what only git needs.
fn patch(changes: &[FileChange]) -> Vec<String> {
    let version = |side: &Option<Content>| {
        let side = side.as_ref()?;
        Some(FileVersion { mode: side.mode.as_git().parse().ok()?, bytes: side.bytes.clone() })
    };
    let diffs: Vec<FileDiff> = changes
        .iter()
        .map(|change| FileDiff {
            path: change.path.clone(),
            before: version(&change.before),
            after: version(&change.after),
        })
        .collect();
    // Lines of a hunk begin with a space or a sign.
    String::from_utf8_lossy(&render(&diffs))
        .split_terminator('\n')
        .filter(|line| !line.starts_with("diff --git ") && !line.starts_with("index "))
        .map(str::to_owned)
        .collect()
}

/// What the call itself says, where no difference can be made of it.
fn asked_for(args: &Value) -> Vec<String> {
    let signed = |sign: &str, text: &str| -> Vec<String> {
        text.split_terminator('\n').map(|line| format!("{sign}{line}")).collect()
    };
    let replaced = |edit: &Value| -> Vec<String> {
        let part =
            |name: &str, sign| signed(sign, edit.get(name).and_then(Value::as_str).unwrap_or_default());
        [part("old", "-"), part("new", "+")].concat()
    };
    if let Some(content) = args.get("content").and_then(Value::as_str) {
        return signed("+", content);
    }
    if let Some(patch) = args.get("patch").and_then(Value::as_str) {
        return signed("", patch);
    }
    match args.get("edits").and_then(Value::as_array) {
        Some(edits) => edits.iter().flat_map(replaced).collect(),
        None => replaced(args),
    }
}

fn first(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default()
}

/// One line, what is hidden in it made visible, cut where it is too long.
fn line(text: &str) -> String {
    let shown = visible(text, Lines::Keep);
    let length = shown.chars().count();
    if length <= MOST_CHARACTERS {
        return shown;
    }
    let head: String = shown.chars().take(MOST_CHARACTERS).collect();
    format!("{head}[… {} more]", counted((length - MOST_CHARACTERS) as u64, "character"))
}
