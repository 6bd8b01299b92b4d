//! One replacement: where the old text is, and the content with the new one in its place.

use super::indent::{self, Folded};
use super::nearest;
use crate::text::{lines, show};

/// A replacement that was made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) content: Vec<u8>,
    pub(super) how: How,
}

/// How the old text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// As given, line endings aside.
    Exact,
    /// But for its indentation.
    Indented,
}

/// Why no replacement was made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// It is there more than once.
    Several { lines: Vec<usize>, snippets: String },
    /// It is there more than once, indentation aside.
    SeveralIndented { lines: Vec<usize>, snippets: String },
    /// It is there once, indentation aside, and the new text cannot be indented accordingly.
    Indentation { line: usize, expected: String, found: String },
    /// It is not there.
    None { nearest: String },
}

/// The body of a file with every CRLF as LF, and where each byte came from.
struct View {
    text: Vec<u8>,
    /// Offset in the body of each byte of `text`, and the body's length at the end; `None` where they are the same.
    from: Option<Vec<usize>>,
}

impl View {
    fn of(body: &[u8], crlf: bool) -> Self {
        if !crlf {
            return Self { text: body.to_vec(), from: None };
        }
        let mut text = Vec::with_capacity(body.len());
        let mut from = Vec::with_capacity(body.len() + 1);
        let mut at = 0;
        while at < body.len() {
            from.push(at);
            if body[at..].starts_with(b"\r\n") {
                at += 1;
            }
            text.push(body[at]);
            at += 1;
        }
        from.push(body.len());
        Self { text, from: Some(from) }
    }

    fn offset(&self, index: usize) -> usize {
        self.from.as_ref().map_or(index, |from| from[index])
    }
}

/// Replaces the one place where `old` is by `new`. In a file with CRLF endings a line feed matches either ending, and
/// lines that are put in take the ending that most lines have. A byte order mark is never part of the text.
pub(super) fn replace(content: &[u8], old: &[u8], new: &[u8]) -> Result<Replaced, Miss> {
    let body = lines::without_bom(content);
    let bom = content.len() - body.len();
    let (old, new) = match old.strip_prefix(lines::BOM).filter(|_| bom > 0) {
        Some(rest) => (rest, lines::without_bom(new)),
        None => (old, new),
    };
    let endings = lines::Endings::of(body);
    let crlf = endings.crlf > 0;
    let fold = |text: &[u8]| if crlf { View::of(text, true).text } else { text.to_vec() };
    let (view, old, new) = (View::of(body, crlf), fold(old), fold(new));

    let found = find_all(&view.text, &old);
    let (start, end, new, how) = match found.as_slice() {
        [start] => (*start, start + old.len(), new, How::Exact),
        [] => {
            let (start, end, new) = indented(&view.text, &old, &new)?;
            (start, end, new, How::Indented)
        }
        several => {
            let lines: Vec<usize> = several.iter().map(|at| line_number(&view.text, *at)).collect();
            let snippets = snippets(&view.text, &lines);
            return Err(Miss::Several { lines, snippets });
        }
    };
    // What old and new have in common at their ends keeps its own bytes, line endings too.
    let replaced = &view.text[start..end];
    let head = common(replaced.iter(), new.iter());
    let tail = common(replaced[head..].iter().rev(), new[head..].iter().rev());
    let middle = &new[head..new.len() - tail];

    let mut out = Vec::with_capacity(content.len() + new.len());
    out.extend_from_slice(&content[..bom]);
    out.extend_from_slice(&body[..view.offset(start + head)]);
    if crlf && endings.dominant() == b"\r\n" {
        for &byte in middle {
            if byte == b'\n' {
                out.push(b'\r');
            }
            out.push(byte);
        }
    } else {
        out.extend_from_slice(middle);
    }
    out.extend_from_slice(&body[view.offset(end - tail)..]);
    Ok(Replaced { content: out, how })
}

fn common<'a>(a: impl Iterator<Item = &'a u8>, b: impl Iterator<Item = &'a u8>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

fn indented(text: &[u8], old: &[u8], new: &[u8]) -> Result<(usize, usize, Vec<u8>), Miss> {
    match indent::fold(text, old, new) {
        Folded::One { start, end, new } => Ok((start, end, new)),
        Folded::Several(lines) => {
            let snippets = snippets(text, &lines);
            Err(Miss::SeveralIndented { lines, snippets })
        }
        Folded::Unclear { line, expected, found } => Err(Miss::Indentation {
            line,
            expected: show::whitespace(&expected),
            found: show::whitespace(&found),
        }),
        Folded::None => Err(Miss::None { nearest: nearest::describe(text, old) }),
    }
}

/// Every place where `needle` begins, overlapping ones too: two places that overlap are still two.
fn find_all(text: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&text[from..], needle) {
        found.push(from + at);
        from += at + 1;
        // Enough to say that there are many.
        if found.len() >= 1000 {
            break;
        }
    }
    found
}

fn line_number(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

/// The first line at each place, for at most ten.
fn snippets(text: &[u8], numbers: &[usize]) -> String {
    let all = lines::split(text);
    let shown = numbers.iter().take(10).filter_map(|number| {
        let line = all.get(number - 1)?;
        Some(format!("{number:>6}\t{}\n", show::clip(&show::lossless(line.body), 120)))
    });
    shown.collect()
}
