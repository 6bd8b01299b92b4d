//! A date as people type it.

/// Milliseconds since the Unix epoch of `YYYY-MM-DD` (its beginning, in UTC) or of an RFC 3339 date and time.
pub(crate) fn parse_date(text: &str) -> Result<u64, String> {
    instant(text).and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| {
        "expected a date from 1970 on, as in 2026-01-31, 2026-01-31T09:05:00Z or 2026-01-31T09:05:00+01:00"
            .to_owned()
    })
}

fn instant(text: &str) -> Option<i64> {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return Some(days(text)? * 86_400_000);
    };
    let (clock, offset_minutes) = if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        (clock, 0)
    } else {
        let (clock, offset) = time.split_at_checked(time.len().checked_sub(6)?)?;
        (clock, signed_minutes(offset)?)
    };
    Some(days(date)? * 86_400_000 + clock_ms(clock)? - offset_minutes * 60_000)
}

/// Days from 1970-01-01 to `YYYY-MM-DD`.
fn days(date: &str) -> Option<i64> {
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // A year that begins in March has its leap day at its end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(
        year * 365 + year.div_euclid(4) - year.div_euclid(100)
            + year.div_euclid(400)
            + (153 * month + 2) / 5
            + day
            - 719_469,
    )
}

/// Milliseconds since midnight of `HH:MM:SS` with or without a fraction. A leap second is the one before it.
fn clock_ms(clock: &str) -> Option<i64> {
    let (whole, fraction) =
        clock.split_once('.').map_or((clock, None), |(whole, fraction)| (whole, Some(fraction)));
    let [hour, minute, second] = fields(whole, ':', [2, 2, 2])?;
    let fraction = match fraction {
        None => 0,
        Some(digits) if !digits.is_empty() && all_digits(digits) => {
            format!("{digits:0<3}")[..3].parse().ok()?
        }
        Some(_) => return None,
    };
    (hour < 24 && minute < 60 && second <= 60)
        .then_some(((hour * 60 + minute) * 60 + second.min(59)) * 1_000 + fraction)
}

/// Minutes of `+HH:MM` or `-HH:MM`.
fn signed_minutes(offset: &str) -> Option<i64> {
    let (sign, size) = match offset.split_at_checked(1)? {
        ("+", size) => (1, size),
        ("-", size) => (-1, size),
        _ => return None,
    };
    let [hour, minute] = fields(size, ':', [2, 2])?;
    (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute))
}

/// Numbers of exactly so many digits, parted by `between`.
fn fields<const N: usize>(text: &str, between: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for (slot, length) in found.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length && all_digits(part))?;
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d TEXT +%s` gives these.
        let cases = [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2000-03-01", 951_868_800),
            ("2024-12-31T23:59:59Z", 1_735_689_599),
            ("2026-08-01t12:05:00z", 1_785_585_900),
            ("2026-08-01 12:05:00+00:00", 1_785_585_900),
            ("2026-08-01T14:05:00+02:00", 1_785_585_900),
            ("2026-07-31T23:35:00-12:30", 1_785_585_900),
            ("2100-03-01", 4_107_542_400),
            ("9999-12-31", 253_402_214_400),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse_date(text), Ok(seconds * 1_000), "{text}");
        }
        assert_eq!(parse_date("1970-01-01T00:00:00.5Z"), Ok(500));
        assert_eq!(parse_date("1970-01-01T00:00:00.123456Z"), Ok(123));
        assert_eq!(parse_date("2016-12-31T23:59:60Z"), parse_date("2016-12-31T23:59:59Z"));
    }

    #[test]
    fn a_moment_that_was_printed_for_a_date_is_the_beginning_of_that_date() {
        for day in (0..40_000).step_by(17) {
            let ms = day * 86_400_000;
            let printed = crate::render::words::moment(ms);
            assert_eq!(parse_date(&printed[..10]), Ok(ms));
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        let cases = [
            "",
            "2026",
            "2026-1-1",
            "2026-13-01",
            "2026-00-01",
            "2026-02-29",
            "2026-04-31",
            "2026-01-00",
            "26-01-01",
            "2026-01-01T",
            "2026-01-01T00:00:00",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00+24:00",
            "1969-12-31",
            "1970-01-01T00:00:00+01:00",
            "2026-01-01-01",
            "+026-01-01",
            "2026-01-01T00:00:00ä+1:00",
            "yesterday",
        ];
        for text in cases {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }
}
