//! DSSE, the Dead Simple Signing Envelope, version 1: a payload, its type, and signatures over both.
//!
//! Format: <https://github.com/secure-systems-lab/dsse> (`envelope.md`, `protocol.md`). What this module writes is the
//! canonical JSON (RFC 8785) of the envelope, and that is the only spelling that it reads: no byte of an envelope can
//! change unnoticed, not even one that the signature does not cover.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::canonical::to_canonical;
use crate::keys::{KeyId, VerifyingKey};
use crate::signer::{SignError, Signer};

/// The payload type of an in-toto Statement (in-toto attestation spec, `envelope.md`).
pub const IN_TOTO: &str = "application/vnd.in-toto+json";

/// Largest envelope that is read, in bytes.
pub const ENVELOPE_LIMIT: usize = 32 * 1024 * 1024;

/// Most signatures that an envelope may carry.
const SIGNATURE_LIMIT: usize = 16;

/// Why an envelope does not verify.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DsseError {
    /// Too large to be read.
    #[error("the envelope has {size} bytes; at most {ENVELOPE_LIMIT} are read")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// Not a DSSE envelope.
    #[error("not a DSSE envelope: {0}")]
    Shape(String),
    /// Not the canonical JSON of what it says.
    #[error("the envelope is not canonical JSON (RFC 8785): it differs from its canonical form at byte {at}")]
    NotCanonical {
        /// First differing byte.
        at: usize,
    },
    /// A field is not base64 in its one spelling (RFC 4648, padded, no stray bits).
    #[error("`{field}` is not strict base64 (RFC 4648)")]
    Base64 {
        /// The field.
        field: &'static str,
    },
    /// The payload is of another type.
    #[error("the payload type is `{got}`; expected `{IN_TOTO}`")]
    WrongType {
        /// What it says.
        got: String,
    },
    /// Nothing is signed.
    #[error("the envelope carries no signature")]
    NoSignature,
    /// More signatures than are looked at.
    #[error("the envelope carries {count} signatures; at most {SIGNATURE_LIMIT} are read")]
    TooManySignatures {
        /// How many.
        count: usize,
    },
    /// Two signatures name the same key.
    #[error("two signatures name the key {keyid}")]
    TwiceSigned {
        /// The key.
        keyid: String,
    },
    /// No signature names a trusted key.
    #[error("signed by {}; trusted are {}", list(got), list(expected))]
    WrongKey {
        /// Ids of the trusted keys.
        expected: Vec<String>,
        /// Ids that the signatures name.
        got: Vec<String>,
    },
    /// A signature names a trusted key and is not that key's.
    #[error("the signature that names the trusted key {keyid} does not verify")]
    BadSignature {
        /// The key.
        keyid: String,
    },
}

fn list(ids: &[String]) -> String {
    if ids.is_empty() { "no key".to_owned() } else { ids.join(", ") }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<Signature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    keyid: String,
    sig: String,
}

/// What is signed: the Pre-Authentication Encoding, `DSSEv1 SP len(type) SP type SP len(payload) SP payload`.
///
/// ```
/// // The example of the specification (`protocol.md`).
/// let pae = provost_evidence::dsse::pae("http://example.com/HelloWorld", b"hello world");
/// assert_eq!(pae, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
/// ```
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

/// Signs `payload` as `payload_type` with each of these keys, in this order, and gives the bytes of the envelope.
pub fn sign(payload_type: &str, payload: &[u8], signers: &[&dyn Signer]) -> Result<Vec<u8>, SignError> {
    if signers.is_empty() {
        return Err(SignError::NoSigner);
    }
    if signers.len() > SIGNATURE_LIMIT {
        return Err(SignError::TooManySigners { count: signers.len(), limit: SIGNATURE_LIMIT });
    }
    let signed = pae(payload_type, payload);
    let mut signatures: Vec<Signature> = Vec::new();
    for signer in signers {
        let id = signer.public().key_id();
        let keyid = id.to_string();
        if signatures.iter().any(|other| other.keyid == keyid) {
            return Err(SignError::Twice(id));
        }
        signatures.push(Signature { keyid, sig: STANDARD.encode(signer.sign(&signed)?) });
    }
    Ok(to_canonical(&Envelope {
        payload: STANDARD.encode(payload),
        payload_type: payload_type.to_owned(),
        signatures,
    })?)
}

