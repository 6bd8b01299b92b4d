//! The address of a provider, checked once.

use std::fmt;

use reqwest::Url;

/// Where plain `http:` may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    /// Only to this machine.
    #[default]
    LoopbackOnly,
    /// Anywhere: prompts and keys travel in the clear.
    Anywhere,
}

/// Why a base URL was refused. No variant repeats the URL: it may hold a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// Not a URL.
    #[error("the base URL is not a valid URL: {0}")]
    Invalid(String),
    /// Neither http nor https.
    #[error("the base URL must start with `https://` or `http://`, not `{0}:`")]
    Scheme(String),
    /// User or password in the URL.
    #[error("the base URL carries a user name or password; pass the key on its own")]
    Credentials,
    /// A query or a fragment.
    #[error("the base URL has a query or a fragment; give only scheme, host, port and path")]
    Query,
    /// Plain http to another machine.
    #[error(
        "the base URL is plain http to `{0}`, which is not this machine: use https (plain http is only accepted to loopback \
         addresses unless the program allows it)"
    )]
    PlainHttp(String),
}

/// A checked base URL: scheme, host, port and path; no credential, no query.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    origin: String,
}

impl BaseUrl {
    /// Checks `text`.
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, BaseUrlError> {
        let url = Url::parse(text.trim()).map_err(|e| BaseUrlError::Invalid(e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Query);
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        if url.scheme() == "http" && plain == PlainHttp::LoopbackOnly && !is_loopback(&host) {
            return Err(BaseUrlError::PlainHttp(host));
        }
        let origin = url.origin().ascii_serialization();
        Ok(Self { url, origin })
    }

    /// `scheme://host[:port]`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether TLS is needed.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Host name or address.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The base path without a closing slash; empty for the root.
    pub fn path(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }

    /// The URL of `path` (which starts with `/`) under the base.
    pub(crate) fn join(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{path}", self.path()));
        url
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path())
    }
}

/// `localhost` by name is taken at its word; RFC 6761 asks resolvers to keep it local.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
