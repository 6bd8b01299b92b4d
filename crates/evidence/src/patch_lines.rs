//! Which lines differ: Myers' algorithm, bounded so that no pair of files makes it run for minutes.

use std::collections::HashMap;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Lines of the old side that are replaced by lines of the new side. One of the two may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
}

/// Myers compares at worst every line with every other. Up to this many pairs (some hundred milliseconds) it has its
/// way; beyond, the files are first cut at lines that occur once in each, and a piece that is still too large counts
/// as replaced whole. A limit by time would make the patch depend on the machine.
const MOST_PAIRS: usize = 20_000_000;

/// Lines with their line feeds; the last may have none.
pub(crate) fn split(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The edits that lead from `old` to `new`, in order, never touching each other.
pub(crate) fn edits(old: &[&[u8]], new: &[&[u8]]) -> Vec<Edit> {
    let mut found = Vec::new();
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) = (before..old.len() - after, before..new.len() - after);
    if pairs(&old_mid, &new_mid) <= MOST_PAIRS {
        piece(&mut found, old, new, old_mid, new_mid);
    } else {
        let (mut old_at, mut new_at) = (old_mid.start, new_mid.start);
        for (old_anchor, new_anchor) in anchors(old, new, &old_mid, &new_mid) {
            piece(&mut found, old, new, old_at..old_anchor, new_at..new_anchor);
            (old_at, new_at) = (old_anchor + 1, new_anchor + 1);
        }
        piece(&mut found, old, new, old_at..old_mid.end, new_at..new_mid.end);
    }
    found
}

fn pairs(old: &Range<usize>, new: &Range<usize>) -> usize {
    old.len().saturating_mul(new.len())
}

fn piece(
    found: &mut Vec<Edit>,
    old: &[&[u8]],
    new: &[&[u8]],
    old_range: Range<usize>,
    new_range: Range<usize>,
) {
    if old_range.is_empty() && new_range.is_empty() {
        return;
    }
    if pairs(&old_range, &new_range) > MOST_PAIRS {
        return push(found, Edit { old: old_range, new: new_range });
    }
    let ops = capture_diff_slices(Algorithm::Myers, &old[old_range.clone()], &new[new_range.clone()]);
    for op in ops {
        if !matches!(op, DiffOp::Equal { .. }) {
            let (gone, come) = (op.old_range(), op.new_range());
            push(
                found,
                Edit {
                    old: old_range.start + gone.start..old_range.start + gone.end,
                    new: new_range.start + come.start..new_range.start + come.end,
                },
            );
        }
    }
}

fn push(found: &mut Vec<Edit>, edit: Edit) {
    match found.last_mut() {
        Some(last) if last.old.end == edit.old.start && last.new.end == edit.new.start => {
            last.old.end = edit.old.end;
            last.new.end = edit.new.end;
        }
        _ => found.push(edit),
    }
}

/// Lines that occur exactly once on each side, the longest run of them that is in order on both.
fn anchors(
    old: &[&[u8]],
    new: &[&[u8]],
    old_range: &Range<usize>,
    new_range: &Range<usize>,
) -> Vec<(usize, usize)> {
    let once = |lines: &[&[u8]], range: &Range<usize>| {
        let mut seen: HashMap<Vec<u8>, Option<usize>> = HashMap::new();
        for at in range.clone() {
            seen.entry(lines[at].to_vec()).and_modify(|place| *place = None).or_insert(Some(at));
        }
        seen
    };
    let new_once = once(new, new_range);
    let mut shared: Vec<(usize, usize)> = once(old, old_range)
        .into_iter()
        .filter_map(|(text, at)| Some((at?, (*new_once.get(&text)?)?)))
        .collect();
    shared.sort_unstable();
    // Longest increasing subsequence of the new places, by patience.
    let mut piles: Vec<usize> = Vec::new();
    let mut below: Vec<Option<usize>> = vec![None; shared.len()];
    for (index, (_, place)) in shared.iter().enumerate() {
        let pile = piles.partition_point(|&top| shared[top].1 < *place);
        below[index] = pile.checked_sub(1).map(|pile| piles[pile]);
        if pile == piles.len() {
            piles.push(index);
        } else {
            piles[pile] = index;
        }
    }
    let mut chain = Vec::with_capacity(piles.len());
    let mut at = piles.last().copied();
    while let Some(index) = at {
        chain.push(shared[index]);
        at = below[index];
    }
    chain.reverse();
    chain
}
