//! The pattern of a rule: an access and what it holds for.

use std::fmt;
use std::str::FromStr;

use std::sync::Arc;

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};

use super::Effect;
use crate::act::{Access, Touch};

/// An access and a pattern, written as in `exec cargo test*`.
///
/// Paths: globs from the workspace root, `*` within one name and `**` across folders; `dir/` and `dir/**` mean the
/// folder and all beneath it, and `*` alone means everything. A deny or ask rule that names a folder holds for all
/// beneath it too. Names are matched in the text form of [`RelPath`](crate::path::RelPath), where a byte that is not
/// UTF-8 stands as `\xNN`.
///
/// Commands: the pattern's words (quoted as in a shell) are globs, one for each argument. A pattern that ends in `*`
/// takes any further arguments: `cargo test*` allows `cargo test --offline`. Without it an allow rule needs the whole
/// argument vector to match, while a deny or ask rule holds for every command that begins so. A deny or ask rule also
/// finds its program under another path: `deny exec rm` refuses `/bin/rm`. An allow rule's glob does not reach a
/// program through `..`, so `allow exec ./bin/*` does not allow `./bin/../evil`.
///
/// Commands that other commands start (`env rm`, `find -exec rm`, a shell line) are decided on by themselves, each as if
/// it stood alone. Two kinds of allow rules cover what the command starts as well, unless another rule denies that or asks
/// about it: one that spells the whole command, without any glob (`sh -c 'make all'`), and one whose last word is `**`
/// (`make **`). An allow rule covers a reader that writes (`sort -o`) only if it spells the argument.
///
/// Hosts: `host:port`, each a glob; no port means every port. An IPv6 address with a port stands in brackets.
///
/// In every glob `?` and `[..]` stand for one ASCII character and `{a,b}` for either.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    access: Access,
    text: String,
    /// Shared, since policies are copied with contracts and a compiled glob is large.
    globs: Arc<[Glob]>,
    /// A command's pattern that takes further arguments.
    open_ended: bool,
    /// A command's pattern that speaks of all that the command starts too.
    whole: bool,
    /// A path pattern that names the workspace itself.
    root: bool,
}

/// The text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The first word is not an access.
    #[error(
        "`{0}` is not a rule: it begins with one of read, write, exec, net, call, spawn, as in `exec cargo test*`"
    )]
    Access(String),
    /// Nothing after the access.
    #[error("`{0}` names nothing: write what it holds for, as in `write src/**` (`*` is everything)")]
    Empty(String),
    /// The words of an `exec` rule do not parse.
    #[error("`{0}` has an open quote")]
    Quote(String),
    /// A `call` rule that names no tool of a server.
    #[error(
        "`{rule}` names no tool of a server: rules call one SERVER.TOOL, as in `call git.git_log` or `call git.*` (here \
         perhaps `call {instead}`)"
    )]
    Tool {
        /// The rule.
        rule: String,
        /// The target with its server set apart, where it can be told.
        instead: String,
    },
    /// A glob does not parse.
    #[error("`{rule}` has a bad glob: {reason}")]
    Glob {
        /// The rule.
        rule: String,
        /// What is wrong.
        reason: String,
    },
}

/// Longest rule that is read. A glob's automaton grows with its text, and rules come from journals too.
const LONGEST_RULE: usize = 4096;

fn bad_glob(rule: &str, reason: &str) -> BadRule {
    BadRule::Glob { rule: rule.chars().take(200).collect(), reason: reason.to_owned() }
}

/// A compiled glob, and a text that must stand in whatever it matches.
struct Glob {
    matcher: globset::GlobMatcher,
    literal: String,
}

impl Glob {
    /// Most globs of a policy do not match, and to see that a look for the literal is a tenth of the automaton's work.
    fn is_match(&self, text: impl AsRef<str>) -> bool {
        let text = text.as_ref();
        text.contains(&self.literal) && self.matcher.is_match(text)
    }

    /// As written.
    fn text(&self) -> &str {
        self.matcher.glob().glob()
    }
}

/// The longest run of plain characters of a glob, without the slashes at its ends: `**/` stands for nothing too. Empty
/// where the glob has a class, a choice or an escape.
fn literal_of(glob: &str) -> String {
    if glob.contains(['[', ']', '{', '}', '\\']) {
        return String::new();
    }
    let runs = glob.split(['*', '?']).map(|run| run.trim_matches('/'));
    runs.max_by_key(|run| run.len()).unwrap_or_default().to_owned()
}

