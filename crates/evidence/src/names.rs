//! Names of files that mean the same file everywhere.
//!
//! What one file system keeps apart another takes for one: names that differ in case or in their Unicode form, names
//! that Windows keeps for devices, names that git's own folder goes by. Where a change adds such a name, who reads it
//! and who checks it out may see different files. What the base has already is its owner's.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use caseless::default_case_fold_str;
use unicode_normalization::UnicodeNormalization as _;

use provost_core::path::RelPath;
use provost_core::text::{Lines, is_hidden, visible};

use crate::git::is_git_folder_name;

/// Longest name that Linux, macOS and Windows take, in bytes.
const LONGEST: usize = 255;

/// What is wrong with a name that a change adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameFault {
    /// The file or folder, from the root of the tree.
    pub path: RelPath,
    /// What it is.
    pub what: Unportable,
}

/// Why a name is not the same name everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unportable {
    /// Some file system takes it for `.git`.
    Git,
    /// Windows keeps it for a device.
    Device,
    /// Windows drops the dot or space at its end.
    Trailing,
    /// A character that no name on Windows has.
    Character(char),
    /// A character that nobody sees, or that moves what stands beside it.
    Hidden(char),
    /// Its bytes are not UTF-8.
    Bytes,
    /// It is longer than 255 bytes.
    Long,
    /// It looks unlike this name, and a file system that folds case takes it for it.
    Disguised(String),
    /// Another file or folder of the tree goes by the same name where case or Unicode's forms do not count.
    Collides(RelPath),
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = visible(self.path.as_str(), Lines::Escape);
        match &self.what {
            Unportable::Git => write!(f, "`{path}` is, for some file system, git's own folder"),
            Unportable::Device => write!(f, "`{path}` is the name of a device on Windows"),
            Unportable::Trailing => {
                write!(f, "`{path}` ends in a dot or a space, which Windows drops: it would be another file")
            }
            Unportable::Character(c) => write!(f, "`{path}` has a `{c}`, which no name on Windows can have"),
            Unportable::Hidden(c) => {
                write!(f, "`{path}` has the character U+{:04X}, which hides or moves text", *c as u32)
            }
            Unportable::Bytes => write!(f, "`{path}` is not UTF-8: not every system can have the name"),
            Unportable::Long => write!(f, "`{path}` is longer than {LONGEST} bytes"),
            Unportable::Disguised(name) => {
                write!(f, "`{path}` is, where case does not count, `{}`", visible(name, Lines::Escape))
            }
            Unportable::Collides(other) => write!(
                f,
                "`{path}` and `{}` are one file where case or Unicode's forms do not count",
                visible(other.as_str(), Lines::Escape)
            ),
        }
    }
}

/// What one name of a path is, by itself; `None` where it is the same everywhere.
///
/// ```
/// use provost_evidence::names::{Unportable, unportable};
/// assert_eq!(unportable(b"lib.rs"), None);
/// assert_eq!(unportable(b"aux.c"), Some(Unportable::Device));
/// assert_eq!(unportable("a\u{202e}b".as_bytes()), Some(Unportable::Hidden('\u{202e}')));
/// ```
pub fn unportable(name: &[u8]) -> Option<Unportable> {
    if is_git_folder_name(name) {
        return Some(Unportable::Git);
    }
    let Ok(text) = std::str::from_utf8(name) else {
        return Some(Unportable::Bytes);
    };
    if name.len() > LONGEST {
        return Some(Unportable::Long);
    }
    if let Some(c) = text.chars().find(|c| is_hidden(*c)) {
        return Some(Unportable::Hidden(c));
    }
    if let Some(c) = text.chars().find(|c| matches!(c, '<' | '>' | ':' | '"' | '|' | '?' | '*' | '\\')) {
        return Some(Unportable::Character(c));
    }
    if text.ends_with(['.', ' ']) {
        return Some(Unportable::Trailing);
    }
    if is_device(text) {
        return Some(Unportable::Device);
    }
    if !text.is_ascii() {
        let folded = folded(text);
        if folded.is_ascii() {
            return Some(Unportable::Disguised(folded.into_owned()));
        }
    }
    None
}

/// Names that Windows keeps for devices, in any case and with any extension (Microsoft, "Naming Files, Paths, and
/// Namespaces").
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ').to_ascii_uppercase();
    if matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") {
        return true;
    }
    let port = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    port.is_some_and(|port| {
        matches!(port, "¹" | "²" | "³") || (port.len() == 1 && port.as_bytes()[0].is_ascii_digit())
    })
}

/// A name or path as a file system has it for which neither case nor Unicode's forms count: Unicode's canonical caseless
/// form (The Unicode Standard, 3.13, D145).
pub fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            text.to_ascii_lowercase().into()
        } else {
            text.into()
        };
    }
    let decomposed: String = text.nfd().collect();
    default_case_fold_str(&decomposed).nfd().collect::<String>().into()
}

