//! Programs that run what stands behind their options.

mod find;
mod table;

use find::{fd, find};
use table::{Alone, OPAQUE, WRAPPERS, Wrapper};

use super::options::{Found, Options, has_short, leading};
use super::{Grammar, Part, Place, Word, steers};

pub(super) fn look(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        wrapped(name, wrapper, args, parts);
        return;
    }
    match name {
        "env" => env(args, parts),
        "xargs" => xargs(args, parts),
        "busybox" | "toybox" => applet(args, parts),
        "flock" => flock(args, parts),
        "script" => script(args, parts),
        "watch" => watch(args, parts),
        "parallel" => parallel(args, parts),
        "su" | "runuser" => other_user(args, parts),
        "ssh" | "slogin" => remote(args, parts),
        "find" => find(args, parts),
        "fd" | "fdfind" => fd(args, parts),
        "rustup" if args.first().and_then(Word::known) == Some("run") => {
            look("rustup-run", &args[1..], parts);
        }
        _ if loads(name) => loader(args, parts),
        _ if OPAQUE.contains(&name) => parts.push(unclear(format!("`{name}` starts other programs"))),
        _ => {}
    }
}

pub(super) fn unclear(why: impl Into<String>) -> Part {
    Part::Unclear(why.into())
}

/// The dynamic loader runs the program that it is given.
fn loads(name: &str) -> bool {
    ["ld-linux", "ld.so", "ld-musl", "ld64.so"].iter().any(|beginning| name.starts_with(beginning))
}

pub(super) fn command(words: &[Word], place: Place, parts: &mut Vec<Part>) {
    match words.first() {
        None => {}
        Some(Word::Fixed(_)) => parts.push(Part::here(words.to_vec()).moved(place)),
        Some(word) => parts.push(unclear(format!("`{word}` becomes a command's name"))),
    }
}

fn wrapped(name: &str, wrapper: &Wrapper, args: &[Word], parts: &mut Vec<Part>) {
    let (found, rest) = match leading(args, &wrapper.options) {
        Ok(read) => read,
        Err(why) => {
            guess(args, parts);
            return parts.push(unclear(format!("of `{name}`, {why}")));
        }
    };
    let has = |names: &[&str]| found.iter().find(|option| names.contains(&option.name)).copied();
    if name == "command" && has(&["v", "V"]).is_some() {
        return;
    }
    if let Some(option) = has(wrapper.unclear) {
        parts.push(unclear(format!("with its option `{}`, what `{name}` runs", option.name)));
    }
    if let Some(option) = has(wrapper.writes) {
        parts.push(Part::Hidden(spelled(option)));
    }
    let rest = match rest.get(wrapper.operands.saturating_sub(1)) {
        _ if wrapper.operands == 0 => rest,
        Some(_) => {
            if let Some(word) = rest[..wrapper.operands].iter().find(|word| matches!(word, Word::Many(_))) {
                return parts.push(unclear(format!("`{word}` stands before the command of `{name}`")));
            }
            &rest[wrapper.operands..]
        }
        None => &[],
    };
    let rest = if wrapper.assigns { assigned(rest, parts) } else { rest };
    if rest.is_empty() && matches!(wrapper.alone, Alone::Shell) {
        parts.push(unclear(format!("`{name}` alone starts a shell")));
    }
    let moved = wrapper.moves.contains(&"") || has(wrapper.moves).is_some();
    command(rest, if moved { Place::Elsewhere } else { Place::Here }, parts);
}

/// An option as it is written.
fn spelled(option: Found<'_>) -> String {
    if option.name.len() == 1 { format!("-{}", option.name) } else { format!("--{}", option.name) }
}

/// Where the options of a wrapper are not known, every word that could be the command counts as one: what a rule denies
/// stays denied.
pub(super) fn guess(args: &[Word], parts: &mut Vec<Part>) {
    const MOST: usize = 32;
    for (at, word) in args.iter().enumerate().take(MOST) {
        if word.known().is_some_and(|text| !text.starts_with('-') && !text.is_empty()) {
            parts.push(Part::here(args[at..].to_vec()));
        }
    }
}

