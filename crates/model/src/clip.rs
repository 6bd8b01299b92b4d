//! Shortening and cleaning text that others wrote, before a person or a journal sees it.

/// Longest message kept, in characters.
pub(crate) const MESSAGE_CHARS: usize = 600;

/// Makes foreign text safe to show: control characters escaped, at most [`MESSAGE_CHARS`] characters, and
/// a shortened text says so.
pub(crate) fn message(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MESSAGE_CHARS * 2));
    let mut chars = 0;
    for c in text.trim().chars() {
        if chars >= MESSAGE_CHARS {
            out.push_str(" [shortened]");
            break;
        }
        if c.is_control() || is_bidi(c) {
            let before = out.len();
            out.extend(c.escape_default());
            chars += out.len() - before;
        } else {
            out.push(c);
            chars += 1;
        }
    }
    out
}

/// Characters that reorder a terminal's line: a message must read as it is stored.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_length_is_bounded() {
        assert_eq!(message("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
        let long = message(&"x".repeat(5_000));
        assert!(long.ends_with("[shortened]") && long.len() < 640);
        assert_eq!(message("\u{202e}abc"), "\\u{202e}abc");
    }
}
