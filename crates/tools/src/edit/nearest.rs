//! Where text that is not in a file almost is: the first line that differs, expected and found.

use crate::text::{lines, near, show};

/// Work beyond which only places that share a line are looked at.
const MOST_WORK: usize = 2_000_000;

/// Says where in `text` the lines of `old` almost are.
pub(super) fn describe(text: &[u8], old: &[u8]) -> String {
    let wanted: Vec<&[u8]> = lines::split(old).iter().map(|line| line.body).collect();
    let all: Vec<&[u8]> = lines::split(text).iter().map(|line| line.body).collect();
    let hint = numbered_hint(&wanted);
    match best(&all, &wanted) {
        Some((at, matching)) => format!("{}{hint}", place(&all, &wanted, at, matching)),
        None => format!("{}{hint}", similar_line(&all, &wanted)),
    }
}

/// The place at which most lines agree, whitespace at their ends aside, and how many do.
pub(crate) fn best(all: &[&[u8]], wanted: &[&[u8]]) -> Option<(usize, usize)> {
    let agree = |have: &[u8], want: &[u8]| have.trim_ascii() == want.trim_ascii();
    // A blank line, or a brace alone, agrees everywhere and tells nothing.
    let telling =
        |line: &[u8]| line.iter().filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii()).count() > 1;
    let score = |at: usize| {
        let pairs = || all[at..].iter().zip(wanted).filter(|(have, want)| agree(have, want));
        (pairs().filter(|(_, want)| telling(want)).count(), pairs().count())
    };
    let every = wanted.len().saturating_mul(all.len()) <= MOST_WORK;
    let anchor = wanted.iter().position(|line| telling(line)).unwrap_or(0);
    let places = (0..all.len()).filter(|at| {
        every
            || all
                .get(at + anchor)
                .is_some_and(|have| wanted.get(anchor).is_some_and(|want| agree(have, want)))
    });
    places
        .map(|at| (at, score(at)))
        .filter(|(_, (telling, _))| *telling > 0)
        .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
        .map(|(at, (_, matching))| (at, matching))
}

fn place(all: &[&[u8]], wanted: &[&[u8]], at: usize, matching: usize) -> String {
    let differs = wanted.iter().enumerate().find(|(index, want)| all.get(at + index) != Some(*want));
    let last = (at + wanted.len()).min(all.len());
    let lines = match wanted.len() {
        1 => format!("line {}", at + 1),
        count => format!("lines {} to {last}, where {matching} of its {count} lines agree", at + 1),
    };
    let Some((index, want)) = differs else {
        return format!(
            "It almost is at {lines}: the lines agree, but the text begins or ends inside a line"
        );
    };
    let found = match all.get(at + index) {
        Some(have) => show::whitespace(have),
        None => "the end of the file".to_owned(),
    };
    format!(
        "It almost is at {lines}. The first that differs is line {} of the file, line {} of the old text (→ tab, · space \
         at a line's ends):\n  expected {}\n  found    {found}\n",
        at + index + 1,
        index + 1,
        show::whitespace(want)
    )
}

/// Where no line agrees: the line that resembles the first one most.
fn similar_line(all: &[&[u8]], wanted: &[&[u8]]) -> String {
    let first = wanted.iter().find(|line| !line.trim_ascii().is_empty()).copied().unwrap_or_default();
    let first = show::lossless(first.trim_ascii());
    let most = (first.chars().count() * 2 / 5).max(1);
    let scored = all.iter().take(5000).enumerate().filter_map(|(index, line)| {
        let line = show::lossless(line.trim_ascii());
        near::distance(&first, &line, most).map(|distance| (distance, index))
    });
    match scored.min() {
        Some((_, index)) => format!(
            "No line of the file is one of its lines; most like its first is line {}:\n  expected {}\n  found    {}\n",
            index + 1,
            show::whitespace(first.as_bytes()),
            show::whitespace(all[index])
        ),
        None => "No line of the file resembles it: read the file again".to_owned(),
    }
}

/// Old text copied from `read_file` with its line numbers.
fn numbered_hint(wanted: &[&[u8]]) -> &'static str {
    let numbered = |line: &&[u8]| {
        let line = line.trim_ascii_start();
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && line.get(digits) == Some(&b'\t')
    };
    if !wanted.is_empty() && wanted.iter().all(numbered) {
        " The old text begins each line with a number and a tab: these are not part of the file"
    } else {
        ""
    }
}
