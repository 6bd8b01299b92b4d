//! Programs with the names of readers that write files or start others by one of their options.

use super::options::{has_short, is_long};
use super::scripts;
use super::wrappers::unclear;
use super::{Part, Word};

/// A program's options that do more than its name says.
struct Reader {
    names: &'static [&'static str],
    /// Short options that take a value: behind one the rest of the word is that value.
    values: &'static str,
    /// Short and long options that write.
    writes: (&'static str, &'static [&'static str]),
    /// Short and long options that start a program.
    runs: (&'static str, &'static [&'static str]),
}

const NONE: (&str, &[&str]) = ("", &[]);

const READERS: &[Reader] = &[
    Reader {
        names: &["sort"],
        values: "kStT",
        writes: ("o", &["--output"]),
        runs: ("", &["--compress-program"]),
    },
    Reader { names: &["shuf"], values: "in", writes: ("o", &["--output"]), runs: NONE },
    Reader { names: &["base64", "base32", "basenc"], values: "wi", writes: ("o", &["--output"]), runs: NONE },
    Reader { names: &["tree"], values: "LPI", writes: ("o", &[]), runs: NONE },
    Reader {
        names: &["yq"],
        values: "",
        writes: ("oi", &["--output", "--inplace", "--in-place"]),
        runs: NONE,
    },
    Reader { names: &["sdiff"], values: "", writes: ("o", &["--output"]), runs: ("", &["--diff-program"]) },
    Reader { names: &["diff3"], values: "L", writes: NONE, runs: ("", &["--diff-program"]) },
    Reader { names: &["install"], values: "gmotS", writes: NONE, runs: ("", &["--strip-program"]) },
    Reader { names: &["cpio"], values: "", writes: ("O", &["--file"]), runs: ("", &["--rsh-command"]) },
    Reader {
        names: &["dpkg"],
        values: "",
        writes: NONE,
        runs: ("", &["--pre-invoke", "--post-invoke", "--status-logger"]),
    },
    Reader {
        names: &["apt", "apt-get", "apt-cache", "aptitude"],
        values: "t",
        writes: NONE,
        runs: ("oc", &["--option", "--config-file"]),
    },
    Reader {
        names: &["gcc", "g++", "cc", "c++", "clang", "clang++"],
        values: "oIDLUlxWfOgmiT",
        writes: NONE,
        runs: ("B", &[]),
    },
    Reader { names: &["date"], values: "dfr", writes: ("s", &["--set"]), runs: NONE },
    Reader { names: &["file"], values: "efFmP", writes: ("C", &["--compile"]), runs: NONE },
    Reader {
        names: &["rg"],
        values: "ABCEefgjmMrtTd",
        writes: NONE,
        runs: ("z", &["--pre", "--hostname-bin", "--search-zip"]),
    },
    Reader {
        names: &["tar", "gtar", "bsdtar"],
        values: "bCfgKLNTVX",
        writes: NONE,
        runs: (
            "IF",
            &[
                "--checkpoint-action",
                "--info-script",
                "--new-volume-script",
                "--rmt-command",
                "--rsh-command",
                "--to-command",
                "--use-compress-program",
            ],
        ),
    },
    Reader {
        names: &["rsync"],
        values: "BfMT@",
        writes: ("", &["--log-file"]),
        runs: ("e", &["--rsh", "--rsync-path"]),
    },
    Reader { names: &["scp"], values: "cFiJlPX", writes: NONE, runs: ("DFSo", &[]) },
    Reader { names: &["zip"], values: "bntxi", writes: NONE, runs: ("T", &["--unzip-command", "--test"]) },
    Reader { names: &["split"], values: "abClnt", writes: NONE, runs: ("", &["--filter"]) },
    Reader { names: &["tcpdump"], values: "BcCEFGijMrsTVWyZ", writes: ("w", &[]), runs: ("z", &[]) },
    Reader {
        names: &["nc", "ncat", "netcat"],
        values: "IiMmOPpqsTVwXx",
        writes: ("o", &["--output"]),
        runs: ("ec", &["--exec", "--sh-exec", "--lua-exec"]),
    },
    Reader {
        names: &["curl"],
        values: "AbdeEFHmPQrtTuUwxXyYz",
        writes: (
            "oOcDJ",
            &[
                "--output",
                "--output-dir",
                "--remote-name",
                "--remote-name-all",
                "--cookie-jar",
                "--dump-header",
                "--trace",
                "--trace-ascii",
                "--stderr",
                "--libcurl",
                "--etag-save",
                "--hsts",
                "--alt-svc",
            ],
        ),
        runs: ("K", &["--config"]),
    },
    Reader {
        names: &["wget"],
        values: "",
        writes: ("oOaP", &["--output-document", "--output-file", "--append-output"]),
        runs: ("e", &["--execute", "--use-askpass", "--config"]),
    },
    Reader { names: &["openssl"], values: "", writes: ("", &[]), runs: ("", &["--engine", "--provider"]) },
    Reader { names: &["bat", "batcat"], values: "", writes: NONE, runs: ("", &["--pager", "--paging"]) },
    Reader { names: &["fzf"], values: "", writes: NONE, runs: ("", &["--preview", "--bind"]) },
    Reader {
        names: &["pandoc"],
        values: "frtMVT",
        writes: ("o", &["--output"]),
        runs: ("FL", &["--filter", "--lua-filter", "--pdf-engine"]),
    },
    Reader { names: &["ctags"], values: "", writes: ("fo", &["--output"]), runs: ("", &["--options"]) },
    Reader { names: &["zgrep", "zcat", "zless", "zmore"], values: "", writes: NONE, runs: NONE },
    Reader {
        names: &["man"],
        values: "CLmMsSeRp",
        writes: NONE,
        runs: ("PH", &["--pager", "--html", "--preprocessor"]),
    },
];

/// Editors and pagers: they run what is typed at them, what an option says, what their settings say.
const INTERACTIVE: &[&str] = &[
    "less",
    "more",
    "most",
    "lv",
    "vi",
    "vim",
    "view",
    "vimdiff",
    "rvim",
    "gvim",
    "nvim",
    "ex",
    "ed",
    "red",
    "emacs",
    "emacsclient",
    "nano",
    "pico",
    "joe",
    "mutt",
    "lynx",
    "w3m",
    "links",
    "elinks",
    "dc",
    "ftp",
    "lftp",
    "sftp",
    "mail",
    "mailx",
    "editor",
    "pager",
    "rview",
    "zless",
    "zmore",
    "bzless",
    "bzmore",
    "xzless",
    "xzmore",
    "telnet",
    "psql",
    "mysql",
    "top",
    "htop",
];

pub(super) fn look(name: &str, args: &[Word], parts: &mut Vec<Part>) {
    if let Some(reader) = READERS.iter().find(|reader| reader.names.contains(&name)) {
        options(name, reader, args, parts);
    }
    match name {
        _ if INTERACTIVE.contains(&name) => {
            parts.push(unclear(format!("`{name}` runs what it is told to as it runs")));
        }
        "sed" | "gsed" => scripts::sed(args, parts),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => scripts::awk(name, args, parts),
        // The first word may be a cluster without its dash.
        "tar" | "gtar" | "bsdtar"
            if args.first().is_some_and(|first| first.known().is_none_or(is_bare_cluster)) =>
        {
            parts.push(unclear(format!("what `{name}` starts")));
        }
        "uniq" | "xxd" => second_operand(args, parts),
        "sqlite3" if runs_commands_of_sqlite(args) => {
            parts.push(unclear("what `sqlite3` is told to run"));
        }
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" => {
            let names_program = |text: &str| {
                ["-wrapper", "-specs", "--specs", "-fplugin"].iter().any(|option| text.starts_with(option))
            };
            if args.iter().any(|word| word.known().is_some_and(names_program)) {
                parts.push(unclear(format!("what `{name}` starts")));
            }
        }
        "cmake" if args.iter().any(|word| word.known() == Some("-E")) => {
            super::wrappers::guess(args, parts);
            parts.push(unclear("what `cmake -E` starts"));
        }
        "openssl" => {
            if let Some(word) =
                args.iter().find(|word| matches!(word.known(), Some("-out" | "-engine" | "-provider")))
            {
                parts.push(Part::Hidden(word.text().to_owned()));
            }
        }
        "ip" if args.iter().any(|word| word.known() == Some("exec") || word.known().is_none()) => {
            super::wrappers::guess(args, parts);
            parts.push(unclear("what `ip` starts"));
        }
        _ => {}
    }
}

fn options(name: &str, reader: &Reader, args: &[Word], parts: &mut Vec<Part>) {
    for word in args {
        let Word::Fixed(text) = word else {
            if !word.may_be_option() {
                continue;
            }
            if reader.runs == NONE {
                parts.push(Part::Hidden(word.text().to_owned()));
            } else {
                parts.push(unclear(format!("`{word}` may be an option of `{name}` that starts a program")));
            }
            continue;
        };
        if text == "--" {
            break;
        }
        let said = |(letters, long): (&str, &[&str])| {
            letters.chars().any(|letter| has_short(text, letter, reader.values))
                || long.iter().any(|option| is_long(text, option))
        };
        if said(reader.runs) {
            parts.push(unclear(format!("what `{name} {text}` starts")));
        } else if said(reader.writes) {
            parts.push(Part::Hidden(text.clone()));
        }
    }
}

/// Options of `sqlite3` with a value.
const SQLITE_VALUES: &[&str] = &[
    "-heap",
    "-lookaside",
    "-maxsize",
    "-mmap",
    "-newline",
    "-nonce",
    "-nullvalue",
    "-pagecache",
    "-separator",
    "-vfs",
];

/// Whether `sqlite3` is given commands of its own, some of which start programs, or reads them from somewhere.
fn runs_commands_of_sqlite(args: &[Word]) -> bool {
    let mut operands = 0;
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.known() else { return true };
        let option = text.strip_prefix('-').map(|option| option.strip_prefix('-').unwrap_or(option));
        match option {
            Some("init" | "cmd" | "interactive" | "A") => return true,
            Some(option) if SQLITE_VALUES.iter().any(|known| &known[1..] == option) => drop(rest.next()),
            Some(_) => {}
            None => {
                operands += 1;
                let is_command = text.trim_start().starts_with('.') || text.contains("\n.");
                let calls = ["edit(", "writefile", "load_extension", "fts3_tokenizer"];
                if (operands > 1 && is_command) || calls.iter().any(|name| text.contains(name)) {
                    return true;
                }
            }
        }
    }
    // Without a statement it reads them from its standard input.
    operands < 2
}

/// `uniq IN OUT` writes its second operand.
fn second_operand(args: &[Word], parts: &mut Vec<Part>) {
    // A number may be the value of an option before it.
    let operand = |word: &&Word| {
        word.known().is_none_or(|text| {
            (!text.starts_with('-') || text == "-") && !text.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    if let Some(word) = args.iter().filter(operand).nth(1) {
        parts.push(Part::Hidden(word.text().to_owned()));
    }
}

/// Whether the word is a cluster of tar's options, one of which starts a program.
fn is_bare_cluster(word: &str) -> bool {
    !word.starts_with('-') && word.contains(['I', 'F']) && !word.contains(['/', '.'])
}
