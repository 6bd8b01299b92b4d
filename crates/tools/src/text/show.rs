//! Making a piece of text fit and its whitespace visible.

/// The text, cut after at most `limit` bytes at a character's boundary, with a mark that says how much is left out.
pub(crate) fn clip(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let cut = text.floor_char_boundary(limit);
    format!("{}[… {} bytes more]", &text[..cut], text.len() - cut)
}

/// Bytes as text: what is not UTF-8 is written `\xNN`.
pub(crate) fn lossless(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            super::put!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// One line in backticks with its leading and trailing whitespace visible: `→` a tab, `·` a space, `␍` a carriage return.
pub(crate) fn whitespace(line: &[u8]) -> String {
    let line = lossless(line);
    let body = line.trim_matches([' ', '\t', '\r']);
    let start = line.len() - line.trim_start_matches([' ', '\t', '\r']).len();
    let mark = |text: &str| -> String {
        let marked = text.chars().map(|c| match c {
            '\t' => '→',
            ' ' => '·',
            '\r' => '␍',
            other => other,
        });
        marked.collect()
    };
    let tail = &line[start + body.len()..];
    let head = if body.is_empty() { "" } else { &line[..start] };
    let tail = if body.is_empty() { line.as_str() } else { tail };
    format!("`{}{}{}`", mark(head), clip(body, 200), mark(tail))
}

/// Numbers as a list for people: `3, 7 and 12`, at most ten of them.
pub(crate) fn number_list(numbers: &[usize]) -> String {
    let shown: Vec<String> = numbers.iter().take(10).map(usize::to_string).collect();
    match numbers.len() {
        0 => String::new(),
        1 => shown[0].clone(),
        count if count > 10 => format!("{} and {} more", shown.join(", "), count - 10),
        _ => format!("{} and {}", shown[..shown.len() - 1].join(", "), shown[shown.len() - 1]),
    }
}

/// `one line` or `N lines`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// What is said of names that a listing leaves out; nothing where there are none.
pub(crate) fn hidden_names(number: u64) -> String {
    match number {
        0 => String::new(),
        1 => "[1 name is not shown: the policy does not allow reading it]\n".to_owned(),
        _ => format!("[{number} names are not shown: the policy does not allow reading them]\n"),
    }
}

/// A text and a last sentence, on a line of its own where the text ends one.
pub(crate) fn closed(text: &str, sentence: &str) -> String {
    let between = if text.ends_with('\n') { "" } else { ". " };
    format!("{text}{between}{sentence}")
}
