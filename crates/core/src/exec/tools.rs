//! Programs with commands of their own, which stand behind their options: git, cargo, package managers.

use super::options::{Options, has_short, is_long, leading};
use super::wrappers::{command, guess, line_behind, unclear};
use super::{Grammar, Part, Place, Word};

pub(super) fn look(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    match name {
        "git" => git(args, parts),
        // Each of its commands is a program too.
        _ if name.starts_with("git-") => {
            let words = [Word::fixed("git"), Word::fixed(&name[4..])].into_iter().chain(args.iter().cloned());
            parts.push(Part::here(words.collect()));
        }
        "cargo" => cargo(args, parts),
        "npx" | "bunx" | "pnpx" | "uvx" | "pipx" => runner(name, args, parts),
        "npm" | "pnpm" | "yarn" | "bun" | "uv" | "poetry" | "pipenv" | "hatch" | "bundle" | "conda"
        | "mise" | "asdf" => {
            past_options(name, args, parts);
            let at = args.iter().position(|word| {
                matches!(word.known(), Some("exec" | "x" | "dlx" | "run" | "execute" | "create" | "init"))
            });
            if let Some(at) = at
                && !(matches!(name, "npm" | "pnpm" | "yarn" | "bun") && args[at].known() == Some("run"))
            {
                runner(name, &args[at + 1..], parts);
            }
        }
        "gh" | "go" | "docker" | "podman" | "kubectl" | "pip" | "pip3" | "apt" | "apt-get" | "systemctl"
        | "svn" | "hg" | "helm" | "terraform" | "rustup" | "gem" => past_options(name, args, parts),
        _ => {}
    }
}

/// The command without the options before its subcommand. Whether an option has a value is not known: both readings
/// count, so that what a rule denies stays denied.
fn past_options(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    const MOST: usize = 16;
    if !args.first().and_then(Word::known).is_some_and(|first| first.starts_with(['-', '+'])) {
        return;
    }
    for (at, word) in args.iter().enumerate().take(MOST) {
        match word.known() {
            Some(text) if text.starts_with(['-', '+']) => {}
            Some(_) => {
                let words = std::iter::once(Word::fixed(name)).chain(args[at..].iter().cloned());
                parts.push(Part::here(words.collect()));
            }
            None => return parts.push(unclear(format!("`{word}` may be a command of `{name}`"))),
        }
    }
}

/// `npx`, `uv run` and the like: options, then a program.
fn runner(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    if line_behind(args, &["-c", "--call", "--shell-mode"], parts) {
        return parts.push(unclear(format!("what `{name}` runs")));
    }
    let flags = |word: &&Word| {
        matches!(
            word.known(),
            Some("-y" | "--yes" | "--no" | "--no-install" | "-q" | "--quiet" | "--offline" | "--")
        )
    };
    let rest = &args[args.iter().take_while(flags).count()..];
    match rest.first().map(Word::known) {
        Some(Some(first)) if !first.starts_with('-') => command(rest, Place::Here, parts),
        None => {}
        _ => {
            guess(rest, parts);
            parts.push(unclear(format!("what `{name}` runs")));
        }
    }
}

fn cargo(args: &[Word], parts: &mut Vec<Part>) {
    // What stands behind `--` is not cargo's.
    let own = args.iter().position(|word| word.known() == Some("--")).unwrap_or(args.len());
    if args[..own].iter().any(|word| word.known().is_some_and(|text| text.starts_with("--config"))) {
        parts.push(unclear("with another configuration, what `cargo` runs"));
    }
    past_options("cargo", args, parts);
    let sub = args.iter().position(|word| !word.known().is_some_and(|text| text.starts_with(['-', '+'])));
    let Some(sub) = sub else { return };
    match args[sub].known() {
        Some("watch") => {
            line_behind(&args[sub + 1..], &["-s", "--shell"], parts);
            parts.push(unclear("what `cargo watch` runs"));
        }
        Some(_) => {}
        None => parts.push(unclear(format!("`{}` becomes a command of `cargo`", args[sub]))),
    }
}

