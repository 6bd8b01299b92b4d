use proptest::prelude::*;

use provost_evidence::checkpoint::{Checkpoint, CheckpointError, Origin, verifier_key};
use provost_evidence::keys::{SigningKey, VerifyingKey};
use provost_evidence::log::head_of;

fn key() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

fn public() -> VerifyingKey {
    key().verifying_key()
}

fn origin() -> Origin {
    Origin::session(&"r01a229f12800-0102030405".parse().unwrap())
}

fn checkpoint() -> Checkpoint {
    Checkpoint { origin: origin(), log: head_of(b"{\"a\":1}\n{\"b\":2}\n") }
}

fn signed() -> String {
    String::from_utf8(checkpoint().sign(&key())).unwrap()
}

fn read(text: &str) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::verify(text.as_bytes(), &origin(), &public())
}

#[test]
fn what_is_signed_is_read() {
    assert_eq!(read(&signed()), Ok(checkpoint()));
    insta::assert_snapshot!(signed(), @r"
    provost/session/r01a229f12800-0102030405
    2
    bmlYegtXDYxdARTFGp1nda0mUHGLG5gZjedRMUN6TAY=

    — provost/session/r01a229f12800-0102030405 v67vqaZ3tdqeEEGzG3cC4YqP1kWh436yUHcbLZXMl39N0D+0w0x4ED7ZCQsEefzycRJfhJGNGdyFIJIjTrOwdylMAQs=
    ");
    assert_eq!(
        verifier_key(&origin(), &public()),
        "provost/session/r01a229f12800-0102030405+bfaeefa9+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
    );
}

#[test]
fn another_log_and_another_key_are_refused_by_name() {
    let other: Origin = "provost/session/other".parse().unwrap();
    assert_eq!(
        Checkpoint::verify(signed().as_bytes(), &other, &public()),
        Err(CheckpointError::Origin { expected: other, got: origin() })
    );
    let stranger = SigningKey::from_seed([2; 32]);
    assert_eq!(
        Checkpoint::verify(signed().as_bytes(), &origin(), &stranger.verifying_key()),
        Err(CheckpointError::WrongKey)
    );
    let smaller = signed().replacen("\n2\n", "\n1\n", 1);
    assert_eq!(read(&smaller), Err(CheckpointError::BadSignature));
}

#[test]
fn other_spellings_are_refused() {
    let good = signed();
    for (from, to) in [
        ("\n2\n", "\n02\n"),
        ("\n2\n", "\n+2\n"),
        ("\n2\n", "\n2 \n"),
        ("\n2\n", "\r\n2\r\n"),
        ("\n2\n", "\n18446744073709551616\n"),
        ("\n\n", "\nan extension\n\n"),
        ("\n\n", "\n\n\n"),
        ("\u{2014} ", "- "),
        ("\u{2014} provost", "\u{2014} another"),
        ("provost", ""),
        ("provost", "pro vost"),
    ] {
        let other = good.replacen(from, to, 1);
        assert_ne!(other, good);
        assert!(matches!(read(&other), Err(CheckpointError::Shape(_))), "{from:?} as {to:?}");
    }
    let twice = format!("{good}{}\n", good.lines().last().unwrap());
    assert!(matches!(read(&twice), Err(CheckpointError::Shape(_))));
    assert!(matches!(read(good.trim_end()), Err(CheckpointError::Shape(_))));
    assert!(matches!(read(&"a".repeat(4097)), Err(CheckpointError::TooLarge { size: 4097 })));
}

#[test]
fn an_origin_is_what_a_note_can_hold() {
    for bad in ["", "a b", "a+b", "a\nb", "caf\u{e9}", &"a".repeat(201)] {
        assert!(bad.parse::<Origin>().is_err(), "{bad:?}");
    }
    assert!("example.org/log".parse::<Origin>().is_ok());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Checkpoint::verify(&bytes, &origin(), &public()).is_err());
    }

    #[test]
    fn no_edit_of_a_checkpoint_verifies(at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>()) {
        let good = signed().into_bytes();
        let mut edited = good.clone();
        let at = at.index(good.len());
        if insert { edited.insert(at, byte) } else { edited[at] = byte }
        prop_assume!(edited != good);
        prop_assert!(Checkpoint::verify(&edited, &origin(), &public()).is_err());
    }
}
