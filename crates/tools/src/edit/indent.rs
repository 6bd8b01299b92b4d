//! Finding old text whose indentation is written in another way (spaces for tabs), and indenting the new text alike.

use std::collections::BTreeMap;

use crate::text::lines;

/// What came of it.
pub(super) enum Folded {
    /// One place: these bytes are to be replaced by this.
    One { start: usize, end: usize, new: Vec<u8> },
    /// Several places: their line numbers.
    Several(Vec<usize>),
    /// One place, but how to indent the new text does not follow from it: a line as given and as found.
    Unclear { line: usize, expected: Vec<u8>, found: Vec<u8> },
    /// No place.
    None,
}

/// Work beyond which no search is made: lines of the file times lines of the old text.
const MOST_WORK: usize = 20_000_000;

/// Looks for whole lines that equal those of `old` but for their leading whitespace.
pub(super) fn fold(text: &[u8], old: &[u8], new: &[u8]) -> Folded {
    let wanted = lines::split(old);
    let all = lines::split(text);
    let solid = wanted.iter().any(|line| !line.body.trim_ascii().is_empty());
    if !solid || wanted.len() > all.len() || wanted.len().saturating_mul(all.len()) > MOST_WORK {
        return Folded::None;
    }
    let same = |at: &usize| {
        let window = &all[*at..*at + wanted.len()];
        window.iter().zip(&wanted).all(|(have, want)| rest(have.body) == rest(want.body))
    };
    let places: Vec<usize> = (0..=all.len() - wanted.len()).filter(same).collect();
    let at = match places.as_slice() {
        [] => return Folded::None,
        [at] => *at,
        several => return Folded::Several(several.iter().map(|at| at + 1).collect()),
    };
    let window = &all[at..at + wanted.len()];
    let lengths = |lines: &[lines::Line<'_>]| -> usize {
        lines.iter().map(|line| line.body.len() + line.ending.len()).sum()
    };
    let start = lengths(&all[..at]);
    let mut end = start + lengths(window);
    if !old.ends_with(b"\n") {
        end -= window.last().map_or(0, |line| line.ending.len());
    }
    if let Some(new) = Map::of(window, &wanted).and_then(|map| map.indent(new)) {
        return Folded::One { start, end, new };
    }
    let differs = window.iter().zip(&wanted).position(|(have, want)| have.body != want.body).unwrap_or(0);
    Folded::Unclear {
        line: at + differs + 1,
        expected: wanted[differs].body.to_vec(),
        found: window[differs].body.to_vec(),
    }
}

fn indent(line: &[u8]) -> &[u8] {
    let length = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &line[..length]
}

fn rest(line: &[u8]) -> &[u8] {
    &line[indent(line).len()..]
}

/// Which indentation of the old text stands for which of the file.
struct Map<'a> {
    pairs: BTreeMap<&'a [u8], &'a [u8]>,
    /// Spaces that stand for one tab, where all pairs agree on a number.
    width: Option<usize>,
    /// Whether the file's side has the tabs.
    to_tabs: bool,
}

impl<'a> Map<'a> {
    /// `None` where one indentation stands for two.
    fn of(have: &[lines::Line<'a>], want: &[lines::Line<'a>]) -> Option<Self> {
        let mut pairs = BTreeMap::new();
        for (have, want) in have.iter().zip(want) {
            if rest(want.body).is_empty() {
                continue;
            }
            let (from, to) = (indent(want.body), indent(have.body));
            if *pairs.entry(from).or_insert(to) != to {
                return None;
            }
        }
        let width = |to_tabs: bool| {
            let mut widths =
                pairs.iter().filter(|(from, to)| !(from.is_empty() && to.is_empty())).map(|(from, to)| {
                    let (spaces, tabs) = if to_tabs { (from, to) } else { (to, from) };
                    let pure =
                        spaces.iter().all(|byte| *byte == b' ') && tabs.iter().all(|byte| *byte == b'\t');
                    (pure && !tabs.is_empty() && spaces.len().is_multiple_of(tabs.len()))
                        .then(|| spaces.len() / tabs.len())
                });
            let first = widths.next()??;
            (first > 0 && widths.all(|width| width == Some(first))).then_some(first)
        };
        let (to_tabs, width) = match (width(true), width(false)) {
            (Some(width), _) => (true, Some(width)),
            (None, width) => (false, width),
        };
        Some(Self { pairs, width, to_tabs })
    }

    /// The new text with the file's indentation; `None` where a line's indentation has no counterpart.
    fn indent(&self, new: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(new.len());
        for line in lines::split(new) {
            if rest(line.body).is_empty() {
                out.extend_from_slice(line.body);
            } else {
                out.extend_from_slice(&self.counterpart(indent(line.body))?);
                out.extend_from_slice(rest(line.body));
            }
            out.extend_from_slice(line.ending);
        }
        Some(out)
    }

    fn counterpart(&self, from: &[u8]) -> Option<Vec<u8>> {
        if let Some(to) = self.pairs.get(from) {
            return Some(to.to_vec());
        }
        if from.is_empty() {
            return Some(Vec::new());
        }
        let width = self.width?;
        let all = |wanted: u8| from.iter().all(|byte| *byte == wanted);
        if self.to_tabs && all(b' ') && from.len().is_multiple_of(width) {
            Some(vec![b'\t'; from.len() / width])
        } else if !self.to_tabs && all(b'\t') {
            Some(vec![b' '; from.len() * width])
        } else {
            None
        }
    }
}
