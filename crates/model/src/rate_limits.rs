//! What a vendor says of its limits, in the headers of an answer or of a refusal.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Headers that are kept at most, and characters of each value: a server may send anything.
const MOST_HEADERS: usize = 48;
const MOST_CHARS: usize = 200;

/// The limits that one response told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// What was understood, by what it counts.
    pub windows: Vec<Window>,
    /// Headers about limits that were not understood, as they came: name in lower case, value.
    pub extras: Vec<(String, String)>,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// What it counts, in the vendor's words: `requests`, `input-tokens`, `tokens-minute`; empty where it has none.
    pub counts: String,
    /// How much there is in a full window.
    pub limit: Option<u64>,
    /// How much is left.
    pub remaining: Option<u64>,
    /// When it is full again, from when the response came.
    pub resets_in: Option<Duration>,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.counts.is_empty() { "calls" } else { &self.counts })?;
        match self.limit {
            Some(limit) => write!(f, " of {limit}"),
            None => Ok(()),
        }
    }
}

/// What a header says of a window.
enum Part {
    Limit,
    Remaining,
    Reset,
}

impl RateLimits {
    /// Reads headers (names in lower case), at the time `now`.
    pub fn read<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>, now: SystemTime) -> Self {
        let mut limits = Self::default();
        let about = |name: &str| name.contains("ratelimit") || name.contains("rate-limit");
        for (name, value) in headers.filter(|(name, _)| about(name)).take(MOST_HEADERS) {
            let value: String = value.trim().chars().take(MOST_CHARS).collect();
            if !limits.window(name, &value, now) {
                limits.extras.push((name.to_owned(), value));
            }
        }
        limits
    }

    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.extras.is_empty()
    }

    /// The windows of which nothing is left.
    pub fn spent(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(|window| window.remaining == Some(0))
    }

    /// When all spent windows are full again, where each of them says when.
    pub fn spent_until(&self) -> Option<Duration> {
        self.spent().map(|window| window.resets_in).try_fold(None, |latest: Option<Duration>, resets| {
            let resets = resets?;
            Some(Some(latest.map_or(resets, |latest| latest.max(resets))))
        })?
    }

    /// Takes a header of a family that is known, if its value is understood.
    fn window(&mut self, name: &str, value: &str, now: SystemTime) -> bool {
        let Some((counts, part)) = anthropic(name).or_else(|| openai(name)) else { return false };
        let number = value.parse::<u64>().ok();
        let reset = matches!(part, Part::Reset).then(|| resets_in(value, now)).flatten();
        if number.is_none() && reset.is_none() {
            return false;
        }
        let at = self.windows.iter().position(|window| window.counts == counts).unwrap_or_else(|| {
            let counts = counts.to_owned();
            self.windows.push(Window { counts, limit: None, remaining: None, resets_in: None });
            self.windows.len() - 1
        });
        let window = &mut self.windows[at];
        match part {
            Part::Limit => window.limit = number,
            Part::Remaining => window.remaining = number,
            Part::Reset => window.resets_in = reset,
        }
        true
    }
}

/// `anthropic-ratelimit-<what>-<part>`.
fn anthropic(name: &str) -> Option<(&str, Part)> {
    let (counts, part) = name.strip_prefix("anthropic-ratelimit-")?.rsplit_once('-')?;
    Some((counts, word(part)?))
}

/// `x-ratelimit-<part>-<what>`, as OpenAI and most of those who follow it have it, also without `<what>`.
fn openai(name: &str) -> Option<(&str, Part)> {
    let rest = name.strip_prefix("x-ratelimit-")?;
    let (part, counts) = rest.split_once('-').unwrap_or((rest, ""));
    Some((counts, word(part)?))
}

fn word(part: &str) -> Option<Part> {
    match part {
        "limit" => Some(Part::Limit),
        "remaining" => Some(Part::Remaining),
        "reset" => Some(Part::Reset),
        _ => None,
    }
}

/// A reset as vendors write it: RFC 3339, `1h2m3.5s`, `20ms`, seconds, or a time since 1970 in seconds or milliseconds.
fn resets_in(value: &str, now: SystemTime) -> Option<Duration> {
    let from_now = |since_1970: Duration| {
        let at = UNIX_EPOCH.checked_add(since_1970)?;
        Some(at.duration_since(now).unwrap_or(Duration::ZERO))
    };
    if let Ok(number) = value.parse::<f64>() {
        // No window is thirty years long, so a large number is a date.
        return match number {
            ms if ms >= 1e12 => from_now(Duration::try_from_secs_f64(ms / 1e3).ok()?),
            seconds if seconds >= 1e9 => from_now(Duration::try_from_secs_f64(seconds).ok()?),
            seconds => Duration::try_from_secs_f64(seconds).ok(),
        };
    }
    rfc3339(value).map_or_else(|| spelled(value), from_now)
}