const GIT: Options = Options {
    flags: "pPhv",
    values: "Cc",
    attached: "",
    long_flags: &[
        "paginate",
        "no-pager",
        "bare",
        "no-replace-objects",
        "no-lazy-fetch",
        "no-optional-locks",
        "no-advice",
        "literal-pathspecs",
        "glob-pathspecs",
        "noglob-pathspecs",
        "icase-pathspecs",
        "html-path",
        "man-path",
        "info-path",
        "version",
        "help",
        "exec-path",
    ],
    long_values: &[
        "git-dir",
        "work-tree",
        "namespace",
        "config-env",
        "attr-source",
        "super-prefix",
        "list-cmds",
    ],
};

/// Settings of git that run nothing and read no other file.
const SETTINGS: &[&str] = &[
    "advice.",
    "color.",
    "column.",
    "commit.cleanup",
    "commit.gpgsign",
    "commit.verbose",
    "core.abbrev",
    "core.autocrlf",
    "core.commentchar",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.longpaths",
    "core.precomposeunicode",
    "core.quotepath",
    "core.safecrlf",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "fetch.prune",
    "gc.auto",
    "init.defaultbranch",
    "log.date",
    "log.decorate",
    "log.follow",
    "log.showsignature",
    "maintenance.auto",
    "merge.conflictstyle",
    "merge.ff",
    "merge.renames",
    "protocol.version",
    "pull.ff",
    "pull.rebase",
    "push.default",
    "rebase.autostash",
    "safe.directory",
    "status.",
    "tag.gpgsign",
    "user.email",
    "user.name",
];

fn git(args: &[Word], parts: &mut Vec<Part>) {
    let (found, rest) = match leading(args, &GIT) {
        Ok(read) => read,
        Err(why) => {
            past_options("git", args, parts);
            return parts.push(unclear(format!("of `git`, {why}")));
        }
    };
    let mut aliases: Vec<(String, String)> = Vec::new();
    for option in &found {
        let value = option.word();
        let value = value.as_ref();
        match option.name {
            "c" => match value.and_then(Word::known) {
                Some(setting) => set(setting, &mut aliases, parts),
                None => parts.push(unclear("what a setting of `git` runs")),
            },
            "config-env" => parts.push(unclear("what a setting of `git` runs")),
            "exec-path" if option.attached.is_some() => {
                parts.push(unclear("with other programs, what `git` runs"));
            }
            "git-dir" | "C" | "work-tree" if value.is_some_and(|value| value.known().is_none()) => {
                parts.push(unclear("with the settings of another repository, what `git` runs"));
            }
            "p" | "paginate" => parts.push(Part::Hidden("--paginate".to_owned())),
            _ => {}
        }
    }
    let Some((sub, args)) = rest.split_first() else { return };
    let Some(name) = sub.known() else {
        return parts.push(unclear(format!("`{sub}` becomes a command of `git`")));
    };
    if !found.is_empty() {
        let words = std::iter::once(Word::fixed("git")).chain(rest.iter().cloned());
        parts.push(Part::here(words.collect()));
    }
    for (alias, value) in aliases.iter().filter(|(alias, _)| alias.eq_ignore_ascii_case(name)) {
        let words = value.split_whitespace().map(Word::fixed).chain(args.iter().cloned());
        if !alias.is_empty() {
            parts.push(Part::here(std::iter::once(Word::fixed("git")).chain(words).collect()));
        }
    }
    subcommand(name, args, parts);
}

fn set(setting: &str, aliases: &mut Vec<(String, String)>, parts: &mut Vec<Part>) {
    let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
    let key = key.to_ascii_lowercase();
    if let Some(alias) = key.strip_prefix("alias.") {
        match value.strip_prefix('!') {
            Some(line) => parts.push(Part::line(Word::fixed(line), Grammar::Posix)),
            None => aliases.push((alias.to_owned(), value.to_owned())),
        }
    }
    let harmless = |known: &&str| {
        if known.ends_with('.') { key.starts_with(*known) } else { key == **known }
    };
    if !SETTINGS.iter().any(harmless) {
        parts.push(unclear(format!("what `git` runs for its setting `{key}`")));
    }
}

/// Options of git's commands that name a program or a line.
const PROGRAMS: &[&str] = &["--upload-pack", "--receive-pack", "--exec", "--open-files-in-pager"];

/// Commands of git that start a program which one of their options, or of their arguments, names.
const STARTING: &[&str] = &[
    "archive",
    "bisect",
    "clone",
    "fetch",
    "fetch-pack",
    "grep",
    "init",
    "ls-remote",
    "pull",
    "push",
    "rebase",
    "send-pack",
];

