//! Making foreign text safe to show.

use std::fmt::Write as _;

/// Whether a character hides or moves text on a terminal: control characters, bidirectional overrides, zero-width and
/// other invisible characters, tag and variation-selector blocks.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c as u32,
            0x00AD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xFE00..=0xFE0F
            | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

/// The text with hidden characters written out as `\u{..}`. Line feeds and tabs stay when `lines` says so.
///
/// ```
/// use provost_core::text::{visible, Lines};
/// assert_eq!(visible("a\u{1b}[2Jb", Lines::Keep), "a\\u{1b}[2Jb");
/// ```
pub fn visible(text: &str, lines: Lines) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' if lines == Lines::Keep => out.push(c),
            c if is_hidden(c) => drop(write!(out, "\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// What happens to line feeds and tabs in [`visible`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// They stay.
    Keep,
    /// They are written out like other control characters.
    Escape,
}

/// Milliseconds since the Unix epoch as a date and a time of day: `2026-01-31 09:05`, in UTC.
///
/// ```
/// assert_eq!(provost_core::text::moment(951_827_640_000), "2000-02-29 12:34");
/// ```
///
/// The days are counted as in Howard Hinnant's `civil_from_days` (howardhinnant.github.io/date_algorithms.html).
pub fn moment(ms: u64) -> String {
    let (days, minutes) = (ms / 86_400_000, ms % 86_400_000 / 60_000);
    // Days since 0000-03-01: a year that begins in March has its leap day at its end.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}
