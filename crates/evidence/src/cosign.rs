//! Reading an authorization whoever signed it, and adding a signature to one that has some.

use provost_core::session::Authorization;
use serde_json::Value;

use crate::authorization::{self, AuthorizationError, Signed};
use crate::canonical::to_canonical;
use crate::dsse;
use crate::signer::{SignError, Signer};

/// Why no signature was added.
#[derive(Debug, thiserror::Error)]
pub enum CoSignError {
    /// It is no authorization.
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    /// It was not signed.
    #[error(transparent)]
    Sign(#[from] SignError),
}

/// What an authorization says, whoever signed it: for showing it, and for adding a signature.
pub fn unverified(file: &[u8]) -> Result<Authorization, AuthorizationError> {
    Ok(authorization::read(&authorization::open(file, &[])?.payload)?)
}

/// Adds signatures to an authorization. They are over the same bytes, and those that are there stay.
pub fn sign_too(file: &[u8], signers: &[&dyn Signer]) -> Result<Signed, CoSignError> {
    let authorization = unverified(file)?;
    let mut signed = authorization::sign(&authorization, signers)?;
    if let (Ok(before), Ok(mut both)) =
        (serde_json::from_slice::<Value>(file), serde_json::from_slice::<Value>(&signed.envelope))
        && let (Some(before), Some(all)) =
            (before["signatures"].as_array(), both["signatures"].as_array_mut())
    {
        all.splice(0..0, before.iter().cloned());
        signed.envelope = to_canonical(&both).map_err(SignError::from)?;
        // A key that signs twice is found here.
        dsse::open(&signed.envelope, &[]).map_err(AuthorizationError::from)?;
    }
    Ok(signed)
}
