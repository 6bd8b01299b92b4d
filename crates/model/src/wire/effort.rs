//! How much a model is to reason, in each vendor's words.

use crate::Effort;

/// Least that can be asked for, in tokens.
const LEAST: u64 = 1_024;

/// The effort in tokens, within this output limit (0: none is named); `None` where there is no room for any.
pub(super) fn tokens(effort: Effort, max_output: u64) -> Option<u64> {
    let wanted = match effort {
        Effort::Low => LEAST,
        Effort::Medium => 4_096,
        Effort::High => 16_384,
    };
    let room = if max_output == 0 { wanted } else { max_output / 2 };
    Some(wanted.min(room)).filter(|tokens| *tokens >= LEAST)
}

/// Whether a Claude model takes words for its effort. Those that take tokens alone are a closed set by now, and so do servers
/// that speak this wire for models of their own.
pub(super) fn claude_takes_words(model: &str) -> bool {
    model.starts_with("claude-")
        && !["claude-2", "claude-3", "claude-instant", "-4-0", "-4-1", "-4-5", "-4-20"]
            .iter()
            .any(|old| model.contains(old))
}

/// Whether a Gemini model takes words: newer ones refuse tokens, older ones words.
pub(super) fn gemini_takes_words(model: &str) -> bool {
    !["gemini-1", "gemini-2"].iter().any(|old| model.contains(old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_leave_room_for_the_answer() {
        let all = |limit| [Effort::Low, Effort::Medium, Effort::High].map(|effort| tokens(effort, limit));
        assert_eq!(all(0), [Some(1_024), Some(4_096), Some(16_384)]);
        assert_eq!(all(100_000), [Some(1_024), Some(4_096), Some(16_384)]);
        assert_eq!(all(8_192), [Some(1_024), Some(4_096), Some(4_096)]);
        assert_eq!(all(2_047), [None; 3]);
    }

    #[test]
    fn who_takes_words() {
        for model in ["claude-opus-4-6", "claude-sonnet-5", "claude-haiku-5-5", "claude-opus-4-8"] {
            assert!(claude_takes_words(model), "{model}");
        }
        for model in [
            "claude-3-7-sonnet-latest",
            "claude-sonnet-4-5-20250929",
            "claude-opus-4-20250514",
            "glm-5",
            "claude-opus-4-1",
        ] {
            assert!(!claude_takes_words(model), "{model}");
        }
        assert!(gemini_takes_words("gemini-3-pro") && !gemini_takes_words("models/gemini-2.5-flash"));
    }
}