/// A payload whose signature holds, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The trusted key that signed them; the first in envelope order where several did.
    pub by: KeyId,
}

/// Checks an envelope of type [`IN_TOTO`] against keys that the caller trusts, and gives the signed payload.
///
/// At least one signature must name a trusted key, and each that does must be that key's. Signatures of other keys are
/// not looked at. Nothing inside the payload is parsed.
pub fn verify(envelope: &[u8], trusted: &[VerifyingKey]) -> Result<Verified, DsseError> {
    let opened = open(envelope, trusted)?;
    match opened.by.first() {
        Some(by) => Ok(Verified { payload: opened.payload, by: by.key_id() }),
        None => Err(DsseError::WrongKey {
            expected: trusted.iter().map(|key| key.key_id().to_string()).collect(),
            got: opened.others,
        }),
    }
}

/// An envelope's payload, and who of those that were asked about signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The keys among those asked about whose signatures hold, in envelope order, none of them twice.
    pub by: Vec<VerifyingKey>,
    /// Ids of the keys that other signatures name, short enough to be shown. Those were not looked at.
    pub others: Vec<String>,
}

/// Opens an envelope of type [`IN_TOTO`]: each signature that names one of `keys` must be that key's. There may be none
/// of these; whether what there is suffices is for the caller to say.
pub fn open(envelope: &[u8], keys: &[VerifyingKey]) -> Result<Opened, DsseError> {
    let parsed = parse(envelope)?;
    if parsed.payload_type != IN_TOTO {
        return Err(DsseError::WrongType { got: clip(&parsed.payload_type) });
    }
    let payload = decode("payload", &parsed.payload)?;
    let signed = pae(&parsed.payload_type, &payload);
    let ids: Vec<String> = keys.iter().map(|key| key.key_id().to_string()).collect();
    let (mut by, mut others) = (Vec::new(), Vec::new());
    for signature in &parsed.signatures {
        let sig = decode("sig", &signature.sig)?;
        let Some(at) = ids.iter().position(|id| *id == signature.keyid) else {
            others.push(clip(&signature.keyid));
            continue;
        };
        let key = &keys[at];
        let holds = <[u8; 64]>::try_from(sig.as_slice()).is_ok_and(|sig| key.verifies(&signed, &sig));
        if !holds {
            return Err(DsseError::BadSignature { keyid: signature.keyid.clone() });
        }
        by.push(key.clone());
    }
    Ok(Opened { payload, by, others })
}

fn parse(bytes: &[u8]) -> Result<Envelope, DsseError> {
    if bytes.len() > ENVELOPE_LIMIT {
        return Err(DsseError::TooLarge { size: bytes.len() });
    }
    let envelope: Envelope =
        serde_json::from_slice(bytes).map_err(|error| DsseError::Shape(clip(&error.to_string())))?;
    let canonical = to_canonical(&envelope).map_err(|error| DsseError::Shape(clip(&error.to_string())))?;
    if let Some(at) = crate::canonical::first_difference(bytes, &canonical) {
        return Err(DsseError::NotCanonical { at });
    }
    match envelope.signatures.len() {
        0 => return Err(DsseError::NoSignature),
        count if count > SIGNATURE_LIMIT => return Err(DsseError::TooManySignatures { count }),
        _ => {}
    }
    for (index, signature) in envelope.signatures.iter().enumerate() {
        if envelope.signatures[..index].iter().any(|other| other.keyid == signature.keyid) {
            return Err(DsseError::TwiceSigned { keyid: clip(&signature.keyid) });
        }
    }
    Ok(envelope)
}

fn decode(field: &'static str, text: &str) -> Result<Vec<u8>, DsseError> {
    STANDARD.decode(text).map_err(|_| DsseError::Base64 { field })
}

/// A foreign text short and harmless enough for an error message.
fn clip(text: &str) -> String {
    let visible = provost_core::text::visible(text, provost_core::text::Lines::Escape);
    visible.chars().take(80).collect()
}
