//! Where each wire's requests go.

use reqwest::Url;

use super::WireKind;
use crate::BaseUrl;

impl WireKind {
    /// The URL of a request for an answer of `model`.
    pub(crate) fn url(self, base: &BaseUrl, model: &str) -> Url {
        match self {
            Self::OpenAiChat => base.join("/chat/completions"),
            Self::OpenAiResponses => base.join("/responses"),
            // People give this vendor's base with and without the version.
            Self::AnthropicMessages if base.path().ends_with("/v1") => base.join("/messages"),
            Self::AnthropicMessages => base.join("/v1/messages"),
            Self::Gemini => gemini(base, model),
            // People give the base with and without the path.
            Self::Ollama if base.path().ends_with("/api") => base.join("/chat"),
            Self::Ollama => base.join("/api/chat"),
        }
    }
}

/// The model stands in the path here, so its name must not change which path that is.
fn gemini(base: &BaseUrl, model: &str) -> Url {
    let (folder, model) = match model.split_once('/') {
        Some((folder @ ("models" | "tunedModels"), model)) => (folder, model),
        _ => ("models", model),
    };
    let last = base.path().rsplit('/').next().unwrap_or_default();
    let versioned = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut url = base.join(if versioned { "/" } else { "/v1beta/" });
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().push(folder).push(&format!("{model}:streamGenerateContent"));
    }
    url.set_query(Some("alt=sse"));
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlainHttp;

    #[test]
    fn where_requests_go() {
        let cases = [
            (WireKind::OpenAiChat, "https://a.b/v1/", "m", "https://a.b/v1/chat/completions"),
            (WireKind::OpenAiResponses, "https://a.b/v1", "m", "https://a.b/v1/responses"),
            (WireKind::AnthropicMessages, "https://a.b", "m", "https://a.b/v1/messages"),
            (WireKind::AnthropicMessages, "https://a.b/v1", "m", "https://a.b/v1/messages"),
            (
                WireKind::Gemini,
                "https://a.b",
                "m",
                "https://a.b/v1beta/models/m:streamGenerateContent?alt=sse",
            ),
            (
                WireKind::Gemini,
                "https://a.b/v1beta/",
                "models/m-1.5",
                "https://a.b/v1beta/models/m-1.5:streamGenerateContent?alt=sse",
            ),
            (
                WireKind::Gemini,
                "https://a.b/x/v1",
                "tunedModels/t",
                "https://a.b/x/v1/tunedModels/t:streamGenerateContent?alt=sse",
            ),
            (
                WireKind::Gemini,
                "https://a.b/v1",
                "../../x?key=y",
                "https://a.b/v1/models/..%2F..%2Fx%3Fkey=y:streamGenerateContent?alt=sse",
            ),
            (WireKind::Ollama, "http://127.0.0.1:11434", "m", "http://127.0.0.1:11434/api/chat"),
            (WireKind::Ollama, "http://localhost:11434/api", "m", "http://localhost:11434/api/chat"),
        ];
        for (wire, base, model, expected) in cases {
            let base = BaseUrl::parse(base, PlainHttp::LoopbackOnly).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(wire.url(&base, model).as_str(), expected);
        }
    }
}
