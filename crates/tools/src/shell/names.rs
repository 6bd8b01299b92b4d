//! Variables that a line names, and those that bash itself fills.

use provost_core::exec::Word;

/// Variables of bash's own that are numbers: what is assigned to them is evaluated as arithmetic.
const INTEGERS: &[&str] = &[
    "BASHPID",
    "BASH_SUBSHELL",
    "COLUMNS",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "HISTCMD",
    "LINENO",
    "LINES",
    "OPTERR",
    "OPTIND",
    "PPID",
    "RANDOM",
    "SECONDS",
    "SHLVL",
    "SRANDOM",
    "UID",
];

/// Variables that bash fills with words of the line or of what it reads.
const FILLED: &[&str] = &[
    "_",
    "BASH_ALIASES",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_LINENO",
    "BASH_REMATCH",
    "BASH_SOURCE",
    "COMP_LINE",
    "COMP_WORDS",
    "COPROC",
    "DIRSTACK",
    "FUNCNAME",
    "IFS",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "PWD",
    "READLINE_LINE",
    "REPLY",
];

/// Variables of bash's own that are arrays.
const ARRAYS: &[&str] = &[
    "BASH_ALIASES",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_CMDS",
    "BASH_LINENO",
    "BASH_REMATCH",
    "BASH_SOURCE",
    "BASH_VERSINFO",
    "COMPREPLY",
    "COMP_WORDS",
    "COPROC",
    "DIRSTACK",
    "FUNCNAME",
    "GROUPS",
    "MAPFILE",
    "PIPESTATUS",
];

/// Whether bash evaluates what the variable is given.
pub(super) fn is_integer(name: &str) -> bool {
    INTEGERS.contains(&name)
}

/// Whether the variable may hold words that nobody assigned to it.
pub(super) fn is_filled(name: &str) -> bool {
    FILLED.contains(&name)
}

/// Whether the variable is an array without being made one.
pub(super) fn is_array(name: &str) -> bool {
    ARRAYS.contains(&name)
}

/// The variables that an argument may name: itself, or, in a cluster of options, whatever stands behind a letter.
pub(super) fn variables_of(word: &Word) -> Vec<Word> {
    match word.known().filter(|text| text.starts_with('-')) {
        Some(text) => text.char_indices().skip(1).map(|(at, _)| Word::fixed(&text[at..])).collect(),
        None => vec![word.clone()],
    }
}

/// The variable that an expansion is, where it is nothing else: `$x`, `"${x}"`.
pub(super) fn variable(written: &str) -> Option<&str> {
    let bare = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written);
    let name = bare.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(name);
    is_name(name).then_some(name)
}

/// Whether it is a variable's name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a word in front of a redirect may be a variable that gets the descriptor: `{fd}`, `{fds[0]}`.
pub(super) fn names_descriptor(written: &str) -> bool {
    let inner = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|name| is_name(name.split('[').next().unwrap_or(name)))
}