fn glob(text: &str, crosses: Crosses, rule: &str) -> Result<Glob, BadRule> {
    if has_foreign_class(text) {
        return Err(bad_glob(rule, "`[..]` takes ASCII characters only; write `{a,b}`"));
    }
    GlobBuilder::new(text)
        .literal_separator(crosses == Crosses::No)
        .backslash_escape(true)
        .build()
        .map(|glob| Glob { matcher: glob.compile_matcher(), literal: literal_of(text) })
        .map_err(|error| BadRule::Glob { rule: rule.to_owned(), reason: error.kind().to_string() })
}

/// Whether a character that is not ASCII stands in `[..]`, which matches single bytes and so would never match it.
fn has_foreign_class(text: &str) -> bool {
    let mut chars = text.chars();
    let mut class = None;
    while let Some(c) = chars.next() {
        match (c, class) {
            ('\\', None) => drop(chars.next()),
            ('[', None) => class = Some(0_usize),
            // A `]` that stands first (or behind a leading `!` or `^`) is a member.
            (']', Some(at)) if at > 0 => class = None,
            ('!' | '^', Some(0)) | (_, None) => {}
            (c, Some(_)) if !c.is_ascii() => return true,
            (_, Some(at)) => class = Some(at + 1),
        }
    }
    false
}

/// Whether `*` crosses a `/`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crosses {
    Yes,
    No,
}

impl Pattern {
    /// The access it speaks of.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The rule as written, access first.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part behind the access, for the sandbox's own lists of paths.
    pub fn target(&self) -> &str {
        self.text.split_once(' ').map_or("", |(_, rest)| rest.trim())
    }

    /// The host of a `net` rule where it is no glob.
    pub(super) fn literal_host(&self) -> Option<&str> {
        let host = (self.access == Access::Net).then(|| self.globs.first().map(Glob::text))??;
        (!host.contains(['*', '?', '[', ']', '{', '}', '\\'])).then_some(host)
    }

    /// The port of a `net` rule, as written.
    pub(super) fn port(&self) -> Option<&str> {
        (self.access == Access::Net).then(|| self.globs.get(1).map(Glob::text))?
    }

    pub(crate) fn matches(&self, touch: &Touch, effect: Effect) -> bool {
        if touch.access() != self.access {
            return false;
        }
        match touch {
            Touch::Read { path } | Touch::Write { path } => {
                let hit = |text: &str| self.globs.iter().any(|glob| glob.is_match(text));
                hit(path.as_str()) || (effect != Effect::Allow && (self.root || path.ancestors().any(hit)))
            }
            Touch::Exec { argv, program } => self.matches_argv(argv, program.as_deref(), effect),
            Touch::Shell { argv, known, program } => {
                let argv = known.map_or(&argv[..], |known| &argv[..argv.len().min(known as usize)]);
                effect != Effect::Allow && self.matches_argv(argv, program.as_deref(), effect)
            }
            Touch::Expanded { argv, known, program } => {
                // What is not known may be anything, so only a rule that takes anything allows it. Where a deny or ask
                // rule may match, `Policy` asks; here it holds where the known words are enough.
                let known = &argv[..argv.len().min(*known as usize)];
                if known.is_empty() {
                    return self.is_everything();
                }
                (effect != Effect::Allow || self.open_ended)
                    && self.matches_argv(known, program.as_deref(), effect)
            }
            Touch::Hidden { argv, by } => {
                self.matches_argv(argv, None, effect)
                    && (effect != Effect::Allow || self.is_everything() || self.spells(by))
            }
            // Not decided by single rules: see `Policy`.
            Touch::Unclear { .. } | Touch::Untold { .. } | Touch::Outside { .. } => false,
            Touch::Net { host, port } => {
                self.globs[0].is_match(plain_host(host))
                    && self.globs.get(1).is_none_or(|glob| glob.is_match(port.to_string()))
            }
            Touch::Call { tool } => self.globs[0].is_match(tool),
            Touch::Spawn { agent } => self.globs[0].is_match(agent),
        }
    }

    fn matches_argv(&self, argv: &[String], program: Option<&str>, effect: Effect) -> bool {
        let Some((name, rest)) = argv.split_first() else {
            // No command at all: only a rule on every command speaks of it.
            return effect != Effect::Allow && self.globs.len() == 1 && self.last_is_star();
        };
        let words = &self.globs[1..];
        let enough = rest.len() >= words.len()
            || (self.open_ended && rest.len() + 1 == words.len() && self.last_is_star());
        if !enough {
            return false;
        }
        let program_hit = if effect == Effect::Allow {
            self.globs[0].is_match(name) && !self.climbs_through_glob(name)
        } else {
            let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
            self.globs[0].is_match(name)
                || self.globs[0].is_match(base(name))
                || program
                    .is_some_and(|path| self.globs[0].is_match(path) || self.globs[0].is_match(base(path)))
        };
        let words_hit = words.iter().zip(rest).all(|(glob, arg)| glob.is_match(arg));
        let ends = rest.len() <= words.len() || self.open_ended || effect != Effect::Allow;
        program_hit && words_hit && ends
    }

