//! Reading the options that stand before what a wrapper runs.

use super::Word;

/// Options of a program that runs what stands behind them.
pub(super) struct Options {
    /// Short options without a value, one character each.
    pub(super) flags: &'static str,
    /// Short options with a value: attached, or the next word.
    pub(super) values: &'static str,
    /// Short options whose value may only be attached.
    pub(super) attached: &'static str,
    /// Long options without a value, or with one behind `=` that need not be there.
    pub(super) long_flags: &'static [&'static str],
    /// Long options with a value behind `=` or in the next word.
    pub(super) long_values: &'static [&'static str],
}

impl Options {
    pub(super) const NONE: Self =
        Self { flags: "", values: "", attached: "", long_flags: &[], long_values: &[] };
}

/// An option as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    /// A letter, or a long name without its dashes.
    pub(super) name: &'a str,
    /// Its value, if it has one.
    pub(super) value: Option<&'a Word>,
    /// The value where it is attached to the name.
    pub(super) attached: Option<&'a str>,
}

impl Found<'_> {
    /// The value as a word.
    pub(super) fn word(&self) -> Option<Word> {
        self.attached.map(Word::fixed).or_else(|| self.value.cloned())
    }
}

/// The options at the start of `args`, and what stands behind them; or why they cannot be told. `--` ends them.
pub(super) fn leading<'a>(
    args: &'a [Word],
    options: &Options,
) -> Result<(Vec<Found<'a>>, &'a [Word]), String> {
    let mut found = Vec::new();
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        let Some(text) = word.known() else {
            return Err(format!("`{word}` is made by an expansion"));
        };
        if text == "--" {
            return Ok((found, behind));
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        rest = behind;
        let unknown = || format!("its option `{text}` is not known");
        if let Some(long) = text.strip_prefix("--") {
            let (name, attached) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            if options.long_flags.contains(&name) {
                found.push(Found { name, value: None, attached });
            } else if options.long_values.contains(&name) {
                let value = if attached.is_some() { None } else { take(&mut rest, text)? };
                found.push(Found { name, value, attached });
            } else {
                return Err(unknown());
            }
            continue;
        }
        let letters = &text[1..];
        for (at, letter) in letters.char_indices() {
            let name = &letters[at..at + letter.len_utf8()];
            let behind = &letters[at + letter.len_utf8()..];
            if options.flags.contains(letter) {
                found.push(Found { name, value: None, attached: None });
            } else if options.attached.contains(letter) {
                let attached = Some(behind).filter(|text| !text.is_empty());
                found.push(Found { name, value: None, attached });
                break;
            } else if options.values.contains(letter) {
                let attached = Some(behind).filter(|text| !text.is_empty());
                let value = if attached.is_some() { None } else { take(&mut rest, text)? };
                found.push(Found { name, value, attached });
                break;
            } else {
                return Err(unknown());
            }
        }
    }
    Ok((found, rest))
}

/// The next word as an option's value.
fn take<'a>(rest: &mut &'a [Word], option: &str) -> Result<Option<&'a Word>, String> {
    match rest.split_first() {
        // It may be no word at all, or more than one.
        Some((Word::Many(text), _)) => Err(format!("`{text}` is made by an expansion")),
        Some((value, behind)) => {
            *rest = behind;
            Ok(Some(value))
        }
        None => Err(format!("its option `{option}` has no value")),
    }
}

/// Whether `arg` is the long option `name` (with its dashes), or a beginning of it, which most programs take for it.
pub(super) fn is_long(arg: &str, name: &str) -> bool {
    let given = arg.split_once('=').map_or(arg, |(given, _)| given);
    given.len() > 2 && given.starts_with("--") && name.starts_with(given)
}

/// Whether `arg` is a cluster of short options that has `letter` in it, before the value of one of `values`.
pub(super) fn has_short(arg: &str, letter: char, values: &str) -> bool {
    let Some(letters) = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        return false;
    };
    for found in letters.chars() {
        if found == letter {
            return true;
        }
        if values.contains(found) {
            return false;
        }
    }
    false
}
