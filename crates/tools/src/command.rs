//! The environment that a command gets, and what the model is told of how it ended.

use std::collections::BTreeMap;

use provost_core::act::{ExitFact, show_argv};

use crate::text::put;
use crate::text::show;

/// What of the host's environment is needed to build a command's. Read by whoever starts Provost, never by this crate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostEnvironment {
    /// The host's `PATH`; relative and empty entries are dropped.
    pub path: String,
    /// The host's home folder, whose Rust toolchain commands may read.
    pub home: Option<String>,
    /// `CARGO_HOME`, where it is not `~/.cargo`.
    pub cargo_home: Option<String>,
    /// `RUSTUP_HOME`, where it is not `~/.rustup`.
    pub rustup_home: Option<String>,
}

/// Where programs are looked for if the host's `PATH` has no usable entry.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Fixed variables: no terminal, no colour, no prompt, no editor, no pager, no network for cargo, one locale.
const FIXED: &[(&str, &str)] = &[
    ("CARGO_NET_OFFLINE", "true"),
    ("CARGO_TERM_COLOR", "never"),
    ("CI", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("EDITOR", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("HOME", "/tmp/home"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("TERM", "dumb"),
    ("TMPDIR", "/tmp"),
    ("VISUAL", "false"),
];

/// The whole environment of a command: built up from nothing. `chosen` are variables that the user (never a model or a
/// workspace file) wants passed on; they come last and win.
pub fn environment(host: &HostEnvironment, chosen: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> =
        FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let path: Vec<&str> = host.path.split(':').filter(|folder| folder.starts_with('/')).collect();
    let path = if path.is_empty() { USUAL_PATH.to_owned() } else { path.join(":") };
    out.insert("PATH".to_owned(), path);
    let toolchain =
        [("CARGO_HOME", &host.cargo_home, ".cargo"), ("RUSTUP_HOME", &host.rustup_home, ".rustup")];
    for (name, given, usual) in toolchain {
        let beneath = || host.home.as_ref().map(|home| format!("{}/{usual}", home.trim_end_matches('/')));
        if let Some(folder) = given.clone().or_else(beneath) {
            out.insert(name.to_owned(), folder);
        }
    }
    out.extend(chosen.iter().map(|(name, value)| (name.clone(), value.clone())));
    out
}

/// What was kept of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output<'a> {
    /// Its start; all of it where nothing was left out.
    pub head: &'a [u8],
    /// Its end, where something was left out.
    pub tail: &'a [u8],
    /// Bytes in all.
    pub total: u64,
}

/// What the model is told of a command that ran: how it ended, then its output, with a mark where some is left out.
/// The same facts give the same text: times are not in it.
pub fn report(argv: &[String], exit: &ExitFact, output: Output<'_>) -> String {
    let mut text = format!("$ {}\n", show::clip(&show_argv(argv), 500));
    let until_then = "its output until then:";
    match exit {
        ExitFact::Exited { code } => put!(text, "exit status {code}"),
        ExitFact::Signalled { signal } => put!(text, "ended by signal {signal}{}", signal_name(*signal)),
        ExitFact::TimedOut { limit_ms } => {
            let seconds = *limit_ms as f64 / 1000.0;
            put!(text, "timed out: it was ended, with all its processes, after {seconds} s; {until_then}");
        }
        ExitFact::Capped { hit } => {
            put!(text, "ended, with all its processes, because they took {hit}; {until_then}");
        }
        ExitFact::Cancelled => put!(text, "cancelled: it was ended by the user; {until_then}"),
        ExitFact::DriverLost => {
            put!(text, "interrupted: it was ended because the program that ran it ended; {until_then}");
        }
        ExitFact::NotStarted => text.push_str(NOT_STARTED),
    }
    text.push('\n');
    if output.total == 0 {
        text.push_str("[no output]\n");
    } else {
        push_output(&mut text, output);
    }
    text
}

/// Output, with a mark where some is left out.
fn push_output(text: &mut String, output: Output<'_>) {
    // The kept parts may begin or end inside a character; that fragment counts as left out.
    let left_out = output.total.saturating_sub((output.head.len() + output.tail.len()) as u64);
    if left_out == 0 {
        push(text, output.head);
        push(text, output.tail);
    } else {
        let (head, cut_head) = whole_end(output.head);
        let (tail, cut_tail) = whole_start(output.tail);
        push(text, head);
        end_line(text);
        put!(text, "[… {} bytes left out …]\n", left_out + (cut_head + cut_tail) as u64);
        push(text, tail);
    }
    end_line(text);
}

/// How a command that went on stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'a> {
    /// It runs.
    Running,
    /// It ended; `None` where nobody can tell how.
    Ended(Option<&'a ExitFact>),
}

/// What the model is told of a command that went on: how it stands, and a part of its output, which follows `from` bytes
/// that were shown before.
pub fn progress(name: &str, standing: Standing<'_>, from: u64, output: Output<'_>) -> String {
    let mut text = match standing {
        Standing::Running => format!("{name} is running.\n"),
        Standing::Ended(exit) => format!("{name} ended: {}.\n", how(exit)),
    };
    let all = from + output.total;
    match (output.total, from) {
        (0, 0) => text.push_str("[no output]\n"),
        (0, _) => put!(text, "[no new output; {all} bytes in all]\n"),
        (new, _) => {
            put!(text, "[{new} bytes of new output; {all} in all]\n");
            push_output(&mut text, output);
        }
    }
    text
}

/// A command line, shortened.
pub fn clipped(line: &str) -> String {
    show::clip(line, 200)
}

const NOT_STARTED: &str = "it could not be started after all, and nothing of it was run";

/// How a command that went on ended, in words.
pub fn how(exit: Option<&ExitFact>) -> String {
    match exit {
        Some(ExitFact::Exited { code }) => format!("exit status {code}"),
        Some(ExitFact::Signalled { signal }) => format!("signal {signal}{}", signal_name(*signal)),
        Some(ExitFact::TimedOut { limit_ms }) => {
            format!(
                "its time of {} s was over, and it was ended with all its processes",
                *limit_ms as f64 / 1000.0
            )
        }
        Some(ExitFact::Capped { hit }) => {
            format!("its processes took {hit}, and it was ended with all of them")
        }
        Some(ExitFact::Cancelled) => "it was ended, with all its processes".to_owned(),
        Some(ExitFact::DriverLost) => {
            "driver died: the program that ran it ended, and it with all its processes".to_owned()
        }
        Some(ExitFact::NotStarted) => NOT_STARTED.to_owned(),
        None => "driver died: the program that ran it ended, and left no record of how it ended".to_owned(),
    }
}

fn end_line(text: &mut String) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Output as text: bytes that are not UTF-8 as `\xNN`, NUL and other control characters (but tab and line ends) too.
fn push(text: &mut String, bytes: &[u8]) {
    for c in show::lossless(bytes).replace("\r\n", "\n").chars() {
        match c {
            '\n' | '\t' => text.push(c),
            c if c.is_ascii_control() => put!(text, "\\x{:02x}", c as u32),
            c => text.push(c),
        }
    }
}

/// The bytes without an unfinished character at the end, and how many bytes that takes off.
fn whole_end(bytes: &[u8]) -> (&[u8], usize) {
    let from = bytes.len().saturating_sub(3);
    let lead = (from..bytes.len()).rev().find(|&at| bytes[at] >= 0xc0);
    match lead {
        Some(at) if at + width(bytes[at]) > bytes.len() => (&bytes[..at], bytes.len() - at),
        _ => (bytes, 0),
    }
}

/// The bytes without the rest of a character at the start, and how many bytes that takes off.
fn whole_start(bytes: &[u8]) -> (&[u8], usize) {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    (&bytes[rest..], rest)
}

fn width(lead: u8) -> usize {
    match lead {
        0xf0.. => 4,
        0xe0.. => 3,
        _ => 2,
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        25 => " (SIGXFSZ)",
        31 => " (SIGSYS)",
        _ => "",
    }
}
