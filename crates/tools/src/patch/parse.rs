//! From a patch's text to what it asks for.

use super::{envelope, unified};
use crate::text::show;
use crate::workspace::FileMode;

/// What a patch asks for in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// Path as written, without `a/` or `b/`.
    pub(super) path: String,
    pub(super) action: Action,
    /// Mode afterwards, where the patch says one.
    pub(super) mode: Option<FileMode>,
    pub(super) hunks: Vec<Hunk>,
}

/// What happens to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// It is changed, and renamed where `to` is given.
    Update {
        to: Option<String>,
    },
    Create,
    Delete,
}

/// Some lines and what becomes of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Line at which the old lines begin, as the patch says, from 1.
    pub(super) hint: Option<usize>,
    /// A line after which they are (`@@ fn name` of the other format).
    pub(super) anchor: Option<Vec<u8>>,
    /// Whether they are the last of the file.
    pub(super) at_end: bool,
    pub(super) lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HunkLine {
    pub(super) kind: LineKind,
    pub(super) body: Vec<u8>,
    /// Whether `\ No newline at end of file` follows it.
    pub(super) bare: bool,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Keep,
    Remove,
    Add,
}

/// Text that is not a patch.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadPatch {
    /// It has another form.
    #[error("this is not a patch: received {received}. A valid one:\n{EXAMPLE}Nothing was written.")]
    Form { received: String },
    /// A line is not one that can stand there.
    #[error("line {line} of the patch: {problem}: `{text}`. A valid patch:\n{EXAMPLE}Nothing was written.")]
    Line { line: usize, problem: String, text: String },
}

const EXAMPLE: &str = "\
--- a/src/lib.rs
+++ b/src/lib.rs
@@ -1,3 +1,3 @@
 fn one() {}
-fn two() {}
+fn too() {}
 fn three() {}
";

/// Reads a patch in the form of git and diff, or in the form that begins with `*** Begin Patch`.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, BadPatch> {
    let text = without_fence(text);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    if first.starts_with("*** Begin Patch") {
        return envelope::parse(text);
    }
    let sections = unified::parse(text)?;
    if sections.is_empty() {
        return Err(BadPatch::Form { received: received(text, first) });
    }
    Ok(sections)
}

/// Without the fence that a model may put around it.
fn without_fence(text: &str) -> &str {
    let trimmed = text.trim();
    let Some(rest) = trimmed.strip_prefix("```") else {
        return text;
    };
    match (rest.split_once('\n'), rest.ends_with("\n```")) {
        (Some((_, inner)), true) => inner.strip_suffix("```").unwrap_or(inner),
        _ => text,
    }
}

fn received(text: &str, first: &str) -> String {
    if first.is_empty() {
        return "an empty text".to_owned();
    }
    let what = match first.as_bytes()[0] {
        b'{' | b'[' => "JSON, where the patch itself is wanted, beginning with",
        _ if first.starts_with("***") => "a patch without `*** Begin Patch`, beginning with",
        _ => "text beginning with",
    };
    let shown = provost_core::text::visible(&show::clip(first, 120), provost_core::text::Lines::Escape);
    format!("{} bytes, {what} `{shown}`", text.len())
}

pub(super) fn bad_line(line: usize, problem: &str, text: &str) -> BadPatch {
    BadPatch::Line {
        line,
        problem: problem.to_owned(),
        text: provost_core::text::visible(&show::clip(text, 120), provost_core::text::Lines::Escape),
    }
}

/// The lines of a patch, each without its ending. A CR before the LF belongs to the ending only where the patch's own
/// lines all have one: then the patch was written with CRLF, and not a file.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    if !lines.is_empty() && lines.iter().all(|line| line.ends_with('\r')) {
        for line in &mut lines {
            *line = line.strip_suffix('\r').unwrap_or(line);
        }
    }
    lines
}