/// Passes over `NAME=value` words.
fn assigned<'a>(words: &'a [Word], parts: &mut Vec<Part>) -> &'a [Word] {
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        let Some((name, _)) = word.text().split_once('=') else { break };
        if name.is_empty() || (word.known().is_none() && !is_name(name)) {
            break;
        }
        if steers(name) {
            parts.push(unclear(format!("with another `{name}`, what runs")));
        }
        rest = behind;
    }
    rest
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

const ENV: Options = Options {
    flags: "i0v",
    values: "uCS",
    attached: "",
    long_flags: &[
        "ignore-environment",
        "null",
        "debug",
        "block-signal",
        "default-signal",
        "ignore-signal",
        "list-signal-handling",
    ],
    long_values: &["unset", "chdir", "split-string", "argv0"],
};

fn env(args: &[Word], parts: &mut Vec<Part>) {
    // `-` alone is `-i`.
    let bare = args.first().and_then(Word::known) == Some("-");
    let args = if bare { &args[1..] } else { args };
    let (found, rest) = match leading(args, &ENV) {
        Ok(read) => read,
        Err(why) => {
            guess(args, parts);
            return parts.push(unclear(format!("of `env`, {why}")));
        }
    };
    let mut place = Place::Here;
    for option in &found {
        match option.name {
            "C" | "chdir" => place = Place::Elsewhere,
            "S" | "split-string" => return split_string(option.word(), rest, place, parts),
            _ => {}
        }
    }
    command(assigned(rest, parts), place, parts);
}

/// `env -S`: a text of its own grammar, of which only the plain is read.
fn split_string(text: Option<Word>, rest: &[Word], place: Place, parts: &mut Vec<Part>) {
    let plain = |c: char| c.is_alphanumeric() || " \t-_./:=,@%+".contains(c);
    match text {
        Some(Word::Fixed(text)) if text.chars().all(plain) => {
            let mut words: Vec<Word> = text.split_whitespace().map(Word::fixed).collect();
            words.extend_from_slice(rest);
            let mut inner = Vec::new();
            env(&words, &mut inner);
            parts.extend(inner.into_iter().map(|part| part.moved(place)));
        }
        text => {
            if let Some(Word::Fixed(text)) = text {
                parts.push(Part::line(Word::fixed(text), Grammar::Bash));
            }
            parts.push(unclear("what `env -S` makes of its text"));
        }
    }
}

const XARGS: Options = Options {
    flags: "0rtpxo",
    values: "adEILnPs",
    attached: "eil",
    long_flags: &[
        "null",
        "no-run-if-empty",
        "verbose",
        "interactive",
        "exit",
        "open-tty",
        "show-limits",
        "replace",
        "eof",
        "max-lines",
    ],
    long_values: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"],
};

fn xargs(args: &[Word], parts: &mut Vec<Part>) {
    let (found, rest) = match leading(args, &XARGS) {
        Ok(read) => read,
        Err(why) => {
            guess(args, parts);
            return parts.push(unclear(format!("of `xargs`, {why}")));
        }
    };
    let mut mark = None;
    for option in &found {
        match option.name {
            "I" => mark = option.word(),
            "i" | "replace" => mark = Some(Word::fixed(option.attached.unwrap_or("{}"))),
            "process-slot-var" if option.word().is_none_or(|name| steers(name.text())) => {
                parts.push(unclear("with another variable, what `xargs` runs"));
            }
            _ => {}
        }
    }
    let mut words = match &mark {
        None => rest.to_vec(),
        Some(Word::Fixed(mark)) => filled(rest, mark),
        Some(mark) => return parts.push(unclear(format!("where `xargs` puts words is made by `{mark}`"))),
    };
    if words.is_empty() {
        words.push(Word::fixed("echo"));
    }
    if mark.is_none() {
        words.push(Word::Many("[words that xargs reads]".to_owned()));
    }
    command(&words, Place::Here, parts);
}

