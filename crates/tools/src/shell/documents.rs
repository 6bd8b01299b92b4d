//! Here-documents: where they end.

use brush_parser::ast::IoHereDocument;

/// Why bash may end the document elsewhere than it was read to end, if it may.
pub(super) fn ends_elsewhere(document: &IoHereDocument) -> Option<String> {
    let written = document.here_end.value.as_str();
    let Some(end) = plain_end(written) else {
        return Some(format!("where the here-document up to `{written}` ends"));
    };
    let text = document.doc.value.as_str();
    if !document.requires_expansion || !text.contains("\\\n") {
        return None;
    }
    // Lines that a backslash joins are one, which may be the end, or hide it.
    let joined = text.replace("\\\n", "");
    let is_end = |line: &str| line.trim_start_matches('\t') == end;
    (document.remove_tabs || text.ends_with("\\\n") || joined.split('\n').any(is_end))
        .then(|| format!("where the here-document up to `{written}` ends, of which a backslash joins lines"))
}

/// The line that ends a document, where it is a plain word, quoted as a whole or not at all.
fn plain_end(written: &str) -> Option<&str> {
    let unquoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| written.strip_prefix(quote)?.strip_suffix(quote))
        .or_else(|| written.strip_prefix('\\'))
        .unwrap_or(written);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '!' | '+' | '%' | '@' | ':');
    (!unquoted.is_empty() && unquoted.chars().all(plain)).then_some(unquoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_are_plain() {
        for (written, end) in [("EOF", "EOF"), ("'EOF'", "EOF"), ("\"a-b\"", "a-b"), ("\\E", "E"), ("'", "'")]
        {
            assert_eq!(plain_end(written), Some(end).filter(|end| *end != "'"), "{written}");
        }
        for written in ["$'EOF'", "E\\OF", "''", "E'O'F", "$x", "'a b'", "`x`", "{a,b}"] {
            assert_eq!(plain_end(written), None, "{written}");
        }
    }
}
