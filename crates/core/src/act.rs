//! Acts: what a call would touch, how it recovers, what it changed.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::agents::Spawn;
use crate::caps::CapHit;
use crate::digest::Digest;
use crate::path::RelPath;
use crate::text::{Lines, is_hidden, visible};

/// The kinds of access that policy rules speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading a file or folder of the workspace.
    Read,
    /// Creating, changing, moving or deleting a file of the workspace.
    Write,
    /// Running a program.
    Exec,
    /// Dialling a host and port.
    Net,
    /// Calling a tool of someone else's.
    Call,
    /// Starting an agent.
    Spawn,
}

impl Access {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::Exec, Self::Net, Self::Call, Self::Spawn];

    /// The word used in rules.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Exec => "exec",
            Self::Net => "net",
            Self::Call => "call",
            Self::Spawn => "spawn",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One thing that an act would touch. Policy decides on these and on nothing else, so that a decision can be made
/// again from the event that holds them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "access", deny_unknown_fields)]
pub enum Touch {
    /// A file or folder that is read.
    Read {
        /// Which.
        path: RelPath,
    },
    /// A file that is created, changed or deleted.
    Write {
        /// Which.
        path: RelPath,
    },
    /// A program that is run.
    Exec {
        /// The whole argument vector.
        argv: Vec<String>,
        /// Where `argv[0]` was found; `None` where it was not found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<String>,
    },
    /// A command of a shell line, or one that another program starts, of which only the first words are known: the
    /// others are made as it runs.
    Expanded {
        /// The argument vector; from `known` on as it is written.
        argv: Vec<String>,
        /// How many words are known; none where the program may be another one by the time that it starts.
        known: u32,
        /// Where `argv[0]` was found; `None` where it was not found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<String>,
    },
    /// What a shell does by itself: the shell that runs a line all of whose commands are decided on by themselves, or a
    /// builtin that starts nothing and writes nothing. Rules that deny it or ask about it hold; no rule need allow it.
    Shell {
        /// Argument vector; as written where it is not known.
        argv: Vec<String>,
        /// How many words are known, where expansions make the others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<u32>,
        /// Where `argv[0]` was found; `None` for a builtin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<String>,
    },
    /// A program that is known as a reader and that writes because of one of its arguments: `sort -o`, `find -delete`.
    /// A rule that allows it has to spell that argument.
    Hidden {
        /// Argument vector, as written where it is not known.
        argv: Vec<String>,
        /// The argument.
        by: String,
    },
    /// What a program may do besides, by its arguments, and what cannot be told of it before it happens. It counts as
    /// everything of its kind at once.
    Unclear {
        /// Its kind.
        of: Access,
        /// What it is.
        why: String,
    },
    /// What a shell does that cannot be told before it runs: `eval`, a name out of a variable. As [`Unclear`](Self::Unclear),
    /// and that commands are contained is no reason to allow it.
    Untold {
        /// Its kind.
        of: Access,
        /// What it is.
        why: String,
    },
    /// A file outside of the workspace that a shell opens.
    Outside {
        /// Whether it is read or written.
        of: Access,
        /// Its absolute path, or one that leaves the workspace.
        path: String,
    },
    /// A host that is dialled.
    Net {
        /// Lower-case host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A tool of someone else's that is called.
    Call {
        /// Its name, as `server.tool`.
        tool: String,
    },
    /// An agent that is started.
    Spawn {
        /// Its name in the roster.
        agent: String,
    },
}

impl Touch {
    /// The kind of access.
    pub fn access(&self) -> Access {
        match self {
            Self::Read { .. } => Access::Read,
            Self::Write { .. } => Access::Write,
            Self::Exec { .. } | Self::Expanded { .. } | Self::Shell { .. } | Self::Hidden { .. } => {
                Access::Exec
            }
            Self::Unclear { of, .. } | Self::Untold { of, .. } | Self::Outside { of, .. } => *of,
            Self::Net { .. } => Access::Net,
            Self::Call { .. } => Access::Call,
            Self::Spawn { .. } => Access::Spawn,
        }
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.access())?;
        match self {
            Self::Read { path } | Self::Write { path } => f.write_str(&visible(path.as_str(), Lines::Escape)),
            Self::Exec { argv, .. } | Self::Shell { argv, known: None, .. } => f.write_str(&show_argv(argv)),
            Self::Expanded { argv, known, .. } | Self::Shell { argv, known: Some(known), .. } => {
                let (fixed, made) = argv.split_at(argv.len().min(*known as usize));
                f.write_str(&show_argv(fixed))?;
                made.iter().try_for_each(|word| write!(f, " {}", visible(word, Lines::Escape)))
            }
            Self::Hidden { argv, by } => {
                let (argv, by) = (show_argv(argv), visible(by, Lines::Escape));
                write!(f, "{argv} (which writes by `{by}`)")
            }
            Self::Unclear { why, .. } | Self::Untold { why, .. } => {
                write!(f, "that cannot be told: {}", visible(why, Lines::Escape))
            }
            Self::Outside { path, .. } => {
                write!(f, "{} (outside of the workspace)", visible(path, Lines::Escape))
            }
            Self::Net { host, port } => write!(f, "{}:{port}", visible(host, Lines::Escape)),
            Self::Call { tool: name } | Self::Spawn { agent: name } => {
                f.write_str(&visible(name, Lines::Escape))
            }
        }
    }
}

