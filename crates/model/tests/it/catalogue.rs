//! What endpoints offer, in the shapes that vendors and runtimes document.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use provost_model::catalogue::{Catalogue, Offer};
use provost_model::presets::Preset;
use provost_model::{Auth, BaseUrl, FailureClass, PlainHttp, WireKind};
use serde_json::{Value, json};

use crate::support::{CANARY, auth, rehearse};

/// A server that answers by path and query, and keeps what it was asked.
struct Site {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Answers `METHOD /path?query` with this status and body; anything else with 404.
    async fn new(answers: &[(&str, u16, Value)]) -> Self {
        let answers: BTreeMap<String, (u16, String)> = answers
            .iter()
            .map(|(at, status, body)| ((*at).to_owned(), (*status, body.to_string())))
            .collect();
        let answers = Arc::new(answers);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (answers, log) = (Arc::clone(&answers), Arc::clone(&log));
                    async move {
                        let at = format!("{} {}", request.method(), request.uri());
                        let key = request
                            .headers()
                            .iter()
                            .any(|(_, value)| value.to_str().is_ok_and(|value| value.contains(CANARY)));
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body = String::from_utf8_lossy(&body).into_owned();
                        log.lock().unwrap().push(format!("{at} {body} key: {key}"));
                        let (status, text) = answers
                            .get(&at)
                            .or_else(|| answers.get(&format!("{at} {body}")))
                            .cloned()
                            .unwrap_or((404, "{}".to_owned()));
                        let reply = Response::builder()
                            .status(status)
                            .header("content-type", "application/json")
                            .header("location", "http://127.0.0.1:1/elsewhere");
                        Ok::<_, std::convert::Infallible>(reply.body(Full::new(Bytes::from(text))).unwrap())
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { base, asked }
    }

    fn catalogue(&self, wire: WireKind, path: &str, row: Option<&str>) -> Catalogue {
        let base = BaseUrl::parse(&format!("{}{path}", self.base), PlainHttp::LoopbackOnly).unwrap();
        Catalogue::new(wire, base, auth(wire), row.map(|name| Preset::named(name).unwrap()))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn offer(id: &str) -> Offer {
    Offer { id: id.to_owned(), ..Offer::default() }
}

#[tokio::test]
async fn lists_like_openais_with_what_some_say_beside_the_name() {
    let list = json!({ "object": "list", "data": [
        { "id": "plain", "object": "model", "created": 1, "owned_by": "x" },
        { "id": "router", "name": "Router: Big", "context_length": 200_000,
          "top_provider": { "max_completion_tokens": 32_000 }, "supported_parameters": ["tools", "seed"] },
        { "id": "groq", "context_window": 131_072, "max_completion_tokens": 8_192 },
        { "id": "mistral", "max_context_length": 32_768 },
        { "id": "vllm", "max_model_len": 4_096 },
        { "id": "deaf", "context_length": 0, "supported_parameters": [] },
        { "id": 7 }, { "name": "no id" }, "not an object",
    ] });
    let site = Site::new(&[("GET /v1/models", 200, list)]).await;
    let offers = site.catalogue(WireKind::OpenAiChat, "/v1", None).list().await.unwrap();
    assert_eq!(
        offers,
        [
            Offer { tools: Some(false), ..offer("deaf") },
            Offer { window: Some(131_072), max_output: Some(8_192), ..offer("groq") },
            Offer { window: Some(32_768), ..offer("mistral") },
            offer("plain"),
            Offer {
                title: Some("Router: Big".to_owned()),
                window: Some(200_000),
                max_output: Some(32_000),
                tools: Some(true),
                ..offer("router")
            },
            Offer { window: Some(4_096), ..offer("vllm") },
        ]
    );
    assert_eq!(site.asked(), ["GET /v1/models  key: true"]);
    // One vendor gives the bare array.
    let site = Site::new(&[("GET /v1/models", 200, json!([{ "id": "a", "context_length": 9 }]))]).await;
    let offers = site.catalogue(WireKind::OpenAiResponses, "/v1", None).list().await.unwrap();
    assert_eq!(offers, [Offer { window: Some(9), ..offer("a") }]);
}

#[tokio::test]
async fn lists_in_pages() {
    let page = |id: &str, more: bool| {
        json!({ "data": [{ "type": "model", "id": id, "display_name": "A Model", "created_at": "2026-01-31T00:00:00Z",
            "max_input_tokens": 1_000_000, "max_tokens": 64_000 }], "has_more": more, "last_id": id })
    };
    let site = Site::new(&[
        ("GET /v1/models?limit=1000", 200, page("one", true)),
        ("GET /v1/models?limit=1000&after_id=one", 200, page("two", false)),
    ])
    .await;
    let offers = site.catalogue(WireKind::AnthropicMessages, "", None).list().await.unwrap();
    let expected = |id| Offer {
        title: Some("A Model".to_owned()),
        window: Some(1_000_000),
        max_output: Some(64_000),
        ..offer(id)
    };
    assert_eq!(offers, [expected("one"), expected("two")]);

    let page = |id: &str, token: Option<&str>| {
        json!({ "models": [
            { "name": format!("models/{id}"), "displayName": "G", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
              "supportedGenerationMethods": ["generateContent", "countTokens"] },
            { "name": "models/embedder", "supportedGenerationMethods": ["embedContent"] } ],
            "nextPageToken": token })
    };
    let site = Site::new(&[
        ("GET /v1beta/models?pageSize=1000", 200, page("g1", Some("t/2"))),
        ("GET /v1beta/models?pageSize=1000&pageToken=t%2F2", 200, page("g2", None)),
    ])
    .await;
    for path in ["", "/v1beta"] {
        let offers = site.catalogue(WireKind::Gemini, path, None).list().await.unwrap();
        let ids: Vec<_> = offers.iter().map(|offer| offer.id.as_str()).collect();
        assert_eq!(ids, ["g1", "g2"], "what does not generate is no model for an agent");
        assert_eq!((offers[0].window, offers[0].max_output), (Some(1_048_576), Some(65_536)));
    }
    // A server that never comes to an end is left.
    let endless = json!({ "models": [{ "name": "models/x" }], "nextPageToken": "again" });
    let site = Site::new(&[
        ("GET /v1beta/models?pageSize=1000", 200, endless.clone()),
        ("GET /v1beta/models?pageSize=1000&pageToken=again", 200, endless),
    ])
    .await;
    assert_eq!(site.catalogue(WireKind::Gemini, "", None).list().await.unwrap().len(), 1);
    assert_eq!(site.asked().len(), 40);
}

/// The window that a model runs with, not the one that it could take.
#[tokio::test]
async fn runtimes_are_asked_for_the_window_that_is_in_force() {
    let site = Site::new(&[
        ("GET /api/tags", 200, json!({ "models": [
            { "name": "small:1b", "model": "small:1b", "size": 815_319_791 }, { "name": "tuned:8b", "size": 4_920_000_000_u64 },
            { "name": "idle:8b", "size": 1 } ] })),
        ("GET /api/ps", 200, json!({ "models": [{ "name": "small:1b", "context_length": 4_096 }] })),
        ("POST /api/show {\"model\":\"small:1b\"}", 200, json!({
            "model_info": { "general.architecture": "gemma3", "gemma3.context_length": 32_768,
                "gemma3.rope.scaling.original_context_length": 9 },
            "capabilities": ["completion"] })),
        ("POST /api/show {\"model\":\"tuned:8b\"}", 200, json!({
            "model_info": { "llama.context_length": 131_072 }, "capabilities": ["completion", "tools"],
            "parameters": "stop \"<|x|>\"\nnum_ctx                        16384" })),
        ("POST /api/show {\"model\":\"idle:8b\"}", 200, json!({ "model_info": { "qwen3.context_length": 40_960 } })),
    ])
    .await;
    for (wire, path, row) in [
        (WireKind::Ollama, "", None),
        (WireKind::Ollama, "/api", None),
        (WireKind::OpenAiChat, "/v1", Some("ollama-openai")),
    ] {
        let offers = site.catalogue(wire, path, row).list().await.unwrap();
        let told: Vec<_> =
            offers.iter().map(|o| (o.id.as_str(), o.window, o.own_window, o.loaded, o.tools)).collect();
        assert_eq!(
            told,
            [
                // Nobody says what it would be loaded with.
                ("idle:8b", None, Some(40_960), Some(false), None),
                ("small:1b", Some(4_096), Some(32_768), Some(true), Some(false)),
                ("tuned:8b", Some(16_384), Some(131_072), Some(false), Some(true)),
            ]
        );
        assert_eq!(offers[1].size_bytes, Some(815_319_791));
        let one = site.catalogue(wire, path, row).one("tuned:8b").await.unwrap().unwrap();
        assert_eq!(one, offers[2]);
        assert_eq!(site.catalogue(wire, path, row).one("none").await.unwrap(), None);
    }

    let list =
        json!({ "data": [{ "id": "model.gguf", "meta": { "n_ctx_train": 131_072, "size": 668_788_096 } }] });
    let props = json!({ "default_generation_settings": { "n_ctx": 8_192 }, "total_slots": 4 });
    let site = Site::new(&[("GET /v1/models", 200, list.clone()), ("GET /props", 200, props)]).await;
    let offers = site.catalogue(WireKind::OpenAiChat, "/v1", Some("llamacpp")).list().await.unwrap();
    let expected = Offer {
        window: Some(8_192),
        own_window: Some(131_072),
        size_bytes: Some(668_788_096),
        ..offer("model.gguf")
    };
    assert_eq!(offers, std::slice::from_ref(&expected));
    // Where it does not say, the window is not the one that the model was trained with.
    let site = Site::new(&[("GET /v1/models", 200, list)]).await;
    let offers = site.catalogue(WireKind::OpenAiChat, "/v1", Some("llamacpp")).list().await.unwrap();
    assert_eq!(offers, [Offer { window: None, ..expected }]);

    let own = json!({ "object": "list", "data": [
        { "id": "a", "type": "llm", "state": "loaded", "loaded_context_length": 8_000, "max_context_length": 32_768,
          "capabilities": ["tool_use"] },
        { "id": "b", "type": "vlm", "state": "not-loaded", "max_context_length": 4_096 },
        { "id": "e", "type": "embeddings", "state": "loaded" } ] });
    let site = Site::new(&[("GET /api/v0/models", 200, own)]).await;
    let offers = site.catalogue(WireKind::OpenAiChat, "/v1", Some("lmstudio")).list().await.unwrap();
    assert_eq!(
        offers,
        [
            Offer {
                window: Some(8_000),
                own_window: Some(32_768),
                loaded: Some(true),
                tools: Some(true),
                ..offer("a")
            },
            Offer { own_window: Some(4_096), loaded: Some(false), ..offer("b") },
        ]
    );
    let old = Site::new(&[("GET /v1/models", 200, json!({ "data": [{ "id": "a" }] }))]).await;
    assert_eq!(
        old.catalogue(WireKind::OpenAiChat, "/v1", Some("lmstudio")).list().await.unwrap(),
        [offer("a")]
    );

    let site = Site::new(&[
        ("GET /v1/models", 200, json!({ "data": [{ "id": "koboldcpp/m" }] })),
        ("GET /api/extra/true_max_context_length", 200, json!({ "value": 8_192 })),
    ])
    .await;
    let offers = site.catalogue(WireKind::OpenAiChat, "/v1", Some("koboldcpp")).list().await.unwrap();
    assert_eq!(offers, [Offer { window: Some(8_192), ..offer("koboldcpp/m") }]);
}

#[tokio::test]
async fn i9_an_endpoint_that_does_not_tell_is_a_failure_that_says_why() {
    let failure = |status: u16, body: Value| async move {
        let site = Site::new(&[("GET /v1/models", status, body)]).await;
        site.catalogue(WireKind::OpenAiChat, "/v1", None).list().await.unwrap_err()
    };
    let refused = failure(401, json!({ "error": { "message": format!("no such key: {CANARY}") } })).await;
    assert_eq!(refused.class, FailureClass::Auth);
    assert!(!refused.message.contains(CANARY), "I8: {refused}");
    // The key does not go where a server sends it.
    let moved = failure(302, json!({})).await;
    assert!(moved.message.contains("redirects are not followed"), "{moved}");
    assert_eq!(failure(404, json!({})).await.class, FailureClass::BadRequest);
    let site = Site::new(&[("GET /v1/models", 200, json!({ "data": "none" }))]).await;
    assert_eq!(site.catalogue(WireKind::OpenAiChat, "/v1", None).list().await.unwrap(), []);
    let nobody = BaseUrl::parse("http://127.0.0.1:1/v1", PlainHttp::LoopbackOnly).unwrap();
    let gone = Catalogue::new(WireKind::OpenAiChat, nobody, Auth::None, None).list().await.unwrap_err();
    assert_eq!(gone.class, FailureClass::Transport);
}

/// More than any list has is not read into memory.
#[tokio::test]
async fn a_list_without_end_is_cut_off() {
    let long = json!({ "data": [], "pad": "x".repeat(17 << 20) });
    let site = Site::new(&[("GET /v1/models", 200, long)]).await;
    let failure = site.catalogue(WireKind::OpenAiChat, "/v1", None).list().await.unwrap_err();
    assert!(failure.message.contains("larger than"), "{failure}");
}

#[tokio::test]
async fn the_rehearsal_offers_its_model_on_every_wire() {
    let server = rehearse(&json!({ "model": "played", "steps": [{ "say": "x" }] }));
    for wire in WireKind::ALL {
        let base = BaseUrl::parse(&server.base_url(wire), PlainHttp::LoopbackOnly).unwrap();
        let offers = Catalogue::new(wire, base, auth(wire), None).list().await.unwrap();
        let ids: Vec<_> = offers.into_iter().map(|offer| offer.id).collect();
        assert_eq!(ids, ["played"], "{wire:?}");
    }
}
