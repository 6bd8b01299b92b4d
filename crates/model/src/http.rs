//! The one HTTP client: no proxies from the environment, no redirects, no hidden retries.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use crate::body::RequestBody;
use crate::{Billed, Failure, FailureClass, RateLimits, Secret, classify, parse_retry_after};

/// Most of an error's body that is read, in bytes.
const ERROR_BODY: usize = 64 << 10;
/// Longest that an error's body is waited for.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);
/// What a gateway answers when the server behind it takes too long: that one may have gone on.
const GAVE_UP_WAITING: [u16; 2] = [504, 524];
/// Longest that a connection may take.
const CONNECT: Duration = Duration::from_secs(20);

/// A client with its connection pool. Cheap to clone; what TLS needs is loaded when `https:` is first used.
#[derive(Debug, Clone, Default)]
pub struct HttpClient(Arc<Clients>);

#[derive(Debug, Default)]
struct Clients {
    plain: OnceLock<Result<Client, String>>,
    tls: OnceLock<Result<Client, String>>,
}

impl HttpClient {
    /// A client of its own pool.
    pub fn new() -> Self {
        Self::default()
    }

    fn client(&self, https: bool) -> Result<&Client, Failure> {
        let (cell, trust) = if https { (&self.0.tls, true) } else { (&self.0.plain, false) };
        cell.get_or_init(|| build(trust)).as_ref().map_err(|e| Failure::new(FailureClass::Setup, e))
    }

    /// Sends `body`; gives the response once its status is a success, and a classified failure otherwise.
    pub(crate) async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: RequestBody,
        limits: Limits,
        secret: Option<&Secret>,
    ) -> Result<Reply, Failure> {
        let client = self.client(url.scheme() == "https")?;
        let request = client.post(url).headers(headers).body(reqwest::Body::wrap(body));
        Self::send(request, limits, secret).await
    }

    /// Asks for what lies at `url`, in the same way.
    pub(crate) async fn get(
        &self,
        url: Url,
        headers: HeaderMap,
        limits: Limits,
        secret: Option<&Secret>,
    ) -> Result<Reply, Failure> {
        let request = self.client(url.scheme() == "https")?.get(url).headers(headers);
        Self::send(request, limits, secret).await
    }

    async fn send(
        request: reqwest::RequestBuilder,
        limits: Limits,
        secret: Option<&Secret>,
    ) -> Result<Reply, Failure> {
        // Once a request is under way, nobody but the vendor knows what came of it.
        let unknown = Billed::Perhaps { answer_bytes: 0 };
        let response = match timeout_at(limits.next(), request.send()).await {
            Err(_) => return Err(limits.passed("before the response began").with_billed(unknown)),
            Ok(Err(error)) if error.is_connect() => return Err(transport(&error)),
            Ok(Err(error)) => {
                let failure = transport(&error);
                let sent = failure.class == FailureClass::UnknownOutcome;
                return Err(if sent { failure.with_billed(unknown) } else { failure });
            }
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status == StatusCode::OK && is_media(&response, "text/html") {
            // A login page, a dashboard, a captive portal: asking again gives the same page.
            let message = "the server answered with a web page; is the base URL right?";
            return Err(Failure::new(FailureClass::BadRequest, message).with_status(200));
        }
        if status == StatusCode::OK {
            return Ok(Reply { response, limits, received: 0 });
        }
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            let to = secret.map_or_else(|| to.to_owned(), |secret| secret.scrub(to));
            let message = format!("the server redirects to {to}; redirects are not followed");
            return Err(Failure::new(FailureClass::BadRequest, message).with_status(status.as_u16()));
        }
        Err(error_reply(response, secret).await)
    }
}

/// The time limits of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    end: Instant,
    timeout: Duration,
    idle: Duration,
}

impl Limits {
    pub(crate) fn new(start: Instant, timeout: Duration, idle: Duration) -> Self {
        // An absurd limit means none: about 30 years, since `Instant` cannot hold all of them.
        let end = start.checked_add(timeout).unwrap_or_else(|| start + Duration::from_secs(1 << 30));
        Self { end, timeout, idle }
    }

    fn next(&self) -> Instant {
        Instant::now().checked_add(self.idle).map_or(self.end, |at| at.min(self.end))
    }

    fn passed(&self, place: &str) -> Failure {
        let message = if Instant::now() >= self.end {
            format!("the call took longer than {} s", self.timeout.as_secs_f64())
        } else {
            format!("silence for {} s {place}", self.idle.as_secs_f64())
        };
        Failure::new(FailureClass::Timeout, message)
    }
}

/// A response that began well.
pub(crate) struct Reply {
    response: Response,
    limits: Limits,
    received: u64,
}

impl Reply {
    /// Whether the body is one JSON text and not a stream of events.
    pub(crate) fn is_json(&self) -> bool {
        is_media(&self.response, "application/json")
    }

