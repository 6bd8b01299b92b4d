//! Names near one that does not exist.

use provost_core::path::RelPath;

use crate::text::near::distance;
use crate::tool::Context;
use crate::workspace::{Go, Kind, Walk};

/// Names looked at before the search for a resembling one gives up.
const MOST_LOOKED_AT: usize = 20_000;
/// Names that are offered.
const MOST: usize = 5;

/// Files whose name resembles that of `path`: the same last part elsewhere, or a small misspelling of it. What policy
/// does not let be read is not offered: a wrong guess must not tell a right name.
pub(crate) fn names(ctx: &Context<'_>, path: &RelPath) -> Vec<RelPath> {
    let wanted = path.file_name();
    let folder = path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder);
    let most = (wanted.chars().count() / 3).max(1);
    let mut found: Vec<(usize, bool, RelPath)> = Vec::new();
    let mut looked_at = 0;
    let walk = Walk { from: RelPath::root(), ignore: true };
    let walked = ctx.workspace.walk(&walk, &mut |entry| {
        looked_at += 1;
        if matches!(entry.kind, Kind::File | Kind::Folder | Kind::Link)
            && let Ok(candidate) = RelPath::from_bytes(entry.path)
            && let Some(distance) = distance(wanted, candidate.file_name(), most)
        {
            let elsewhere = candidate.as_str().rsplit_once('/').map_or("", |(folder, _)| folder) != folder;
            // A misspelling is only likely where the model looked.
            if (distance == 0 || !elsewhere) && (ctx.readable)(&candidate) {
                found.push((distance, elsewhere, candidate));
            }
        }
        if looked_at < MOST_LOOKED_AT { Go::On } else { Go::Stop }
    });
    if walked.is_err() {
        // Only a hint is lost.
        return Vec::new();
    }
    found.sort();
    found.into_iter().take(MOST).map(|(_, _, path)| path).collect()
}