/// An argument vector as a shell would need it quoted, control characters, invisible text and long stretches of spaces
/// written out, so that what is shown for approval is what runs. No two vectors look the same.
///
/// ```
/// use provost_core::act::show_argv;
/// let argv = ["grep", "-n", "it's", "a*", "b\u{202e}c"].map(String::from);
/// assert_eq!(show_argv(&argv), r"grep -n 'it'\''s' 'a*' $'b\u202ec'");
/// ```
pub fn show_argv(argv: &[String]) -> String {
    argv.iter().enumerate().map(|(index, arg)| show_word(arg, index == 0)).collect::<Vec<_>>().join(" ")
}

/// Longest stretch of spaces that is shown as it is: a longer one can push text out of sight.
const SPACES: usize = 16;

fn show_word(word: &str, first: bool) -> String {
    // A first word with `=` would set a variable.
    let ordinary = |b: u8| b.is_ascii_alphanumeric() || b"-_./:,+@%".contains(&b) || (b == b'=' && !first);
    if !word.is_empty() && word.bytes().all(ordinary) {
        return word.to_owned();
    }
    let padded = word.contains(&" ".repeat(SPACES + 1));
    if padded || word.contains(is_hidden) {
        return show_hidden(word, padded);
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A word in the shell's `$'..'` form, where escapes stand for what cannot be seen.
fn show_hidden(word: &str, padded: bool) -> String {
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' ' if padded => out.push_str("\\x20"),
            c if is_hidden(c) && c.is_ascii() => drop(write!(out, "\\x{:02x}", c as u32)),
            c if is_hidden(c) && c as u32 <= 0xFFFF => drop(write!(out, "\\u{:04x}", c as u32)),
            c if is_hidden(c) => drop(write!(out, "\\U{:08x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// How an act that started and has no result is settled after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// Settled by looking: a read is done again, a write is compared with its digests before and after.
    Replayable,
    /// A command whose supervisor leaves an exit record.
    Supervised,
    /// Nobody can tell: a person decides.
    Indeterminate,
}

/// A file at one moment. Content is named by its salted digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFact {
    /// Git's mode: `100644`, `100755` or `120000` (a symbolic link, whose content is its target).
    pub mode: String,
    /// Bytes.
    pub size: u64,
    /// Salted digest of the content.
    pub content: Digest,
    /// Whether the journal keeps the content. Where it does not (a file over the size limit), `content` is the salted
    /// digest of the file's blob id in git's SHA-256 format instead.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub kept: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_true(flag: &bool) -> bool {
    *flag
}

/// One changed path: before and after. Both absent is not a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Which path.
    pub path: RelPath,
    /// The file before; `None` where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileFact>,
    /// The file after; `None` where it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileFact>,
}

/// What an act is about to do, recorded before it does it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do", deny_unknown_fields)]
pub enum Intent {
    /// Bring files from their `before` to their `after`.
    Write {
        /// All of them or none.
        changes: Vec<Change>,
    },
    /// Run a command.
    Command {
        /// Argument vector.
        argv: Vec<String>,
        /// Folder it runs in.
        cwd: RelPath,
        /// Wall-clock limit in milliseconds.
        limit_ms: u64,
    },
    /// Start a command that goes on when the act is over.
    Background {
        /// Argument vector.
        argv: Vec<String>,
        /// Folder it runs in.
        cwd: RelPath,
        /// Wall-clock limit in milliseconds; `None`: until the run ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ms: Option<u64>,
        /// The port of its own loopback that the same port of the host's leads to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        publish: Option<u16>,
    },
    /// Call a tool of a server of the contract's.
    Call {
        /// The server's name.
        server: String,
        /// The tool, by the server's own name.
        tool: String,
    },
    /// Start an agent. The act is open until that ends.
    Spawn(Box<Spawn>),
}

/// How an act ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActEnd {
    /// It did what was asked.
    Done,
    /// It was tried and failed; the result says how.
    Failed,
    /// Policy or a person refused it: it was not tried.
    Refused,
    /// It was cut short by its time limit.
    TimedOut,
    /// It was cut short by the loss of its driver, or by the person.
    Interrupted,
}

/// How a command's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how", deny_unknown_fields)]
pub enum ExitFact {
    /// It exited.
    Exited {
        /// Exit status.
        code: i32,
    },
    /// A signal ended it.
    Signalled {
        /// Signal number.
        signal: i32,
    },
    /// Its time limit ended it.
    TimedOut {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// It was killed because its processes took more than a cap allows.
    Capped {
        /// Which cap, and how far.
        hit: CapHit,
    },
    /// It was killed because the person cancelled it.
    Cancelled,
    /// It was killed because its driver died.
    DriverLost,
    /// It never started, and nothing of it has run. Only of a background command: its container may be found not to start
    /// when the act that orders it is over.
    NotStarted,
}

impl ExitFact {
    /// How an act whose command ended so ends.
    pub fn end(self) -> ActEnd {
        match self {
            Self::Exited { code: 0 } => ActEnd::Done,
            Self::Exited { .. } | Self::Signalled { .. } | Self::Capped { .. } | Self::NotStarted => {
                ActEnd::Failed
            }
            Self::TimedOut { .. } => ActEnd::TimedOut,
            Self::Cancelled | Self::DriverLost => ActEnd::Interrupted,
        }
    }
}

/// Numbers of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandFact {
    /// How it ended.
    pub exit: ExitFact,
    /// Wall-clock milliseconds.
    pub duration_ms: u64,
    /// Bytes that it wrote to standard output and standard error together.
    pub output_bytes: u64,
    /// Processes that outlived the kill; 0 means that the tree is gone.
    pub survivors: u32,
    /// Caps that it reached without being killed for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<CapHit>,
    /// What it did on the network, where it had one and used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<crate::net::Traffic>,
    /// What contained it, where that is not what the driver said when it attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<crate::containment::Receipt>,
}
