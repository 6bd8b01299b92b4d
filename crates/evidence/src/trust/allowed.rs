//! A line of `allowed_signers`: whose key, for what and when.
//!
//! Format: ssh-keygen(1), "ALLOWED SIGNERS": principals, options, kind of key, key. What `ssh-keygen` accepts and is not
//! done here is refused by name: other kinds of keys, authorities of certificates, and times of a local zone, which say
//! another moment on another machine.

use super::{TrustedKey, Uses};
use crate::ssh::public;

/// A list of patterns (ssh_config(5), PATTERNS): `*` and `?`, and a `!` before what shall not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patterns(String);

impl Patterns {
    pub(super) fn matches(&self, text: &str) -> bool {
        let hit = |pattern: &str| glob(pattern.as_bytes(), text.as_bytes());
        let (not, any): (Vec<_>, Vec<_>) = self.0.split(',').partition(|pattern| pattern.starts_with('!'));
        any.into_iter().any(hit) && !not.into_iter().any(|pattern| hit(&pattern[1..]))
    }
}

/// Whether a pattern of `*` and `?` is the whole of a text. Going back is to the newest `*` only, so it takes no longer
/// than the product of both lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((behind, began)) = star else { return false };
                star = Some((behind, began + 1));
                (at, from) = (behind, began + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Reads one line, which is no comment.
pub(super) fn read(line: &str) -> Result<TrustedKey, String> {
    let shape = || "not `PRINCIPALS [OPTIONS] ssh-ed25519 KEY`".to_owned();
    let (who, rest) = word(line);
    if who.contains('"') {
        return Err("principals in quotes are not read".to_owned());
    }
    let (first, behind) = word(rest);
    let (options, rest) = if public::is_kind(first) { ("", rest) } else { (first, behind) };
    let (kind, rest) = word(rest);
    let (blob, _comment) = word(rest);
    if kind.is_empty() || blob.is_empty() {
        return Err(shape());
    }
    let mut key = TrustedKey {
        key: public::from_words(kind, blob).map_err(|error| error.to_string())?,
        who: who.to_owned(),
        uses: Uses::Any,
        after: None,
        before: None,
    };
    for option in split(options) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(unquoted(value).ok_or_else(|| unquotable(name))?)),
            None => (option, None),
        };
        match (name.to_ascii_lowercase().as_str(), value) {
            ("namespaces", Some(list)) if key.uses == Uses::Any => {
                key.uses = Uses::Namespaces(Patterns(list.to_owned()));
            }
            ("valid-after", Some(time)) if key.after.is_none() => key.after = Some(moment(time)?),
            ("valid-before", Some(time)) if key.before.is_none() => key.before = Some(moment(time)?),
            ("namespaces" | "valid-after" | "valid-before", Some(_)) => {
                return Err(format!("the option `{name}` stands twice"));
            }
            ("cert-authority", _) => {
                return Err("`cert-authority`: certificates are not used; name each key".to_owned());
            }
            _ => return Err(format!("`{option}` is not an option that is known")),
        }
    }
    if let (Some(after), Some(before)) = (key.after, key.before)
        && after > before
    {
        return Err("the key is never valid: `valid-after` is later than `valid-before`".to_owned());
    }
    Ok(key)
}

/// The first word and what is behind it. A space within double quotes does not end a word.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    let mut quoted = false;
    let end = text.find(|c: char| {
        quoted ^= c == '"';
        !quoted && (c == ' ' || c == '\t')
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// The options, cut at commas that are not within double quotes.
fn split(options: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    options
        .split(move |c: char| {
            quoted ^= c == '"';
            !quoted && c == ','
        })
        .filter(move |_| !options.is_empty())
}

/// What stands between a value's quotes, without which `ssh-keygen` does not take it either.
fn unquoted(value: &str) -> Option<&str> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.is_empty() && !inner.contains(['"', '\\'])).then_some(inner)
}

fn unquotable(name: &str) -> String {
    format!("the value of `{name}` has to stand between double quotes")
}

/// A time in seconds since the Unix epoch: `YYYYMMDDZ`, `YYYYMMDDHHMMZ` or `YYYYMMDDHHMMSSZ`.
fn moment(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time: YYYYMMDDZ or YYYYMMDDHHMM[SS]Z");
    let Some(digits) = text.strip_suffix('Z') else {
        return Err(format!("{}; without the `Z` it would be a local one", wrong()));
    };
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let part = |from: usize, to: usize| digits.get(from..to).and_then(|part| part.parse::<u64>().ok());
    let (year, month, day) = (part(0, 4).unwrap_or(0), part(4, 6).unwrap_or(0), part(6, 8).unwrap_or(0));
    let (hour, minute) = (part(8, 10).unwrap_or(0), part(10, 12).unwrap_or(0));
    let second = part(12, 14).unwrap_or(0);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let exists = year >= 1970
        && (1..=12).contains(&month)
        && (1..=last).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !exists {
        return Err(wrong());
    }
    // Days since 1970, by years that begin in March (Howard Hinnant's `days_from_civil`).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + day_of_era - 719_468;
    Ok(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(moment("19700101Z"), Ok(0));
        assert_eq!(moment("20000229123400Z"), Ok(951_827_640));
        assert_eq!(moment("202601310905Z"), Ok(1_769_850_300));
        assert_eq!(moment("20240301Z").unwrap() - moment("20240228Z").unwrap(), 2 * 86_400);
        for bad in [
            "",
            "Z",
            "20260131",
            "2026013109Z",
            "20260229Z",
            "20261301Z",
            "20260100Z",
            "19691231Z",
            "202601312400Z",
            "20260131z",
            "+0260131Z",
            "20260131090560Z",
        ] {
            assert!(moment(bad).is_err(), "{bad}");
        }
        assert!(moment("20260131").unwrap_err().contains("local"));
    }

    #[test]
    fn patterns_are_those_of_openssh() {
        let matches = |list: &str| Patterns(list.to_owned()).matches("provost-review");
        for hit in
            ["provost-review", "file,provost-review", "provost-*", "*", "provost-revie?", "*r*v*w", "!file,*"]
        {
            assert!(matches(hit), "{hit}");
        }
        for miss in
            ["", "file", "provost", "provost-review-", "?", "!provost-review", "*,!provost-*", "!file"]
        {
            assert!(!matches(miss), "{miss}");
        }
    }
}
