//! Vendors' error bodies, read into a [`Failure`]. One table for all wires: gateways mix their dialects.

#[cfg(test)]
mod tests;

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

/// How vendors say that a prompt does not fit, in lower case. Most have no code for it.
const TOO_LONG: &[&str] = &[
    "maximum context length",
    "maximum prompt length",
    "context length exceeded",
    "exceeds the context length",
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",
    "reduce the length of the messages",
    "range of input length should be",
    "`inputs` tokens + `max_new_tokens` must be",
    "tokens when context the overflows",
    // Per-minute limit smaller than the one request: waiting never helps, a shorter prompt does.
    "request too large for",
];

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
        // MiniMax answers 200 and says in here how it went.
        if let Some(told) = outer.get("base_resp") {
            detail.codes = format!(" base_resp_{} ", told.get("status_code").unwrap_or(&Value::Null));
            told.get("status_msg").and_then(Value::as_str).unwrap_or_default().clone_into(&mut detail.text);
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
        // Google's reason, more exact than its status.
        let reasons = error.get("details").and_then(Value::as_array).into_iter().flatten();
        for reason in reasons.filter_map(|d| d.get("reason")?.as_str()) {
            detail.codes.push_str(&reason.to_ascii_lowercase());
            detail.codes.push(' ');
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

        if self.code(&["api_key_invalid", "base_resp_1004", "base_resp_2049"])
            || says(&["api key not valid", "incorrect api key"])
        {
            // Two vendors call a wrong key a bad request.
            return C::Auth;
        }
        let quota = self.code(&[
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "insufficient_user_quota",
            "exceeded_current_quota_error",
            "usage_limit_reached",
            "usage_not_included",
            "arrearage",
            // Zhipu: in arrears.
            "1113",
            "base_resp_1008",
        ]) || status == Some(402)
            || says(&[
                "exceeded your current quota",
                "credit balance is too low",
                "insufficient balance",
                "insufficient credits",
                "billing hard limit",
                "doesn't have any credits",
            ])
            || status == Some(412) && says(&["suspended"]);
        // Google tells of a per-minute limit in the words of a spent quota, but then also says when to return.
        if quota && self.retry_delay.is_none() {
            return C::Quota;
        }
        let request_sized = matches!(status, None | Some(400 | 413 | 422 | 429 | 500));
        if self.code(&[
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            // Zhipu.
            "1261",
            "base_resp_1039",
        ]) || status == Some(413)
            || request_sized && says(TOO_LONG)
        {
            return C::ContextOverflow;
        }
        if self.code(&[
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "invalid_prompt",
            "data_inspection_failed",
            "datainspectionfailed",
            // Zhipu.
            "1301",
            "base_resp_1026",
            "base_resp_1027",
        ]) || says(&["input was flagged"])
        {
            return C::Refused;
        }
        // The vendor's own parser did not understand what its model wrote: the next try may be better.
        if self.code(&["tool_use_failed", "json_validate_failed"]) {
            return C::Malformed;
        }
        if self.code(&[
            "overloaded_error",
            "overloaded",
            "unavailable",
            "engine_overloaded_error",
            "service_tier_capacity_exceeded",
            "capacity_exceeded",
            "slow_down",
        ]) {
            return C::Overloaded;
        }
        if self.code(&[
            "rate_limit_error",
            "rate_limit_exceeded",
            "rate_limit_reached_error",
            "rate_limited",
            "resource_exhausted",
            "too_many_requests",
            // Zhipu: too many at once, too many a minute, too much load.
            "1302",
            "1303",
            "1305",
            "base_resp_1002",
        ]) {
            return C::RateLimited;
        }
        if self.code(&[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "invalid_authentication_error",
            "unauthenticated",
            "permission_denied",
        ]) {
            return C::Auth;
        }
        if self.code(&["timeout_error", "deadline_exceeded"]) {
            return C::Timeout;
        }
        // A model that does not fit this machine will not fit it later.
        if says(&["requires more system memory"]) {
            return C::BadRequest;
        }
        match status {
            Some(401 | 403 | 407) => C::Auth,
            Some(408 | 504 | 522 | 524) => C::Timeout,
            Some(429) => C::RateLimited,
            // 498: Groq has no room for the tier that was asked for.
            Some(498 | 503 | 529) => C::Overloaded,
            Some(409 | 425) => C::Server,
            Some(s) if s >= 500 => C::Server,
            Some(_) => C::BadRequest,
            None if self.code(&["invalid_request_error", "not_found_error", "invalid_argument"]) => {
                C::BadRequest
            }
            None if says(&["overloaded"]) => C::Overloaded,
            None if says(&["rate limit"]) => C::RateLimited,
            // An event in a stream that had begun well: the vendor broke down on the way.
            None => C::Server,
        }
    }
}
