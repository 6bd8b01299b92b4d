//! Shells: the line behind `-c`, or a file that they read.

use super::{Grammar, Part, Place, Word, is_plain_setting, is_steering_flag};

/// Shells of which lines can be read here.
const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "posh", "rbash", "sh", "yash"];

/// Shells whose lines are another language.
const OTHERS: &[&str] = &["csh", "elvish", "fish", "nu", "pwsh", "rc", "tcsh", "xonsh", "zsh"];

/// Long options with a value.
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
                parts.push(untold(format!("`{name}` reads a language that is not read here")));
            }
            return;
        }
        "eval" => {
            parts.push(Part::line(super::wrappers::joined(args), Grammar::Bash));
            parts.push(untold("what `eval` makes of its words"));
            return;
        }
        "trap" => {
            parts.extend(trapped(args));
            return;
        }
        "." | "source" | "alias" | "fc" | "bind" | "complete" | "compgen" | "enable" => {
            parts.push(untold(format!("what `{name}` makes run")));
            return;
        }
        _ => return,
    };
    shell(name, grammar, args, parts);
}

fn shell(name: &str, grammar: Grammar, args: &[Word], parts: &mut Vec<Part>) {
    let mut line = false;
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        let Some(text) = word.known() else {
            parts.push(untold(format!("`{word}` may be an option of `{name}`, or what it reads")));
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
        if let Some(long) = long_name(text) {
            rest = long_option(name, &long, rest, parts);
        } else {
            line |= text.contains('c');
            rest = cluster(name, text, rest, parts);
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
                parts.push(untold(format!("`{name}` reads what it runs from `{file}`")));
            }
        }
        None => parts.push(untold(format!("`{name}` reads what it runs from its standard input"))),
    }
}

/// A long option, which bash takes with one dash too.
fn long_name(text: &str) -> Option<String> {
    if text.starts_with("--") {
        return Some(text.to_owned());
    }
    let long = format!("-{text}");
    let known = LONG_VALUES.contains(&long.as_str()) || LONG_FLAGS.contains(&long.as_str());
    (known || long == "--login").then_some(long)
}

/// Passes over a long option's value.
fn long_option<'a>(name: &str, long: &str, rest: &'a [Word], parts: &mut Vec<Part>) -> &'a [Word] {
    if LONG_VALUES.contains(&long) || long == "--login" {
        parts.push(untold(format!("`{name} {long}` reads start files")));
    } else if !LONG_FLAGS.contains(&long) {
        parts.push(untold(format!("of `{name}`, its option `{long}` is not known")));
    }
    if LONG_VALUES.contains(&long) { rest.get(1..).unwrap_or_default() } else { rest }
}

/// Options of one letter. Each `o` and `O` among them takes one of the words behind the cluster.
fn cluster<'a>(name: &str, text: &str, mut rest: &'a [Word], parts: &mut Vec<Part>) -> &'a [Word] {
    for letter in text.chars().skip(1) {
        match letter {
            'i' | 'l' => parts.push(untold(format!("`{name} {text}` reads start files"))),
            's' => parts.push(untold(format!("`{name}` reads what it runs from its standard input"))),
            'o' | 'O' => {
                let Some((setting, behind)) = rest.split_first() else { continue };
                rest = behind;
                if !setting.known().is_some_and(is_plain_setting) {
                    parts.push(untold(format!("how `{name}` reads lines with its option `{setting}`")));
                }
            }
            _ if is_steering_flag(letter) => {
                parts.push(untold(format!("how `{name}` reads lines with its option `{text}`")));
            }
            _ => {}
        }
    }
    rest
}

fn untold(why: impl Into<String>) -> Part {
    Part::Untold(why.into())
}

/// The line that `trap` runs, later and in whatever folder the shell is then. Without one it resets, ignores or prints.
fn trapped(args: &[Word]) -> Option<Part> {
    let (first, behind) = args.split_first()?;
    let prints = |text: &str| {
        text.strip_prefix('-').is_some_and(|letters| {
            !letters.is_empty() && letters.chars().all(|c| matches!(c, 'l' | 'p' | 'P'))
        })
    };
    let args = match first.known() {
        Some("--") => behind,
        Some(text) if prints(text) => return None,
        _ => args,
    };
    let (line, signals) = args.split_first()?;
    let resets = |text: &str| matches!(text, "" | "-") || text.parse::<u8>().is_ok_and(|number| number <= 64);
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
