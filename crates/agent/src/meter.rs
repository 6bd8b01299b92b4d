//! What an attempt is charged, and what its vendor said beside the answer, as the journal has it.

use provost_core::event::{RateLimitFact, WindowFact};
use provost_core::rate_limits::MOST_WINDOWS;
use provost_core::transcript::Usage;
use provost_model::RateLimits;

use crate::recorder::Recorder;

/// Beyond any real count, and what JSON's numbers hold exactly.
const MOST: u64 = 1 << 40;

/// Counts beyond any real call are a vendor's mistake. They are cut to a number that JSON and the ledger can hold, and
/// which spends any budget there is.
pub(crate) fn plausible(usage: Usage) -> Usage {
    Usage {
        input: usage.input.min(MOST),
        output: usage.output.min(MOST),
        cache_read: usage.cache_read.min(MOST),
        cache_write: usage.cache_write.min(MOST),
        reasoning: usage.reasoning.min(MOST),
    }
}

/// The vendor's limits as an event tells of them; `None` where it told nothing.
pub(crate) fn limits_told(recorder: &mut Recorder, told: &RateLimits) -> Option<RateLimitFact> {
    if told.is_empty() {
        return None;
    }
    let windows = told.windows.iter().take(MOST_WINDOWS).map(|window| WindowFact {
        counts: window.counts.clone(),
        limit: window.limit.map(|limit| limit.min(MOST)),
        remaining: window.remaining.map(|left| left.min(MOST)),
        resets_in_ms: window
            .resets_in
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(MOST)),
    });
    let windows = windows.collect();
    // A list of pairs of strings has JSON.
    let extras = serde_json::to_vec(&told.extras).ok().filter(|_| !told.extras.is_empty());
    Some(RateLimitFact { windows, extras: extras.map(|json| recorder.content(json)) })
}
