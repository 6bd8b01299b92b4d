//! Error bodies in the shapes that vendors document, and what each comes to.

use super::*;
use FailureClass as C;

#[test]
fn vendors_bodies_are_told_apart() {
    let cases: &[(Option<u16>, &str, FailureClass)] = &[
        (
            Some(429),
            r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
            C::RateLimited,
        ),
        (
            Some(429),
            r#"{"error":{"message":"You exceeded your current quota, please check your plan","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            C::Quota,
        ),
        (
            Some(429),
            r#"[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x/RetryInfo","retryDelay":"39s"}]}}]"#,
            C::RateLimited,
        ),
        (
            Some(429),
            r#"{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 10000, Requested 20000","type":"tokens","code":"rate_limit_exceeded"}}"#,
            C::ContextOverflow,
        ),
        (
            Some(400),
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            C::ContextOverflow,
        ),
        (
            Some(400),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            C::ContextOverflow,
        ),
        (
            Some(400),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
            C::Quota,
        ),
        (
            Some(400),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0: bad"}}"#,
            C::BadRequest,
        ),
        (Some(400), r#"{"error":{"message":"filtered","code":"content_filter","type":null}}"#, C::Refused),
        (
            Some(401),
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            C::Auth,
        ),
        (Some(402), r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#, C::Quota),
        (Some(403), "forbidden", C::Auth),
        (
            Some(404),
            r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
            C::BadRequest,
        ),
        (Some(500), r#"{"error":{"code":500,"message":"oops","type":"server_error"}}"#, C::Server),
        (Some(502), "<html>bad gateway</html>", C::Server),
        (
            Some(503),
            r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
            C::Overloaded,
        ),
        (Some(504), "", C::Timeout),
        (
            Some(529),
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            C::Overloaded,
        ),
        (
            None,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            C::Overloaded,
        ),
        (
            None,
            r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"slow down"}}}"#,
            C::RateLimited,
        ),
        (None, r#"{"error":{"message":"something broke"}}"#, C::Server),
        (Some(422), r#"{"detail":[{"msg":"field required"}]}"#, C::BadRequest),
    ];
    for (status, body, class) in cases {
        let failure = failure(*status, body);
        assert_eq!(failure.class, *class, "{status:?} {body}");
        assert!(!failure.message.is_empty());
    }
}

#[test]
fn a_stated_delay_in_the_body_is_kept() {
    let body = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"39.5s"}]}}"#;
    assert_eq!(failure(Some(429), body).retry_after, Some(Duration::from_millis(39_500)));
}

/// By vendor: status (none for an event in a stream), body, class.
type Row = (Option<u16>, &'static str, FailureClass);

fn check(vendor: &str, rows: &[Row]) {
    for (status, body, class) in rows {
        let told = failure(*status, body);
        assert_eq!(told.class, *class, "{vendor}: {status:?} {body}");
        assert!(!told.message.is_empty() && !told.message.contains("without saying why"), "{vendor}: {body}");
    }
}

#[test]
fn openai() {
    check(
        "openai",
        &[
            (
                None,
                r#"{"type":"error","code":"server_error","message":"An error occurred","param":null,"sequence_number":4}"#,
                C::Server,
            ),
            (
                None,
                r#"{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached for gpt-x"}}"#,
                C::RateLimited,
            ),
            (
                None,
                r#"{"type":"error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}"#,
                C::ContextOverflow,
            ),
            (
                Some(400),
                r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#,
                C::Refused,
            ),
            (
                Some(400),
                r#"{"error":{"message":"No tool output found for function call call_1.","type":"invalid_request_error","param":"input","code":null}}"#,
                C::BadRequest,
            ),
            (
                Some(403),
                r#"{"error":{"message":"Country, region, or territory not supported","code":"unsupported_country_region_territory","type":"request_forbidden"}}"#,
                C::Auth,
            ),
            (
                Some(503),
                r#"{"error":{"message":"Slow down","type":"server_error","code":"slow_down"}}"#,
                C::Overloaded,
            ),
        ],
    );
}

#[test]
fn anthropic() {
    let body = |kind: &str, message: &str| {
        format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
        )
    };
    for (status, kind, message, class) in [
        (401, "authentication_error", "invalid x-api-key", C::Auth),
        (402, "billing_error", "There is an issue with your payment.", C::Quota),
        (403, "permission_error", "Your key may not use this model.", C::Auth),
        (404, "not_found_error", "model: x", C::BadRequest),
        (413, "request_too_large", "Request exceeds the maximum size", C::ContextOverflow),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            C::ContextOverflow,
        ),
        (429, "rate_limit_error", "This request would exceed your limit", C::RateLimited),
        (500, "api_error", "Internal server error", C::Server),
        (504, "timeout_error", "The request took too long", C::Timeout),
        (529, "overloaded_error", "Overloaded", C::Overloaded),
    ] {
        let body = body(kind, message);
        assert_eq!(failure(Some(status), &body).class, class, "{body}");
        if status != 402 {
            assert_eq!(failure(None, &body).class, class, "as an event: {body}");
        }
    }
}

