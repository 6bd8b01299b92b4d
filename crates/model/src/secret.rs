//! Keys that cannot be printed.

use std::fmt;

use crate::sigv4::AwsKeys;

/// A credential. Its `Debug` and `Display` print `[secret]`; the value leaves only through [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential. Surrounding white space is dropped: a key read from a file often ends in a newline.
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().to_owned())
    }

    /// The value, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with the value replaced wherever it occurs: a server may echo what it was sent.
    ///
    /// A value shorter than 12 bytes is a placeholder (`x`, `test`, `ollama`), no vendor's key: replacing it would
    /// garble what a model says, and protect nothing.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.len() < 12 { text.to_owned() } else { text.replace(&self.0, "[secret]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// How a request proves who sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// No credential (a local server).
    None,
    /// `authorization: Bearer <key>`.
    Bearer(Secret),
    /// `x-api-key: <key>`.
    XApiKey(Secret),
    /// `x-goog-api-key: <key>`, as Google takes it. Never in the query, where logs would keep it.
    XGoogApiKey(Secret),
    /// `api-key: <key>`, as Azure takes it.
    ApiKey(Secret),
    /// A signature with the keys of an AWS account.
    Aws(AwsKeys),
}

impl Auth {
    /// The credential, if there is one: what could come back in a server's words.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None => None,
            Self::Bearer(secret)
            | Self::XApiKey(secret)
            | Self::XGoogApiKey(secret)
            | Self::ApiKey(secret) => Some(secret),
            // The key is not sent, and the token is.
            Self::Aws(keys) => Some(keys.session.as_ref().unwrap_or(&keys.key)),
        }
    }

    /// The keys, where it is a signature.
    pub(crate) fn aws(&self) -> Option<&AwsKeys> {
        match self {
            Self::Aws(keys) => Some(keys),
            _ => None,
        }
    }

    /// The header that carries it, and its value; `None` where it is none or differs from one request to the next.
    pub(crate) fn header(&self) -> Option<(&'static str, String)> {
        match self {
            Self::None | Self::Aws(_) => None,
            Self::Bearer(secret) => Some(("authorization", format!("Bearer {}", secret.expose()))),
            Self::XApiKey(secret) => Some(("x-api-key", secret.expose().to_owned())),
            Self::XGoogApiKey(secret) => Some(("x-goog-api-key", secret.expose().to_owned())),
            Self::ApiKey(secret) => Some(("api-key", secret.expose().to_owned())),
        }
    }
}
