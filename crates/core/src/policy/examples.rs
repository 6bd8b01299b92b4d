//! Rules that bring their own tests: what they have to hold for, and what not.
//!
//! ```toml
//! deny = [{ rule = "exec git push*", match = ["git push -f", "env git push"], no_match = ["git pull"] }]
//! ```

use std::fmt;

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{Effect, Pattern};
use crate::act::{Access, Touch};
use crate::exec::{Part, Word, base_name, parts};
use crate::path::RelPath;

/// A rule of a policy file, alone or with its examples.
pub(super) struct Entry {
    pub(super) rule: String,
    pub(super) holds: Vec<Spanned<String>>,
    pub(super) fails: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithExamples {
    rule: String,
    #[serde(default, rename = "match")]
    holds: Vec<Spanned<String>>,
    #[serde(default, rename = "no_match")]
    fails: Vec<Spanned<String>>,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either)
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule, or a table with `rule`, `match` and `no_match`")
    }

    fn visit_str<E: de::Error>(self, rule: &str) -> Result<Entry, E> {
        Ok(Entry { rule: rule.to_owned(), holds: Vec::new(), fails: Vec::new() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
        let WithExamples { rule, holds, fails } = WithExamples::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Entry { rule, holds, fails })
    }
}

/// Whether the rule holds for an example, written as behind `exec`, `read` and so on. A deny or ask rule also holds for a
/// command that starts one for which it holds.
pub(super) fn holds(pattern: &Pattern, effect: Effect, example: &str) -> Result<bool, String> {
    let touches = touches(pattern.access(), example)?;
    let considered = if effect == Effect::Allow { &touches[..1] } else { &touches };
    Ok(considered.iter().any(|touch| pattern.matches(touch, effect)))
}

fn touches(access: Access, example: &str) -> Result<Vec<Touch>, String> {
    Ok(match access {
        Access::Read => {
            vec![Touch::Read { path: RelPath::parse(example).map_err(|error| error.to_string())? }]
        }
        Access::Write => {
            vec![Touch::Write { path: RelPath::parse(example).map_err(|error| error.to_string())? }]
        }
        Access::Exec => {
            let words = shlex::split(example).filter(|words| !words.is_empty());
            let words = words.ok_or("it is no command, or has an open quote")?;
            let mut touches = Vec::new();
            started(&words.into_iter().map(Word::Fixed).collect::<Vec<_>>(), 0, &mut touches);
            touches
        }
        Access::Net => {
            let (host, port) = example.rsplit_once(':').ok_or("it is not host:port")?;
            let port = port.parse().map_err(|_| "its port is no number".to_owned())?;
            vec![Touch::Net { host: host.to_lowercase(), port }]
        }
        Access::Call => vec![Touch::Call { tool: example.to_owned() }],
        Access::Spawn => vec![Touch::Spawn { agent: example.to_owned() }],
    })
}

/// A command and those that it starts. Programs are not looked for, and of a line for a shell only the plain words are
/// read.
fn started(words: &[Word], depth: usize, touches: &mut Vec<Touch>) {
    /// Commands within commands that are looked at, and touches in all.
    const MOST: usize = 8;
    const MOST_TOUCHES: usize = 256;
    let Some((name, args)) = words.split_first() else { return };
    let argv: Vec<String> = words.iter().map(|word| word.text().to_owned()).collect();
    let known = words.iter().take_while(|word| word.known().is_some()).count();
    touches.push(if known == argv.len() {
        Touch::Exec { argv, program: None }
    } else {
        Touch::Expanded { argv, known: known as u32, program: None }
    });
    if depth == MOST || touches.len() >= MOST_TOUCHES {
        return;
    }
    for part in parts(base_name(name.text()), args) {
        match part {
            Part::Command { words, .. } => started(&words, depth + 1, touches),
            Part::Line { line, .. } => {
                let words = line.known().and_then(shlex::split).unwrap_or_default();
                started(&words.into_iter().map(Word::Fixed).collect::<Vec<_>>(), depth + 1, touches);
            }
            Part::Hidden(_) | Part::Unclear(_) | Part::Untold(_) => {}
        }
    }
}
