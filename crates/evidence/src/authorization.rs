//! An authorization: what an authority signs before a session may run, and the check of it.
//!
//! The signed bytes are an in-toto Statement whose predicate is the whole [`Authorization`]; its subjects are the task's
//! text (`task`) and the files that the session begins with (`tree.before`). They are signed as a DSSE envelope, by SSH
//! signatures over the same bytes, or by both: `ssh-keygen -Y sign -n provost-authorization` over the Statement's JSON
//! does for an authority who has nothing else.

use provost_core::digest::Digest;
use provost_core::session::Authorization;
use provost_core::text::moment;

use crate::canonical::{NotCanonical, sha256};
use crate::dsse::{self, DsseError, Opened};
use crate::in_toto::{self, BadStatement, Subject};
use crate::keys::{KeyError, VerifyingKey};
use crate::signer::{SignError, Signer};
use crate::ssh::public::{Fingerprint, PublicKeyError};
use crate::ssh::sig::{self, SshSigError};
use crate::trust::{Distrust, Role, Trust, reasons};

/// The type of the predicate.
pub const AUTHORIZATION_TYPE: &str = "urn:provost:authorization:v1";

/// Name of the subject that is the task's text.
pub const TASK: &str = "task";
/// Name of the subject that is the files at the start.
pub const TREE_BEFORE: &str = "tree.before";

/// Most SSH signatures that are looked at.
pub const SIGNATURES_LIMIT: usize = 16;

/// What is signed of an authorization: its Statement's canonical JSON.
pub fn payload(authorization: &Authorization) -> Result<Vec<u8>, NotCanonical> {
    let request = &authorization.request;
    let subjects = vec![Subject::file(TASK, &request.task), Subject::tree(TREE_BEFORE, &request.tree)];
    in_toto::write(subjects, AUTHORIZATION_TYPE, authorization)
}

/// Reads signed bytes. Who signed them is another question.
pub fn read(payload: &[u8]) -> Result<Authorization, BadStatement> {
    let (_, authorization): (_, Authorization) = in_toto::read(payload, AUTHORIZATION_TYPE)?;
    // Subjects that are not the predicate's show here too.
    in_toto::same(payload, self::payload(&authorization))?;
    if authorization.not_before_ms >= authorization.expires_ms {
        return Err(BadStatement::Predicate("expires_ms"));
    }
    Ok(authorization)
}

/// Opens an authorization's file, which is an envelope or the signed bytes themselves; who of `keys` signed it in there is
/// nobody then.
pub(crate) fn open(file: &[u8], keys: &[VerifyingKey]) -> Result<Opened, DsseError> {
    // Both are canonical JSON, so a Statement begins with its type and an envelope cannot.
    if !file.starts_with(br#"{"_type":"#) {
        return dsse::open(file, keys);
    }
    if file.len() > dsse::ENVELOPE_LIMIT {
        return Err(DsseError::TooLarge { size: file.len() });
    }
    Ok(Opened { payload: file.to_vec(), by: Vec::new(), others: Vec::new() })
}

/// An authorization with its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// SHA-256 of the signed bytes.
    pub payload: Digest,
    /// `authorization.json`: the DSSE envelope with all signatures.
    pub envelope: Vec<u8>,
    /// `authorization.json.sig` and the further ones: an SSH signature of each signer, over the signed bytes.
    pub ssh: Vec<Vec<u8>>,
}

/// Signs an authorization with each of these keys, as DSSE and as SSH signature.
pub fn sign(authorization: &Authorization, signers: &[&dyn Signer]) -> Result<Signed, SignError> {
    let bytes = payload(authorization)?;
    let envelope = dsse::sign(dsse::IN_TOTO, &bytes, signers)?;
    let ssh = signers
        .iter()
        .map(|signer| Ok(sig::sign(Role::Authority.namespace(), &bytes, *signer)?.into_bytes()))
        .collect::<Result<_, SignError>>()?;
    Ok(Signed { payload: sha256(&bytes), envelope, ssh })
}

