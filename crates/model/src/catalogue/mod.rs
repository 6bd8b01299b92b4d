//! What an endpoint offers: asked of it, in its vendor's own way.
//!
//! A window is what the endpoint says, or it is not known. Of a runtime on one's own machine it is the one that the model
//! runs with, which is often far smaller than what the model could take.

mod read;

use std::time::{Duration, SystemTime};

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::body::RequestBody;
use crate::http::{HttpClient, Limits};
use crate::presets::Preset;
use crate::remote::sensitive;
use crate::{Auth, BaseUrl, Failure, FailureClass, WireKind};

/// Most bytes of one response. The longest list known has a tenth of that.
const MOST_BYTES: usize = 16 << 20;
/// Most pages of one list.
const MOST_PAGES: usize = 40;
/// Most models of one list.
const MOST_MODELS: usize = 10_000;
/// Most models that a runtime is asked about one by one.
const MOST_ASKED: usize = 100;
/// Longest that one response may take, and longest silence.
const TIMEOUT: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(15);

/// A model that an endpoint offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its name, as it is asked by.
    pub id: String,
    /// What the vendor calls it, where that is something else.
    pub title: Option<String>,
    /// Tokens that prompt and answer may have together, as it is served.
    pub window: Option<u64>,
    /// Tokens that it could take if it were served so; said by runtimes.
    pub own_window: Option<u64>,
    /// Most tokens of an answer.
    pub max_output: Option<u64>,
    /// Bytes of its weights; said by runtimes.
    pub size_bytes: Option<u64>,
    /// Whether it is in memory; said by runtimes.
    pub loaded: Option<bool>,
    /// Whether it calls tools, where the endpoint says.
    pub tools: Option<bool>,
}

/// How an endpoint tells what it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// `GET {base}/models`.
    Plain,
    /// The same, and `GET /props` for the window that the one model runs with.
    LlamaCpp,
    /// `GET /api/v0/models`.
    LmStudio,
    /// `GET {base}/models` and `GET /api/extra/true_max_context_length`.
    Kobold,
    /// `GET /api/tags`, `GET /api/ps`, and `POST /api/show` for each.
    Ollama,
    /// `GET /v1/models`, in pages.
    Anthropic,
    /// `GET {base}/models`, in pages.
    Gemini,
}

/// An endpoint that is asked what it offers. Its requests pass the same client as those to models: no redirects, no
/// proxies, bounded in size and time.
#[derive(Debug, Clone)]
pub struct Catalogue {
    manner: Manner,
    base: BaseUrl,
    auth: Auth,
    http: HttpClient,
}

impl Catalogue {
    /// The endpoint at `base`. `row` says whose it is, where it is somebody's that is known.
    pub fn new(wire: WireKind, base: BaseUrl, auth: Auth, row: Option<&Preset>) -> Self {
        let manner = match (row.map_or("", |row| row.name), wire) {
            ("ollama" | "ollama-openai", _) | (_, WireKind::Ollama) => Manner::Ollama,
            ("llamacpp", _) => Manner::LlamaCpp,
            ("lmstudio", _) => Manner::LmStudio,
            ("koboldcpp", _) => Manner::Kobold,
            (_, WireKind::AnthropicMessages) => Manner::Anthropic,
            (_, WireKind::Gemini) => Manner::Gemini,
            (_, WireKind::OpenAiChat | WireKind::OpenAiResponses) => Manner::Plain,
        };
        Self { manner, base, auth, http: HttpClient::new() }
    }

    /// All that it offers, by name.
    ///
    /// The failure is that of the first request that failed; what only adds to a list (the window that a runtime runs
    /// with) is left unknown where it cannot be had.
    pub async fn list(&self) -> Result<Vec<Offer>, Failure> {
        let mut offers = self.ask().await.map_err(|mut failure| {
            if let Some(secret) = self.auth.secret() {
                failure.message = secret.scrub_message(&failure.message);
            }
            failure
        })?;
        if let Some(secret) = self.auth.secret() {
            for offer in &mut offers {
                offer.id = secret.scrub(&offer.id);
                offer.title = offer.title.take().map(|title| secret.scrub(&title));
            }
        }
        offers.truncate(MOST_MODELS);
        offers.sort_by(|a, b| a.id.cmp(&b.id));
        offers.dedup_by(|later, first| later.id == first.id);
        Ok(offers)
    }

    /// What it says of one model; `None` where it does not offer it.
    pub async fn one(&self, model: &str) -> Result<Option<Offer>, Failure> {
        if self.manner != Manner::Ollama {
            return Ok(self.list().await?.into_iter().find(|offer| offer.id == model));
        }
        // Not about all the others, one by one.
        let offers = read::ollama(&self.get(self.beside_url("/api/tags")).await?);
        let same = |offer: &Offer| offer.id == model || offer.id.strip_suffix(":latest") == Some(model);
        let Some(mut offer) = offers.into_iter().find(same) else { return Ok(None) };
        self.ollama_details(&mut offer).await;
        if let Some(running) = self.beside("/api/ps").await {
            read::ollama_running(std::slice::from_mut(&mut offer), &running);
        }
        Ok(Some(offer))
    }

    async fn ollama_details(&self, offer: &mut Offer) {
        let asked = json!({ "model": offer.id }).to_string();
        if let Ok(shown) = self.post(self.beside_url("/api/show"), asked).await {
            read::ollama_details(offer, &shown);
        }
    }

