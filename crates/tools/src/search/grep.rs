//! `grep`: lines by content, with ripgrep's own libraries.
//!
//! Files are streamed and only the matches that are shown are held, so memory does not grow with what is searched.

use std::io;
use std::time::Duration;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use provost_core::act::{Recovery, Touch};
use provost_core::path::RelPath;
use provost_core::transcript::ToolSpec;
use serde_json::{Value, json};

use super::deadline::{Deadline, SEARCH_TIME, Timed};
use super::globs::{Glob, prefix};
use crate::args::{flag, object, optional_number, optional_text, text};
use crate::failure::{BadCall, Failure};
use crate::text::put;
use crate::text::show;
use crate::tool::{Context, Effect, Observation, Tool};
use crate::touch;
use crate::workspace::{FileError, Go, Kind, Located, Walk};

/// Matches shown where the model asks for no other number, and the most it may ask for.
const MATCHES: (u64, u64) = (100, 1000);
/// Most lines of context.
const MOST_CONTEXT: u64 = 20;
/// Bytes of one line that are shown.
const LINE: usize = 400;
/// Bytes held for one line while searching; a file with a longer line is passed over, and named.
const HEAP: usize = 1024 * 1024;

/// Bytes that a compiled pattern may take. One that needs more takes its time on every line, too.
const COMPILED: usize = 1024 * 1024;

/// `grep`.
pub struct Grep {
    spec: ToolSpec,
    limit: Duration,
}

impl Default for Grep {
    fn default() -> Self {
        Self::with_limit(SEARCH_TIME)
    }
}

impl Grep {
    /// With another time limit for one search than the default, 30 s. What was found by then is shown.
    pub fn with_limit(limit: Duration) -> Self {
        let schema = object(
            &[
                (
                    "pattern",
                    json!({"type": "string", "description": "Regular expression (Rust syntax), matched line by line."}),
                ),
                (
                    "path",
                    json!({"type": "string", "description": "File or folder; the workspace root if not given."}),
                ),
                (
                    "glob",
                    json!({"type": "string", "description": "Only files of this name (`*.rs`) or path (`src/**/*.rs`)."}),
                ),
                (
                    "ignore_case",
                    json!({"type": "boolean", "description": "Upper and lower case are the same."}),
                ),
                (
                    "context",
                    json!({"type": "integer", "minimum": 0, "maximum": MOST_CONTEXT, "description": "Lines shown around each match."}),
                ),
                (
                    "max_matches",
                    json!({"type": "integer", "minimum": 1, "maximum": MATCHES.1, "description": "Stop after this many; 100 if not given."}),
                ),
            ],
            &["pattern"],
        );
        let spec = ToolSpec {
            name: "grep".to_owned(),
            description: "Search file contents. Shows `path:line:text` for matches and `path-line-text` for context. What \
                          .gitignore excludes, binary files and special files are left out."
                .to_owned(),
            schema,
        };
        Self { spec, limit }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replayable
    }

    fn touches(&self, args: &Value, ctx: &Context<'_>) -> Result<Vec<Touch>, BadCall> {
        Query::new(args)?;
        Ok(touch::reads(&touch::locate(args, "path", ctx)?))
    }

    fn prepare(&self, args: &Value, ctx: &Context<'_>) -> Result<Effect, Failure> {
        let query = Query::new(args)?;
        let located = touch::locate(args, "path", ctx)?;
        let text = query.run(&located, ctx, &Deadline::after(self.limit))?;
        Ok(Effect::Observe(Observation { text, seen: Vec::new() }))
    }
}

struct Query {
    matcher: RegexMatcher,
    glob: Option<Glob>,
    context: usize,
    most: u64,
}

impl Query {
    fn new(args: &Value) -> Result<Self, BadCall> {
        let pattern = text(args, "pattern")?;
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(flag(args, "ignore_case"))
            .multi_line(true)
            .crlf(true)
            .line_terminator(Some(b'\n'))
            .size_limit(COMPILED)
            .dfa_size_limit(COMPILED)
            .build(pattern)
            .map_err(|error| {
                BadCall::value(
                    "pattern",
                    format!(
                        "not a regular expression: {error}\nTo search for it as it stands: `{}`",
                        escape(&show::clip(pattern, 200))
                    ),
                )
            })?;
        let context = optional_number(args, "context", 0)?.unwrap_or(0);
        if context > MOST_CONTEXT {
            return Err(BadCall::value(
                "context",
                format!("is {context}; at most {MOST_CONTEXT} lines are shown around a match"),
            ));
        }
        let most = optional_number(args, "max_matches", 1)?.unwrap_or(MATCHES.0);
        if most > MATCHES.1 {
            return Err(BadCall::value("max_matches", format!("is {most}; at most {} are shown", MATCHES.1)));
        }
        Ok(Self {
            matcher,
            glob: optional_text(args, "glob").map(Glob::new).transpose()?,
            context: context as usize,
            most,
        })
    }

