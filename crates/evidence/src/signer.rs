//! Whoever can sign: a key in this process, or one that an ssh-agent keeps.

use crate::canonical::NotCanonical;
use crate::keys::{KeyId, SigningKey, VerifyingKey};
use crate::ssh::agent::AgentError;

/// Why something was not signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// Nobody to sign.
    #[error("no key to sign with")]
    NoSigner,
    /// More keys than a verifier looks at.
    #[error("{count} keys to sign with; at most {limit} can sign one envelope")]
    TooManySigners {
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The same key twice: it counts once.
    #[error("the key {0} is to sign twice; each key counts once")]
    Twice(KeyId),
    /// The ssh-agent did not sign.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// What came back is not the key's signature over the message.
    #[error("the signature that the ssh-agent gave for the key {0} does not verify")]
    NotItsOwn(KeyId),
    /// What is signed has no canonical JSON.
    #[error(transparent)]
    Content(#[from] NotCanonical),
}

/// Somebody who signs with one Ed25519 key.
pub trait Signer {
    /// The public half of the key.
    fn public(&self) -> VerifyingKey;

    /// Signs `message` (pure Ed25519). The same key and message give the same bytes (RFC 8032).
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignError>;
}

impl Signer for SigningKey {
    fn public(&self) -> VerifyingKey {
        self.verifying_key()
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignError> {
        Ok(SigningKey::sign(self, message))
    }
}
