//! Paths: every byte string is a path or a named error, every name has one spelling, none leads out by its text.

use proptest::prelude::*;
use provost_core::path::{BadPath, RelPath};

use crate::cases;

/// Bytes in which `/`, `.`, `\` and what is not UTF-8 are frequent.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(&b"/.\\x0fFa\xc3\xa9\xff\x80 \n"[..]),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..24)
}

/// What the file system would make of it: parts without `.` and empty ones.
fn parts(raw: &[u8]) -> Vec<&[u8]> {
    raw.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect()
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn i9_every_byte_string_is_a_path_or_a_named_error(raw in names()) {
        match RelPath::from_bytes(&raw) {
            Ok(path) => {
                let text = path.as_str();
                prop_assert!(!text.is_empty() && !text.starts_with('/') && !text.ends_with('/'));
                prop_assert!(!text.contains('\0'));
                if !path.is_root() {
                    prop_assert!(text.split('/').all(|part| !matches!(part, "" | "." | "..")));
                }
                let bytes = path.to_bytes();
                prop_assert_eq!(parts(&bytes), parts(&raw));
            }
            Err(BadPath::Empty) => prop_assert!(raw.is_empty()),
            Err(BadPath::Nul) => prop_assert!(raw.contains(&0)),
            Err(BadPath::Absolute(_)) => prop_assert_eq!(raw[0], b'/'),
            Err(BadPath::Parent(_)) => prop_assert!(parts(&raw).contains(&&b".."[..])),
            Err(BadPath::Escape(_)) => prop_assert!(false, "raw bytes have no escapes"),
        }
    }

    #[test]
    fn a_name_has_one_spelling_and_comes_back(raw in names(), other in names()) {
        let (Ok(path), Ok(other_path)) = (RelPath::from_bytes(&raw), RelPath::from_bytes(&other)) else {
            return Ok(());
        };
        prop_assert_eq!(path == other_path, parts(&raw) == parts(&other));
        let json = serde_json::to_string(&path).unwrap();
        prop_assert_eq!(&serde_json::from_str::<RelPath>(&json).unwrap(), &path);
        prop_assert_eq!(&RelPath::from_bytes(&path.to_bytes()).unwrap(), &path);
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt as _;
            let os = path.to_os();
            prop_assert_eq!(os.as_bytes(), &path.to_bytes()[..]);
        }
    }

    /// In events the text form is read, and only as it is written.
    #[test]
    fn the_text_form_is_read_only_as_it_is_written(text in r"[a\\x0-9f/.é]{0,12}") {
        if let Ok(path) = RelPath::try_from(text.clone()) {
            prop_assert_eq!(path.as_str(), text);
            prop_assert_eq!(&RelPath::from_bytes(&path.to_bytes()).unwrap(), &path);
        }
    }

    #[test]
    fn joining_stays_beneath(raw in names(), name in names()) {
        let Ok(path) = RelPath::from_bytes(&raw) else { return Ok(()) };
        if let Ok(joined) = path.join(&name) {
            prop_assert!(path.is_root() || joined.ancestors().any(|above| above == path.as_str()));
            prop_assert!(!name.is_empty() && name[0] != b'/');
        }
    }
}

#[test]
fn spellings() {
    let spelled = |raw: &[u8]| RelPath::from_bytes(raw).map(|path| path.as_str().to_owned());
    assert_eq!(spelled(b"./a//b/").unwrap(), "a/b");
    assert_eq!(spelled(b"././/").unwrap(), ".");
    assert_eq!(spelled(b"caf\xe9").unwrap(), "caf\\xe9");
    assert_eq!(spelled(br"a\b").unwrap(), r"a\\b");
    assert_eq!(spelled("é".as_bytes()).unwrap(), "é");
    assert_eq!(spelled(b"..a/b..").unwrap(), "..a/b..");
    for text in [r"a\", r"\x", r"\xg0", r"\xE9", r"\x41", r"\n", "a//b", "./a", "a/", r"\x2e\x2e", r"a\x2fb"]
    {
        assert!(RelPath::try_from(text.to_owned()).is_err(), "`{text}` is a second spelling");
    }
}

#[test]
fn ancestors_come_nearest_first_without_the_root() {
    let path = RelPath::parse("a/b/c").unwrap();
    assert_eq!(path.ancestors().collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
    assert_eq!(RelPath::root().ancestors().count(), 0);
    assert_eq!(path.file_name(), "c");
}