#[test]
fn gemini() {
    check(
        "gemini",
        &[
            (
                Some(400),
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
                C::Auth,
            ),
            (
                Some(400),
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
                C::ContextOverflow,
            ),
            (
                Some(400),
                r#"{"error":{"code":400,"message":"Please ensure that function response turn comes immediately after a function call turn.","status":"INVALID_ARGUMENT"}}"#,
                C::BadRequest,
            ),
            (
                Some(403),
                r#"{"error":{"code":403,"message":"Method doesn't allow unregistered callers","status":"PERMISSION_DENIED"}}"#,
                C::Auth,
            ),
            (
                Some(404),
                r#"{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}"#,
                C::BadRequest,
            ),
            (
                Some(429),
                r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED"}}"#,
                C::Quota,
            ),
            (
                Some(429),
                r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
                C::RateLimited,
            ),
            (
                Some(500),
                r#"{"error":{"code":500,"message":"An internal error","status":"INTERNAL"}}"#,
                C::Server,
            ),
            (
                Some(503),
                r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
                C::Overloaded,
            ),
            (
                None,
                r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
                C::Overloaded,
            ),
            (
                Some(504),
                r#"{"error":{"code":504,"message":"Deadline expired","status":"DEADLINE_EXCEEDED"}}"#,
                C::Timeout,
            ),
        ],
    );
}

