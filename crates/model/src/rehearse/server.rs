//! The rehearsal server: HTTP/1.1 on a local port.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::Script;
use super::body::{Act, Play};
use super::request::Reader;
use super::respond::{Turn, error_object};
use super::script::Fault;
use crate::{Secret, WireKind};

/// Pause before a scripted break, so that what was sent before it has left.
const BEFORE_BREAK: Duration = Duration::from_millis(20);

/// A request as it was received. Values of headers that carry credentials read `[redacted]`.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Method and path.
    pub path: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The step it was answered with; `None` where it asked for no answer.
    pub step: Option<u64>,
}

/// A look into a server, for tests. Clones look into the same one.
#[derive(Clone)]
pub struct Handle(Arc<Stage>);

impl Handle {
    /// The requests so far; empty unless [`Server::keep_requests`] was set.
    pub fn requests(&self) -> Vec<Seen> {
        locked(&self.0.state).seen.clone()
    }

    /// How many requests for an answer came.
    pub fn count(&self) -> u64 {
        locked(&self.0.state).count
    }

    /// Forgets which faults have fired.
    pub fn reset(&self) {
        locked(&self.0.state).fired.clear();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("count", &self.count()).finish_non_exhaustive()
    }
}

/// What all connections share.
struct Stage {
    script: Script,
    keep: bool,
    key: Option<Secret>,
    log: Option<Mutex<File>>,
    reader: Reader,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    count: u64,
    seen: Vec<Seen>,
    /// Times that a fault fired, by dialogue and step.
    fired: HashMap<(usize, u64), u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bound server that does not serve yet.
pub struct Server {
    /// Where it listens.
    pub addr: SocketAddr,
    listener: std::net::TcpListener,
    stage: Stage,
}

impl Server {
    /// Binds `addr`; port 0 takes any free one.
    pub fn bind(addr: impl ToSocketAddrs, script: Script) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let stage = Stage {
            script,
            keep: false,
            key: None,
            log: None,
            reader: Reader::default(),
            state: Mutex::default(),
        };
        Ok(Self { addr: listener.local_addr()?, listener, stage })
    }

    /// Appends one JSON line for each request to `file`, bodies included, credentials left out.
    pub fn log_to(mut self, file: &Path) -> io::Result<Self> {
        let open = File::options().create(true).append(true).open(file);
        let open = open.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", file.display())))?;
        self.stage.log = Some(Mutex::new(open));
        Ok(self)
    }

    /// Keeps each request in memory for [`Handle::requests`].
    #[must_use]
    pub fn keep_requests(mut self) -> Self {
        self.stage.keep = true;
        self
    }

    /// Answers 401 to requests without this key, as bearer or in one of vendors' own headers.
    #[must_use]
    pub fn require_key(mut self, key: Secret) -> Self {
        self.stage.key = Some(key);
        self
    }

    /// Serves until `shutdown` ends; open connections are then cut.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let (listener, stage) = (self.listener, Arc::new(self.stage));
        serve(listener, stage, shutdown).await
    }

    /// Serves in a task of the current runtime.
    pub fn start(self) -> Running {
        let stage = Arc::new(self.stage);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(serve(self.listener, stage.clone(), async {
            let _ = stopped.await;
        }));
        Running { addr: self.addr, handle: Handle(stage), stop: Some(stop), task }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// A server that serves in the background; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub addr: SocketAddr,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
}

impl Running {
    /// A look into it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The base URL for the wire: with `/v1` for OpenAI's, `/v1beta` for Gemini, without either for the others.
    pub fn base_url(&self, wire: WireKind) -> String {
        match wire {
            WireKind::OpenAiChat | WireKind::OpenAiResponses => format!("http://{}/v1", self.addr),
            WireKind::AnthropicMessages | WireKind::Ollama => format!("http://{}", self.addr),
            WireKind::Gemini => format!("http://{}/v1beta", self.addr),
        }
    }