    /// The next piece of the body, `None` at its proper end. `idle` shortens the silence allowed.
    pub(crate) async fn chunk(&mut self, idle: Option<Duration>) -> Result<Option<Bytes>, Failure> {
        let mut limits = self.limits;
        limits.idle = idle.map_or(limits.idle, |idle| idle.min(limits.idle));
        let piece = match timeout_at(limits.next(), self.response.chunk()).await {
            Err(_) => Err(limits.passed("in the middle of the answer")),
            Ok(Err(error)) => Err(transport(&error)),
            Ok(Ok(piece)) => Ok(piece),
        };
        match piece {
            Ok(piece) => {
                self.received += piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
                Ok(piece)
            }
            Err(failure) => Err(self.counted(failure)),
        }
    }

    /// What its headers say of the vendor's limits.
    pub(crate) fn rate_limits(&self, secret: Option<&Secret>) -> RateLimits {
        rate_limits(&self.response, secret)
    }

    /// `failure` with status and the bytes received so far.
    pub(crate) fn counted(&self, mut failure: Failure) -> Failure {
        failure.bytes_received = self.received;
        failure.status.get_or_insert(self.response.status().as_u16());
        failure
    }
}

fn is_media(response: &Response, media: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.trim_start().starts_with(media))
}

fn rate_limits(response: &Response, secret: Option<&Secret>) -> RateLimits {
    let text = |value: &HeaderValue| {
        let value = value.to_str().ok()?;
        Some(secret.map_or_else(|| value.to_owned(), |secret| secret.scrub(value)))
    };
    // Names are lower case, so a key that somebody echoes there is not the key any more; it is left out all the same.
    let key = secret.map(|secret| secret.expose().to_ascii_lowercase()).filter(|key| key.len() >= 12);
    let holds_key = |name: &str| key.as_ref().is_some_and(|key| name.contains(key.as_str()));
    let headers: Vec<(&str, String)> = response
        .headers()
        .iter()
        .filter(|(name, _)| !holds_key(name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str(), text(value)?)))
        .collect();
    RateLimits::read(headers.iter().map(|(name, value)| (*name, value.as_str())), SystemTime::now())
}

/// Reads an error's body, bounded in size and in time: some never end.
async fn error_reply(mut response: Response, secret: Option<&Secret>) -> Failure {
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let wait = parse_retry_after(header("retry-after-ms"), header("retry-after"), SystemTime::now());
    let limits = rate_limits(&response, secret);
    let end = Instant::now() + ERROR_BODY_TIME;
    let mut body = Vec::new();
    while body.len() < ERROR_BODY {
        match timeout_at(end, response.chunk()).await {
            Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes[..bytes.len().min(ERROR_BODY - body.len())]),
            // The end, a broken connection or the time limit: what came tells what it can.
            _ => break,
        }
    }
    let mut text = String::from_utf8_lossy(&body).into_owned();
    if let Some(secret) = secret {
        // Before the message is shortened, which could leave half a key.
        text = secret.scrub_json(&text);
    }
    let mut failure = classify::failure(Some(status), &text);
    if wait.is_some() {
        failure = failure.with_retry_after(wait);
    }
    failure = failure.with_rate_limits(limits);
    if GAVE_UP_WAITING.contains(&status) {
        failure = failure.with_billed(Billed::Perhaps { answer_bytes: 0 });
    }
    failure.bytes_received = body.len() as u64;
    failure
}

/// A failure of the connection. The URL is left out: the caller names the provider.
fn transport(error: &reqwest::Error) -> Failure {
    use std::error::Error as _;
    let mut message =
        if error.is_connect() { "cannot connect".to_owned() } else { "the connection broke".to_owned() };
    // The causes below reqwest's own sentence (which holds the URL) say what happened.
    let mut source = error.source();
    let mut last = String::new();
    while let Some(cause) = source {
        let text = cause.to_string();
        if text != last {
            message.push_str(": ");
            message.push_str(&text);
        }
        last = text;
        source = cause.source();
    }
    if error.is_builder() || error.is_request() && error.is_redirect() {
        return Failure::new(FailureClass::Setup, message);
    }
    let class = if error.is_connect() { FailureClass::Transport } else { FailureClass::UnknownOutcome };
    Failure::new(class, message)
}

/// `trust` loads the system's roots; without it no `https:` connection can succeed, which saves their cost.
fn build(trust: bool) -> Result<Client, String> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(ring.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be set up: {e}"))?;
    let mut tls = if trust {
        let verifier = rustls_platform_verifier::Verifier::new(ring)
            .map_err(|e| format!("the system's trusted certificates cannot be loaded: {e}"))?;
        versions.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
    } else {
        versions.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT)
        .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| format!("the HTTP client cannot be set up: {e}"))
}