#[test]
fn local_runtimes() {
    check(
        "ollama",
        &[
            (Some(404), r#"{"error":"model \"x\" not found, try pulling it first"}"#, C::BadRequest),
            (
                Some(400),
                r#"{"error":"registry.ollama.ai/library/x:latest does not support tools"}"#,
                C::BadRequest,
            ),
            (Some(400), r#"{"error":"the input length exceeds the context length"}"#, C::ContextOverflow),
            (Some(401), r#"{"error":"unauthorized"}"#, C::Auth),
            (Some(500), r#"{"error":"llama runner process has terminated: exit status 2"}"#, C::Server),
            (
                Some(500),
                r#"{"error":"model requires more system memory (9.9 GiB) than is available (4.1 GiB)"}"#,
                C::BadRequest,
            ),
            (
                Some(503),
                r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
                C::Overloaded,
            ),
            (None, r#"{"error":"an error was encountered while running the model"}"#, C::Server),
        ],
    );
    check(
        "llama.cpp",
        &[
            (
                Some(400),
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}"#,
                C::ContextOverflow,
            ),
            (
                Some(401),
                r#"{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}"#,
                C::Auth,
            ),
        ],
    );
    check(
        "vllm",
        &[
            (
                Some(400),
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}"#,
                C::ContextOverflow,
            ),
            (
                Some(404),
                r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
                C::BadRequest,
            ),
        ],
    );
    check(
        "lmstudio",
        &[(
            Some(400),
            r#"{"error":"Trying to keep the first 5021 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#,
            C::ContextOverflow,
        )],
    );
    check(
        "koboldcpp",
        &[(
            Some(503),
            r#"{"detail":{"msg":"Server is busy; please try again later.","type":"service_unavailable"}}"#,
            C::Overloaded,
        )],
    );
}

#[test]
fn vendors_of_open_models() {
    check(
        "groq",
        &[
            (
                Some(400),
                r#"{"error":{"message":"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=x>"}}"#,
                C::Malformed,
            ),
            (
                Some(413),
                r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8000","type":"tokens","code":"rate_limit_exceeded"}}"#,
                C::ContextOverflow,
            ),
            (
                Some(498),
                r#"{"error":{"message":"Flex tier capacity exceeded","type":"server_error","code":"capacity_exceeded"}}"#,
                C::Overloaded,
            ),
        ],
    );
    check(
        "together",
        &[(
            Some(422),
            r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`","type":"invalid_request_error","param":null,"code":null}}"#,
            C::ContextOverflow,
        )],
    );
    check(
        "fireworks",
        &[
            (
                Some(400),
                r#"{"error":{"object":"error","type":"invalid_request_error","code":"invalid_request_error","message":"The prompt is too long: 20000, model maximum context length: 8191"}}"#,
                C::ContextOverflow,
            ),
            (
                Some(412),
                r#"{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending limit"}}"#,
                C::Quota,
            ),
        ],
    );
    check(
        "cerebras",
        &[
            (
                Some(429),
                r#"{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}"#,
                C::RateLimited,
            ),
            (
                Some(400),
                r#"{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
                C::ContextOverflow,
            ),
            (
                Some(401),
                r#"{"message":"Wrong API Key","type":"invalid_request_error","param":"api_key","code":"wrong_api_key"}"#,
                C::Auth,
            ),
        ],
    );
    check(
        "mistral",
        &[
            (Some(401), r#"{"message":"Unauthorized","request_id":"r"}"#, C::Auth),
            (
                Some(422),
                r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error","param":null,"code":null}"#,
                C::BadRequest,
            ),
            (
                Some(429),
                r#"{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}"#,
                C::RateLimited,
            ),
            (
                Some(429),
                r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#,
                C::Overloaded,
            ),
            (
                Some(400),
                r#"{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}"#,
                C::ContextOverflow,
            ),
        ],
    );
}

#[test]
fn other_vendors() {
    check(
        "xai",
        &[
            (
                Some(400),
                r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***. You can obtain an API key from the console."}"#,
                C::Auth,
            ),
            (
                Some(403),
                r#"{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn't have any credits or licenses yet."}"#,
                C::Quota,
            ),
            (
                Some(400),
                r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
                C::ContextOverflow,
            ),
        ],
    );
    check(
        "openrouter",
        &[
            (Some(402), r#"{"error":{"code":402,"message":"Insufficient credits. Add more"}}"#, C::Quota),
            (
                Some(403),
                r#"{"error":{"code":403,"message":"x requires moderation on y. Your input was flagged for \"z\".","metadata":{"reasons":["z"],"flagged_input":"…"}}}"#,
                C::Refused,
            ),
            (
                None,
                r#"{"id":"c","error":{"code":"server_error","message":"Provider disconnected unexpectedly"},"choices":[]}"#,
                C::Server,
            ),
            (None, r#"{"error":{"code":502,"message":"Upstream error"}}"#, C::Server),
        ],
    );
    check(
        "azure",
        &[
            (
                Some(400),
                r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
                C::Refused,
            ),
            (
                Some(404),
                r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
                C::BadRequest,
            ),
            (
                Some(429),
                r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current pricing tier. Please retry after 7 seconds."}}"#,
                C::RateLimited,
            ),
        ],
    );
    check(
        "moonshot",
        &[
            (
                Some(429),
                r#"{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}"#,
                C::Quota,
            ),
            (
                Some(429),
                r#"{"error":{"message":"The engine is currently overloaded","type":"engine_overloaded_error"}}"#,
                C::Overloaded,
            ),
            (
                Some(429),
                r#"{"error":{"message":"request reached max organization concurrency: 1","type":"rate_limit_reached_error"}}"#,
                C::RateLimited,
            ),
            (
                Some(400),
                r#"{"error":{"message":"The request was rejected because it was considered high risk","type":"content_filter"}}"#,
                C::Refused,
            ),
            (
                Some(400),
                r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}"#,
                C::ContextOverflow,
            ),
        ],
    );
    check(
        "qwen",
        &[
            (
                Some(400),
                r#"{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"}}"#,
                C::ContextOverflow,
            ),
            (
                Some(400),
                r#"{"error":{"message":"Input data may contain inappropriate content.","type":"data_inspection_failed","code":"data_inspection_failed"}}"#,
                C::Refused,
            ),
            (
                Some(400),
                r#"{"error":{"message":"Access denied, please make sure your account is in good standing.","type":"Arrearage","code":"Arrearage"}}"#,
                C::Quota,
            ),
        ],
    );
    check(
        "zhipu",
        &[
            (Some(429), r#"{"error":{"code":"1113","message":"Your account is in arrears"}}"#, C::Quota),
            (
                Some(429),
                r#"{"error":{"code":"1302","message":"High concurrency usage of this API"}}"#,
                C::RateLimited,
            ),
            (
                Some(400),
                r#"{"error":{"code":"1301","message":"The system detected potentially unsafe content"}}"#,
                C::Refused,
            ),
            (
                Some(400),
                r#"{"error":{"code":"1261","message":"Prompt exceeds the limit"}}"#,
                C::ContextOverflow,
            ),
        ],
    );
    check(
        "minimax",
        &[
            (None, r#"{"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#, C::Auth),
            (None, r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#, C::Quota),
            (None, r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}"#, C::RateLimited),
            (None, r#"{"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"}}"#, C::Refused),
        ],
    );
    check(
        "deepseek",
        &[(
            Some(402),
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
            C::Quota,
        )],
    );
    check(
        "perplexity",
        &[(Some(401), "<html><head><title>401 Authorization Required</title></head></html>", C::Auth)],
    );
}
