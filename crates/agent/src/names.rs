//! Names that are two on one file system and one on another, and links that lead out.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::path::RelPath;
use provost_evidence::names::folded;

/// The names of a tree, for finding those that a file system might take for another.
#[derive(Debug, Clone, Default)]
struct Names {
    /// Each file and folder as it is spelled, by its name where neither case nor Unicode's forms count.
    spelled: BTreeMap<String, String>,
}

impl Names {
    /// Takes a file and the folders that it is in. `false`: one of them has a name there already, spelled otherwise.
    fn take(&mut self, path: &RelPath) -> bool {
        let text = path.as_str();
        let ends = text.match_indices('/').map(|(end, _)| end).chain([text.len()]);
        ends.map(|end| &text[..end]).all(|part| {
            self.spelled.entry(folded(part).into_owned()).or_insert_with(|| part.to_owned()) == part
        })
    }
}

/// Those of `new` that, beside what is `there`, some file systems would take for another name.
pub(crate) fn colliding<'a>(
    there: impl IntoIterator<Item = &'a RelPath>,
    new: &[&RelPath],
) -> BTreeSet<RelPath> {
    if new.is_empty() {
        return BTreeSet::new();
    }
    let mut names = Names::default();
    for path in there {
        // What is there already is its owner's.
        let _ = names.take(path);
    }
    new.iter().filter(|path| !names.take(path)).map(|path| (*path).clone()).collect()
}

/// Whether a link at `path` leads out of the workspace, or may: an absolute target does, and one that goes up farther than
/// the link lies deep. So may one that goes up after it went down, as what it goes down to may be a link.
pub(crate) fn leads_out(path: &RelPath, target: &[u8]) -> bool {
    let mut depth = path.as_str().matches('/').count();
    let mut down = false;
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if down || depth == 0 => return true,
            b".." => depth -= 1,
            _ => down = true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    #[test]
    fn a_link_that_leads_out_or_may_is_told_from_one_that_does_not() {
        for (at, to) in
            [("docs/link", "../src/lib.rs"), ("link", "src/./lib.rs"), ("a/b/link", "../../c"), ("l", ".")]
        {
            assert!(!leads_out(&path(at), to.as_bytes()), "{at} -> {to}");
        }
        for (at, to) in [
            ("docs/link", "../../secret"),
            ("link", "/etc/passwd"),
            ("link", "src/../../x"),
            ("a/l", "b/../c"),
            ("l", ""),
        ] {
            assert!(leads_out(&path(at), to.as_bytes()), "{at} -> {to}");
        }
    }

    #[test]
    fn a_name_that_is_there_in_another_case_is_not_taken() {
        let mut names = Names::default();
        assert!(
            names.take(&path("src/Lib.rs"))
                && names.take(&path("src/Lib.rs"))
                && names.take(&path("src/main.rs"))
        );
        assert!(names.take(&path("src/caf\u{e9}.rs")));
        for other in ["src/lib.rs", "SRC/other.rs", "Src", "src/cafe\u{301}.rs"] {
            assert!(!names.take(&path(other)), "{other}");
        }
        assert!(names.take(&path("src/lib")));
    }
}