/// The words with every one that holds `mark` filled by the program as it runs.
fn filled(words: &[Word], mark: &str) -> Vec<Word> {
    let fill = |word: &Word| match word {
        Word::Fixed(text) if mark.is_empty() || text.contains(mark) => Word::One(text.clone()),
        word => word.clone(),
    };
    words.iter().map(fill).collect()
}

fn applet(args: &[Word], parts: &mut Vec<Part>) {
    match args.first().map(Word::known) {
        Some(Some(option)) if option.starts_with('-') => parts.push(Part::Hidden(option.to_owned())),
        Some(_) => command(args, Place::Here, parts),
        None => {}
    }
}

fn flock(args: &[Word], parts: &mut Vec<Part>) {
    const FLOCK: Options = Options {
        flags: "sxenuoF",
        values: "wE",
        attached: "",
        long_flags: &["shared", "exclusive", "unlock", "nonblock", "nb", "close", "no-fork", "verbose"],
        long_values: &["wait", "timeout", "conflict-exit-code"],
    };
    let (_, rest) = match leading(args, &FLOCK) {
        Ok(read) => read,
        Err(why) => {
            guess(args, parts);
            line_behind(args, &["-c", "--command"], parts);
            return parts.push(unclear(format!("of `flock`, {why}")));
        }
    };
    let Some((lock, rest)) = rest.split_first() else { return };
    if matches!(lock, Word::Many(_)) {
        return parts.push(unclear(format!("`{lock}` stands before the command of `flock`")));
    }
    // Its options may stand behind the lock too.
    match leading(rest, &FLOCK) {
        Ok((_, rest)) => command(rest, Place::Here, parts),
        Err(why) => {
            if !line_behind(rest, &["-c", "--command"], parts) {
                guess(rest, parts);
                parts.push(unclear(format!("of `flock`, {why}")));
            }
        }
    }
}

/// The line behind an option that takes one. Whether there was one.
pub(super) fn line_behind(args: &[Word], names: &[&str], parts: &mut Vec<Part>) -> bool {
    let mut any = false;
    for (at, word) in args.iter().enumerate() {
        let Some(text) = word.known() else { continue };
        let attached = names.iter().find_map(|name| {
            let rest = text.strip_prefix(name)?;
            if name.starts_with("--") {
                rest.strip_prefix('=')
            } else {
                Some(rest).filter(|rest| !rest.is_empty())
            }
        });
        if let Some(line) = attached {
            parts.push(Part::line(Word::fixed(line), Grammar::Posix));
            any = true;
        } else if names.contains(&text) {
            match args.get(at + 1) {
                Some(line) => parts.push(Part::line(line.clone(), Grammar::Posix)),
                None => parts.push(unclear(format!("`{text}` has no line"))),
            }
            any = true;
        }
    }
    any
}

fn script(args: &[Word], parts: &mut Vec<Part>) {
    parts.push(Part::Hidden("its log file".to_owned()));
    let clustered = args
        .iter()
        .position(|word| word.known().is_some_and(|text| text.len() > 2 && has_short(text, 'c', "IOBTmoEt")));
    if let Some(at) = clustered {
        // `-qec LINE`
        match args.get(at + 1) {
            Some(line) if args[at].text().ends_with('c') => {
                parts.push(Part::line(line.clone(), Grammar::Posix));
            }
            _ => parts.push(unclear("what `script` runs")),
        }
    }
    let mut any = line_behind(args, &["-c", "--command"], parts) || clustered.is_some();
    if let Some(at) = args.iter().position(|word| word.known() == Some("--")) {
        command(&args[at + 1..], Place::Here, parts);
        any |= args.len() > at + 1;
    }
    if !any || args.iter().any(|word| word.known().is_none()) {
        parts.push(unclear("what `script` runs"));
    }
}

