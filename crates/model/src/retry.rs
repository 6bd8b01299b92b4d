//! When to try again: pure functions, so that the caller owns the clock, the dice and the journal.

use std::time::{Duration, SystemTime};

use crate::Failure;

/// How often and how patiently an attempt is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included. 0 and 1 both mean: no retry.
    pub attempts: u32,
    /// Wait after the first failure; doubles with each further one.
    pub base: Duration,
    /// Longest wait of our own choosing.
    pub max: Duration,
    /// Longest wait that a vendor may ask for. A longer one is not shortened: it means giving up.
    pub longest_stated: Duration,
    /// Longest that one answer is tried for in all, attempts and waits together. No wait is begun that would pass it.
    pub total: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 6,
            base: Duration::from_secs(1),
            max: Duration::from_mins(1),
            longest_stated: Duration::from_mins(2),
            total: Duration::from_mins(30),
        }
    }
}

impl RetryPolicy {
    /// Never tries again.
    pub fn none() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// How long to wait before the next attempt, or `None` to give up.
    ///
    /// `attempt` counts the attempts made so far (1 after the first failure), and `spent` is what they and the waits between
    /// them took. `jitter` is drawn by the caller from `0.0..1.0`. Never less than what the vendor stated; otherwise exponential, between half
    /// and all of `base * 2^(attempt-1)`, at most `max`.
    pub fn delay(&self, attempt: u32, spent: Duration, failure: &Failure, jitter: f64) -> Option<Duration> {
        if !failure.retryable() || attempt >= self.attempts {
            return None;
        }
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        let doublings = attempt.saturating_sub(1).min(20);
        let full = self.base.saturating_mul(1 << doublings).min(self.max);
        let own = full.mul_f64(0.5 + jitter / 2.0);
        let wait = match failure.retry_after {
            None => Some(own),
            Some(stated) if stated > self.longest_stated => None,
            // A little over what was stated, spread so that many runs do not come back in one instant.
            Some(stated) => Some(own.max(stated + self.base.min(self.max).mul_f64(jitter / 4.0))),
        };
        wait.filter(|wait| spent.saturating_add(*wait) <= self.total)
    }
}

/// Reads `retry-after-ms` and `retry-after` (seconds, whole or decimal, or an HTTP date). A date in the past
/// is zero; nonsense is `None`.
pub fn parse_retry_after(
    retry_after_ms: Option<&str>,
    retry_after: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    let ms = retry_after_ms.and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(wait) = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok()) {
        return Some(wait);
    }
    let text = retry_after?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        // Infinite, negative and absurd numbers fail here.
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}
