//! The name of a task's run, from which the task's id can be read back: a second list of ids would be a second truth.

use provost::core::id::RunId;

use crate::failure::Failure;

/// Before an id that a run's name can hold as it is.
const PLAIN: &str = "t-";
/// Before an id in base32.
const CODED: &str = "b-";
/// Longest run name.
const LONGEST: usize = 64;
/// RFC 4648, in lower case and without padding.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The run of task `id`.
pub(super) fn of(id: &str) -> Result<RunId, Failure> {
    if id.contains(['\t', '\n']) {
        return Err(Failure::usage(format!("the task id `{}` has a tab or a line feed", id.escape_debug())));
    }
    let name = name(id);
    // The only thing that can be wrong with it.
    name.parse().map_err(|_| {
        Failure::usage(format!(
            "the task id `{id}` is too long: at most {} characters of a-z, 0-9 and `-`, or {} bytes of any others",
            LONGEST - PLAIN.len(),
            (LONGEST - CODED.len()) * 5 / 8
        ))
    })
}

/// The task of run `run`; `None` where it is the run of none.
pub(super) fn id(run: &RunId) -> Option<String> {
    let text = run.as_str();
    let id = if let Some(plain) = text.strip_prefix(PLAIN) {
        plain.to_owned()
    } else {
        String::from_utf8(decode(text.strip_prefix(CODED)?.trim_end_matches('-'))?).ok()?
    };
    // Each id has one name.
    (name(&id) == text && !id.contains(['\t', '\n'])).then_some(id)
}

fn name(id: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if id.len() >= 2 && id.bytes().all(fits) {
        return format!("{PLAIN}{id}");
    }
    // The empty id has a name as well.
    format!("{CODED}{:-<2}", encode(id.as_bytes()))
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(letter(held >> bits));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        out.push(letter(held << (5 - bits)));
    }
    out
}

fn letter(value: u32) -> char {
    char::from(ALPHABET[(value & 31) as usize])
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in text.bytes() {
        let value = ALPHABET.iter().position(|letter| *letter == byte)?;
        held = (held << 5) | value as u32;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_read_back_from_its_name() {
        let long = "é".repeat(19);
        let plain = "a".repeat(62);
        for task in [
            "",
            "a",
            "ab",
            "a-1",
            "-",
            "--",
            "---",
            "A",
            "off_by_one",
            "ü",
            "a b",
            "\u{1b}[2J",
            "\r",
            &long,
            &plain,
        ] {
            let run = of(task).unwrap_or_else(|failure| panic!("{task}: {}", failure.message()));
            assert_eq!(id(&run).as_deref(), Some(task), "{run}");
        }
        assert_eq!(of("task-1").unwrap().as_str(), "t-task-1");
        assert_eq!(of("off_by_one").unwrap().as_str(), "b-n5tgmx3cpfpw63tf");
        for wrong in ["a\tb", "a\n", &format!("{long}x"), &"a".repeat(63)] {
            assert_eq!(of(wrong).unwrap_err().code(), 2);
        }
        assert!(of(&"a".repeat(63)).unwrap_err().message().contains("at most 62 characters"));
    }

    #[test]
    fn a_name_that_no_id_has_is_no_task() {
        // Bits left over, a letter that is none, an id that has a plain name, a tab, padding, names of other runs.
        for name in [
            "b-mf",
            "b-ab",
            "b-a1",
            "b-mfrggzdf",
            "b-be",
            "b-me-",
            "b-----",
            "r01a229f12800-0102030405",
            "nightly",
        ] {
            assert_eq!(id(&name.parse().unwrap()), None, "{name}");
        }
    }
}
