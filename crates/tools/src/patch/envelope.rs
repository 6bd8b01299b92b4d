//! The form that begins with `*** Begin Patch`, which some models are trained on.

use super::parse::{Action, BadPatch, Hunk, HunkLine, LineKind, Section, bad_line, lines};

/// Reads all file sections.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, BadPatch> {
    let mut sections: Vec<Section> = Vec::new();
    let mut ended = false;
    for (index, line) in lines(text).into_iter().enumerate() {
        let number = index + 1;
        let bare = line.trim_end();
        if ended || bare.is_empty() && sections.is_empty() || bare == "*** Begin Patch" {
            continue;
        }
        let opened = [
            ("*** Add File: ", Action::Create),
            ("*** Delete File: ", Action::Delete),
            ("*** Update File: ", Action::Update { to: None }),
        ];
        let opened =
            opened.into_iter().find_map(|(prefix, action)| Some((bare.strip_prefix(prefix)?.trim(), action)));
        if let Some((path, action)) = opened {
            if path.is_empty() {
                return Err(bad_line(number, "no file name", line));
            }
            sections.push(Section { path: path.to_owned(), action, mode: None, hunks: Vec::new() });
            continue;
        }
        if bare == "*** End Patch" {
            ended = true;
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(bad_line(
                number,
                "expected `*** Update File:`, `*** Add File:` or `*** Delete File:`",
                line,
            ));
        };
        body(section, line, number)?;
    }
    if !ended {
        return Err(BadPatch::Form {
            received: "`*** Begin Patch` without `*** End Patch`: it was cut off, or the end is missing"
                .to_owned(),
        });
    }
    for section in &mut sections {
        section.hunks.retain(|hunk| !hunk.lines.is_empty());
        let renamed = matches!(section.action, Action::Update { to: Some(_) });
        if section.hunks.is_empty() && matches!(section.action, Action::Update { .. }) && !renamed {
            return Err(BadPatch::Form {
                received: format!("`*** Update File: {}` without any change", section.path),
            });
        }
    }
    Ok(sections)
}

fn body(section: &mut Section, line: &str, number: usize) -> Result<(), BadPatch> {
    let bare = line.trim_end();
    if let Some(to) = bare.strip_prefix("*** Move to: ") {
        return match &mut section.action {
            Action::Update { to: slot } => {
                *slot = Some(to.trim().to_owned());
                Ok(())
            }
            _ => Err(bad_line(number, "only an updated file can be moved", line)),
        };
    }
    if bare == "*** End of File" {
        if let Some(hunk) = section.hunks.last_mut() {
            hunk.at_end = true;
        }
        return Ok(());
    }
    if let Some(anchor) = bare.strip_prefix("@@") {
        // `@@ -1,3 +1,3 @@` is the other format's head; its numbers mean nothing here.
        let numbers = anchor.trim_start().starts_with('-') && anchor.contains(" +");
        let anchor = anchor.trim().trim_end_matches("@@").trim();
        section.hunks.push(Hunk {
            anchor: (!numbers && !anchor.is_empty()).then(|| anchor.as_bytes().to_vec()),
            ..Hunk::default()
        });
        return Ok(());
    }
    let (kind, text) = match line.as_bytes().first() {
        Some(b'+') => (LineKind::Add, &line[1..]),
        Some(b'-') if section.action != Action::Create => (LineKind::Remove, &line[1..]),
        Some(b' ') if section.action != Action::Create => (LineKind::Keep, &line[1..]),
        None if section.action != Action::Create => (LineKind::Keep, ""),
        _ => {
            let problem = match section.action {
                Action::Create => "each line of a new file begins with `+`",
                _ => "each line of a change begins with a space, `-` or `+`",
            };
            return Err(bad_line(number, problem, line));
        }
    };
    if section.action == Action::Delete {
        return Err(bad_line(number, "a deleted file has no lines", line));
    }
    if section.hunks.is_empty() {
        section.hunks.push(Hunk::default());
    }
    if let Some(hunk) = section.hunks.last_mut() {
        hunk.lines.push(HunkLine {
            kind,
            body: text.strip_suffix('\r').unwrap_or(text).as_bytes().to_vec(),
            bare: false,
        });
    }
    Ok(())
}
