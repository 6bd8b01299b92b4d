//! A provider over HTTP: a wire, an address and a key.

use std::time::SystemTime;

use provost_core::transcript::Message;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::body::RequestBody;
use crate::http::{HttpClient, Limits, Reply};
use crate::presets::{Affinity, Quirk};
use crate::scrub::Clean;
use crate::sigv4::AwsKeys;
use crate::sse::{EVENT_LIMIT, SseEvent};
use crate::wire::{Decode, Encode, EncodeOptions, Framing, Progress, WireKind};
use crate::{
    Answer, Auth, BaseUrl, Beside, Billed, BoxFuture, Dialogue, Failure, FailureClass, Invocation, Prelude,
    Provider, Secret, Sink,
};

/// Silence allowed once an answer is complete, while usage may still come.
const AFTERMATH: std::time::Duration = std::time::Duration::from_secs(10);

/// Why a provider could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The key cannot stand in a header. It is not repeated here.
    #[error("the key holds characters that an HTTP header cannot carry, or is empty")]
    Key,
    /// A header cannot be sent.
    #[error("the header `{0}` cannot be sent: bad name or value, or one that the wire sets itself")]
    Header(String),
    /// `extra` names a member that the wire owns.
    #[error("the request member `{0}` belongs to the wire and cannot be set")]
    Reserved(String),
}

/// Builds a [`Remote`].
#[derive(Debug, Clone)]
pub struct RemoteBuilder {
    name: String,
    kind: WireKind,
    base: BaseUrl,
    auth: Auth,
    http: HttpClient,
    options: EncodeOptions,
    headers: Vec<(String, String)>,
    affinity: Option<Affinity>,
    schema_or_tools: bool,
}

impl RemoteBuilder {
    /// With this credential (the default is none).
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// The name for journals (the default is the host).
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Shares a client and its connections.
    #[must_use]
    pub fn http(mut self, http: HttpClient) -> Self {
        self.http = http;
        self
    }

    /// A further top-level member of every request, such as `temperature` or `thinking`.
    #[must_use]
    pub fn extra(mut self, key: impl Into<String>, value: serde_json::Value) -> Self {
        self.options.extra.insert(key.into(), value);
        self
    }

    /// A further header, such as `anthropic-beta`. Not for credentials: it is not scrubbed from messages.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Chat only: name the output limit `max_completion_tokens` (the default where the host is OpenAI's).
    #[must_use]
    pub fn max_completion_tokens(mut self, yes: bool) -> Self {
        self.options.max_completion_tokens = yes;
        self
    }

    /// Chat only: send `reasoning_content` back, as some vendors demand and others refuse (default: no).
    #[must_use]
    pub fn echo_reasoning(mut self, yes: bool) -> Self {
        self.options.echo_reasoning = yes;
        self
    }

    /// Responses only: have reasoning come back sealed and send it with the next request, as a vendor that stores nothing
    /// must have it (the default where the host is OpenAI's and the model is not one of its older ones).
    #[must_use]
    pub fn encrypted_reasoning(mut self, yes: bool) -> Self {
        self.options.encrypted_reasoning = yes;
        self
    }

    /// As an endpoint with these quirks wants it.
    #[must_use]
    pub fn quirks(mut self, quirks: &[Quirk]) -> Self {
        for quirk in quirks {
            match quirk {
                Quirk::MaxCompletionTokens => self.options.max_completion_tokens = true,
                Quirk::EchoReasoning => self.options.echo_reasoning = true,
                Quirk::NoStreamOptions => self.options.no_stream_options = true,
                Quirk::SchemaOrTools => self.schema_or_tools = true,
                Quirk::Affinity(affinity) => self.affinity = Some(*affinity),
                Quirk::CacheControl if self.options.model.starts_with("anthropic/") => {
                    let asks = serde_json::json!({ "type": "ephemeral" });
                    self.options.extra.insert("cache_control".to_owned(), asks);
                }
                // For whoever chooses a model; and for models of others.
                Quirk::NoTools | Quirk::CacheControl => {}
            }
        }
        self
    }

    /// Checks all of it.
    pub fn build(self) -> Result<Remote, RemoteError> {
        if let Some(key) = self.options.extra.keys().find(|key| self.kind.reserved().contains(&key.as_str()))
        {
            return Err(RemoteError::Reserved(key.clone()));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            let bad = || RemoteError::Header(name.clone());
            let key = HeaderName::try_from(&name).map_err(|_| bad())?;
            if OWN_HEADERS.contains(&key.as_str()) {
                return Err(bad());
            }
            headers.insert(key, HeaderValue::try_from(value).map_err(|_| bad())?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(self.kind.media()));
        if self.kind == WireKind::AnthropicMessages {
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static("2023-06-01"));
        }
        if let (Some(secret), Some((name, value))) = (self.auth.secret(), self.auth.header()) {
            headers.insert(name, sensitive(secret, &value)?);
        }
        Ok(Remote {
            name: self.name,
            kind: self.kind,
            url: self.kind.url(&self.base, &self.options.model),
            base: self.base,
            secret: self.auth.secret().cloned(),
            signer: self.auth.aws().cloned(),
            headers,
            http: self.http,
            options: self.options,
            affinity: self.affinity,
            schema_or_tools: self.schema_or_tools,
        })
    }
}

