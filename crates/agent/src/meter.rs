//! What an attempt is charged, and what its vendor said beside the answer, as the journal has it.

use provost_core::event::{RateLimitFact, WindowFact};
use provost_core::rate_limits::MOST_WINDOWS;
use provost_core::transcript::Usage;
use provost_model::{Billed, Failure, RateLimits};

use crate::recorder::Recorder;
use crate::talk::BYTES_PER_TOKEN;

/// What was reserved for an attempt, in tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// What an attempt without an answer is charged, and whether that is an estimate. One that may have been billed is
/// charged within what was reserved for it, so that the ledger holds whatever became of it.
pub(crate) fn charge(failure: &Failure, reserved: Reserved) -> (Option<Usage>, bool) {
    let counted = failure.usage.map(plausible);
    match failure.billed {
        Billed::AsCounted => (counted, false),
        Billed::Perhaps { answer_bytes } => {
            let output = u64::from(answer_bytes).div_ceil(BYTES_PER_TOKEN).min(reserved.output);
            let known = counted.unwrap_or(Usage { input: reserved.input, ..Usage::default() });
            let estimated = counted.is_none() || output > known.output;
            (Some(plausible(Usage { output: known.output.max(output), ..known })), estimated)
        }
    }
}

/// Beyond any real count, and what JSON's numbers hold exactly.
const MOST: u64 = 1 << 40;

/// Whether a count says next to nothing of a prompt or an answer that is not small: no vendor packs 64 bytes of a prompt
/// or 32 of an answer into one token.
pub(crate) fn is_half(usage: &Usage, answer_bytes: u64, prompt_bytes: u64) -> bool {
    const SMALL_ANSWER: u64 = 4096;
    const SMALL_PROMPT: u64 = 64 * 1024;
    let prompt = usage.total().saturating_sub(usage.output);
    (answer_bytes >= SMALL_ANSWER && usage.output.saturating_mul(32) < answer_bytes)
        || (prompt_bytes >= SMALL_PROMPT && prompt.saturating_mul(64) < prompt_bytes)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_says_next_to_nothing_is_none() {
        let told = |input, output| Usage { input, output, ..Usage::default() };
        assert!(is_half(&told(20_000, 0), 120_000, 70_000), "the answer was not counted");
        assert!(is_half(&told(1, 30_000), 120_000, 70_000), "the prompt was not counted");
        assert!(!is_half(&told(20_000, 30_000), 120_000, 70_000));
        assert!(!is_half(&told(1, 1), 100, 10_000), "what is small may be counted so");
    }
}
