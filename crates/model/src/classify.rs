//! Vendors' error bodies, read into a [`Failure`]. One table for all wires: gateways mix their dialects.

use std::time::Duration;

use serde_json::Value;

use crate::{Failure, FailureClass};

/// The failure told by a response of `status` with `body`, or by an error event (`status` is `None`).
pub(crate) fn failure(status: Option<u16>, body: &str) -> Failure {
    let detail = Detail::parse(body);
    let class = detail.class(status);
    let message = match (detail.text.is_empty(), status) {
        (false, _) => detail.text.clone(),
        (true, Some(status)) => format!("the server answered HTTP {status} without saying why"),
        (true, None) => "the server reported an error without saying why".to_owned(),
    };
    let failure = Failure::new(class, message).with_retry_after(detail.retry_delay);
    match status {
        Some(status) => failure.with_status(status),
        None => failure,
    }
}

/// What the vendors' error objects have in common.
#[derive(Default)]
struct Detail {
    /// The words.
    text: String,
    /// `type`, `code` and `status`, lower case, with spaces between and around.
    codes: String,
    /// Google's `RetryInfo`.
    retry_delay: Option<Duration>,
}

impl Detail {
    fn parse(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self { text: body.trim().to_owned(), ..Self::default() };
        };
        // Google's gateway wraps the object in an array.
        let outer = value.get(0).unwrap_or(&value);
        let error = match outer.get("error") {
            Some(error) if !error.is_null() => error,
            _ => outer,
        };
        let mut detail = Self { codes: " ".to_owned(), ..Self::default() };
        if let Some(text) = error.as_str() {
            text.clone_into(&mut detail.text);
        }
        for key in ["message", "detail", "msg", "error_description"] {
            if detail.text.is_empty() {
                match error.get(key) {
                    Some(Value::String(text)) => text.clone_into(&mut detail.text),
                    Some(other) if !other.is_null() => detail.text = other.to_string(),
                    _ => {}
                }
            }
        }
        // A router's own words are "Provider returned error"; the upstream's are here.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            detail.text = format!("{}: {raw}", detail.text);
        }
        for key in ["type", "code", "status"] {
            match error.get(key) {
                Some(Value::String(code)) => {
                    detail.codes.push_str(&code.to_ascii_lowercase());
                    detail.codes.push(' ');
                }
                Some(Value::Number(code)) => {
                    detail.codes.push_str(&code.to_string());
                    detail.codes.push(' ');
                }
                _ => {}
            }
        }
        detail.retry_delay = error
            .get("details")
            .and_then(Value::as_array)
            .and_then(|all| all.iter().find_map(|d| d.get("retryDelay")?.as_str()))
            .and_then(|text| text.strip_suffix('s')?.parse::<f64>().ok())
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        if detail.text.is_empty() && detail.codes.trim().is_empty() {
            body.trim().clone_into(&mut detail.text);
        } else if detail.text.is_empty() {
            detail.codes.trim().clone_into(&mut detail.text);
        }
        detail
    }

    fn code(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.codes.split(' ').any(|code| code == *name))
    }

    fn class(&self, status: Option<u16>) -> FailureClass {
        use FailureClass as C;
        let words = self.text.to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        // A number in `code` is the upstream's HTTP status when a gateway answers 200 or sends an event.
        let status = match status {
            Some(s) if s >= 300 => Some(s),
            _ => self.codes.split(' ').find_map(|code| code.parse().ok().filter(|s| (300..600).contains(s))),
        };

        let quota = self.code(&[
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "insufficient_user_quota",
            "exceeded_current_quota_error",
        ]) || status == Some(402)
            || says(&[
                "exceeded your current quota",
                "credit balance is too low",
                "insufficient balance",
                "insufficient credits",
                "billing hard limit",
            ]);
        // Google tells of a per-minute limit in the words of a spent quota, but then also says when to return.
        if quota && self.retry_delay.is_none() {
            return C::Quota;
        }
        let request_sized = matches!(status, None | Some(400 | 413 | 422 | 429 | 500));
        if self.code(&["context_length_exceeded", "exceed_context_size_error", "request_too_large"])
            || status == Some(413)
            || request_sized
                && says(&[
                    "maximum context length",
                    "context length exceeded",
                    "prompt is too long",
                    "exceed context limit",
                    "exceeds the context window",
                    "exceeds the available context size",
                    "exceeds the maximum number of tokens",
                    "reduce the length of the messages",
                    // Per-minute limit smaller than the one request: waiting never helps, a shorter prompt does.
                    "request too large for",
                ])
        {
            return C::ContextOverflow;
        }
        if self.code(&["content_filter", "content_policy_violation", "responsibleaipolicyviolation"]) {
            return C::Refused;
        }
        if self.code(&["overloaded_error", "overloaded", "unavailable", "engine_overloaded_error"]) {
            return C::Overloaded;
        }
        if self.code(&["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"])
        {
            return C::RateLimited;
        }
        if self.code(&[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "invalid_authentication_error",
        ]) {
            return C::Auth;
        }
        if self.code(&["timeout_error", "deadline_exceeded"]) {
            return C::Timeout;
        }
        match status {
            Some(401 | 403 | 407) => C::Auth,
            Some(408 | 504 | 522 | 524) => C::Timeout,
            Some(429) => C::RateLimited,
            Some(503 | 529) => C::Overloaded,
            Some(409 | 425) => C::Server,
            Some(s) if s >= 500 => C::Server,
            Some(_) => C::BadRequest,
            None if self.code(&["invalid_request_error", "not_found_error"]) => C::BadRequest,
            None if says(&["overloaded"]) => C::Overloaded,
            None if says(&["rate limit"]) => C::RateLimited,
            // An event in a stream that had begun well: the vendor broke down on the way.
            None => C::Server,
        }
    }
}

#[cfg(test)]
mod tests {
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
            (
                Some(400),
                r#"{"error":{"message":"filtered","code":"content_filter","type":null}}"#,
                C::Refused,
            ),
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
        let body =
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"39.5s"}]}}"#;
        assert_eq!(failure(Some(429), body).retry_after, Some(Duration::from_millis(39_500)));
    }
}
