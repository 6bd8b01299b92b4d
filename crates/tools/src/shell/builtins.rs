//! What bash does by itself.

use provost_core::exec::{Word, steers};

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
    /// Something of it cannot be told; why.
    Unclear(String),
}

/// What the builtin `name` does with `args`; `None` where it is no builtin, or one that is a program all the same.
pub(super) fn builtin(name: &str, args: &[Word]) -> Option<Builtin> {
    let has = |option: char| {
        args.iter()
            .map_while(|word| word.known().filter(|text| text.starts_with('-')))
            .any(|text| text.contains(option))
    };
    let unclear = |why: String| Some(Builtin::Unclear(why));
    Some(match name {
        ":" | "true" | "false" | "echo" | "pwd" | "exit" | "return" | "break" | "continue" | "shift"
        | "wait" | "jobs" | "dirs" | "type" | "umask" | "ulimit" | "times" | "caller" | "disown" | "fg"
        | "bg" | "suspend" | "logout" | "help" | "set" | "shopt" | "unalias" => Builtin::Plain,
        "hash" if has('p') => return unclear("`hash -p` says which program runs".to_owned()),
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
