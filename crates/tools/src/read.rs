//! `read_file`: a file's lines, whole or a range; never silently a part.

use provost_core::act::{Recovery, Touch};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, optional_number};
use crate::failure::{BadCall, Failure};
use crate::text::put;
use crate::text::{lines, show};
use crate::tool::{Context, Effect, Observation, Tool};
use crate::touch;
use crate::workspace::{Lines, Located};

/// `read_file`.
pub struct ReadFile(ToolSpec);

impl Default for ReadFile {
    fn default() -> Self {
        Self(ToolSpec {
            name: "read_file".to_owned(),
            description: "Read a text file, whole or the lines asked for. Each line is shown as its number, a tab and the \
                          line; the number and the tab are not part of the file. Notes in [brackets] at the end are not \
                          either."
                .to_owned(),
            schema: object(
                &[
                    ("path", json!({"type": "string", "description": "Path from the workspace root."})),
                    ("start_line", json!({"type": "integer", "minimum": 1, "description": "First line, from 1."})),
                    ("end_line", json!({"type": "integer", "minimum": 1, "description": "Last line, included."})),
                ],
                &["path"],
            ),
        })
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        range(args)?;
        Ok(touch::reads(&touch::locate(args, "path", ctx)?))
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let located = touch::locate(args, "path", ctx)?;
        let range = range(args)?;
        read(&located, range, ctx).map(Effect::Observe)
    }
}

fn range(args: &Value) -> Result<Option<(u64, u64)>, BadCall> {
    let first = optional_number(args, "start_line", 1)?;
    let last = optional_number(args, "end_line", 1)?;
    match (first, last) {
        (None, None) => Ok(None),
        (first, last) => {
            let (first, last) = (first.unwrap_or(1), last.unwrap_or(u64::MAX));
            if last < first {
                return Err(BadCall::value("end_line", format!("is {last}, before `start_line` {first}")));
            }
            Ok(Some((first, last)))
        }
    }
}

fn read(located: &Located, range: Option<(u64, u64)>, ctx: &Context<'_>) -> Result<Observation, Failure> {
    let path = &located.named;
    let limit = ctx.limits.file_bytes;
    let open = ctx.workspace.open_located(located).map_err(|error| touch::with_near(error, ctx))?;
    if open.size() > limit && range.is_some() {
        // Larger than may be held: only the lines are, and the model has not seen the file.
        let (first, last) = range.unwrap_or((1, u64::MAX));
        let size = open.size();
        let part = open.lines(first, last, limit)?;
        return Ok(Observation {
            text: large_range(located, &part, first, last, size, limit)?,
            seen: Vec::new(),
        });
    }
    let content = open.read(limit)?;
    if let Some(why) = lines::not_text(&content) {
        return Err(Failure::NotText { path: path.clone(), why });
    }
    let all = lines::split(lines::without_bom(&content));
    let total = all.len() as u64;
    let (first, last) = range.unwrap_or((1, u64::MAX));
    if first > total.max(1) {
        let lines = show::count(all.len(), "line");
        return Err(Failure::Other(format!("`{path}` has {lines}: there is no line {first}")));
    }
    let last = last.min(total);
    let mut text = String::with_capacity(content.len() + all.len() * 8);
    for (index, line) in all.iter().enumerate().take(last as usize).skip(first as usize - 1) {
        number(&mut text, index as u64 + 1, line.body);
    }
    if first > 1 || last < total {
        put!(text, "[lines {first} to {last} of {total}]\n");
    }
    notes(&mut text, &content);
    Ok(Observation { text, seen: vec![(located.real.clone(), content)] })
}

fn number(text: &mut String, number: u64, body: &[u8]) {
    put!(text, "{number:>6}\t{}\n", show::lossless(body));
}

/// What lines with their numbers do not show.
fn notes(text: &mut String, content: &[u8]) {
    let body = lines::without_bom(content);
    let endings = lines::Endings::of(body);
    if content.is_empty() {
        text.push_str("[the file is empty]\n");
    } else if body.len() < content.len() {
        text.push_str("[the file begins with a byte order mark, which edits keep]\n");
    }
    match endings {
        lines::Endings { crlf: 0, .. } => {}
        lines::Endings { lf: 0, .. } => text.push_str("[lines end in CRLF, which edits keep]\n"),
        lines::Endings { lf, crlf } => {
            put!(text, "[line endings are mixed: {crlf} CRLF, {lf} LF]\n");
        }
    }
    if !body.is_empty() && !body.ends_with(b"\n") {
        text.push_str("[no newline at the end of the file]\n");
    }
}

fn large_range(
    located: &Located,
    part: &Lines,
    first: u64,
    last: u64,
    size: u64,
    limit: u64,
) -> Result<String, Failure> {
    let path = &located.named;
    if part.cut {
        return Err(Failure::Other(format!(
            "lines {first} to {} of `{path}` have more than {limit} bytes, the limit: ask for fewer lines, or use \
             `grep` (the file has {size} bytes)",
            if last == u64::MAX { "the end".to_owned() } else { last.to_string() }
        )));
    }
    let bytes = if first == 1 { lines::without_bom(&part.bytes) } else { &part.bytes };
    if let Some(why) = lines::not_text(bytes) {
        let why = format!("cannot be shown: what was asked for of it {why}");
        return Err(Failure::NotText { path: path.clone(), why });
    }
    let lines = lines::split(bytes);
    if lines.is_empty() {
        let total = part.total.unwrap_or(0);
        return Err(Failure::Other(format!("`{path}` has {total} lines: there is no line {first}")));
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        number(&mut text, first + index as u64, line.body);
    }
    let end = first + lines.len() as u64 - 1;
    let of = part.total.map(|total| format!(" of {total}")).unwrap_or_default();
    put!(text, "[lines {first} to {end}{of}; the file has {size} bytes and is not read whole]\n");
    Ok(text)
}
