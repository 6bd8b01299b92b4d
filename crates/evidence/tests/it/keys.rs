use std::os::unix::fs::PermissionsExt as _;

use provost_evidence::keys::{KeyError, SigningKey, VerifyingKey};

/// RFC 8032, 7.1, test 2.
const SEED: &str = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
const PUBLIC: &str = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
const SIGNATURE: &str = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                         085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

fn hex<const N: usize>(text: &str) -> [u8; N] {
    let bytes: Vec<u8> =
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

#[test]
fn signs_as_rfc_8032_says() {
    let key = SigningKey::from_seed(hex(SEED));
    let public = VerifyingKey::from_bytes(&hex(PUBLIC)).unwrap();
    assert_eq!(key.verifying_key(), public);
    assert_eq!(key.sign(&[0x72]), hex::<64>(SIGNATURE));
    assert!(public.verifies(&[0x72], &hex(SIGNATURE)));
    assert!(!public.verifies(&[0x73], &hex(SIGNATURE)));
}

#[test]
fn key_id_is_that_of_securesystemslib() {
    // From securesystemslib 1.6.0: SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(PUBLIC)).keyid
    let public = VerifyingKey::from_bytes(&hex(PUBLIC)).unwrap();
    assert_eq!(public.key_id().to_string(), KEY_ID);
}
const KEY_ID: &str = "eaf1e23f6c823132f437a2eaa299a7950f7386631deff273db195bbd26209e2b";

#[test]
fn keys_survive_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runner.key");
    let key = SigningKey::generate().unwrap();
    key.write_private(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(SigningKey::read(&path).unwrap().verifying_key(), key.verifying_key());

    let public = dir.path().join("runner.pem");
    std::fs::write(&public, key.verifying_key().to_pem().unwrap()).unwrap();
    assert_eq!(VerifyingKey::read(&public).unwrap(), key.verifying_key());
}

#[test]
fn a_key_file_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runner.key");
    std::fs::write(&path, "mine").unwrap();
    let error = SigningKey::generate().unwrap().write_private(&path).unwrap_err();
    assert!(error.to_string().contains("runner.key"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn other_files_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let key = SigningKey::generate().unwrap();
    std::fs::write(&path, key.verifying_key().to_pem().unwrap()).unwrap();
    let error = SigningKey::read(&path).unwrap_err();
    assert!(
        matches!(&error, KeyError::Content { source, .. } if matches!(**source, KeyError::NotPrivate)),
        "{error}"
    );
    assert!(matches!(VerifyingKey::from_pem(""), Err(KeyError::NotPublic)));
    assert!(matches!(SigningKey::read(&dir.path().join("none")), Err(KeyError::File { .. })));
}

#[test]
fn small_order_keys_are_refused() {
    let mut one = [0; 32];
    one[0] = 1; // the neutral element
    assert!(matches!(VerifyingKey::from_bytes(&one), Err(KeyError::Weak)));
    assert!(matches!(VerifyingKey::from_bytes(&[0; 32]), Err(KeyError::Weak))); // order 4
}

#[test]
fn a_signature_with_an_unreduced_scalar_is_refused() {
    let public = VerifyingKey::from_bytes(&hex(PUBLIC)).unwrap();
    let mut signature = hex::<64>(SIGNATURE);
    // S + L, L being the order of the group (RFC 8032, 5.1): verifies in lax implementations.
    let order = hex::<32>("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut carry = 0;
    for (byte, add) in signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum as u8;
        carry = sum >> 8;
    }
    assert!(!public.verifies(&[0x72], &signature));
}

#[test]
fn i8_debug_output_holds_no_key() {
    let key = SigningKey::from_seed(hex(SEED));
    let shown = format!("{key:?}");
    assert_eq!(shown, format!("SigningKey(private half of {KEY_ID})"));
}
