//! Hunks: where their lines are, and the content with them applied.

use super::parse::{Hunk, HunkLine, LineKind};
use crate::edit::best_place;
use crate::text::{lines, show};

/// Applies all hunks, in order, each after the one before. The error names the hunk and what is wrong.
pub(super) fn apply(content: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, String> {
    let body = lines::without_bom(content);
    let bom = content.len() - body.len();
    let all = lines::split(body);
    let ending = lines::Endings::of(body).dominant();
    let mut out: Vec<(Vec<u8>, &[u8])> = Vec::with_capacity(all.len());
    let mut next = 0;
    let mut shift = 0;
    // Whether the patch itself says how the file ends.
    let mut says_end = false;
    for (index, hunk) in hunks.iter().enumerate() {
        let at = locate(&all, hunk, next, shift)
            .map_err(|why| format!("hunk {} of {}: {why}", index + 1, hunks.len()))?;
        if let Some(hint) = hunk.hint {
            shift = at as i64 - (hint as i64 - 1);
        }
        out.extend(all[next..at].iter().map(|line| (line.body.to_vec(), line.ending)));
        let mut here = at;
        for line in &hunk.lines {
            says_end |= line.bare;
            match line.kind {
                LineKind::Keep => {
                    out.push((all[here].body.to_vec(), all[here].ending));
                    here += 1;
                }
                LineKind::Remove => here += 1,
                LineKind::Add => out.push((line.body.clone(), if line.bare { b"" } else { ending })),
            }
        }
        next = here;
    }
    out.extend(all[next..].iter().map(|line| (line.body.to_vec(), line.ending)));
    // A line that is no longer the last gets an ending; the last one has one if it had one before, unless the patch says.
    let had_end = body.is_empty() || body.ends_with(b"\n");
    let count = out.len();
    for (index, (_, end)) in out.iter_mut().enumerate() {
        if index + 1 < count && end.is_empty() {
            *end = ending;
        }
    }
    if let Some((_, end)) = out.last_mut()
        && !says_end
    {
        *end = match (had_end, end.is_empty()) {
            (true, true) => ending,
            (true, false) => end,
            (false, _) => b"",
        };
    }
    let mut bytes = content[..bom].to_vec();
    for (body, end) in out {
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(end);
    }
    Ok(bytes)
}

/// The content that a patch gives a new file.
pub(super) fn create(hunks: &[Hunk]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        if line.kind != LineKind::Add {
            return Err(format!(
                "the file is new, yet the patch has a line of its old content: {}",
                show::whitespace(&line.body)
            ));
        }
        out.extend_from_slice(&line.body);
        if !line.bare {
            out.push(b'\n');
        }
    }
    Ok(out)
}

/// The index of the line at which the hunk's old lines are.
fn locate(all: &[lines::Line<'_>], hunk: &Hunk, next: usize, shift: i64) -> Result<usize, String> {
    let old: Vec<&[u8]> = hunk
        .lines
        .iter()
        .filter(|line| line.kind != LineKind::Add)
        .map(|line: &HunkLine| line.body.as_slice())
        .collect();
    let bodies: Vec<&[u8]> = all.iter().map(|line| line.body).collect();
    let mut from = next;
    if let Some(anchor) = &hunk.anchor {
        let found = bodies[next..].iter().position(|line| line.trim_ascii() == anchor.trim_ascii());
        // The anchor may also be the first of the old lines.
        from =
            next + found.ok_or_else(|| format!("there is no line {} to go by", show::whitespace(anchor)))?;
    }
    if old.is_empty() {
        if all.is_empty() || (hunk.at_end && hunk.anchor.is_none()) {
            return Ok(all.len());
        }
        return Err(
            "it has only new lines and nothing that says where: give unchanged lines around them".to_owned()
        );
    }
    let fits = |at: usize| bodies.get(at..at + old.len()).is_some_and(|window| window == old.as_slice());
    if hunk.at_end {
        let at = bodies.len().checked_sub(old.len()).filter(|at| *at >= next && fits(*at));
        return at.ok_or_else(|| mismatch(&bodies, &old, next, "the end of the file"));
    }
    if let Some(hint) = hunk.hint {
        // The number counts only where the lines agree.
        let hinted = usize::try_from(hint as i64 - 1 + shift).ok();
        if let Some(at) = hinted.filter(|at| *at >= next && fits(*at)) {
            return Ok(at);
        }
    }
    let places: Vec<usize> = (from..bodies.len()).filter(|at| fits(*at)).collect();
    match places.as_slice() {
        [at] => Ok(*at),
        [] => Err(mismatch(&bodies, &old, next, "the file")),
        several => {
            let numbers: Vec<usize> = several.iter().map(|at| at + 1).collect();
            Err(format!(
                "its lines are in the file {} times, at lines {}; first of them {}. Give more unchanged lines around the \
                 change",
                numbers.len(),
                show::number_list(&numbers),
                show::whitespace(old[0])
            ))
        }
    }
}

fn mismatch(all: &[&[u8]], old: &[&[u8]], next: usize, place: &str) -> String {
    let first = show::whitespace(old[0]);
    let Some((at, matching)) = best_place(all, old) else {
        return format!(
            "none of its {} is in {place}; it begins with {first}",
            show::count(old.len(), "old line")
        );
    };
    let differs = old.iter().enumerate().find(|(index, want)| all.get(at + index) != Some(*want));
    let Some((index, want)) = differs else {
        return format!(
            "its lines are at line {}, before line {}, where the hunk before it ended: hunks go from the top down",
            at + 1,
            next + 1
        );
    };
    let found =
        all.get(at + index).map_or_else(|| "the end of the file".to_owned(), |line| show::whitespace(line));
    format!(
        "its old lines are not in {place}. They are nearest at line {}, where {matching} of {} agree. The first that differs \
         is line {} of the file, old line {} of the hunk (→ tab, · space at a line's ends):\n  expected {}\n  found    \
         {found}\n",
        at + 1,
        old.len(),
        at + index + 1,
        index + 1,
        show::whitespace(want)
    )
}
