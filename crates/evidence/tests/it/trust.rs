use std::os::unix::fs::symlink;
use std::process::Command;

use provost_evidence::canonical::sha256;
use provost_evidence::ssh::public::{self, Fingerprint};
use provost_evidence::trust::{Distrust, Role, Trust, TrustError};

use crate::session::{NOW, allowed, key, read_trust, trust_folder};

fn line(seed: u8, options: &str) -> String {
    allowed("alice@example.org", options, &key(seed).verifying_key())
}

fn signers(text: &str) -> Trust {
    read_trust(trust_folder(&[("allowed_signers", text)]).path())
}

fn refused(name: &str, text: &str) -> String {
    let dir = trust_folder(&[(name, text)]);
    let error = Trust::read(dir.path()).unwrap_err().to_string();
    error.replace(&dir.path().display().to_string(), "DIR")
}

#[test]
fn each_key_counts_for_its_use() {
    let dir = trust_folder(&[
        (
            "allowed_signers",
            &[
                "# people\n\n".to_owned(),
                line(1, r#"namespaces="provost-authorization""#),
                line(2, r#"namespaces="file,provost-review""#),
                line(3, ""),
                line(4, "NAMESPACES=\"file\""),
            ]
            .concat(),
        ),
        ("ci.pem", &key(5).verifying_key().to_pem().unwrap()),
        ("trust.toml", "threshold = 2\nclock_skew = \"90s\"\n"),
        (".gitignore", "nothing"),
    ]);
    let trust = read_trust(dir.path());
    let who = |role| -> Vec<_> {
        let keys = trust.keys(role, NOW);
        (1..6).filter(|seed| keys.iter().any(|known| known.key == key(*seed).verifying_key())).collect()
    };
    assert_eq!(who(Role::Authority), [1, 3, 5]);
    assert_eq!(who(Role::Reviewer), [2, 3]);
    assert_eq!(trust.authorities(NOW).len(), 3);
    assert_eq!(trust.reviewers(NOW).len(), 2);
    let look = |seed, role| trust.look_up(&key(seed).verifying_key(), role, NOW);
    assert_eq!(look(1, Role::Authority).unwrap().who, "alice@example.org");
    assert_eq!(look(5, Role::Authority).unwrap().who, "ci");
    assert_eq!(look(1, Role::Reviewer), Err(Distrust::OtherRole));
    assert_eq!(look(5, Role::Reviewer), Err(Distrust::OtherRole));
    assert_eq!(look(9, Role::Authority), Err(Distrust::Unknown));
    assert_eq!(trust.threshold(), 2);
    assert_eq!(trust.clock_skew().as_secs(), 90);
}

#[test]
fn a_folder_with_nothing_in_it_trusts_nobody() {
    let trust = read_trust(trust_folder(&[]).path());
    assert_eq!(trust.threshold(), 1);
    assert!(trust.authorities(NOW).is_empty());
    let none = trust_folder(&[]).path().join("none");
    assert!(matches!(Trust::read(&none), Err(TrustError::Io { .. })));
}

#[test]
fn a_key_counts_in_its_seconds() {
    // 2026-01-01 and one minute of it.
    let trust = signers(&line(1, "valid-after=\"20260101Z\",valid-before=\"202601010001Z\""));
    let start = 1_767_225_600_000;
    let at = |ms: u64| trust.look_up(&key(1).verifying_key(), Role::Authority, ms).map(|_| ());
    assert_eq!(at(start - 1), Err(Distrust::NotYet));
    assert_eq!(at(start), Ok(()));
    assert_eq!(at(start + 60_999), Ok(()), "the last second counts whole");
    assert_eq!(at(start + 61_000), Err(Distrust::Expired));

    // Two periods of one key: either of them.
    let text = [line(1, "valid-before=\"20250101Z\""), line(1, "valid-after=\"20260101Z\"")].concat();
    let trust = signers(&text);
    let at = |ms: u64| trust.look_up(&key(1).verifying_key(), Role::Authority, ms).map(|_| ());
    assert_eq!(at(1_700_000_000_000), Ok(()));
    assert_eq!(at(start - 1), Err(Distrust::Expired));
    assert_eq!(at(start), Ok(()));
    assert_eq!(trust.authorities(start).len(), 1);
}

#[test]
fn a_revoked_key_counts_nowhere() {
    let fingerprint = Fingerprint::of(&key(2).verifying_key());
    let dir = trust_folder(&[
        ("allowed_signers", &[line(1, ""), line(2, ""), line(3, ""), line(1, "")].concat()),
        (
            "revoked_keys",
            &format!("# lost\n{} a laptop\n{fingerprint}\n", public::line(&key(1).verifying_key())),
        ),
        ("revoked", &format!("# not wanted\nr01a229f12800-0102030405\n{}\n", sha256(b"signed"))),
    ]);
    let trust = read_trust(dir.path());
    let look = |seed| trust.look_up(&key(seed).verifying_key(), Role::Authority, NOW).map(|_| ());
    assert_eq!((look(1), look(2), look(3)), (Err(Distrust::Revoked), Err(Distrust::Revoked), Ok(())));
    assert_eq!(trust.authorities(NOW).len(), 1);
    let session = |name: &str| name.parse().unwrap();
    assert!(trust.is_revoked(&session("r01a229f12800-0102030405"), &sha256(b"other")));
    assert!(trust.is_revoked(&session("another"), &sha256(b"signed")));
    assert!(!trust.is_revoked(&session("another"), &sha256(b"other")));
}

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    let good = line(1, "");
    let bare = public::line(&key(1).verifying_key());
    let errors = [
        ("allowed_signers", format!("{good}alice cert-authority {bare}\n")),
        ("allowed_signers", "alice ssh-rsa AAAAB3NzaC1yc2E=\n".to_owned()),
        ("allowed_signers", line(1, "valid-after=\"20260101\"")),
        ("allowed_signers", line(1, "valid-after=\"20260230Z\"")),
        ("allowed_signers", line(1, "valid-after=\"20270101Z\",valid-before=\"20260101Z\"")),
        ("allowed_signers", line(1, "namespaces=\"a\",namespaces=\"b\"")),
        ("allowed_signers", line(1, "namespaces=file")),
        ("allowed_signers", line(1, "no-touch-required")),
        ("allowed_signers", line(1, "namespaces")),
        ("allowed_signers", format!("{bare}\n")),
        ("allowed_signers", "alice\n".to_owned()),
        ("revoked_keys", "SHA256:short\n".to_owned()),
        ("revoked", "# one\n\nNot a session\n".to_owned()),
        ("trust.toml", "threshold = 0\n".to_owned()),
        ("trust.toml", "treshold = 2\n".to_owned()),
        ("trust.toml", "clock_skew = \"25h\"\n".to_owned()),
        ("trust.toml", "clock_skew = \"-1s\"\n".to_owned()),
        ("a.pem", "nothing\n".to_owned()),
        ("revoked_key", String::new()),
    ]
    .map(|(name, text)| refused(name, &text));
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn links_and_special_files_and_large_ones_are_refused() {
    let dir = trust_folder(&[]);
    let elsewhere = trust_folder(&[("keys", &line(1, ""))]);
    symlink(elsewhere.path().join("keys"), dir.path().join("allowed_signers")).unwrap();
    assert!(matches!(Trust::read(dir.path()), Err(TrustError::NotAFile { .. })));

    let dir = trust_folder(&[]);
    std::fs::create_dir(dir.path().join("revoked")).unwrap();
    assert!(matches!(Trust::read(dir.path()), Err(TrustError::NotAFile { .. })));

    let dir = trust_folder(&[]);
    let made = Command::new("mkfifo").arg(dir.path().join("revoked")).status().unwrap();
    assert!(made.success());
    assert!(matches!(Trust::read(dir.path()), Err(TrustError::NotAFile { .. })));

    let dir = trust_folder(&[("revoked", &"#".repeat(1024 * 1024 + 1))]);
    assert!(matches!(Trust::read(dir.path()), Err(TrustError::TooLarge { .. })));
    let dir = trust_folder(&[("revoked", &"#".repeat(1024 * 1024))]);
    assert!(Trust::read(dir.path()).is_ok());

    let dir = trust_folder(&[]);
    std::fs::write(dir.path().join("revoked"), b"# a\n\xff\n").unwrap();
    assert!(matches!(Trust::read(dir.path()), Err(TrustError::Line { line: 2, .. })));
}