    /// Ends it and waits for that.
    pub async fn stop(mut self) -> io::Result<()> {
        drop(self.stop.take());
        (&mut self.task).await.unwrap_or_else(|e| Err(io::Error::other(e)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: std::net::TcpListener,
    stage: Arc<Stage>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => return Ok(()),
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        // Out of descriptors, most likely: go on serving the connections there are.
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let stage = stage.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(stage.clone(), request));
            // A client that goes away and a scripted break both end here.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(stage: Arc<Stage>, request: hyper::Request<Incoming>) -> Result<Response<Play>, Infallible> {
    let (head, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let path = format!("{} {}", head.method, head.uri.path());
    let target = Target::of(&head.method, head.uri.path());
    let list = stage.lists(&head.method, head.uri.path());
    let wire = target.as_ref().map(|target| target.wire);
    let plan = match (&target, list) {
        _ if !stage.admits(&head.headers) => Err(Box::new(error(
            wire,
            StatusCode::UNAUTHORIZED,
            "authentication_error",
            "the key is missing or wrong",
        ))),
        (None, Some(list)) => Err(Box::new(whole(StatusCode::OK, list.to_string().into()))),
        (None, None) => {
            let message = format!("there is no {path} here");
            Err(Box::new(error(None, StatusCode::NOT_FOUND, "not_found_error", &message)))
        }
        (Some(target), _) => stage.plan(target, &head.headers, &body),
    };
    let step = plan.as_ref().ok().map(|plan| plan.step);
    stage.record(path, &head.headers, body, step);
    Ok(match plan {
        Ok(plan) => {
            if !plan.latency.is_zero() {
                tokio::time::sleep(plan.latency).await;
            }
            plan.response
        }
        Err(response) => *response,
    })
}

/// What a request's path asks for.
struct Target {
    wire: WireKind,
    /// What the path says of them, where it and not the body does.
    model: Option<String>,
    stream: Option<bool>,
}

impl Target {
    fn of(method: &Method, path: &str) -> Option<Self> {
        if method != Method::POST {
            return None;
        }
        let of = |wire| Some(Self { wire, model: None, stream: None });
        if path.ends_with("/chat/completions") {
            return of(WireKind::OpenAiChat);
        } else if path.ends_with("/responses") {
            return of(WireKind::OpenAiResponses);
        } else if path.ends_with("/messages") {
            return of(WireKind::AnthropicMessages);
        } else if path.ends_with("/api/chat") {
            return of(WireKind::Ollama);
        }
        let (model, method) = path.rsplit('/').next()?.rsplit_once(':')?;
        let stream = match method {
            "streamGenerateContent" => true,
            "generateContent" => false,
            _ => return None,
        };
        Some(Self { wire: WireKind::Gemini, model: Some(model.to_owned()), stream: Some(stream) })
    }
}

/// An answer made ready.
struct Plan {
    step: u64,
    latency: Duration,
    response: Response<Play>,
}

impl Stage {
    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(key) = &self.key else { return true };
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        text("authorization").and_then(|value| value.strip_prefix("Bearer ")) == Some(key.expose())
            || ["x-api-key", "x-goog-api-key", "api-key"].iter().any(|name| text(name) == Some(key.expose()))
    }

    /// What it offers, in the shapes of all wires at once: one model.
    fn lists(&self, method: &Method, path: &str) -> Option<serde_json::Value> {
        let name = self.script.model();
        if method == Method::POST && path.ends_with("/api/show") {
            return Some(json!({ "model_info": {}, "capabilities": ["completion", "tools"] }));
        }
        let lists = path.ends_with("/models") || path.ends_with("/api/tags");
        (method == Method::GET && lists).then(|| {
            let plain = json!({ "id": name, "object": "model", "type": "model" });
            let own =
                json!({ "name": name, "model": name, "supportedGenerationMethods": ["generateContent"] });
            json!({ "object": "list", "data": [plain], "has_more": false, "models": [own] })
        })
    }

    fn plan(&self, target: &Target, headers: &HeaderMap, body: &Bytes) -> Result<Plan, Box<Response<Play>>> {
        let wire = target.wire;
        let bad = |message: &str| {
            Box::new(error(Some(wire), StatusCode::BAD_REQUEST, "invalid_request_error", message))
        };
        let request =
            self.reader.read(body).map_err(|e| bad(&format!("the request is not understood: {e}")))?;
        if request.history.messages == 0 {
            return Err(bad("the dialogue is empty"));
        }
        if wire == WireKind::AnthropicMessages {
            if request.max_tokens.is_none() {
                return Err(bad("`max_tokens` is missing"));
            }
            if !headers.contains_key("anthropic-version") {
                return Err(bad("the header `anthropic-version` is missing"));
            }
        }
        let (part, steps) = self.script.part(request.history.first.as_deref().unwrap_or_default());
        let k = request.history.step;
        let (step, i) = steps.step(k);
        let fault = step.fault.as_ref();
        let fires = {
            let mut state = locked(&self.state);
            state.count += 1;
            fault.filter(|fault| {
                let fired = state.fired.entry((part, k)).or_default();
                *fired += 1;
                *fired <= fault.times
            })
        };
        let latency = Duration::from_millis(fault.map_or(0, |fault| fault.latency_ms));
        if let Some(response) = fires.and_then(|fault| status_fault(wire, fault)) {
            return Ok(Plan { step: k, latency, response });
        }
        let named = target.model.as_deref().or(request.model.as_deref());
        let model = named.unwrap_or(self.script.model());
        // Ollama streams where nothing is said.
        let stream = target.stream.or(request.stream).unwrap_or(wire == WireKind::Ollama);
        let turn = Turn::new(model, k, i, step, body.len(), fires.is_some_and(|fault| fault.bad_json));
        if !stream {
            return Ok(Plan { step: k, latency, response: whole(StatusCode::OK, turn.whole(wire)) });
        }
        let events = turn.events(wire, request.include_usage);
        let acts = match fires {
            Some(fault) => disturbed(events, fault, wire),
            // All events in one write: what a client makes of splits is its parser's test.
            None => vec![Act::Send(events.concat().into())],
        };
        Ok(Plan { step: k, latency, response: streamed(wire, acts) })
    }

    fn record(&self, path: String, headers: &HeaderMap, body: Bytes, step: Option<u64>) {
        if self.log.is_none() && !self.keep {
            return;
        }
        let headers: Vec<(String, String)> = headers.iter().map(|(name, value)| shown(name, value)).collect();
        if let Some(log) = &self.log {
            let at_ms =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
            let line = json!({
                "at_ms": at_ms, "path": path, "step": step, "headers": headers,
                "bytes": body.len(), "body": String::from_utf8_lossy(&body),
            });
            // A full disk must not change what the client sees.
            let _ = locked(log).write_all(format!("{line}\n").as_bytes());
        }
        if self.keep {
            locked(&self.state).seen.push(Seen { path, headers, body, step });
        }
    }
}

fn shown(name: &HeaderName, value: &HeaderValue) -> (String, String) {
    let secret = [AUTHORIZATION, COOKIE].contains(name)
        || ["key", "token", "secret", "authorization"].iter().any(|word| name.as_str().contains(word))
            && name != "idempotency-key";
    let value = if secret { "[redacted]".into() } else { String::from_utf8_lossy(value.as_bytes()) };
    (name.as_str().to_owned(), value.into_owned())
}

/// The answer of a fault that has a status.
fn status_fault(wire: WireKind, fault: &Fault) -> Option<Response<Play>> {
    let status = StatusCode::from_u16(fault.status?).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = fault.r#type.as_deref().unwrap_or(match status.as_u16() {
        429 => "rate_limit_error",
        529 => "overloaded_error",
        s if s >= 500 => "api_error",
        _ => "invalid_request_error",
    });
    let body = fault.body.clone().unwrap_or_else(|| {
        error_object(Some(wire), kind, fault.message.as_deref().unwrap_or("scripted fault"))
    });
    let mut response = if fault.endless {
        Response::new(Play::acts([Act::Send(body.into()), Act::Forever]))
    } else {
        Response::new(Play::whole(body.into()))
    };
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &fault.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    Some(response)
}

