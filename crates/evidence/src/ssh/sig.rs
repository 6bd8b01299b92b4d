//! SSHSIG: a signature over a file, as `ssh-keygen -Y sign` makes and `ssh-keygen -Y verify` checks it.
//!
//! Format: `PROTOCOL.sshsig` of OpenSSH. Read is only what `ssh-keygen` writes, with lines of 70 characters: no byte of a
//! signature's file can change unnoticed.
//!
//! ```
//! use provost_evidence::keys::SigningKey;
//! use provost_evidence::ssh::sig;
//!
//! let key = SigningKey::from_seed([1; 32]);
//! let signature = sig::sign("provost-authorization", b"text", &key)?;
//! assert_eq!(sig::check(signature.as_bytes(), "provost-authorization", b"text")?, key.verifying_key());
//! assert!(sig::check(signature.as_bytes(), "provost-review", b"text").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha512};

use provost_core::text::{Lines, visible};

use super::public::{PublicKeyError, from_blob};
use super::wire::{Reader, key_blob, put, read_signature, signature_blob};
use crate::keys::VerifyingKey;
use crate::signer::{SignError, Signer};

/// Largest signature that is read, in bytes. A real one has about 300.
pub const SIGNATURE_LIMIT: usize = 4096;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
const END: &str = "-----END SSH SIGNATURE-----\n";
const MAGIC: &[u8; 6] = b"SSHSIG";
const VERSION: u32 = 1;
const LINE: usize = 70;

/// Why a signature does not verify.
#[derive(Debug, thiserror::Error)]
pub enum SshSigError {
    /// Too large to be read.
    #[error("the SSH signature has {size} bytes; at most {SIGNATURE_LIMIT} are read")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// Not such a signature, or not as `ssh-keygen` writes it.
    #[error("not an SSH signature as `ssh-keygen -Y sign` writes it (`-----BEGIN SSH SIGNATURE-----`)")]
    Shape,
    /// The key in it cannot be used.
    #[error("the SSH signature's key: {0}")]
    Key(#[from] PublicKeyError),
    /// Made for another use.
    #[error("the SSH signature is for the namespace `{got}`; expected `{expected}`")]
    Namespace {
        /// The namespace that it is for.
        got: String,
        /// The one that it has to be for.
        expected: &'static str,
    },
    /// Not over these bytes.
    #[error("the SSH signature does not verify")]
    BadSignature,
}

/// How the message is hashed before it is signed.
#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|hash| hash.name().as_bytes() == name)
    }

    fn of(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }
}

/// What is signed.
fn signed(namespace: &[u8], hash: Hash, message: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put(&mut out, namespace);
    put(&mut out, b"");
    put(&mut out, hash.name().as_bytes());
    put(&mut out, &hash.of(message));
    out
}

fn armored(key: &VerifyingKey, namespace: &[u8], hash: Hash, signature: &[u8; 64]) -> String {
    let mut blob = MAGIC.to_vec();
    blob.extend(VERSION.to_be_bytes());
    put(&mut blob, &key_blob(key));
    put(&mut blob, namespace);
    put(&mut blob, b"");
    put(&mut blob, hash.name().as_bytes());
    put(&mut blob, &signature_blob(signature));
    let mut text = BEGIN.to_owned();
    let base64 = STANDARD.encode(blob);
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, further) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = further;
    }
    text + END
}

/// Signs `message` for the use that `namespace` names, and gives the text of the signature's file.
pub fn sign(namespace: &str, message: &[u8], signer: &dyn Signer) -> Result<String, SignError> {
    let hash = Hash::Sha512;
    let signature = signer.sign(&signed(namespace.as_bytes(), hash, message))?;
    Ok(armored(&signer.public(), namespace.as_bytes(), hash, &signature))
}

/// Checks the file of a signature over `message`, and gives the key that made it. Whether that key is trusted is for the
/// caller to say.
pub fn check(file: &[u8], namespace: &'static str, message: &[u8]) -> Result<VerifyingKey, SshSigError> {
    if file.len() > SIGNATURE_LIMIT {
        return Err(SshSigError::TooLarge { size: file.len() });
    }
    let blob = std::str::from_utf8(file)
        .ok()
        .and_then(|text| text.strip_prefix(BEGIN)?.strip_suffix(END))
        .and_then(|lines| STANDARD.decode(lines.replace('\n', "")).ok())
        .ok_or(SshSigError::Shape)?;
    let parts = Parts::read(&blob).ok_or(SshSigError::Shape)?;
    let key = from_blob(parts.key)?;
    if armored(&key, parts.namespace, parts.hash, &parts.signature).as_bytes() != file {
        return Err(SshSigError::Shape);
    }
    if parts.namespace != namespace.as_bytes() {
        let got = visible(&String::from_utf8_lossy(parts.namespace), Lines::Escape);
        return Err(SshSigError::Namespace { got: got.chars().take(80).collect(), expected: namespace });
    }
    if key.verifies(&signed(parts.namespace, parts.hash, message), &parts.signature) {
        Ok(key)
    } else {
        Err(SshSigError::BadSignature)
    }
}

struct Parts<'a> {
    key: &'a [u8],
    namespace: &'a [u8],
    hash: Hash,
    signature: [u8; 64],
}

impl<'a> Parts<'a> {
    fn read(blob: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(blob.strip_prefix(MAGIC)?);
        if reader.number()? != VERSION {
            return None;
        }
        let (key, namespace) = (reader.string()?, reader.string()?);
        reader.expect("")?;
        let hash = Hash::named(reader.string()?)?;
        let signature = read_signature(reader.string()?)?;
        reader.end()?;
        Some(Self { key, namespace, hash, signature })
    }
}