    fn run(&self, located: &Located, ctx: &Context<'_>, deadline: &Deadline) -> Result<String, Failure> {
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .build();
        let mut hits = Hits::new(self.most, self.context > 0);
        match located.kind {
            Some(Kind::File) => {
                let open = ctx.workspace.open_located(located)?;
                hits.begin(located.named.as_str());
                let file = Timed { inner: &open.file, deadline };
                let searched = searcher.search_reader(&self.matcher, file, &mut hits);
                if hits.binary {
                    return Ok(format!("`{}` is binary: it is not searched\n", located.named));
                }
                if !deadline.stopped() {
                    searched.map_err(|source| FileError::io(&located.named, source))?;
                }
            }
            Some(Kind::Folder) => self.folder(located, ctx, deadline, &mut searcher, &mut hits)?,
            None => return Err(touch::with_near(FileError::missing(&located.named), ctx)),
            Some(kind) => {
                return Err(Failure::File(FileError::Kind {
                    path: located.named.clone(),
                    kind,
                    wanted: "a file or a folder",
                }));
            }
        }
        Ok(hits.report(deadline))
    }

    fn folder(
        &self,
        at: &Located,
        ctx: &Context<'_>,
        deadline: &Deadline,
        searcher: &mut Searcher,
        hits: &mut Hits,
    ) -> Result<(), Failure> {
        let skip = prefix(&at.real);
        let walk = Walk { from: at.real.clone(), ignore: true };
        let closed = ctx.workspace.walk(&walk, &mut |found| {
            if deadline.is_up() {
                return Go::Stop;
            }
            if found.kind != Kind::File {
                return Go::On;
            }
            let Ok(path) = RelPath::from_bytes(found.path) else {
                return Go::On;
            };
            if !(ctx.readable)(&path) {
                // Counted whether or not the glob matches: else guessing with globs would tell the name.
                hits.refused += 1;
                return Go::On;
            }
            if self.glob.as_ref().is_some_and(|glob| !glob.matches(found.path, skip)) {
                return Go::On;
            }
            let file = Located { named: path.clone(), real: path, kind: Some(Kind::File) };
            hits.begin(file.real.as_str());
            let searched = match ctx.workspace.open_located(&file) {
                Ok(open) => {
                    let file = Timed { inner: &open.file, deadline };
                    searcher.search_reader(&self.matcher, file, &mut *hits)
                }
                // It became something else since the folder was read.
                Err(FileError::Missing { .. } | FileError::Kind { .. }) => Ok(()),
                Err(error) => Err(io::Error::other(error)),
            };
            if deadline.stopped() {
                return Go::Stop;
            }
            if searched.is_err() {
                hits.unread.push(file.real.to_string());
            }
            if hits.more { Go::Stop } else { Go::On }
        })?;
        hits.closed = closed.len() as u64;
        Ok(())
    }
}

/// Matches, as many as are shown, and what has to be said of the rest.
struct Hits {
    text: String,
    path: String,
    /// Where the current file's lines begin in `text`.
    begun: usize,
    context: bool,
    found: u64,
    /// Matches found before the current file.
    before: u64,
    most: u64,
    more: bool,
    binary: bool,
    refused: u64,
    unread: Vec<String>,
    closed: u64,
}

impl Hits {
    fn new(most: u64, context: bool) -> Self {
        Self {
            text: String::new(),
            path: String::new(),
            begun: 0,
            context,
            found: 0,
            before: 0,
            most,
            more: false,
            binary: false,
            refused: 0,
            unread: Vec::new(),
            closed: 0,
        }
    }

    fn begin(&mut self, path: &str) {
        self.path.clear();
        self.path.push_str(&provost_core::text::visible(path, provost_core::text::Lines::Escape));
        self.begun = self.text.len();
        self.before = self.found;
        self.binary = false;
    }

    fn line(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) {
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let body = body.strip_suffix(b"\r").unwrap_or(body);
        let body = show::clip(&show::lossless(body), LINE);
        let number = number.unwrap_or(0);
        put!(self.text, "{}{mark}{number}{mark}{body}\n", self.path);
    }

    fn report(mut self, deadline: &Deadline) -> String {
        let mut out = std::mem::take(&mut self.text);
        if self.found == 0 {
            out.push_str(if deadline.stopped() { "no match so far\n" } else { "no match\n" });
        } else if self.more {
            put!(
                out,
                "[stopped after {}: there is at least one more; narrow the search or raise `max_matches`]\n",
                show::count(self.found as usize, "match").replace("matchs", "matches")
            );
        }
        if self.refused > 0 {
            let files = show::count(self.refused as usize, "file");
            put!(out, "[{files} not searched: policy refuses reading]\n");
        }
        for path in self.unread.iter().take(10) {
            put!(out, "[`{path}` not searched: it cannot be read, or has a line of more than 16 MiB]\n");
        }
        if self.unread.len() > 10 {
            put!(out, "[… and {} more such files]\n", self.unread.len() - 10);
        }
        if self.closed > 0 {
            let folders = show::count(self.closed as usize, "folder");
            put!(out, "[{folders} could not be opened]\n");
        }
        out.push_str(&deadline.note("name a smaller folder with `path`, or fewer files with `glob`"));
        out
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found == self.most {
            self.more = true;
            return Ok(false);
        }
        self.found += 1;
        self.line(':', hit.line_number(), hit.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        // What leads up to a match that is not shown is not shown either.
        if self.found < self.most || *context.kind() == SinkContextKind::After {
            self.line('-', context.line_number(), context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.context && self.found < self.most {
            self.text.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        // What matched before the NUL byte came is not shown either: a binary file is left out whole.
        self.binary = true;
        let (begun, before) = (self.begun, self.before);
        self.text.truncate(begun);
        self.found = before;
        Ok(false)
    }
}

/// The pattern with everything special escaped.
fn escape(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