fn watch(args: &[Word], parts: &mut Vec<Part>) {
    const WATCH: Options = Options {
        flags: "bcCegprtwx",
        values: "nq",
        attached: "d",
        long_flags: &[
            "beep",
            "color",
            "no-color",
            "errexit",
            "chgexit",
            "precise",
            "no-rerun",
            "no-title",
            "no-wrap",
            "exec",
            "differences",
        ],
        long_values: &["interval", "equexit"],
    };
    match leading(args, &WATCH) {
        Ok((found, rest)) if found.iter().any(|option| matches!(option.name, "x" | "exec")) => {
            command(rest, Place::Here, parts);
        }
        Ok((_, rest)) => parts.push(Part::line(joined(rest), Grammar::Posix)),
        Err(why) => {
            guess(args, parts);
            parts.push(unclear(format!("of `watch`, {why}")));
        }
    }
}

/// The words with spaces between them, as programs make a line of them.
pub(super) fn joined(words: &[Word]) -> Word {
    let text = words.iter().map(Word::text).collect::<Vec<_>>().join(" ");
    if words.iter().all(|word| word.known().is_some()) { Word::Fixed(text) } else { Word::Many(text) }
}

/// GNU parallel reads its words as a shell's line, filled from lists.
fn parallel(args: &[Word], parts: &mut Vec<Part>) {
    let end = args.iter().position(|word| word.text().starts_with(":::")).unwrap_or(args.len());
    guess(&args[..end], parts);
    parts.push(Part::line(joined(&args[..end]), Grammar::Posix));
    // What the lists hold may be whole commands.
    for word in &args[end..] {
        parts.push(Part::line(word.clone(), Grammar::Posix));
    }
    parts.push(unclear("which lines `parallel` makes"));
}

fn other_user(args: &[Word], parts: &mut Vec<Part>) {
    if !line_behind(args, &["-c", "--command", "--session-command"], parts) {
        guess(args, parts);
    }
    parts.push(unclear("what a shell of another user runs"));
}

fn remote(args: &[Word], parts: &mut Vec<Part>) {
    const SSH: Options = Options {
        flags: "46AaCfGgKkMNnqsTtVvXxYy",
        values: "BbcDEeFIiJLlmOoPpQRSWw",
        attached: "",
        long_flags: &[],
        long_values: &[],
    };
    let (found, rest) = match leading(args, &SSH) {
        Ok(read) => read,
        Err(why) => {
            guess(args, parts);
            return parts.push(unclear(format!("of `ssh`, {why}")));
        }
    };
    if found.iter().any(|option| matches!(option.name, "o" | "F" | "I" | "J" | "S" | "E")) {
        parts.push(unclear("what the options of `ssh` start"));
    }
    // Options may stand behind the host too.
    match rest.split_first().map(|(_, behind)| leading(behind, &SSH)) {
        Some(Ok((more, words))) => {
            if more.iter().any(|option| matches!(option.name, "o" | "F" | "I" | "J" | "S" | "E")) {
                parts.push(unclear("what the options of `ssh` start"));
            }
            if !words.is_empty() {
                parts.push(Part::Line {
                    line: joined(words),
                    grammar: Grammar::Posix,
                    place: Place::Elsewhere,
                });
            }
        }
        Some(Err(why)) => parts.push(unclear(format!("of `ssh`, {why}"))),
        None => {}
    }
}

fn loader(args: &[Word], parts: &mut Vec<Part>) {
    const LOADER: Options = Options {
        flags: "",
        values: "",
        attached: "",
        long_flags: &[
            "list",
            "verify",
            "inhibit-cache",
            "help",
            "version",
            "list-tunables",
            "list-diagnostics",
        ],
        long_values: &["library-path", "inhibit-rpath", "audit", "preload", "argv0", "glibc-hwcaps-prepend"],
    };
    match leading(args, &LOADER) {
        Ok((found, rest)) => {
            if found.iter().any(|option| matches!(option.name, "library-path" | "audit" | "preload")) {
                parts.push(unclear("with other libraries, what runs"));
            }
            command(rest, Place::Here, parts);
        }
        Err(why) => {
            guess(args, parts);
            parts.push(unclear(format!("of the loader, {why}")));
        }
    }
}