/// Headers that a request gets by itself.
const OWN_HEADERS: [&str; 8] = [
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "content-type",
    "idempotency-key",
    "x-amz-date",
    "x-amz-security-token",
];

static IDEMPOTENCY: HeaderName = HeaderName::from_static("idempotency-key");

pub(crate) fn sensitive(secret: &Secret, value: &str) -> Result<HeaderValue, RemoteError> {
    let mut value = HeaderValue::try_from(value).map_err(|_| RemoteError::Key)?;
    // A lone `Bearer ` reads as a broken client, not as a missing key.
    if secret.expose().is_empty() {
        return Err(RemoteError::Key);
    }
    value.set_sensitive(true);
    Ok(value)
}

/// A model behind HTTP.
#[derive(Debug, Clone)]
pub struct Remote {
    name: String,
    kind: WireKind,
    base: BaseUrl,
    url: reqwest::Url,
    secret: Option<Secret>,
    signer: Option<AwsKeys>,
    headers: HeaderMap,
    http: HttpClient,
    options: EncodeOptions,
    affinity: Option<Affinity>,
    schema_or_tools: bool,
}

impl Remote {
    /// Begins a provider that speaks `kind` to `base` and asks for `model`.
    pub fn builder(kind: WireKind, base: BaseUrl, model: impl Into<String>) -> RemoteBuilder {
        let model = model.into();
        let openai = base.host() == "api.openai.com";
        RemoteBuilder {
            name: base.host().to_owned(),
            kind,
            auth: Auth::None,
            http: HttpClient::new(),
            options: EncodeOptions {
                max_completion_tokens: openai,
                // Those that do not reason are a closed set by now, and they refuse to be asked for it.
                encrypted_reasoning: openai
                    && !["gpt-3", "gpt-4", "chatgpt-"].iter().any(|old| model.starts_with(old)),
                model,
                ..EncodeOptions::default()
            },
            headers: Vec::new(),
            affinity: openai.then_some(Affinity::Member("prompt_cache_key")),
            schema_or_tools: false,
            base,
        }
    }

    /// The wire it speaks.
    pub fn wire(&self) -> WireKind {
        self.kind
    }

    /// What to do about a refused key, in front of the server's own `words`: they rarely say, and are often one word.
    fn about_key(&self, words: &str) -> String {
        let host = self.base.host();
        match self.secret {
            Some(_) => format!(
                "the server refused the key; check that it is a valid key of `{host}` and may use `{}`: {words}",
                self.options.model
            ),
            None => format!("`{host}` wants a key and none was given: {words}"),
        }
    }
}

impl Provider for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> &str {
        &self.options.model
    }

    fn endpoint(&self) -> &str {
        self.base.origin()
    }

    fn carries(&self, _: Beside) -> bool {
        true
    }

    fn open(&self, mut prelude: Prelude) -> Box<dyn Dialogue> {
        if !prelude.tools.is_empty()
            && (self.schema_or_tools || !self.kind.takes_schema_beside_tools(&self.options.model))
        {
            // It would be refused, or its tools never called. Whoever set the schema has to check the answer anyway.
            prelude.schema = None;
        }
        let mut remote = self.clone();
        if let (Some(affinity), Some(word)) = (self.affinity, &prelude.affinity) {
            match affinity {
                // What the caller set stands.
                Affinity::Member(name) => {
                    remote.options.extra.entry(name).or_insert_with(|| word.as_str().into());
                }
                Affinity::Header(name) => {
                    if let Ok(value) = HeaderValue::try_from(word) {
                        remote.headers.entry(name).or_insert(value);
                    }
                }
            }
        }
        Box::new(RemoteDialogue { encoder: self.kind.encoder(&remote.options, &prelude), remote, turn: 0 })
    }
}

struct RemoteDialogue {
    remote: Remote,
    encoder: Box<dyn Encode>,
    /// Assistant messages pushed so far.
    turn: u64,
}

impl Dialogue for RemoteDialogue {
    fn push(&mut self, message: &Message) {
        if matches!(message, Message::Assistant(_)) {
            self.turn += 1;
        }
        self.encoder.push(message);
    }

    fn prompt_bytes(&self) -> usize {
        // The tail is short and its length hardly varies.
        self.encoder.prefix().len() + 64
    }

    fn prompt(&self, from: u64, see: &mut dyn FnMut(&[u8])) {
        self.encoder.prefix().show(usize::try_from(from).unwrap_or(usize::MAX), see);
    }

    fn ask<'a>(
        &'a mut self,
        invocation: &'a Invocation,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            self.attempt(invocation, sink).await.map_err(|mut failure| {
                if let Some(secret) = &self.remote.secret {
                    failure.message = secret.scrub_message(&failure.message);
                }
                if failure.class == FailureClass::Auth {
                    failure.message = self.remote.about_key(&failure.message);
                }
                failure
            })
        })
    }
}

