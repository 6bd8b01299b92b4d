use std::os::unix::fs::symlink;

use proptest::prelude::*;

use provost_evidence::bundle::{self, BundleError};

use crate::run::{Run, files_of};

#[test]
fn the_same_run_gives_the_same_bytes() {
    let run = Run::new();
    let (one, two) = (run.bundle(), run.bundle());
    assert_eq!(bundle::read(&one).unwrap(), bundle::read(&two).unwrap());
    assert_eq!(files_of(&one), files_of(&two));
}

#[test]
fn what_is_written_is_read() {
    let run = Run::new();
    let content = run.content();
    let read = bundle::read(&run.write(&content)).unwrap();
    assert_eq!(read.patch, content.patch);
    assert_eq!(read.journal, content.journal);
    assert_eq!(read.blobs, content.blobs);
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let run = Run::new();
    let dir = run.home.path().join("mine");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("notes"), "mine").unwrap();
    let error = bundle::write(&dir, &run.content(), &run.key).unwrap_err();
    assert!(matches!(error, BundleError::NotEmpty { .. }), "{error}");
    assert_eq!(files_of(&dir).len(), 1);
}

#[test]
fn a_missing_file_is_named() {
    let run = Run::new();
    for name in ["changes.patch", "journal.jsonl", "result.dsse.json"] {
        let dir = run.bundle();
        std::fs::remove_file(dir.join(name)).unwrap();
        let error = bundle::read(&dir).unwrap_err();
        assert_eq!(error.to_string(), format!("`{name}` is missing from the bundle"));
    }
    let dir = run.bundle();
    std::fs::remove_dir_all(dir.join("blobs")).unwrap();
    assert_eq!(bundle::read(&dir).unwrap_err().to_string(), "`blobs` is missing from the bundle");
}

#[test]
fn what_does_not_belong_is_named() {
    let run = Run::new();
    for name in [".hidden", "trusted.pem", "blobs/readme", "blobs/\u{1b}[2J"] {
        let dir = run.bundle();
        std::fs::write(dir.join(name), "").unwrap();
        let error = bundle::read(&dir).unwrap_err();
        let shown = name.replace('\u{1b}', "\\u{1b}");
        assert_eq!(error.to_string(), format!("`{shown}` does not belong in the bundle"));
    }
}

#[test]
fn links_and_pipes_are_refused_unopened() {
    let run = Run::new();
    for name in ["changes.patch", "journal.jsonl", "result.dsse.json", "blobs"] {
        let dir = run.bundle();
        let aside = run.home.path().join("aside");
        let _ = std::fs::remove_dir_all(&aside);
        let _ = std::fs::remove_file(&aside);
        std::fs::rename(dir.join(name), &aside).unwrap();
        symlink(&aside, dir.join(name)).unwrap();
        let error = bundle::read(&dir).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{name}` is a symbolic link;")), "{error}");
    }
    let dir = run.bundle();
    let pipe = dir.join("changes.patch");
    std::fs::remove_file(&pipe).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let error = bundle::read(&dir).unwrap_err().to_string();
    assert_eq!(error, "`changes.patch` is a named pipe; expected a regular file");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reading_a_random_folder_never_panics(
        files in prop::collection::btree_map(
            prop_oneof![
                Just("changes.patch".to_owned()),
                Just("journal.jsonl".to_owned()),
                Just("result.dsse.json".to_owned()),
                Just(format!("blobs/{}", "0".repeat(64))),
                "[a-z0-9.]{1,8}",
                "blobs/[a-f0-9]{1,64}",
            ],
            prop::collection::vec(any::<u8>(), 0..64),
            0..8,
        )
    ) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("blobs")).unwrap();
        for (name, bytes) in &files {
            let _ = std::fs::write(dir.path().join(name), bytes);
        }
        if let Ok(read) = bundle::read(dir.path()) {
            prop_assert_eq!(read.blobs.len(), files.keys().filter(|name| name.starts_with("blobs/")).count());
        }
        let run_key = provost_evidence::keys::SigningKey::from_seed([1; 32]).verifying_key();
        let report = provost_evidence::verify::verify(
            dir.path(), &[run_key], None, provost_evidence::verify::Require::Bundle,
        );
        prop_assert!(!report.ok());
    }
}
