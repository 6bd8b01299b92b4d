//! Programs that a line may make before it starts them: a link, a copy, what a compiler wrote. What they do cannot be
//! told from their names.

use std::collections::BTreeSet;

use provost_core::exec::{Word, base_name};

/// Commands that put a file where another one says.
const MAKERS: &[&str] = &[
    "cp", "cpio", "curl", "dd", "install", "link", "ln", "mv", "patch", "rename", "rsync", "tar", "tee",
    "unzip", "wget",
];

/// Commands that leave the files that they are given as they are, or make them executable.
const READERS: &[&str] = &[
    "basename",
    "cat",
    "chmod",
    "diff",
    "dirname",
    "file",
    "grep",
    "head",
    "ls",
    "mkdir",
    "readlink",
    "realpath",
    "rg",
    "sha256sum",
    "sort",
    "stat",
    "tail",
    "touch",
    "wc",
];

/// Commands that give another one words of their own.
const FEEDERS: &[&str] = &["fd", "fdfind", "find", "parallel", "xargs"];

/// What the commands of a line have made, as far as their words say.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Last parts of the names that they were given.
    names: BTreeSet<String>,
    /// Whether any program ran, which may have made something.
    ran: bool,
    /// Whether one made a file of a name that is not known.
    unknown: bool,
}

impl Made {
    /// A redirect writes this file.
    pub(super) fn writes(&mut self, target: &Word) {
        match target.known() {
            Some(name) if name.starts_with("/dev/") => {}
            Some(name) => drop(self.names.insert(base_name(name).to_owned())),
            None => self.unknown = true,
        }
    }

    /// A program ran with these words.
    pub(super) fn ran(&mut self, words: &[Word]) {
        self.ran = true;
        let is =
            |word: &Word, names: &[&str]| word.known().is_some_and(|name| names.contains(&base_name(name)));
        let Some((program, args)) = words.split_first() else { return };
        if is(program, READERS) {
            return;
        }
        let makes = words.iter().any(|word| is(word, MAKERS));
        let unknown = is(program, FEEDERS) || args.iter().any(|word| word.known().is_none());
        self.unknown |= makes && unknown;
        for text in args.iter().filter_map(Word::known) {
            // `of=x`, `-ox`, and whole lines for a shell.
            let pieces = text.split(|c: char| c.is_whitespace() || matches!(c, '=' | ';' | '\'' | '"'));
            for piece in pieces.chain(text.strip_prefix('-').and_then(|rest| rest.get(1..))) {
                let name = base_name(piece);
                if makes || !matches!(name, "" | "." | "..") {
                    self.names.insert(name.to_owned());
                }
            }
        }
    }

    /// Whether the program of that path may be another one by now. `found` says whether there is one as yet.
    pub(super) fn may_be(&self, path: &str, found: bool) -> bool {
        let names = |part: &str| !matches!(part, "" | "." | "..") && self.names.contains(part);
        let folder = ["", ".", ".."].iter().any(|name| self.names.contains(*name));
        (self.ran && !found) || self.unknown || folder || path.split('/').any(names)
    }
}