impl RemoteDialogue {
    async fn attempt(&self, invocation: &Invocation, sink: &mut dyn Sink) -> Result<Answer, Failure> {
        let start = Instant::now();
        let remote = &self.remote;
        let mut headers = remote.headers.clone();
        let id = HeaderValue::try_from(&invocation.id)
            .map_err(|_| Failure::new(FailureClass::Setup, "the invocation's id cannot stand in a header"))?;
        headers.insert(IDEMPOTENCY.clone(), id);
        let limits = Limits::new(start, invocation.timeout, invocation.idle);
        let body = RequestBody::of(self.encoder.as_ref(), invocation.max_output);
        if let Some(keys) = &remote.signer {
            let asked = ("POST", remote.url.as_str());
            keys.sign(asked, &mut headers, body.sha256(), SystemTime::now()).map_err(|why| {
                Failure::new(FailureClass::Setup, format!("the request cannot be signed: {why}"))
            })?;
        }
        let mut reply =
            remote.http.post(remote.url.clone(), headers, body, limits, remote.secret.as_ref()).await?;

        let mut reader = Reader {
            decoder: remote.kind.decoder(self.turn),
            secret: remote.secret.as_ref(),
            start,
            ttft_ms: None,
            progress: Progress::Open,
        };
        let mut clean = Clean::new(sink, remote.secret.as_ref());
        let read = if reply.is_json() {
            reader.whole(&mut reply, &mut clean).await
        } else {
            reader.stream(&mut reply, remote.kind.framing(), &mut clean).await
        };
        clean.finish();
        let (usage, begun, size) = (
            reader.decoder.usage(),
            reader.decoder.begun(),
            u32::try_from(reader.decoder.size()).unwrap_or(u32::MAX),
        );
        let mut decoded = read.and_then(|()| reader.decoder.finish()).map_err(|failure| {
            let refused = !begun && failure.class.is_of_the_vendor();
            let billed = if refused { Billed::AsCounted } else { Billed::Perhaps { answer_bytes: size } };
            reply.counted(failure).with_usage(usage).with_billed(billed)
        })?;
        if let Some(secret) = &remote.secret {
            secret.scrub_answer(&mut decoded);
        }
        Ok(Answer {
            assistant: decoded.assistant,
            stop: decoded.stop,
            usage: decoded.usage,
            raw_usage: decoded.raw_usage,
            latency_ms: millis(start),
            ttft_ms: reader.ttft_ms,
            model: decoded.model.unwrap_or_else(|| remote.options.model.clone()),
            rate_limits: reply.rate_limits(remote.secret.as_ref()),
        })
    }
}

fn millis(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Moves a response into a decoder.
struct Reader<'a> {
    decoder: Box<dyn Decode>,
    secret: Option<&'a Secret>,
    start: Instant,
    ttft_ms: Option<u64>,
    progress: Progress,
}

impl Reader<'_> {
    async fn stream(
        &mut self,
        reply: &mut Reply,
        mut framing: Framing,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let mut events = Vec::new();
        while self.progress != Progress::Done {
            let complete = self.progress == Progress::Complete;
            let bytes = match reply.chunk(complete.then_some(AFTERMATH)).await {
                Ok(Some(bytes)) => bytes,
                // A complete answer stands, however its connection ends; an open one fails in `finish`.
                Ok(None) => {
                    framing.finish(&mut events);
                    return self.events(&mut events, sink);
                }
                Err(_) if complete => break,
                Err(failure) => return Err(failure),
            };
            let fed = framing.feed(&bytes, &mut events);
            self.events(&mut events, sink)?;
            fed.map_err(|e| Failure::new(FailureClass::Malformed, e.to_string()))?;
        }
        Ok(())
    }

    fn events(&mut self, events: &mut Vec<SseEvent>, sink: &mut dyn Sink) -> Result<(), Failure> {
        for event in events.drain(..) {
            if self.progress != Progress::Done {
                self.event(event, sink)?;
            }
        }
        Ok(())
    }

    /// A server that does not stream answers with one JSON text: the decoders take it as one event.
    async fn whole(&mut self, reply: &mut Reply, sink: &mut dyn Sink) -> Result<(), Failure> {
        let mut body = Vec::new();
        while let Some(bytes) = reply.chunk(None).await? {
            if body.len() + bytes.len() > EVENT_LIMIT {
                let message = format!("the answer is larger than {EVENT_LIMIT} bytes");
                return Err(Failure::new(FailureClass::Malformed, message));
            }
            body.extend_from_slice(&bytes);
        }
        self.event(SseEvent { event: String::new(), data: String::from_utf8_lossy(&body).into_owned() }, sink)
    }

    fn event(&mut self, mut event: SseEvent, sink: &mut dyn Sink) -> Result<(), Failure> {
        // A server that echoes the key must not get it into a transcript or a message.
        if let Some(secret) = self.secret.filter(|secret| event.data.contains(secret.expose())) {
            event.data = secret.scrub(&event.data);
        }
        self.progress = self.decoder.feed(event, sink)?;
        if self.ttft_ms.is_none() && self.decoder.begun() {
            self.ttft_ms = Some(millis(self.start));
        }
        Ok(())
    }
}