    /// Whether a command of which only the first words are known may be one that the rule holds for.
    pub(super) fn may_match(&self, argv: &[String], known: u32, program: Option<&str>) -> bool {
        let known = &argv[..argv.len().min(known as usize)];
        let Some((name, rest)) = known.split_first() else {
            return self.access == Access::Exec;
        };
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let names = [Some(name.as_str()), program].into_iter().flatten();
        self.access == Access::Exec
            && names.flat_map(|name| [name.to_owned(), base(name)]).any(|name| self.globs[0].is_match(name))
            && self.globs[1..].iter().zip(rest).all(|(glob, arg)| glob.is_match(arg))
    }

    /// Whether, as an allow rule, it covers what the command starts as well.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether it holds for everything of its access.
    pub(super) fn is_everything(&self) -> bool {
        match self.access {
            Access::Read | Access::Write => self.globs.iter().any(|glob| glob.text() == "**"),
            _ => self.globs.len() == 1 && self.last_is_star(),
        }
    }

    /// Whether one of the rule's words is this argument, or its beginning and a `*`.
    fn spells(&self, arg: &str) -> bool {
        self.globs[1..].iter().any(|glob| {
            let fixed = glob.text().trim_end_matches('*');
            glob.text() == arg || (fixed.len() >= 2 && fixed.starts_with('-') && glob.is_match(arg))
        })
    }

    /// Whether `name` leaves by `..` what the program's glob seems to name. The rule's own `..`, and `*`, may.
    fn climbs_through_glob(&self, name: &str) -> bool {
        let climbs = |path: &str| path.split('/').any(|part| part == "..");
        let rule = self.globs[0].text();
        climbs(name) && !climbs(rule) && !rule.bytes().all(|byte| byte == b'*')
    }

    /// A last word that is `*` alone also stands for no argument at all.
    fn last_is_star(&self) -> bool {
        self.globs.last().is_some_and(|glob| matches!(glob.text(), "*" | "**"))
    }
}

impl FromStr for Pattern {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let text = text.trim();
        let (word, target) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let target = target.trim();
        let Some(access) = Access::ALL.into_iter().find(|access| access.word() == word) else {
            return Err(BadRule::Access(text.to_owned()));
        };
        if target.is_empty() {
            return Err(BadRule::Empty(text.to_owned()));
        }
        if text.len() > LONGEST_RULE {
            return Err(bad_glob(text, &format!("it is longer than {LONGEST_RULE} bytes")));
        }
        let (mut open_ended, mut whole, mut root) = (false, false, false);
        let globs = match access {
            Access::Read | Access::Write => {
                let target = plain_path(target, text)?;
                root = target == ".";
                path_globs(&target, text)?
            }
            Access::Exec => {
                let words = shlex::split(target).ok_or_else(|| BadRule::Quote(text.to_owned()))?;
                open_ended = words.last().is_some_and(|word| ends_in_star(word));
                whole = words.last().is_some_and(|word| word == "**")
                    || words.iter().all(|word| is_literal(word));
                words.iter().map(|word| glob(word, Crosses::Yes, text)).collect::<Result<Vec<_>, _>>()?
            }
            Access::Net => {
                let (host, port) = host_and_port(target);
                if host.is_empty() || port == Some("") {
                    return Err(bad_glob(text, "a host or port is empty; write `host:port` or `host`"));
                }
                if target.contains('/') || target.contains('@') {
                    return Err(bad_glob(text, "it is no address of a page; write `host:port` or `host`"));
                }
                if port.is_some_and(is_no_port) {
                    return Err(bad_glob(
                        text,
                        "no port is called so: write its number, as in `host:443`, or `*`",
                    ));
                }
                let host = glob(&plain_host(host), Crosses::Yes, text)?;
                let port = port.map(|port| glob(port, Crosses::Yes, text)).transpose()?;
                std::iter::once(host).chain(port).collect()
            }
            Access::Call => {
                // As the model calls a tool it is no name of it here, and a rule that matches nothing must not pass for one.
                let is_open = target.contains(['*', '?', '[', '{']) && !target.contains("__");
                if !target.contains('.') && !is_open {
                    return Err(BadRule::Tool {
                        rule: text.to_owned(),
                        instead: target.replacen("__", ".", 1),
                    });
                }
                vec![glob(target, Crosses::Yes, text)?]
            }
            Access::Spawn => vec![glob(target, Crosses::Yes, text)?],
        };
        if globs.is_empty() {
            return Err(BadRule::Empty(text.to_owned()));
        }
        Ok(Self { access, text: format!("{access} {target}"), globs: globs.into(), open_ended, whole, root })
    }
}

