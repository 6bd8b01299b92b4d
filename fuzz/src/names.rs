//! What a change names: files, and where links lead.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use provost_core::path::RelPath;
use provost_core::session::Dangers;
use provost_evidence::danger::{Edited, flags};
use provost_evidence::links::Links;
use provost_evidence::names::{faults, unportable};

/// Made once: to make the table takes as long as thousands of inputs.
static DANGERS: LazyLock<Dangers> = LazyLock::new(Dangers::all);

/// A tree: each line a path that it has, behind a `+` one that the change adds, behind a `-` one that it drops, with a
/// target behind a tab where it is a link.
///
/// What is not added is not judged; what is added and not found is the same everywhere by itself; a link that stays inside
/// without another on its way stays there by its text alone; one content twice is no change that hides.
pub fn names(data: &[u8]) {
    let (mut before, mut after, mut links) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for line in data.split(|byte| *byte == b'\n') {
        let (mark, rest) = match line.first() {
            Some(mark @ (b'+' | b'-')) => (*mark, &line[1..]),
            _ => (b' ', line),
        };
        let mut parts = rest.splitn(2, |byte| *byte == b'\t');
        let Ok(path) = RelPath::from_bytes(parts.next().unwrap_or_default()) else { continue };
        if let Some(target) = parts.next() {
            links.push((path.clone(), target.to_vec()));
        }
        if mark != b'+' {
            before.insert(path.clone());
        }
        if mark != b'-' {
            after.insert(path);
        }
    }
    assert_eq!(faults(&after, &after), []);
    let found: BTreeSet<RelPath> = faults(&before, &after).into_iter().map(|fault| fault.path).collect();
    let all = |paths: &BTreeSet<RelPath>| -> BTreeSet<String> {
        paths.iter().flat_map(|path| path.ancestors().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    for name in all(&after).difference(&all(&before)) {
        let path = RelPath::try_from(name.clone()).expect("a part of a path is one");
        let bytes = path.to_bytes();
        let last = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        assert!(found.contains(&path) || unportable(last).is_none(), "{name:?}");
    }

    let tree = Links::new(links.iter().map(|(path, target)| (path, target.clone())));
    for (path, target) in &links {
        let alone = links.len() == 1;
        if alone && tree.astray(path).is_none() && !path.is_root() {
            let mut depth = path.to_bytes().split(|byte| *byte == b'/').count() as i64 - 1;
            for part in target.split(|byte| *byte == b'/') {
                depth += match part {
                    b"" | b"." => 0,
                    b".." => -1,
                    _ => 1,
                };
                assert!(depth >= 0, "{path} leads out by {:?}", target.escape_ascii().to_string());
            }
        }
    }
    for path in &after {
        let edited = Edited { path, before: Some(data), after: Some(data) };
        let found = flags(&RelPath::root(), &DANGERS, edited);
        assert!(found.iter().all(|flag| flag.at.is_none()));
    }
}
