//! What bash does by itself.

use provost_core::exec::{Word, is_plain_setting, is_steering_flag, steers};

/// What a builtin does to the reading of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Builtin {
    /// Nothing beyond itself.
    Plain,
    /// It goes to another folder.
    Folder,
    /// Its arguments are `NAME=value`.
    Assigns,
    /// It sets the variables that its arguments name.
    Names,
    /// It starts what its arguments say: its parts are looked at.
    Starts,
    /// Its arguments are arithmetic.
    Arithmetic,
    /// `test` and `[`.
    Tests,
    /// Its arguments are numbers of jobs, unless they are options.
    Waits,
    /// Something of it cannot be told; why.
    Unclear(String),
}

/// What the builtin `name` does with `args`; `None` where it is no builtin, or one that is a program all the same.
pub(super) fn builtin(name: &str, args: &[Word]) -> Option<Builtin> {
    // Options may stand behind the value of another one.
    let has = |option: char| {
        args.iter()
            .any(|word| word.known().is_some_and(|text| text.starts_with('-') && text.contains(option)))
    };
    let may_have = |option: char| has(option) || args.iter().any(|word| word.known().is_none());
    let unclear = |why: String| Some(Builtin::Unclear(why));
    Some(match name {
        ":" | "true" | "false" | "echo" | "pwd" | "exit" | "return" | "break" | "continue" | "shift"
        | "dirs" | "type" | "umask" | "ulimit" | "times" | "caller" | "disown" | "fg" | "bg" | "suspend"
        | "logout" | "help" | "unalias" => Builtin::Plain,
        "set" => set(args).map_or(Builtin::Plain, Builtin::Unclear),
        "shopt" => shopt(args).map_or(Builtin::Plain, Builtin::Unclear),
        "jobs" if may_have('x') => return unclear("what `jobs -x` runs".to_owned()),
        "jobs" => Builtin::Plain,
        "wait" if has('p') => Builtin::Names,
        "wait" => Builtin::Waits,
        "hash" if may_have('p') => return unclear("`hash -p` says which program runs".to_owned()),
        "hash" => Builtin::Plain,
        "printf"
            if args
                .first()
                .is_some_and(|first| first.text().starts_with("-v") || first.known().is_none()) =>
        {
            Builtin::Names
        }
        "printf" => Builtin::Plain,
        "cd" | "pushd" | "popd" => Builtin::Folder,
        "export" | "readonly" | "local" | "declare" | "typeset" => {
            if args.iter().any(|word| {
                word.known().is_some_and(|text| text.starts_with(['-', '+']) && text.contains(['n', 'i']))
            }) {
                return unclear(format!("what `{name}` makes of its values"));
            }
            Builtin::Assigns
        }
        "mapfile" | "readarray" if has('C') => return unclear(format!("what `{name} -C` runs")),
        "read" | "mapfile" | "readarray" | "getopts" | "unset" => Builtin::Names,
        "let" => Builtin::Arithmetic,
        "test" | "[" => Builtin::Tests,
        "exec" | "command" | "builtin" | "eval" | "." | "source" | "trap" | "alias" | "enable" | "bind"
        | "complete" | "compgen" | "compopt" | "fc" | "history" => Builtin::Starts,
        _ => return None,
    })
}

/// Why `set` may change how what follows is read, if it may.
fn set(args: &[Word]) -> Option<String> {
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        let Some(text) = word.known() else {
            return Some(format!("which options `{word}` sets"));
        };
        if matches!(text, "-" | "--") || !text.starts_with(['-', '+']) {
            return None;
        }
        rest = behind;
        for letter in text.chars().skip(1) {
            if is_steering_flag(letter) {
                return Some(format!("how lines are read after `set {text}`"));
            }
            if letter == 'o'
                && let Some((setting, behind)) = rest.split_first()
            {
                rest = behind;
                if !setting.known().is_some_and(is_plain_setting) {
                    return Some(format!("how lines are read after `set -o {setting}`"));
                }
            }
        }
    }
    None
}

/// Why `shopt` may change how what follows is read, if it may.
fn shopt(args: &[Word]) -> Option<String> {
    let plain =
        |word: &&Word| word.known().is_some_and(|text| text.starts_with('-') || is_plain_setting(text));
    let other = args.iter().find(|word| !plain(word))?;
    Some(format!("how lines are read after `shopt {other}`"))
}

/// Why an argument that names a variable may run something, if it may.
pub(super) fn named(word: &Word) -> Option<String> {
    match word.known() {
        None => Some(format!("which variable `{word}` is")),
        Some(text) if steers(text) => Some(format!("with another `{text}`, what runs")),
        // A subscript is arithmetic, which runs what it finds in it.
        Some(text) if text.contains(['[', '$', '`']) => Some(format!("what the subscript of `{text}` runs")),
        Some(_) => None,
    }
}
