//! What a command does besides what its name says: the commands that it starts, the text that it hands to a shell, the
//! files that it writes although its name is that of a reader.
//!
//! All of it is read off the argument vector, without looking at any file. What cannot be read off is
//! [`Part::Unclear`], never left out: options that are not known here, words that come from an expansion, languages that
//! are not read here. Programs that are languages themselves (Python, Perl, make) are opaque and have no parts: policy
//! decides on them by name, and containment holds what they do.
//!
//! ```
//! use provost_core::exec::{Part, Word, parts};
//! let words = |line: &str| line.split(' ').map(Word::fixed).collect::<Vec<_>>();
//! let argv = words("timeout -k 5 60 rm -rf x");
//! assert_eq!(parts("timeout", &argv[1..]), [Part::here(words("rm -rf x"))]);
//! ```

mod hidden;
mod options;
mod scripts;
mod settings;
mod shells;
mod tools;
mod variables;
mod wrappers;

use std::fmt;

pub use settings::{is_plain_setting, is_steering_flag};
pub use variables::steers;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Word {
    /// It is this.
    Fixed(String),
    /// It is one word that an expansion makes; as written.
    One(String),
    /// It is one word that names a file, by a path that does not start as an option does; as written.
    File(String),
    /// It is any number of words that an expansion makes; as written.
    Many(String),
}

impl Word {
    /// A word that is what it says.
    pub fn fixed(text: impl Into<String>) -> Self {
        Self::Fixed(text.into())
    }

    /// The word, where it is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Fixed(text) => Some(text),
            Self::One(_) | Self::File(_) | Self::Many(_) => None,
        }
    }

    /// The word, or how it is written.
    pub fn text(&self) -> &str {
        match self {
            Self::Fixed(text) | Self::One(text) | Self::File(text) | Self::Many(text) => text,
        }
    }

    /// Whether an expansion may make an option of it.
    fn may_be_option(&self) -> bool {
        let starts_as_name = |text: &str| {
            let first = text.trim_start_matches('"').chars().next();
            first.is_some_and(|first| first.is_ascii_alphanumeric() || matches!(first, '/' | '.' | '_'))
        };
        match self {
            Self::Fixed(_) | Self::File(_) => false,
            Self::One(text) => !starts_as_name(text),
            // What is split may start anew anywhere; the names that a pattern finds start as it does.
            Self::Many(text) => !starts_as_name(text) || text.contains(['$', '`', '{', ' ']),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The folder that a part of a command works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The same.
    Here,
    /// Another one: a relative name may stand for another program there.
    Elsewhere,
}

/// How a shell reads a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grammar {
    /// As bash does.
    Bash,
    /// As a shell that may know no more than POSIX: what bash reads otherwise is not clear.
    Posix,
}

/// One thing that a command does besides what its name says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// It starts this command.
    Command {
        /// The command's words; the first is its program.
        words: Vec<Word>,
        /// Where it works.
        place: Place,
    },
    /// It hands this to a shell.
    Line {
        /// The line.
        line: Word,
        /// How the shell reads it.
        grammar: Grammar,
        /// Where it works.
        place: Place,
    },
    /// This argument makes it write or remove files, or set something, which its name does not say.
    Hidden(String),
    /// It may start other commands, and which ones cannot be told. Says why, as the rest of a sentence.
    Unclear(String),
    /// It is a shell, and what that runs cannot be told. Says why, alike.
    Untold(String),
}

impl Part {
    /// A command that is started in the same folder.
    pub fn here(words: Vec<Word>) -> Self {
        Self::Command { words, place: Place::Here }
    }

    fn line(line: Word, grammar: Grammar) -> Self {
        Self::Line { line, grammar, place: Place::Here }
    }

    /// The same, in a folder that is another one.
    fn moved(self, to: Place) -> Self {
        match (self, to) {
            (Self::Command { words, .. }, Place::Elsewhere) => {
                Self::Command { words, place: Place::Elsewhere }
            }
            (Self::Line { line, grammar, .. }, Place::Elsewhere) => {
                Self::Line { line, grammar, place: Place::Elsewhere }
            }
            (part, _) => part,
        }
    }
}

/// What the program `name` does with `args` besides what its name says. `name` is the program's base name: the one it
/// was called by or the one of the file that is run. Only one level is looked at: a part that is a command has parts of
/// its own.
pub fn parts(name: &str, args: &[Word]) -> Vec<Part> {
    let mut parts = Vec::new();
    wrappers::look(name, args, &mut parts);
    shells::look(name, args, &mut parts);
    tools::look(name, args, &mut parts);
    hidden::look(name, args, &mut parts);
    parts
}

/// The last part of a path, without a version behind it: `python3.11` and `./awk` are `python3.11` and `awk`.
pub fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}
