//! Shells: the line behind `-c`, or a file that they read.

use super::options::has_short;
use super::wrappers::unclear;
use super::{Grammar, Part, Place, Word};

/// Shells of which lines can be read here.
const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "posh", "rbash", "sh", "yash"];

/// Shells whose lines are another language.
const OTHERS: &[&str] = &["csh", "elvish", "fish", "nu", "pwsh", "rc", "tcsh", "xonsh", "zsh"];

/// Short options that take a value, and long ones.
const VALUES: &str = "oO";
const LONG_VALUES: &[&str] = &["--rcfile", "--init-file"];

/// Long options that change nothing of what the line does.
const LONG_FLAGS: &[&str] =
    &["--noprofile", "--norc", "--posix", "--noediting", "--restricted", "--verbose", "--debugger"];

pub(super) fn look(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    let grammar = match name {
        "bash" | "rbash" => Grammar::Bash,
        _ if SHELLS.contains(&name) => Grammar::Posix,
        _ if OTHERS.contains(&name) => {
            if !is_file(args) {
                parts.push(unclear(format!("`{name}` reads a language that is not read here")));
            }
            return;
        }
        "eval" => {
            parts.push(Part::line(super::wrappers::joined(args), Grammar::Bash));
            parts.push(unclear("what `eval` makes of its words"));
            return;
        }
        "trap" => {
            parts.extend(trapped(args));
            return;
        }
        "." | "source" | "alias" | "fc" | "bind" | "complete" | "compgen" | "enable" => {
            parts.push(unclear(format!("what `{name}` makes run")));
            return;
        }
        _ => return,
    };
    let mut line = false;
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        let Some(text) = word.known() else {
            parts.push(unclear(format!("`{word}` may be an option of `{name}`, or what it reads")));
            return;
        };
        let ends = matches!(text, "--" | "-");
        if !ends && !text.starts_with(['-', '+']) {
            break;
        }
        rest = behind;
        if ends {
            break;
        }
        if text.starts_with("--") {
            if LONG_VALUES.contains(&text) || text == "--login" {
                parts.push(unclear(format!("`{name} {text}` reads start files")));
                rest = if text == "--login" { rest } else { rest.get(1..).unwrap_or_default() };
            } else if !LONG_FLAGS.contains(&text) {
                parts.push(unclear(format!("of `{name}`, its option `{text}` is not known")));
            }
            continue;
        }
        line |= text.starts_with('-') && has_short(text, 'c', VALUES);
        if has_short(text, 'l', VALUES) || has_short(text, 'i', VALUES) {
            parts.push(unclear(format!("`{name} {text}` reads start files")));
        }
        if has_short(text, 's', VALUES) {
            parts.push(unclear(format!("`{name}` reads what it runs from its standard input")));
        }
        if text.ends_with(['o', 'O']) {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    match rest.first() {
        Some(text) if line => parts.push(Part::line(text.clone(), grammar)),
        None if line => {}
        Some(file) => {
            let read = file.known().is_some_and(|file| {
                file == "-" || ["/dev/", "/proc/"].iter().any(|folder| file.starts_with(folder))
            });
            if read || file.known().is_none() {
                parts.push(unclear(format!("`{name}` reads what it runs from `{file}`")));
            }
        }
        None => parts.push(unclear(format!("`{name}` reads what it runs from its standard input"))),
    }
}

/// The line that `trap` runs, later and in whatever folder the shell is then. Without one it resets, ignores or prints.
fn trapped(args: &[Word]) -> Option<Part> {
    let args = if args.first().and_then(Word::known) == Some("--") { &args[1..] } else { args };
    let (line, signals) = args.split_first()?;
    let resets = |text: &str| {
        text.is_empty() || text.starts_with('-') || text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if line.known().is_some_and(|text| signals.is_empty() || resets(text)) {
        return None;
    }
    Some(Part::Line { line: line.clone(), grammar: Grammar::Bash, place: Place::Elsewhere })
}

/// Whether the shell only runs a file.
fn is_file(args: &[Word]) -> bool {
    args.first()
        .and_then(Word::known)
        .is_some_and(|first| !first.starts_with(['-', '+']) && !first.starts_with("/dev/"))
}