/// Why an authorization does not count.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// The envelope is malformed, or its signature does not verify.
    #[error("the authorization: {0}")]
    Envelope(#[from] DsseError),
    /// An SSH signature is malformed, or does not verify.
    #[error("the authorization's SSH signature {number}: {source}")]
    Ssh {
        /// Which one, from 1.
        number: usize,
        /// What is wrong with it.
        source: SshSigError,
    },
    /// More SSH signatures than are looked at.
    #[error("{count} SSH signatures; at most {SIGNATURES_LIMIT} are read")]
    TooManySignatures {
        /// How many.
        count: usize,
    },
    /// What is signed is no authorization.
    #[error("the authorization: {0}")]
    Statement(#[from] BadStatement),
    /// The session's key cannot be used.
    #[error("the authorization's session key: {0}")]
    SessionKey(KeyError),
    /// Too few of the keys that signed it count.
    #[error("{} of {needed} needed authorities signed{}", counted.len(), reasons(others))]
    NotEnough {
        /// How many are needed.
        needed: usize,
        /// Whose signatures count.
        counted: Vec<String>,
        /// Other keys that signed, and why they do not count.
        others: Vec<(String, Distrust)>,
    },
    /// It was taken back.
    #[error("the authorization is revoked (session {session}, signed bytes {payload})")]
    Revoked {
        /// The session.
        session: String,
        /// SHA-256 of the signed bytes.
        payload: Digest,
    },
    /// It holds later.
    #[error("the authorization holds from {} UTC on; it is {} UTC", moment(*from_ms), moment(*at_ms))]
    NotYet {
        /// From when on, in milliseconds since the Unix epoch.
        from_ms: u64,
        /// The time in question.
        at_ms: u64,
    },
    /// It held earlier.
    #[error("the authorization expired at {} UTC; it is {} UTC", moment(*until_ms), moment(*at_ms))]
    Expired {
        /// Until when it held, exclusively, in milliseconds since the Unix epoch.
        until_ms: u64,
        /// The time in question.
        at_ms: u64,
    },
}

impl AuthorizationError {
    /// What kind of failure it is, as `provost verify --json` tells it: 10 malformed, 11 untrusted or wrong key, 12 not
    /// valid at the time or revoked.
    pub fn code(&self) -> u16 {
        match self {
            Self::Envelope(
                DsseError::BadSignature { .. } | DsseError::WrongKey { .. } | DsseError::NoSignature,
            ) => 11,
            Self::Envelope(_) => 10,
            Self::Ssh { source, .. } => match source {
                SshSigError::Namespace { .. } | SshSigError::BadSignature => 11,
                SshSigError::Key(PublicKeyError::Kind(_) | PublicKeyError::Key(_)) => 11,
                SshSigError::Key(PublicKeyError::Shape)
                | SshSigError::TooLarge { .. }
                | SshSigError::Shape => 10,
            },
            Self::TooManySignatures { .. } | Self::Statement(_) | Self::SessionKey(_) => 10,
            Self::NotEnough { needed, counted, others } => {
                let lapsed = others.iter().filter(|(_, why)| {
                    matches!(why, Distrust::NotYet | Distrust::Expired | Distrust::Revoked)
                });
                // Only where time and revocation alone keep it from counting.
                if counted.len() + lapsed.count() >= *needed { 12 } else { 11 }
            }
            Self::Revoked { .. } | Self::NotYet { .. } | Self::Expired { .. } => 12,
        }
    }
}

/// An authorization that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedAuthorization {
    /// What was authorized.
    pub authorization: Authorization,
    /// SHA-256 of the signed bytes: what the run's first event names.
    pub payload: Digest,
    /// The session's public key, which has to sign all that the session yields.
    pub session_key: VerifyingKey,
    /// Whose signatures count: at least as many as are needed, none twice.
    pub signers: Vec<Authority>,
}

/// Whose signature counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The key.
    pub key: VerifyingKey,
    /// Its owner, in the words of the trust folder.
    pub who: String,
}

/// Checks an authorization at a time (milliseconds since the Unix epoch).
///
/// `file` is the DSSE envelope, or the signed bytes themselves; `ssh` are the files of SSH signatures over the signed
/// bytes. Each signature of a trusted key has to verify. Enough of the keys have to count at that time, the authorization
/// has to hold at it and must not be revoked. What it says is not compared with anything.
pub fn verify(
    file: &[u8],
    ssh: &[Vec<u8>],
    trust: &Trust,
    at_ms: u64,
) -> Result<VerifiedAuthorization, AuthorizationError> {
    if ssh.len() > SIGNATURES_LIMIT {
        return Err(AuthorizationError::TooManySignatures { count: ssh.len() });
    }
    let Opened { payload: bytes, by: mut signed_by, others } = open(file, &trust.all_keys())?;
    let mut others: Vec<_> = others.into_iter().map(|id| (id, Distrust::Unknown)).collect();
    for (number, file) in (1..).zip(ssh) {
        let key = sig::check(file, Role::Authority.namespace(), &bytes)
            .map_err(|source| AuthorizationError::Ssh { number, source })?;
        signed_by.push(key);
    }
    let authorization = read(&bytes)?;
    let session_key = VerifyingKey::from_bytes(authorization.request.key.bytes())
        .map_err(AuthorizationError::SessionKey)?;

    let mut signers: Vec<Authority> = Vec::new();
    for key in signed_by {
        if signers.iter().any(|signer| signer.key == key) {
            continue;
        }
        match trust.look_up(&key, Role::Authority, at_ms) {
            Ok(known) => signers.push(Authority { key, who: known.who.clone() }),
            Err(why) => {
                // An envelope names its keys by ids. Who signed both ways is one key with one name.
                let id = key.key_id().to_string();
                others.retain(|(other, _)| *other != id);
                let name = Fingerprint::of(&key).to_string();
                if !others.iter().any(|(other, _)| *other == name) {
                    others.push((name, why));
                }
            }
        }
    }
    let needed = trust.threshold();
    if signers.len() < needed {
        let counted = signers.into_iter().map(|signer| signer.who).collect();
        return Err(AuthorizationError::NotEnough { needed, counted, others });
    }
    let payload = sha256(&bytes);
    if trust.is_revoked(&authorization.request.session, &payload) {
        let session = authorization.request.session.to_string();
        return Err(AuthorizationError::Revoked { session, payload });
    }
    let skew = u64::try_from(trust.clock_skew().as_millis()).unwrap_or(u64::MAX);
    let (from_ms, until_ms) = (authorization.not_before_ms, authorization.expires_ms);
    if at_ms.saturating_add(skew) < from_ms {
        return Err(AuthorizationError::NotYet { from_ms, at_ms });
    }
    if at_ms >= until_ms.saturating_add(skew) {
        return Err(AuthorizationError::Expired { until_ms, at_ms });
    }
    Ok(VerifiedAuthorization { authorization, payload, session_key, signers })
}