/// `1h2m3.5s`, `20ms`.
fn spelled(mut text: &str) -> Option<Duration> {
    let mut sum = 0.0;
    if text.is_empty() {
        return None;
    }
    while !text.is_empty() {
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let number: f64 = text[..end].parse().ok()?;
        text = &text[end..];
        let end = text.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(text.len());
        sum += number
            * match &text[..end] {
                "d" => 86_400.0,
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        text = &text[end..];
    }
    Duration::try_from_secs_f64(sum).ok()
}

/// `2026-01-31T09:05:00Z`, also with a fraction and an offset, as time since 1970.
fn rfc3339(text: &str) -> Option<Duration> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| -> Option<u64> {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let mark = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    if !(mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":")) {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let rest = &text[19..];
    let zone = rest
        .strip_prefix('.')
        .map_or(rest, |fraction| fraction.trim_start_matches(|c: char| c.is_ascii_digit()));
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let at = text.len() - zone.len();
            let seconds =
                i64::try_from(digits(at + 1, at + 3)? * 3_600 + digits(at + 4, at + 6)? * 60).ok()?;
            match (zone.len(), zone.as_bytes()[0]) {
                (6, b'+') => seconds,
                (6, b'-') => -seconds,
                _ => return None,
            }
        }
    };
    // Days since 1970: whole years, whole months, days.
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let leaps_before = |year: u64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let before_month = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let days = (year - 1970) * 365 + leaps_before(year) - leaps_before(1970)
        + before_month[usize::try_from(month - 1).ok()?]
        + u64::from(month > 2 && leap(year))
        + (day - 1);
    let seconds = i64::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).ok()? - offset;
    Some(Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> RateLimits {
        // 2026-01-31T09:05:00Z.
        let now = UNIX_EPOCH + Duration::from_mins(29_497_505);
        RateLimits::read(headers.iter().copied(), now)
    }

    fn window(counts: &str, limit: u64, remaining: u64, resets_in: Duration) -> Window {
        Window {
            counts: counts.to_owned(),
            limit: Some(limit),
            remaining: Some(remaining),
            resets_in: Some(resets_in),
        }
    }

    #[test]
    fn both_families_come_to_one_type() {
        let limits = read(&[
            ("content-type", "application/json"),
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-01-31T09:05:12Z"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-input-tokens-remaining", "39000"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-01-31T10:06:00.5+01:00"),
            ("anthropic-ratelimit-unified-status", "allowed"),
        ]);
        let seconds = Duration::from_secs;
        assert_eq!(
            limits.windows,
            [window("requests", 50, 0, seconds(12)), window("input-tokens", 40_000, 39_000, seconds(60))]
        );
        assert_eq!(limits.extras, [("anthropic-ratelimit-unified-status".to_owned(), "allowed".to_owned())]);
        assert_eq!(limits.spent_until(), Some(seconds(12)));

        let limits = read(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "20ms"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0.5s"),
            ("x-ratelimit-over-limit", "no"),
            ("retry-after", "7"),
        ]);
        assert_eq!(
            limits.windows,
            [
                window("requests", 60, 59, Duration::from_millis(20)),
                window("tokens", 150_000, 0, Duration::from_millis(360_500)),
            ]
        );
        assert_eq!(limits.extras, [("x-ratelimit-over-limit".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn resets_in_every_spelling() {
        let reset = |value| read(&[("x-ratelimit-reset", value)]).windows.first().and_then(|w| w.resets_in);
        for (value, seconds) in [
            ("33011.5", Some(33_011.5)),
            ("1769850360", Some(60.0)),
            ("1769850360000", Some(60.0)),
            ("1769850000", Some(0.0)),
            ("1h2m3s", Some(3_723.0)),
            ("2026-01-31T09:05:01.25Z", Some(1.0)),
            ("2026-03-01T09:05:00Z", Some(29.0 * 86_400.0)),
            ("2028-03-01T09:05:00Z", Some(760.0 * 86_400.0)),
            ("2026-01-31T04:05:09-05:00", Some(9.0)),
            ("2026-13-31T09:05:00Z", None),
            ("2026-01-31T09:05:00", None),
            ("2026-01-31T09:05:00+é", None),
            ("soon", None),
            ("5", Some(5.0)),
            ("5x", None),
            ("-5", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(reset(value), seconds.map(Duration::from_secs_f64), "{value}");
        }
        // What is not understood is kept.
        assert_eq!(read(&[("x-ratelimit-reset", "soon")]).extras.len(), 1);
    }

    #[test]
    fn a_window_that_does_not_say_when_leaves_it_open() {
        let one = ("x-ratelimit-remaining-tokens", "0");
        assert_eq!(read(&[one]).spent_until(), None);
        let other = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1s"), one];
        assert_eq!(read(&other).spent_until(), None);
        assert_eq!(read(&other[..2]).spent_until(), Some(Duration::from_secs(1)));
        assert!(read(&[("content-length", "3")]).is_empty());
        let many: Vec<(String, String)> =
            (0..999).map(|n| (format!("x-ratelimit-x{n}"), "y".repeat(9_999))).collect();
        let limits = RateLimits::read(many.iter().map(|(a, b)| (a.as_str(), b.as_str())), UNIX_EPOCH);
        assert!(limits.extras.len() == MOST_HEADERS && limits.extras[0].1.len() == MOST_CHARS);
    }
}
