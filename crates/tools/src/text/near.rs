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

/// Edits between two names, letters of either case being equal; `None` if more than `most`, or if one is very long.
pub(crate) fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let fold = |text: &str| -> Vec<char> { text.chars().take(130).flat_map(char::to_lowercase).collect() };
    let (a, b) = (fold(a), fold(b));
    if a.len() > 128 || b.len() > 128 || a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    Some(row[b.len()]).filter(|distance| *distance <= most)
}
