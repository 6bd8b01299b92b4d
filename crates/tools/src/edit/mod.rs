//! `edit_file`: exact replacements, each at one place, all or none.

mod indent;
mod nearest;
mod replace;

use provost_core::act::{Recovery, Touch};
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use crate::args::{object, optional_text};
use crate::failure::{BadCall, Failure};
use crate::text::{diff, lines, show};
use crate::tool::{Context, Effect, SeenState, Tool, WriteSet};
use crate::touch;
use crate::workspace::{FileChange, FileError, FileVersion};
use crate::write::{check_size, hard_links};

pub(crate) use nearest::best as best_place;
use replace::{How, Miss, replace};

/// `edit_file`.
pub struct EditFile(ToolSpec);

impl Default for EditFile {
    fn default() -> Self {
        let old = json!({"type": "string", "description": "Text that is in the file exactly once, without line numbers."});
        let new = json!({"type": "string", "description": "Text to put in its place."});
        let edits = json!({
            "type": "array", "minItems": 1,
            "items": object(&[("old", old.clone()), ("new", new.clone())], &["old", "new"]),
            "description": "Several replacements, made in order, instead of `old` and `new`."
        });
        Self(ToolSpec {
            name: "edit_file".to_owned(),
            description: "Replace text in a file: `old` by `new`, or a list of `edits`. Each old text must be in the file \
                          exactly once, whitespace included; take in lines around it to make it unique. All edits are \
                          made or none. Line endings and all other bytes stay as they are."
                .to_owned(),
            schema: object(
                &[
                    ("path", json!({"type": "string", "description": "Path from the workspace root."})),
                    ("old", old),
                    ("new", new),
                    ("edits", edits),
                ],
                &["path"],
            ),
        })
    }
}

impl Tool for EditFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        edits(args)?;
        let located = touch::writable(args, ctx)?;
        // What does not match is shown, so an edit also reads.
        let mut touches = touch::reads(&located);
        touches.extend(touch::writes(&located));
        Ok(touches)
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let edits = edits(args)?;
        let located = touch::writable(args, ctx)?;
        let path = &located.named;
        if located.kind.is_none() {
            return Err(touch::with_near(FileError::missing(path), ctx));
        }
        let open = ctx.workspace.open_located(&located)?;
        let (mode, names) = (open.mode(), open.names());
        let before = open.read(ctx.limits.file_bytes)?;
        refuse_encodings(path, &before, &edits)?;
        let mut after = before.clone();
        let mut folded = false;
        for (index, (old, new)) in edits.iter().enumerate() {
            let done = replace(&after, old.as_bytes(), new.as_bytes())
                .map_err(|miss| Failure::NoMatch(miss_text(&located.named, index, edits.len(), &miss)))?;
            folded |= done.how == How::Indented;
            after = done.content;
        }
        check_size(&located, after.len(), ctx)?;
        if after == before {
            return Err(Failure::Other(format!(
                "the edits of `{path}` undo each other: nothing was written"
            )));
        }
        let mut report = format!(
            "edited `{path}`: {}\n{}",
            show::count(edits.len(), "replacement"),
            diff::unified(&before, &after)
        );
        if folded {
            report.push_str(
                "[the old text matched but for its indentation; the file's own indentation was used]\n",
            );
        }
        report.push_str(&hard_links(names));
        // Whoever knew the whole file knows it still; whoever did not has not seen it by editing a part.
        let knows = (ctx.seen)(&located.real, &before) == SeenState::Same;
        let seen = if knows { vec![(located.real.clone(), after.clone())] } else { Vec::new() };
        let version = |bytes| Some(FileVersion { mode, bytes });
        Ok(Effect::Write(WriteSet {
            changes: vec![FileChange { path: located.real, before: version(before), after: version(after) }],
            report,
            seen,
        }))
    }
}

/// The replacements asked for.
fn edits(args: &Value) -> Result<Vec<(&str, &str)>, BadCall> {
    let (old, new) = (optional_text(args, "old"), optional_text(args, "new"));
    let listed = args.get("edits").and_then(Value::as_array);
    let edits = match (old, new, listed) {
        (Some(old), Some(new), None) => vec![(old, new)],
        (None, None, Some(list)) => list
            .iter()
            .map(|edit| Some((optional_text(edit, "old")?, optional_text(edit, "new")?)))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| BadCall::value("edits", "each needs `old` and `new`"))?,
        (Some(_), None, None) => {
            return Err(BadCall::value("new", "is missing (to delete the old text give \"\")"));
        }
        (None, Some(_), None) => return Err(BadCall::value("old", "is missing")),
        (None, None, None) => {
            return Err(BadCall::value("old", "is missing: give `old` and `new`, or `edits`"));
        }
        _ => return Err(BadCall::value("edits", "cannot be given together with `old` and `new`")),
    };
    for (index, (old, new)) in edits.iter().enumerate() {
        let name = |part: &str| match listed {
            Some(_) => format!("edits[{index}].{part}"),
            None => part.to_owned(),
        };
        if old.is_empty() {
            return Err(BadCall::value(
                name("old"),
                "is empty: it must be text of the file (`write_file` makes a new file)",
            ));
        }
        if old == new {
            return Err(BadCall::value(name("new"), "is the same as the old text: nothing would change"));
        }
    }
    Ok(edits)
}

/// Two encodings in one file are a broken file.
fn refuse_encodings(
    path: &provost_core::path::RelPath,
    content: &[u8],
    edits: &[(&str, &str)],
) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::NotText { path: path.clone(), why });
    if matches!(content, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return refuse(lines::not_text(content).unwrap_or_default());
    }
    if std::str::from_utf8(content).is_err() && edits.iter().any(|(_, new)| !new.is_ascii()) {
        return refuse(
            "is not valid UTF-8, and the new text holds other characters than ASCII: written as UTF-8 they would make \
             two encodings in one file. Nothing was written."
                .to_owned(),
        );
    }
    Ok(())
}

fn miss_text(path: &provost_core::path::RelPath, index: usize, of: usize, miss: &Miss) -> String {
    let which = if of > 1 { format!("edit {} of {of}: ", index + 1) } else { String::new() };
    let what = match miss {
        Miss::Several { lines, snippets } => format!(
            "the old text is in `{path}` {} times, at lines {}:\n{snippets}Take in more lines around the one that is meant",
            lines.len(),
            show::number_list(lines)
        ),
        Miss::SeveralIndented { lines, snippets } => format!(
            "the old text is not in `{path}`; but for indentation it is there {} times, at lines {}:\n{snippets}Give the \
             whitespace exactly",
            lines.len(),
            show::number_list(lines)
        ),
        Miss::Indentation { line, expected, found } => format!(
            "the old text is in `{path}` but for its indentation, at line {line}, and how to indent the new text does not \
             follow from it (→ tab, · space):\n  given {expected}\n  found {found}\nGive the whitespace exactly"
        ),
        Miss::None { nearest } => format!("the old text is not in `{path}`. {nearest}"),
    };
    show::closed(&format!("{which}{what}"), "Nothing was written.")
}