/// Whether a word has no glob in it.
fn is_literal(word: &str) -> bool {
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '*' | '?' | '[' | '{' => return false,
            _ => {}
        }
    }
    true
}

/// Whether a word's last character is a `*` that is a glob, not one written `\\*`.
fn ends_in_star(word: &str) -> bool {
    word.strip_suffix('*')
        .is_some_and(|rest| rest.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0)
}

/// A host as rules are held against it: lower case, no brackets, no dot at the end.
fn plain_host(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(address) if address.contains(':') => address,
        _ => host,
    };
    host.strip_suffix('.').unwrap_or(host).to_lowercase()
}

/// Whether a glob of ports can match none: what is no glob is to be a number up to 65535 as numbers are written.
fn is_no_port(port: &str) -> bool {
    let is_glob = port.contains(['*', '?', '[', '{', '\\']);
    let is_plain = |port: &str| port.parse::<u16>().is_ok_and(|number| number.to_string() == port);
    port.contains(|c: char| c.is_alphabetic()) || (!is_glob && !is_plain(port))
}

/// Splits `host:port`. An IPv6 address has its port behind brackets; without brackets it has none.
fn host_and_port(target: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = target.rsplit_once(']')
        && target.starts_with('[')
        && host.contains(':')
    {
        let host = &target[..=host.len()];
        return (host, rest.strip_prefix(':'));
    }
    match target.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (target, None),
    }
}

/// A path pattern spelled as paths are: no `.` and no empty parts. What no path is spelled like is refused, since a
/// rule that never matches protects nothing.
fn plain_path(target: &str, rule: &str) -> Result<String, BadRule> {
    if target.starts_with('/') {
        return Err(bad_glob(rule, "it is absolute; write it from the workspace root"));
    }
    if target.split('/').any(|part| part == "..") {
        return Err(bad_glob(rule, "it contains `..`; write it from the workspace root"));
    }
    let parts: Vec<&str> = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(match (parts.is_empty(), target.ends_with('/')) {
        (true, true) => "**".to_owned(),
        (true, false) => ".".to_owned(),
        (false, slash) => format!("{}{}", parts.join("/"), if slash { "/" } else { "" }),
    })
}

/// A path pattern as globs: `*` and `**` alone mean everything, `dir/` and `dir/**` mean the folder itself as well.
fn path_globs(target: &str, rule: &str) -> Result<Vec<Glob>, BadRule> {
    if matches!(target, "*" | "**" | "**/*") {
        return Ok(vec![glob("**", Crosses::Yes, rule)?]);
    }
    match target.strip_suffix("/**").or_else(|| target.strip_suffix('/')) {
        Some(folder) if !folder.is_empty() => {
            Ok(vec![glob(folder, Crosses::No, rule)?, glob(&format!("{folder}/**"), Crosses::No, rule)?])
        }
        _ => Ok(vec![glob(target, Crosses::No, rule)?]),
    }
}

impl TryFrom<String> for Pattern {
    type Error = BadRule;
    fn try_from(text: String) -> Result<Self, BadRule> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The literal only says sooner what the automaton says.
        #[test]
        fn a_glob_matches_what_its_automaton_matches(
            text in "[ab./*?{}\\[\\],!\\\\é-]{1,10}",
            path in "[ab./é\\\\-]{0,10}",
            crosses in prop_oneof![Just(Crosses::Yes), Just(Crosses::No)],
        ) {
            if let Ok(glob) = glob(&text, crosses, "rule") {
                prop_assert_eq!(glob.is_match(&path), glob.matcher.is_match(&path), "{} on {}", text, path);
            }
        }
    }

    #[test]
    fn the_literal_of_a_glob_is_its_longest_plain_run() {
        let literals = ["**/.cargo/config.toml", "**/.env.*", "**", "src/**/x", "{a,b}/long", "a\\*b"];
        assert_eq!(literals.map(literal_of), [".cargo/config.toml", ".env.", "", "src", "", ""]);
        let glob = glob("**/.env.*", Crosses::No, "rule").expect("a glob");
        assert!(
            glob.is_match(".env.local") && glob.is_match("a/.env.local") && !glob.is_match("a/env.local")
        );
    }
}
