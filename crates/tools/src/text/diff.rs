//! A small unified diff for the model.

use similar::{Algorithm, TextDiff};

use super::{lines, show};

/// Lines of a diff that are shown.
const MOST_LINES: usize = 80;
/// Pairs of differing lines that are compared at most; beyond this a diff would take seconds and says nothing.
const MOST_WORK: usize = 4_000_000;

/// The difference between two contents with one line of context, bounded and marked where it is cut.
pub(crate) fn unified(before: &[u8], after: &[u8]) -> String {
    let (old, new) = (lines::split(before), lines::split(after));
    let pairs = old.iter().zip(&new);
    let head = pairs.take_while(|(a, b)| a == b).count();
    let pairs = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = pairs.take_while(|(a, b)| a == b).count();
    let changed = (old.len() - head - tail, new.len() - head - tail);
    if changed.0.saturating_mul(changed.1) > MOST_WORK {
        return format!(
            "@@ line {} @@ {} replaced by {} (too many to show)\n",
            head + 1,
            show::count(changed.0, "line"),
            show::count(changed.1, "line")
        );
    }
    // Without the common ends, but with what serves as context.
    let (lead, trail) = (head.min(3), tail.min(3));
    let shown = |all: &[lines::Line<'_>]| -> Vec<String> {
        let part = &all[head - lead..all.len() - tail + trail];
        part.iter().map(line).collect()
    };
    let (old, new) = (shown(&old), shown(&new));
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_slices(&old, &new);
    let offset = head - lead;
    let mut out = Vec::new();
    for group in diff.grouped_ops(1) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let range =
            |from: usize, to: usize| format!("{},{}", offset + from + usize::from(to > from), to - from);
        out.push(format!(
            "@@ -{} +{} @@\n",
            range(first.old_range().start, last.old_range().end),
            range(first.new_range().start, last.new_range().end)
        ));
        for op in &group {
            for change in diff.iter_changes(op) {
                out.push(format!("{}{}", change.tag(), change.value()));
            }
        }
    }
    let total = out.len();
    if total > MOST_LINES {
        out.truncate(MOST_LINES);
        out.push(format!("[… {} more lines of this diff]\n", total - MOST_LINES));
    }
    out.concat()
}

fn line(line: &lines::Line<'_>) -> String {
    let body = show::clip(&show::lossless(line.body), 400);
    match line.ending {
        b"" => format!("{body}\n\\ No newline at end of file\n"),
        _ => format!("{body}\n"),
    }
}