    async fn ask(&self) -> Result<Vec<Offer>, Failure> {
        match self.manner {
            Manner::Plain => Ok(read::plain(&self.get(self.base.join("/models")).await?)),
            Manner::LlamaCpp => {
                let mut offers = read::plain(&self.get(self.base.join("/models")).await?);
                if let [only] = offers.as_mut_slice()
                    && let Some(props) = self.beside("/props").await
                {
                    only.window = read::llama_window(&props);
                }
                Ok(offers)
            }
            Manner::Kobold => {
                let mut offers = read::plain(&self.get(self.base.join("/models")).await?);
                if let [only] = offers.as_mut_slice()
                    && let Some(said) = self.beside("/api/extra/true_max_context_length").await
                {
                    only.window = said.get("value").and_then(Value::as_u64);
                }
                Ok(offers)
            }
            Manner::LmStudio => match self.beside("/api/v0/models").await {
                Some(list) => Ok(read::lm_studio(&list)),
                // An older one.
                None => Ok(read::plain(&self.get(self.base.join("/models")).await?)),
            },
            Manner::Ollama => self.ollama().await,
            Manner::Anthropic => self.anthropic().await,
            Manner::Gemini => self.gemini().await,
        }
    }

    async fn anthropic(&self) -> Result<Vec<Offer>, Failure> {
        let path = if self.base.path().ends_with("/v1") { "/models" } else { "/v1/models" };
        let (mut offers, mut after) = (Vec::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let mut url = self.base.join(path);
            url.query_pairs_mut().append_pair("limit", "1000");
            if let Some(after) = &after {
                url.query_pairs_mut().append_pair("after_id", after);
            }
            let page = self.get(url).await?;
            offers.extend(read::plain(&page));
            after = page.get("last_id").and_then(Value::as_str).map(str::to_owned);
            let more = page.get("has_more").and_then(Value::as_bool).unwrap_or(false);
            if !more || after.is_none() || offers.len() >= MOST_MODELS {
                break;
            }
        }
        Ok(offers)
    }

    async fn gemini(&self) -> Result<Vec<Offer>, Failure> {
        let last = self.base.path().rsplit('/').next().unwrap_or_default();
        let versioned =
            last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let path = if versioned { "/models" } else { "/v1beta/models" };
        let (mut offers, mut token) = (Vec::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let mut url = self.base.join(path);
            url.query_pairs_mut().append_pair("pageSize", "1000");
            if let Some(token) = &token {
                url.query_pairs_mut().append_pair("pageToken", token);
            }
            let page = self.get(url).await?;
            offers.extend(read::gemini(&page));
            token = page.get("nextPageToken").and_then(Value::as_str).map(str::to_owned);
            if token.is_none() || offers.len() >= MOST_MODELS {
                break;
            }
        }
        Ok(offers)
    }

    async fn ollama(&self) -> Result<Vec<Offer>, Failure> {
        let mut offers = read::ollama(&self.get(self.beside_url("/api/tags")).await?);
        let running = self.beside("/api/ps").await;
        for offer in offers.iter_mut().take(MOST_ASKED) {
            self.ollama_details(offer).await;
        }
        if let Some(running) = running {
            read::ollama_running(&mut offers, &running);
        }
        Ok(offers)
    }

    /// What lies beside the compatible API of a runtime; `None` where it has no such thing.
    async fn beside(&self, path: &str) -> Option<Value> {
        self.get(self.beside_url(path)).await.ok()
    }

    fn beside_url(&self, path: &str) -> Url {
        let own = self.base.path();
        let root = own.strip_suffix("/v1").or_else(|| own.strip_suffix("/api")).unwrap_or(own).to_owned();
        let mut url = self.base.join("");
        url.set_path(&format!("{root}{path}"));
        url
    }

    async fn get(&self, url: Url) -> Result<Value, Failure> {
        let limits = Limits::new(Instant::now(), TIMEOUT, IDLE);
        let headers = self.headers(("GET", &url), &RequestBody::whole(String::new()))?;
        let reply = self.http.get(url, headers, limits, self.auth.secret()).await?;
        Self::read(reply).await
    }

    async fn post(&self, url: Url, body: String) -> Result<Value, Failure> {
        let limits = Limits::new(Instant::now(), TIMEOUT, IDLE);
        let body = RequestBody::whole(body);
        let headers = self.headers(("POST", &url), &body)?;
        let reply = self.http.post(url, headers, body, limits, self.auth.secret()).await?;
        Self::read(reply).await
    }

    async fn read(mut reply: crate::http::Reply) -> Result<Value, Failure> {
        let malformed = |what: String| Failure::new(FailureClass::Malformed, what);
        let mut body = Vec::new();
        while let Some(bytes) = reply.chunk(None).await? {
            if body.len() + bytes.len() > MOST_BYTES {
                return Err(malformed(format!("the list is larger than {MOST_BYTES} bytes")));
            }
            body.extend_from_slice(&bytes);
        }
        serde_json::from_slice(&body).map_err(|error| malformed(format!("the list is not JSON: {error}")))
    }

    fn headers(&self, (method, url): (&str, &Url), body: &RequestBody) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if self.manner == Manner::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let (Some(secret), Some((name, value))) = (self.auth.secret(), self.auth.header()) {
            let value = sensitive(secret, &value)
                .map_err(|error| Failure::new(FailureClass::Setup, error.to_string()))?;
            headers.insert(name, value);
        }
        if let Some(keys) = self.auth.aws() {
            keys.sign((method, url.as_str()), &mut headers, body.sha256(), SystemTime::now())
                .map_err(|why| Failure::new(FailureClass::Setup, why))?;
        }
        Ok(headers)
    }
}