/// The names that lead from `before` to `after`, two sets of files of one tree, and are not the same everywhere: of files
/// and of the folders above them, each once, in order of their paths.
pub fn faults<'a>(
    before: impl IntoIterator<Item = &'a RelPath>,
    after: impl IntoIterator<Item = &'a RelPath>,
) -> Vec<NameFault> {
    let old = with_folders(before);
    let all = with_folders(after);
    let mut found = BTreeMap::new();
    // What is new, by what a file system without case takes it for. Of several alike the first stands for the others.
    let mut new: BTreeMap<Cow<'_, str>, Vec<&str>> = BTreeMap::new();
    for path in all.difference(&old) {
        new.entry(folded(path)).or_default().push(path);
        if let Some(what) = named(path).as_ref().and_then(|path| unportable(last_of(path))) {
            found.insert(*path, what);
        }
    }
    for path in &all {
        let Some(alike) = new.get(&folded(path)) else {
            continue;
        };
        for other in alike.iter().filter(|other| *other != path) {
            if let Ok(path) = RelPath::try_from((*path).to_owned()) {
                found.entry(*other).or_insert(Unportable::Collides(path));
            }
        }
    }
    let fault = |(path, what): (&str, Unportable)| {
        Some(NameFault { path: RelPath::try_from(path.to_owned()).ok()?, what })
    };
    found.into_iter().filter_map(fault).collect()
}

fn with_folders<'a>(paths: impl IntoIterator<Item = &'a RelPath>) -> BTreeSet<&'a str> {
    paths.into_iter().flat_map(RelPath::ancestors).collect()
}

/// The bytes of a path in its text form.
fn named(path: &str) -> Option<Vec<u8>> {
    RelPath::try_from(path.to_owned()).ok().map(|path| path.to_bytes())
}

fn last_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(before: &[&str], after: &[&str]) -> Vec<String> {
        let paths = |names: &[&str]| -> Vec<RelPath> {
            names.iter().map(|name| RelPath::parse(name).expect("a path")).collect()
        };
        let (before, after) = (paths(before), paths(after));
        faults(&before, &after).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ordinary_names_pass() {
        let names =
            ["src/lib.rs", "docs/Über uns.md", "a-b_c.d", "日本語.txt", "console.rs", "com.rs", "κόσμος"];
        assert_eq!(found(&[], &names), [""; 0]);
    }

    #[test]
    fn names_that_are_not_the_same_everywhere_are_found() {
        for name in [
            ".git/hooks/x",
            ".GIT",
            ".g\u{200c}it",
            "git~1/config",
            ".git::$INDEX_ALLOCATION/x",
            "CON",
            "nul.txt",
            "src/aux.h",
            "COM1",
            "lpt9.log",
            "com\u{b9}",
            "CON .txt",
            "trailing.",
            "trailing ",
            "a:b",
            "a\\b",
            "what?",
            "zero\u{200b}width",
            "bidi\u{202e}txt",
            "bell\u{7}",
            "escape\u{1b}[2J",
            "build.r\u{17f}",
            "\u{212a}elvin",
            &"x".repeat(256),
        ] {
            assert_eq!(found(&["README.md"], &["README.md", name]).len(), 1, "{name:?}");
            // What the base has is its owner's.
            assert_eq!(found(&[name], &[name]), [""; 0], "{name:?}");
        }
        let bytes = RelPath::from_bytes(b"caf\xe9").expect("a path");
        assert_eq!(faults([], [&bytes])[0].what, Unportable::Bytes);
    }

    #[test]
    fn names_alike_but_for_case_or_form_are_found() {
        for (old, new) in [
            ("README", "readme"),
            ("stra\u{df}e", "STRASSE"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("\u{39f}\u{3a3}", "\u{3bf}\u{3c2}"),
            ("src/a.rs", "SRC/b.rs"),
        ] {
            assert_eq!(found(&[old], &[old, new]).len(), 1, "{old} {new}");
            assert_eq!(found(&[new], &[old, new]).len(), 1, "{old} {new}");
            // Renamed, there is one.
            assert_eq!(found(&[old], &[new]), [""; 0], "{old} {new}");
            assert_eq!(found(&[old, new], &[old, new]), [""; 0], "{old} {new}");
        }
        // Both new: each is one too many.
        assert_eq!(found(&[], &["A", "a"]).len(), 2);
        // Folders that the base has twice meet in a new file.
        assert_eq!(found(&["D/a", "d/x"], &["D/a", "d/x", "d/A"]).len(), 1);
    }

    #[test]
    fn a_fault_is_told_in_words_that_show_what_hides() {
        insta::assert_snapshot!(
            found(&["README"], &["README", "readme", "a\u{202e}b", "nul", ".git/x", "x."]).join("\n")
        );
    }
}
