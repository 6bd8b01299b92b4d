//! OpenSSH's private keys, as `ssh-keygen -t ed25519` writes them, with a passphrase or without.
//!
//! Format: `PROTOCOL.key` of OpenSSH. Of the ciphers it is the one that `ssh-keygen` uses by itself, `aes256-ctr` with
//! `bcrypt`.

use std::io::Read as _;
use std::path::Path;

use aes::Aes256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use zeroize::Zeroizing;

use provost_core::text::{Lines, visible};

use super::wire::Reader;
use super::{ED25519, public};
use crate::keys::{KeyError, SigningKey};

/// Largest key file that is read, in bytes. A real one has about 450.
const FILE_LIMIT: u64 = 16 * 1024;
/// Most rounds of the passphrase's hash: about a minute of work. `ssh-keygen` uses 16 or 24 by itself.
const ROUNDS_LIMIT: u32 = 2048;

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// Why a text gives no private key.
#[derive(Debug, thiserror::Error)]
pub enum PrivateKeyError {
    /// Not such a file.
    #[error("not an OpenSSH private key (`{BEGIN}`)")]
    Shape,
    /// The key is of another kind.
    #[error("the private key is not of the kind `{ED25519}`, the only one that is used")]
    Kind,
    /// A passphrase is needed and none was given.
    #[error("the private key has a passphrase; it is needed to sign")]
    Encrypted,
    /// The passphrase is another one, or the file is damaged.
    #[error("the passphrase is not that of the private key, or the file is damaged")]
    WrongPassphrase,
    /// A cipher that is not read.
    #[error(
        "the private key is encrypted by `{0}`, which is not read; `ssh-keygen -p -Z aes256-ctr -f FILE` changes it"
    )]
    Cipher(String),
    /// The passphrase's hash takes too long.
    #[error("the passphrase's hash has {rounds} rounds; at most {ROUNDS_LIMIT} are made")]
    Rounds {
        /// How many it has.
        rounds: u32,
    },
    /// The key file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
}

/// Whether a text is one of these files, rather than one of PKCS#8.
pub fn is_private(text: &str) -> bool {
    text.trim_ascii_start().starts_with(BEGIN)
}

/// Reads a signing key from a file, in OpenSSH's format or in PKCS#8 PEM. A passphrase that is not needed is not looked at.
pub fn read_file(path: &Path, passphrase: Option<&str>) -> Result<SigningKey, ReadKeyError> {
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_LIMIT).read_to_string(&mut text))
        .map_err(|source| PrivateKeyError::File { path: path.display().to_string(), source })?;
    if is_private(&text) { Ok(read(&text, passphrase)?) } else { Ok(SigningKey::from_pem(&text)?) }
}

/// Why a file gives no signing key.
#[derive(Debug, thiserror::Error)]
pub enum ReadKeyError {
    /// It is OpenSSH's, or cannot be read.
    #[error(transparent)]
    Ssh(#[from] PrivateKeyError),
    /// It is in PEM.
    #[error(transparent)]
    Pem(#[from] KeyError),
}

/// Reads a private key from the text of its file.
pub fn read(text: &str, passphrase: Option<&str>) -> Result<SigningKey, PrivateKeyError> {
    let base64: Zeroizing<String> = text
        .trim_ascii()
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(END))
        .map(|lines| lines.split_ascii_whitespace().collect::<String>().into())
        .ok_or(PrivateKeyError::Shape)?;
    let bytes = Zeroizing::new(STANDARD.decode(base64.as_bytes()).map_err(|_| PrivateKeyError::Shape)?);
    let file = File::read(&bytes).ok_or(PrivateKeyError::Shape)?;
    if file.count != 1 {
        return Err(PrivateKeyError::Shape);
    }
    match (file.cipher, file.kdf) {
        ("none", "none") | ("aes256-ctr", "bcrypt") if !file.behind.is_empty() => Err(PrivateKeyError::Shape),
        ("none", "none") => file.private(file.secret),
        ("aes256-ctr", "bcrypt") => {
            let passphrase = passphrase.filter(|text| !text.is_empty()).ok_or(PrivateKeyError::Encrypted)?;
            file.private(&file.decrypt(passphrase)?)
        }
        (cipher, _) => {
            Err(PrivateKeyError::Cipher(visible(cipher, Lines::Escape).chars().take(80).collect()))
        }
    }
}

/// What stands before the private part, and that part as it is.
struct File<'a> {
    cipher: &'a str,
    kdf: &'a str,
    options: &'a [u8],
    count: u32,
    public: &'a [u8],
    secret: &'a [u8],
    /// What other ciphers put behind it.
    behind: &'a [u8],
}

impl<'a> File<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC)?);
        Some(Self {
            cipher: reader.text()?,
            kdf: reader.text()?,
            options: reader.string()?,
            count: reader.number()?,
            public: reader.string()?,
            secret: reader.string()?,
            behind: reader.rest(),
        })
    }

    fn decrypt(&self, passphrase: &str) -> Result<Zeroizing<Vec<u8>>, PrivateKeyError> {
        let mut options = Reader::new(self.options);
        let (Some(salt), Some(rounds), Some(())) = (options.string(), options.number(), options.end()) else {
            return Err(PrivateKeyError::Shape);
        };
        if rounds > ROUNDS_LIMIT {
            return Err(PrivateKeyError::Rounds { rounds });
        }
        // 32 bytes of key and 16 of counter.
        let mut derived = Zeroizing::new([0; 48]);
        bcrypt_pbkdf::bcrypt_pbkdf(passphrase, salt, rounds, derived.as_mut_slice())
            .map_err(|_| PrivateKeyError::Shape)?;
        let (key, counter) = derived.split_at(32);
        let mut cipher =
            Ctr128BE::<Aes256>::new_from_slices(key, counter).map_err(|_| PrivateKeyError::Shape)?;
        let mut secret = Zeroizing::new(self.secret.to_vec());
        cipher.apply_keystream(&mut secret);
        Ok(secret)
    }

    /// Reads the private part, decrypted.
    fn private(&self, secret: &[u8]) -> Result<SigningKey, PrivateKeyError> {
        let mut reader = Reader::new(secret);
        // The same number twice: what tells a wrong passphrase.
        let (first, second) = (reader.number(), reader.number());
        if first.is_none() || first != second {
            return Err(if self.cipher == "none" {
                PrivateKeyError::Shape
            } else {
                PrivateKeyError::WrongPassphrase
            });
        }
        if reader.string() != Some(ED25519.as_bytes()) {
            return Err(PrivateKeyError::Kind);
        }
        let key = || -> Option<SigningKey> {
            let public = reader.string()?;
            let (seed, half) = reader.string()?.split_first_chunk::<32>()?;
            let _comment = reader.string()?;
            let key = SigningKey::from_seed(*seed);
            let is_one = half == public && key.verifying_key().to_bytes() == public;
            let padding = reader.rest();
            let padded = padding.len() < 16 && (1..).zip(padding).all(|(number, byte)| *byte == number);
            let named = public::from_blob(self.public).is_ok_and(|named| named == key.verifying_key());
            (is_one && padded && named).then_some(key)
        };
        key().ok_or(PrivateKeyError::Shape)
    }
}
