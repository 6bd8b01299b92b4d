//! When to try again.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use provost_model::{
    BaseUrl, BaseUrlError, Failure, FailureClass, PlainHttp, RetryPolicy, Secret, parse_retry_after,
};

fn limited(wait: Option<u64>) -> Failure {
    Failure::new(FailureClass::RateLimited, "slow down").with_retry_after(wait.map(Duration::from_secs))
}

#[test]
fn delays() {
    let policy = RetryPolicy::default();
    let at = |attempt, failure: &Failure| {
        policy.delay(attempt, Duration::ZERO, failure, 1.0).map(|d| d.as_secs_f64())
    };
    assert_eq!(at(1, &limited(None)), Some(1.0));
    assert_eq!(at(4, &limited(None)), Some(8.0));
    assert_eq!(at(6, &limited(None)), None, "the attempts are used up");
    assert_eq!(at(1, &limited(Some(120))), Some(120.25));
    // W7: a wait of days is not obeyed and not shortened; the message says what was stated.
    let absurd = limited(Some(86_400));
    assert_eq!(at(1, &absurd), None);
    assert!(absurd.message.contains("86400 s"));
    assert_eq!(at(1, &Failure::new(FailureClass::Quota, "")), None);
    assert_eq!(RetryPolicy::none().delay(1, Duration::ZERO, &limited(None), 0.0), None);
    // No wait is begun that would pass the patience for one answer.
    let late = |spent| policy.delay(1, Duration::from_secs(spent), &limited(Some(10)), 0.0);
    assert_eq!(late(1_790), Some(Duration::from_secs(10)));
    assert_eq!(late(1_791), None);
}

#[test]
fn retry_after_headers() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
    let read = |text| parse_retry_after(None, Some(text), now);
    assert_eq!(read("3"), Some(Duration::from_secs(3)));
    assert_eq!(read(" 0.5 "), Some(Duration::from_millis(500)));
    assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_mins(1)));
    assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
    for nonsense in ["", "-1", "soon", "inf", "NaN", "1e300"] {
        assert_eq!(read(nonsense), None, "{nonsense}");
    }
    assert_eq!(parse_retry_after(Some("250"), Some("9"), now), Some(Duration::from_millis(250)));
    assert_eq!(parse_retry_after(None, None, SystemTime::now()), None);
}

proptest! {
    #[test]
    fn never_less_than_stated_never_unbounded(
        attempt in any::<u32>(), stated in prop::option::of(0_u64..200), jitter in any::<f64>()
    ) {
        let policy = RetryPolicy { attempts: u32::MAX, ..RetryPolicy::default() };
        if let Some(delay) = policy.delay(attempt, Duration::ZERO, &limited(stated), jitter) {
            let stated = Duration::from_secs(stated.unwrap_or(0));
            prop_assert!(delay >= stated);
            prop_assert!(delay <= policy.max.max(stated + policy.base));
            prop_assert!(delay >= policy.base / 2);
        }
    }
}

#[test]
fn base_urls() {
    let parse = |text| BaseUrl::parse(text, PlainHttp::LoopbackOnly);
    let good = parse("https://api.example.com:8443/v1/").unwrap();
    assert_eq!(good.origin(), "https://api.example.com:8443");
    assert_eq!(good.to_string(), "https://api.example.com:8443/v1");
    for local in ["http://127.0.0.1:1", "http://[::1]:1/v1", "http://localhost:11434"] {
        assert!(parse(local).is_ok(), "{local}");
    }
    let refused = parse("https://user:hunter2@example.com").unwrap_err();
    assert_eq!(refused, BaseUrlError::Credentials);
    assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    assert_eq!(parse("https://example.com?key=hunter2").unwrap_err(), BaseUrlError::Query);
    assert_eq!(
        parse("http://example.com").unwrap_err().to_string(),
        "the base URL is plain http to `example.com`, which is not this machine: use https (plain http is only accepted \
         to loopback addresses unless the program allows it)"
    );
    assert!(matches!(parse("http://127.0.0.1.example.com"), Err(BaseUrlError::PlainHttp(_))));
    assert!(matches!(parse("ftp://example.com"), Err(BaseUrlError::Scheme(_))));
    assert!(matches!(parse("example"), Err(BaseUrlError::Invalid(_))));
    assert!(BaseUrl::parse("http://example.com", PlainHttp::Anywhere).is_ok());
}

#[test]
fn a_secret_does_not_print() {
    let secret = Secret::new(" sk-1234567890\n");
    assert_eq!(format!("{secret} {secret:?}"), "[secret] [secret]");
    assert_eq!(secret.expose(), "sk-1234567890");
    assert_eq!(secret.scrub("a sk-1234567890 b"), "a [secret] b");
    assert_eq!(Secret::new("").scrub("abc"), "abc");
    // A placeholder for a local server is no key: `cargo test` stays `cargo test`.
    assert_eq!(Secret::new("test").scrub("cargo test"), "cargo test");
}
