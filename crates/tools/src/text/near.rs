//! The nearest of several names.

/// The candidate that resembles `name` most, if any does.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (distance(name, candidate, most), candidate))
        .filter_map(|(distance, candidate)| distance.map(|distance| (distance, candidate)))
        .min_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)))
        .map(|(_, candidate)| candidate)
}

/// Edits between two names (a letter put in, left out, replaced, or two swapped), upper and lower case being equal;
/// `None` if more than `most`, or if one is very long.
pub(crate) fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let fold = |text: &str| -> Vec<char> { text.chars().take(130).flat_map(char::to_lowercase).collect() };
    let (a, b) = (fold(a), fold(b));
    if a.len() > 128 || b.len() > 128 || a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(above[j - 2] + 1);
            }
        }
        above = std::mem::replace(&mut row, next);
    }
    Some(row[b.len()]).filter(|distance| *distance <= most)
}
