//! P12: what is shown for approval is what runs. Nothing hides, nothing moves the cursor, no two things look the same.

use proptest::prelude::*;
use provost_core::act::{Touch, show_argv};
use provost_core::path::RelPath;
use provost_core::text::{Lines, is_hidden, visible};

use crate::cases;

/// Unicode's `Default_Ignorable_Code_Point`, and what moves text or looks like nothing.
const HIDDEN: &[(u32, u32)] = &[
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
];

fn tricky() -> impl Strategy<Value = String> {
    let c = prop_oneof![
        3 => prop::sample::select(vec!['a', ' ', '\'', '"', '\\', '$', '*', '=', '\n', '\t', '\u{1b}', '\u{202e}',
            '\u{200b}', '\u{e0100}', 'u', '{', '}', '0', 'x', 'é']),
        1 => any::<char>(),
    ];
    prop::collection::vec(c, 0..12).prop_map(String::from_iter)
}

/// What a shell with `$'..'` makes of one shown word.
fn unquote(shown: &str) -> Vec<String> {
    let (mut words, mut word, mut any) = (Vec::new(), String::new(), false);
    let mut rest = shown;
    while let Some(c) = rest.chars().next() {
        if c == ' ' {
            words.push(std::mem::take(&mut word));
            (rest, any) = (&rest[1..], false);
        } else if let Some(tail) = rest.strip_prefix("$'") {
            (rest, any) = (tail, true);
            loop {
                let c = rest.chars().next().unwrap();
                rest = &rest[c.len_utf8()..];
                match c {
                    '\'' => break,
                    '\\' => {
                        let kind = rest.chars().next().unwrap();
                        rest = &rest[1..];
                        let digits = match kind {
                            'x' => 2,
                            'u' => 4,
                            'U' => 8,
                            'n' => {
                                word.push('\n');
                                continue;
                            }
                            't' => {
                                word.push('\t');
                                continue;
                            }
                            other => {
                                word.push(other);
                                continue;
                            }
                        };
                        let code = u32::from_str_radix(&rest[..digits], 16).unwrap();
                        rest = &rest[digits..];
                        word.push(char::from_u32(code).unwrap());
                    }
                    c => word.push(c),
                }
            }
        } else if let Some(tail) = rest.strip_prefix('\'') {
            let (inside, after) = tail.split_once('\'').unwrap();
            word.push_str(inside);
            (rest, any) = (after, true);
        } else if let Some(tail) = rest.strip_prefix("\\'") {
            word.push('\'');
            rest = tail;
        } else {
            word.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    if any || !word.is_empty() || shown.ends_with(' ') {
        words.push(word);
    }
    words
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn p12_what_is_shown_is_what_runs(argv in prop::collection::vec(tricky(), 1..4)) {
        let shown = show_argv(&argv);
        prop_assert!(!shown.contains(is_hidden), "{shown:?}");
        prop_assert_eq!(unquote(&shown), argv.clone());
        if !argv.concat().contains(is_hidden) {
            // Where nothing hides, the plain form is that of every shell.
            prop_assert_eq!(shlex::split(&shown), Some(argv));
        }
    }

    #[test]
    fn p12_no_hidden_character_is_shown(text in tricky()) {
        prop_assert!(!visible(&text, Lines::Escape).contains(is_hidden));
        let kept = visible(&text, Lines::Keep);
        prop_assert!(!kept.contains(|c| is_hidden(c) && c != '\n' && c != '\t'));
        if let Ok(path) = RelPath::parse(&text) {
            let touches = [Touch::Read { path: path.clone() }, Touch::Write { path }];
            prop_assert!(touches.iter().all(|touch| !touch.to_string().contains(is_hidden)));
        }
        let named = [
            Touch::Net { host: text.clone(), port: 1 },
            Touch::Call { tool: text.clone() },
            Touch::Spawn { agent: text },
        ];
        prop_assert!(named.iter().all(|touch| !touch.to_string().contains(is_hidden)));
    }
}

#[test]
fn p12_every_character_that_hides_is_known() {
    for (first, last) in HIDDEN {
        for c in (*first..=*last).filter_map(char::from_u32) {
            assert!(is_hidden(c), "U+{:04X} hides", c as u32);
        }
    }
    for c in "aZ0 ~é漢字ñ→─█🦀".chars() {
        assert!(!is_hidden(c), "{c} can be seen");
    }
}

#[test]
fn p12_padding_and_escapes_are_written_out() {
    let show = |word: &str| show_argv(&["sh".to_owned(), "-c".to_owned(), word.to_owned()]);
    let padded = show(&format!("ls{}; rm -rf x", " ".repeat(500)));
    assert!(
        padded.starts_with(r"sh -c $'ls\x20\x20") && padded.ends_with(r";\x20rm\x20-rf\x20x'"),
        "{padded}"
    );
    assert_eq!(show("ls\u{1b}[2K\rtrue"), r"sh -c $'ls\x1b[2K\x0dtrue'");
    assert_eq!(show("a\u{202e}b\u{e0100}"), r"sh -c $'a\u202eb\U000e0100'");
    // A text that only spells an escape is not taken for one.
    assert_eq!(show(r"a\u202eb"), r"sh -c 'a\u202eb'");
    assert_eq!(show("rm *"), "sh -c 'rm *'");
    assert_eq!(show_argv(&["A=1".to_owned(), "*".to_owned(), String::new()]), "'A=1' '*' ''");
}
