//! What in a change can harm before anybody has read it, or that reading it does not show.
//!
//! That a file is dangerous by its name says the table in [`provost_core::session`]; what its content says is here.

use std::collections::HashSet;
use std::fmt;

use provost_core::path::RelPath;
use provost_core::session::{Danger, Dangers};
use provost_core::text::{Lines, is_hidden, visible};

/// What a change does to one file.
#[derive(Debug, Clone, Copy)]
pub struct Edited<'a> {
    /// The file, from the workspace root.
    pub path: &'a RelPath,
    /// Its content before; `None` where it was not there.
    pub before: Option<&'a [u8]>,
    /// Its content after; `None` where it is gone.
    pub after: Option<&'a [u8]>,
}

/// Something dangerous in a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The file, from the workspace root.
    pub path: RelPath,
    /// What kind of danger.
    pub kind: Danger,
    /// Where in the file, where that can be said: a line, from 1, and a character.
    pub at: Option<(usize, char)>,
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", visible(self.path.as_str(), Lines::Escape), self.kind.why())?;
        match self.at {
            Some((line, c)) => write!(f, ": U+{:04X} in line {line}", c as u32),
            None => Ok(()),
        }
    }
}

/// What is dangerous in a change of one file. `scope` is where the workspace lies in its repository: it may itself be such
/// a folder.
pub fn flags(scope: &RelPath, dangers: &Dangers, edited: Edited<'_>) -> Vec<Flag> {
    let flag = |kind, at| Flag { path: edited.path.clone(), kind, at };
    let mut found = Vec::new();
    if let Some(kind) = scope.join(&edited.path.to_bytes()).ok().and_then(|path| dangers.of(&path)) {
        found.push(flag(kind, None));
    }
    if [edited.before, edited.after].into_iter().flatten().any(is_lfs_pointer) {
        found.push(flag(Danger::LfsPointers, None));
    }
    if let Some(after) = edited.after {
        if is_binary(after) {
            found.push(flag(Danger::Binaries, None));
        } else if let Some(at) = hidden_in_added(edited.before.unwrap_or_default(), after) {
            found.push(flag(Danger::HiddenText, Some(at)));
        }
    }
    found
}

/// Git LFS specification, "The Pointer": the first line is the version.
fn is_lfs_pointer(content: &[u8]) -> bool {
    content.starts_with(b"version https://git-lfs.github.com/spec/")
        || content.starts_with(b"version https://hawser.github.com/spec/")
}

fn is_binary(content: &[u8]) -> bool {
    content.contains(&0) || std::str::from_utf8(content).is_err()
}

/// The first hidden character in a line that `after` has and `before` has not: the line, from 1, and the character.
fn hidden_in_added(before: &[u8], after: &[u8]) -> Option<(usize, char)> {
    let text = std::str::from_utf8(after).ok()?;
    let old: HashSet<&[u8]> = before.split(|byte| *byte == b'\n').collect();
    let added = (1..).zip(text.split('\n')).filter(|(_, line)| !old.contains(line.as_bytes()));
    for (number, line) in added {
        if let Some(c) = hidden_in(line.strip_suffix('\r').unwrap_or(line)) {
            return Some((number, c));
        }
    }
    None
}

/// The first hidden character of a line, but for tabs and for those that a picture is made up of (Unicode Technical
/// Standard #51): the selector behind a symbol, the joiner between two.
fn hidden_in(line: &str) -> Option<char> {
    let mut before = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let is_symbol =
            |c: Option<char>| c.is_some_and(|c| matches!(c as u32, 0x2190..=0x2BFF | 0x1F000..=0x1FAFF));
        let part_of_picture = match c {
            '\u{fe0f}' => is_symbol(before) || before.is_some_and(|c| c.is_ascii_digit()),
            '\u{200d}' => {
                (is_symbol(before) || before == Some('\u{fe0f}')) && is_symbol(chars.peek().copied())
            }
            _ => false,
        };
        if is_hidden(c) && c != '\t' && !part_of_picture {
            return Some(c);
        }
        before = Some(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whys(scope: &str, path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> String {
        let parse = |text| RelPath::parse(text).expect("a path");
        let path = parse(path);
        let found = flags(&parse(scope), &Dangers::all(), Edited { path: &path, before, after });
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn ordinary_changes_are_not_flagged() {
        for (before, after) in [
            (None, Some(&b"fn main() {}\n"[..])),
            (Some(&b"a\n"[..]), None),
            (Some(b"a\r\n"), Some(b"a\r\n\tb\r\n")),
            (None, Some("Größe ⚠️ 👩‍🔧 1️⃣ café\n".as_bytes())),
            // What was there before is the base's.
            (Some("a\u{202e}b\n".as_bytes()), Some("a\u{202e}b\nc\n".as_bytes())),
        ] {
            assert_eq!(whys(".", "src/lib.rs", before, after), "");
        }
    }

    #[test]
    fn dangerous_changes_are_flagged() {
        let text = Some(&b"x\n"[..]);
        for (path, before, after) in [
            ("build.rs", None, text),
            ("build.rs", text, None),
            ("a", None, Some(&b"\x7fELF\x02\0"[..])),
            ("a", text, Some(b"caf\xe9\n")),
            ("a", text, Some("x\n/*\u{202e} */\n".as_bytes())),
            ("a", None, Some("a\u{200b}b\n".as_bytes())),
            ("a", None, Some(b"\x1b[2J\n")),
            ("a", None, Some(b"progress\roverwritten\n")),
            ("a", None, Some("a\u{200d}b".as_bytes())),
            ("a", None, Some("a\u{fe0f}".as_bytes())),
            ("a", None, Some(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")),
            ("a", Some(b"version https://git-lfs.github.com/spec/v1\n"), text),
        ] {
            assert_ne!(whys(".", path, before, after), "", "{path} {after:?}");
        }
        // The workspace may itself be such a folder.
        assert_eq!(whys(".", "workflows/x.yml", None, text), "");
        assert_ne!(whys(".github", "workflows/x.yml", None, text), "");
    }

    #[test]
    fn flags_are_told_in_words() {
        insta::assert_snapshot!(whys(".", "a\u{7}/build.rs", None, Some("x\ny\u{2066}z".as_bytes())));
    }
}
