//! Where each wire's requests go.

use reqwest::Url;

use super::WireKind;
use crate::BaseUrl;

impl WireKind {
    /// The URL of a request for an answer of `model`.
    pub(crate) fn url(self, base: &BaseUrl, model: &str) -> Url {
        let _ = model;
        match self {
            Self::OpenAiChat => base.join("/chat/completions"),
            Self::OpenAiResponses => base.join("/responses"),
            // People give this vendor's base with and without the version.
            Self::AnthropicMessages if base.path().ends_with("/v1") => base.join("/messages"),
            Self::AnthropicMessages => base.join("/v1/messages"),
        }
    }
}