/// The events of an answer with what the fault does to them.
fn disturbed(events: Vec<Bytes>, fault: &Fault, wire: WireKind) -> Vec<Act> {
    let mut acts = Vec::new();
    for (n, event) in events.into_iter().enumerate() {
        if fault.drop_after == Some(n) {
            acts.extend([Act::Wait(BEFORE_BREAK), Act::Break]);
            return acts;
        }
        if fault.error_after == Some(n) {
            let kind = fault.r#type.as_deref().unwrap_or("overloaded_error");
            let object = error_object(Some(wire), kind, fault.message.as_deref().unwrap_or("Overloaded"));
            let event = match wire {
                WireKind::AnthropicMessages | WireKind::OpenAiResponses => {
                    format!("event: error\ndata: {object}\n\n")
                }
                WireKind::OpenAiChat | WireKind::Gemini => format!("data: {object}\n\n"),
                WireKind::Ollama => format!("{object}\n"),
            };
            acts.push(Act::Send(event.into()));
            return acts;
        }
        acts.push(Act::Send(event));
        if let (0, Some(time)) = (n, fault.stall_ms) {
            acts.push(Act::Wait(Duration::from_millis(time)));
        }
    }
    acts
}

fn streamed(wire: WireKind, acts: Vec<Act>) -> Response<Play> {
    let mut response = Response::new(Play::acts(acts));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(wire.media()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn whole(status: StatusCode, body: Bytes) -> Response<Play> {
    let mut response = Response::new(Play::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error(wire: Option<WireKind>, status: StatusCode, kind: &str, message: &str) -> Response<Play> {
    whole(status, error_object(wire, kind, message).into())
}