fn subcommand(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    match name {
        "bisect" if args.first().and_then(Word::known) == Some("run") => {
            command(&args[1..], Place::Here, parts);
            return;
        }
        "submodule" => {
            if args.iter().any(Word::may_be_option) {
                parts.push(unclear("what `git submodule` runs"));
            }
            if let Some(at) = args.iter().position(|word| word.known() == Some("foreach")) {
                let rest = &args[at + 1..];
                let flags = rest.iter().take_while(|word| word.text().starts_with('-')).count();
                let line = super::wrappers::joined(&rest[flags..]);
                parts.push(Part::Line { line, grammar: Grammar::Posix, place: Place::Elsewhere });
            }
            return;
        }
        "rebase" if line_behind(args, &["-x", "--exec"], parts) => {
            if args.iter().any(may_be_exec) {
                parts.push(unclear("what `git rebase` runs"));
            }
            return;
        }
        "filter-branch" | "difftool" | "mergetool" | "send-email" | "instaweb" | "web--browse" | "gui"
        | "citool" | "p4" | "daemon" | "shell" | "upload-pack" | "receive-pack" | "hook" | "remote-ext"
        | "remote-fd" | "merge-index" | "for-each-repo" | "http-backend" | "svn" | "cvsserver"
        | "imap-send" => {
            return parts.push(unclear(format!("what `git {name}` runs")));
        }
        _ => {}
    }
    if name == "clone" {
        cloned_with(args, parts);
    }
    for word in args {
        match word.known() {
            Some("--") => break,
            Some(text) => option(name, text, parts),
            None if word.text().contains("ext::") => {
                parts.push(unclear(format!("what `git {name} {word}` runs")));
            }
            None if !word.may_be_option() => {}
            None if STARTING.contains(&name) => {
                parts.push(unclear(format!(
                    "`{word}` may be an option of `git {name}` that starts a program"
                )));
            }
            None => parts.push(Part::Hidden(word.text().to_owned())),
        }
    }
}

/// Whether the word may give `git rebase` a line in another way than `-x` and `--exec` do.
fn may_be_exec(word: &Word) -> bool {
    let Some(text) = word.known() else { return word.may_be_option() };
    let read = text == "-x" || text == "--exec" || text.starts_with("--exec=");
    !read && (has_short(text, 'x', "sXCS") || is_long(text, "--exec"))
}

/// One argument of a command of git.
fn option(name: &str, text: &str, parts: &mut Vec<Part>) {
    let names_program = PROGRAMS.iter().any(|option| is_long(text, option));
    let short = (name == "grep" && has_short(text, 'O', "efABCm"))
        || (name == "rebase" && has_short(text, 'x', "sXCS"))
        || (matches!(name, "clone" | "ls-remote") && has_short(text, 'u', "bcjo"));
    // The hooks of a template run.
    let template = matches!(name, "clone" | "init") && is_long(text, "--template");
    if names_program || short || template || text.starts_with("ext::") || text.contains("=ext::") {
        parts.push(unclear(format!("what `git {name} {text}` runs")));
    } else if ["--output", "--output-directory", "--ext-diff", "--textconv"]
        .iter()
        .any(|option| is_long(text, option))
        || (matches!(name, "archive" | "format-patch") && has_short(text, 'o', ""))
    {
        parts.push(Part::Hidden(text.to_owned()));
    }
}

/// The settings that `git clone` is given for the new repository, which hold as it is made.
fn cloned_with(args: &[Word], parts: &mut Vec<Part>) {
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.known() else { continue };
        if text == "--" {
            break;
        }
        let attached = if is_long(text, "--config") {
            text.split_once('=').map(|(_, setting)| setting)
        } else if has_short(text, 'c', "bouj") {
            text.split_once('c').map(|(_, setting)| setting).filter(|setting| !setting.is_empty())
        } else {
            continue;
        };
        match attached.or_else(|| rest.next().and_then(Word::known)) {
            // There are no aliases of a command that is being run.
            Some(setting) => set(setting, &mut Vec::new(), parts),
            None => parts.push(unclear("what a setting of `git clone` runs")),
        }
    }
}
