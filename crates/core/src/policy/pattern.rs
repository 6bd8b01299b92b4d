//! The pattern of a rule: an access and what it holds for.

use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::Effect;
use crate::act::{Access, Touch};

/// An access and a pattern, written as in `exec cargo test*`.
///
/// Paths: globs from the workspace root, `*` within one name and `**` across folders; `dir/` and `dir/**` mean the
/// folder and all beneath it. A deny or ask rule that names a folder holds for all beneath it too.
///
/// Commands: the pattern's words (quoted as in a shell) are globs, one for each argument. A pattern that ends in `*`
/// takes any further arguments: `cargo test*` allows `cargo test --offline`. Without it an allow rule needs the whole
/// argument vector to match, while a deny or ask rule holds for every command that begins so. A deny or ask rule also
/// finds its program under another path: `deny exec rm` refuses `/bin/rm`.
///
/// Hosts: `host:port`, each a glob; no port means every port.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    access: Access,
    text: String,
    globs: Vec<GlobMatcher>,
    open_ended: bool,
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
    /// A glob does not parse.
    #[error("`{rule}` has a bad glob: {reason}")]
    Glob {
        /// The rule.
        rule: String,
        /// What is wrong.
        reason: String,
    },
}

fn glob(text: &str, crosses: Crosses, rule: &str) -> Result<GlobMatcher, BadRule> {
    GlobBuilder::new(text)
        .literal_separator(crosses == Crosses::No)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| BadRule::Glob { rule: rule.to_owned(), reason: error.kind().to_string() })
}

/// Whether `*` crosses a `/`.
#[derive(PartialEq)]
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

    pub(super) fn matches(&self, touch: &Touch, effect: Effect) -> bool {
        if touch.access() != self.access {
            return false;
        }
        match touch {
            Touch::Read { path } | Touch::Write { path } => {
                let hit = |text: &str| self.globs.iter().any(|glob| glob.is_match(text));
                hit(path.as_str()) || (effect != Effect::Allow && path.ancestors().any(hit))
            }
            Touch::Exec { argv, program } => self.matches_argv(argv, program.as_deref(), effect),
            Touch::Net { host, port } => {
                self.globs[0].is_match(host)
                    && self.globs.get(1).is_none_or(|glob| glob.is_match(port.to_string()))
            }
            Touch::Call { tool } => self.globs[0].is_match(tool),
            Touch::Spawn { agent } => self.globs[0].is_match(agent),
        }
    }

    fn matches_argv(&self, argv: &[String], program: Option<&str>, effect: Effect) -> bool {
        let Some((name, rest)) = argv.split_first() else {
            return false;
        };
        let words = &self.globs[1..];
        let enough = rest.len() >= words.len()
            || (self.open_ended && rest.len() + 1 == words.len() && self.last_is_star());
        if !enough {
            return false;
        }
        let program_hit = if effect == Effect::Allow {
            self.globs[0].is_match(name)
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

    /// A last word that is `*` alone also stands for no argument at all.
    fn last_is_star(&self) -> bool {
        self.globs.last().is_some_and(|glob| glob.glob().glob() == "*")
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
        let mut open_ended = false;
        let globs = match access {
            Access::Read | Access::Write => path_globs(target, text)?,
            Access::Exec => {
                let words = shlex::split(target).ok_or_else(|| BadRule::Quote(text.to_owned()))?;
                open_ended = words.last().is_some_and(|word| word.ends_with('*'));
                words.iter().map(|word| glob(word, Crosses::Yes, text)).collect::<Result<Vec<_>, _>>()?
            }
            Access::Net => match target.rsplit_once(':') {
                Some((host, port)) => {
                    vec![glob(&host.to_lowercase(), Crosses::Yes, text)?, glob(port, Crosses::Yes, text)?]
                }
                None => vec![glob(&target.to_lowercase(), Crosses::Yes, text)?],
            },
            Access::Call | Access::Spawn => vec![glob(target, Crosses::Yes, text)?],
        };
        if globs.is_empty() {
            return Err(BadRule::Empty(text.to_owned()));
        }
        Ok(Self { access, text: format!("{access} {target}"), globs, open_ended })
    }
}

/// A path pattern as globs: `*` and `**` alone mean everything, `dir/` and `dir/**` mean the folder itself as well.
fn path_globs(target: &str, rule: &str) -> Result<Vec<GlobMatcher>, BadRule> {
    let target = target.strip_prefix("./").unwrap_or(target);
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
