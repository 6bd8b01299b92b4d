//! `edit_file` and `write_file`.

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use crate::support::World;

#[test]
fn what_the_model_reads() {
    let world = World::with("a.rs", "fn one() {\n    1\n}\n\nfn two() {\n    2\n}\n");
    assert_snapshot!(world.shown("edit_file", &json!({"path": "a.rs", "old": "    2", "new": "    22"})));
    assert_snapshot!(world.shown("edit_file", &json!({"path": "a.rs", "old": "    3\n", "new": "4"})));
    assert_snapshot!(
        world.shown("edit_file", &json!({"path": "a.rs", "old": "     5\tfn two() {", "new": "4"}))
    );
    assert_snapshot!(world.shown("edit_file", &json!({"path": "a.rs", "old": "}", "new": "4"})));
    assert_snapshot!(world.shown("edit_file", &json!({"path": "b.rs", "old": "}", "new": "4"})));
    assert_snapshot!(world.shown("edit_file", &json!({"path": "a.rs", "old": ""})));
    assert_snapshot!(world.shown("write_file", &json!({"path": "new/c.rs", "content": "a\nb\n"})));
    assert_snapshot!(world.shown("write_file", &json!({"path": "new/c.rs", "content": "a\nb\n"})));
    assert_snapshot!(world.shown("write_file", &json!({"path": "new/c.rs", "content": "a\nc"})));
}

#[test]
fn several_edits_are_made_in_order_or_not_at_all() {
    let world = World::with("a.txt", "one two three\n");
    let edits = json!([{"old": "one", "new": "1"}, {"old": "1 two", "new": "1 2"}]);
    world.call("edit_file", &json!({"path": "a.txt", "edits": edits})).unwrap();
    assert_eq!(world.text("a.txt"), "1 2 three\n");
    let edits = json!([{"old": "three", "new": "3"}, {"old": "four", "new": "4"}]);
    let told = world.call("edit_file", &json!({"path": "a.txt", "edits": edits})).unwrap_err();
    assert!(told.starts_with("edit 2 of 2"), "{told}");
    assert_eq!(world.text("a.txt"), "1 2 three\n");
}

#[test]
fn what_is_edited_unseen_is_not_seen_whole() {
    let world = World::new();
    world.put("a.txt", "one\nsecret\n");
    world.call("edit_file", &json!({"path": "a.txt", "old": "one", "new": "two"})).unwrap();
    assert!(world.call("write_file", &json!({"path": "a.txt", "content": ""})).is_err());
}

#[test]
fn overlapping_places_are_two_places() {
    let world = World::with("a.txt", "aaa");
    assert!(world.call("edit_file", &json!({"path": "a.txt", "old": "aa", "new": "b"})).is_err());
}

#[test]
fn too_large_a_result_is_refused() {
    let mut world = World::with("a.txt", "x");
    world.limits.file_bytes = 10;
    assert!(world.call("edit_file", &json!({"path": "a.txt", "old": "x", "new": "y".repeat(11)})).is_err());
    assert!(world.call("write_file", &json!({"path": "a.txt", "content": "y".repeat(11)})).is_err());
    assert_eq!(world.text("a.txt"), "x");
}

#[test]
fn utf16_is_not_edited() {
    let world = World::new();
    world.put("a.txt", b"\xff\xfea\0b\0");
    let told = world.call("edit_file", &json!({"path": "a.txt", "old": "a", "new": "b"})).unwrap_err();
    assert!(told.contains("UTF-16"), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Where the old text is there once, an edit is `str::replacen`; where it is there more often, nothing changes.
    #[test]
    fn edit_is_replacen(text in "[ab\\n é]{1,40}", at in 0usize..40, length in 1usize..8, new in "[ab\\n é\"]{0,10}") {
        let chars: Vec<char> = text.chars().collect();
        let at = at % chars.len();
        let old: String = chars[at..(at + length).min(chars.len())].iter().collect();
        prop_assume!(old != new);
        let world = World::with("a.txt", &text);
        let result = world.call("edit_file", &json!({"path": "a.txt", "old": old, "new": new}));
        let places = (0..text.len()).filter(|at| text.is_char_boundary(*at) && text[*at..].starts_with(&old)).count();
        if places == 1 {
            prop_assert!(result.is_ok(), "{:?}", result);
            prop_assert_eq!(world.text("a.txt"), text.replacen(&old, &new, 1));
        } else {
            prop_assert!(result.is_err());
            prop_assert_eq!(world.text("a.txt"), text);
        }
    }

    /// In a CRLF file an edit written with line feeds is the edit of the file with line feeds, converted.
    #[test]
    fn crlf_edit_is_lf_edit(text in "([abc]{0,3}\\n){2,8}", at in 0usize..40, length in 1usize..8, new in "[ab\\n]{0,10}") {
        let at = at % text.len();
        let old = text[at..(at + length).min(text.len())].to_owned();
        prop_assume!(old != new && text.matches(&old).count() == 1);
        let (lf, crlf) = (World::with("a.txt", &text), World::with("a.txt", text.replace('\n', "\r\n")));
        let args = json!({"path": "a.txt", "old": old, "new": new});
        let (one, other) = (lf.call("edit_file", &args), crlf.call("edit_file", &args));
        prop_assert_eq!(one.is_ok(), other.is_ok());
        if one.is_ok() {
            prop_assert_eq!(crlf.text("a.txt"), lf.text("a.txt").replace('\n', "\r\n"));
        }
    }
}
