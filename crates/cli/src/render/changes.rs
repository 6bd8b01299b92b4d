//! What a run changed, file by file and in lines.

use provost::agent::Words;
use provost::core::act::{Change, FileFact};
use provost::core::text::{Lines, visible};
use provost::evidence::patch::{FileDiff, FileVersion, render};

use super::words::counted;

/// A file that differs from the start.
pub(crate) struct Changed {
    path: String,
    word: &'static str,
    /// Lines that came and went; `None` for what is no text, is not kept or was not counted.
    lines: Option<(u64, u64)>,
}

/// `added`, `changed` or `deleted`.
pub(crate) fn word(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "deleted",
        _ => "changed",
    }
}

impl Changed {
    /// A change, with its lines counted where both contents are at hand.
    pub(crate) fn of(change: &Change, words: &dyn Words) -> Self {
        Self {
            path: visible(change.path.as_str(), Lines::Escape),
            word: word(change),
            lines: count(change, words),
        }
    }

    /// All of them for a person: how much in one line, then at most `most` names.
    pub(crate) fn lines(all: &[Self], most: usize) -> Vec<String> {
        if all.is_empty() {
            return vec!["nothing changed".to_owned()];
        }
        let lines = |lines: Option<(u64, u64)>| {
            lines.map_or(String::new(), |(came, went)| format!(" (+{came} -{went})"))
        };
        let counts = all.iter().filter_map(|one| one.lines);
        let sum = counts.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mut out = vec![format!("changed: {}{}", counted(all.len() as u64, "file"), lines(sum))];
        for one in all.iter().take(most) {
            out.push(format!("  {:<7}  {}{}", one.word, one.path, lines(one.lines)));
        }
        if all.len() > most {
            out.push(format!("  and {} more", all.len() - most));
        }
        out
    }
}

/// Lines that came and went.
fn count(change: &Change, words: &dyn Words) -> Option<(u64, u64)> {
    let version = |fact: &Option<FileFact>| match fact {
        None => Some(None),
        Some(fact) => {
            let bytes = words.get(&fact.content).filter(|_| fact.kept)?;
            Some(Some(FileVersion { mode: fact.mode.parse().ok()?, bytes }))
        }
    };
    let diff = FileDiff {
        path: change.path.clone(),
        before: version(&change.before)?,
        after: version(&change.after)?,
    };
    let patch = render(&[diff]);
    let (mut came, mut went, mut in_hunk, mut binary) = (0, 0, false, false);
    for line in patch.split(|byte| *byte == b'\n') {
        match line.first() {
            Some(b'@') => in_hunk = true,
            Some(b'+') if in_hunk => came += 1,
            Some(b'-') if in_hunk => went += 1,
            // A file that becomes a link has two heads.
            Some(b'd') => in_hunk = false,
            Some(b'G') if !in_hunk => binary |= line == b"GIT binary patch",
            _ => {}
        }
    }
    (!binary).then_some((came, went))
}
